// A worker that speaks the worker contract: contract_worker STEPS [HOW]
//
// It trains a logistic regression on points that it makes, and reports step and loss. It follows targets: who is a
// member goes on, who is not says `drained` and ends; the first member answers for all. HOW: as it should (default), or
//   late     answers after the next 200 steps       twice   says everything two times
//   wrong    names other members                    never   does not answer
//   refuse   refuses every target but the first

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ebb/wire/worker_client.h"

namespace {

using namespace std::chrono_literals;
using ebb::wire::TargetOrder;
using ebb::wire::WorkerClient;

constexpr std::size_t kFeatures = 32;
constexpr std::size_t kBatch = 256;

/// Full-batch gradient descent on points that a hidden plane separates.
class Training {
 public:
  Training() : weights_(kFeatures, 0) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    std::vector<double> plane(kFeatures);
    for (double& w : plane) w = normal(random);
    for (std::size_t i = 0; i < kBatch; ++i) {
      double side = 0;
      for (const double w : plane) side += w * points_.emplace_back(normal(random));
      labels_.push_back(side > 0 ? 1 : 0);
    }
  }

  /// The loss before the step.
  double step() {
    std::vector<double> gradient(kFeatures, 0);
    double loss = 0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const double* x = &points_[i * kFeatures];
      double z = 0;
      for (std::size_t k = 0; k < kFeatures; ++k) z += weights_[k] * x[k];
      const double p = 1 / (1 + std::exp(-z));
      loss -= std::log(std::max(1e-12, labels_[i] > 0.5 ? p : 1 - p)) / kBatch;
      for (std::size_t k = 0; k < kFeatures; ++k) gradient[k] += (p - labels_[i]) * x[k] / kBatch;
    }
    for (std::size_t k = 0; k < kFeatures; ++k) weights_[k] -= 0.5 * gradient[k];
    return loss;
  }

 private:
  std::vector<double> weights_;
  std::vector<double> points_;
  std::vector<double> labels_;
};

class Worker {
 public:
  Worker(std::unique_ptr<WorkerClient> client, std::string how) : client_(std::move(client)), how_(std::move(how)) {}

  int run(std::int64_t steps) {
    say([&] { client_->ready(); });
    Training training;
    for (std::int64_t step = 0; step < steps || !target_; ++step) {
      if (const auto order = client_->next(0ms)) {
        if (const auto* target = std::get_if<TargetOrder>(&*order)) take(*target, step);
      }
      if (leaves_) return 0;
      if (answer_at_ && step >= *answer_at_) answer();
      const double loss = training.step();
      ebb::wire::Progress progress;
      progress.step = step;
      progress.samples = step * static_cast<std::int64_t>(kBatch);
      progress.loss = loss;
      client_->progress(progress);
    }
    return client_->flush(30s) ? 0 : 4;
  }

 private:
  template <typename Say>
  void say(Say words) const {
    words();
    if (how_ == "twice") words();
  }

  void take(const TargetOrder& target, std::int64_t step) {
    std::printf("target %lu: %zu members, %s\n", static_cast<unsigned long>(target.revision), target.members.size(),
                target.reason.c_str());
    std::fflush(stdout);
    target_ = target;
    bool member = false;
    for (const auto& each : target.members) member = member || each.worker == client_->worker();
    if (!member) {
      say([&] { client_->drained(); });
      if (!client_->flush(30s)) std::exit(4);
      leaves_ = true;
    } else if (target.members.front().worker == client_->worker()) {
      answer_at_ = how_ == "late" ? step + 200 : step;
    }
  }

  void answer() {
    answer_at_.reset();
    if (how_ == "never") return;
    if (how_ == "refuse" && target_->revision > 1) {
      return say([&] { client_->refused(target_->revision, "it does not want to"); });
    }
    std::vector<ebb::WorkerId> members;
    for (const auto& each : target_->members) members.push_back(each.worker);
    if (how_ == "wrong" && target_->revision > 1) members.push_back("j99-1-0");
    say([&] { client_->switched(target_->revision, target_->revision, members); });
  }

  std::unique_ptr<WorkerClient> client_;
  const std::string how_;
  std::optional<TargetOrder> target_;
  std::optional<std::int64_t> answer_at_;
  bool leaves_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto client = WorkerClient::from_environment();
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message.c_str());
    return 3;
  }
  return Worker(std::move(*client), argc > 2 ? argv[2] : "").run(std::atoll(argv[1]));
}
