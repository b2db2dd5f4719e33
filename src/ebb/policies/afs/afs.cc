#include "ebb/policies/afs/afs.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "ebb/sched/sizes.h"

namespace ebb::policies {
namespace {

using namespace sched;

/// Plans anew at every decision: GPUs go one by one to the winner of a tournament between all jobs. The reference's
/// pairwise rule is a total order, so that the winner comes from a heap.
class Afs final : public Policy {
 public:
  explicit Afs(bool respect_max) : respect_max_(respect_max) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Afs>(*this); }
  bool resizes() const override { return true; }
  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}

  void decide(Turn& turn) override {
    decided_ = turn.now();
    const State& state = turn.state();
    const PlanView view = plan_view(state, turn.now());
    GpuBudget budget(state, view);
    play(turn, view, budget);
    std::vector<std::size_t> order(view.jobs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    commit_plan(turn, place_sizes(state, view, budget, order, Fill::packed));
  }

  Reason explain(const State& state, JobId job, Time) const override { return why_without_gpus(state, job, decided_); }

 private:
  struct Player {
    std::size_t job = 0;
    GpuCount size = 0;
    GpuCount next = 0;
    double throughput = 0;   // with `next`
    double weight = 0;       // while it has GPUs: (throughput(next) - throughput(size)) / throughput(next), per GPU
    int priority = 0;        // while it has none
    double remaining_s = 0;  // while it has none
  };

  // Whether `a` loses to `b`. Ties go to the later job, as in the reference's walk.
  struct Loses {
    bool operator()(const Player& a, const Player& b) const {
      const bool idle_a = a.size == 0;
      const bool idle_b = b.size == 0;
      if (idle_a != idle_b) return idle_b;  // the first GPU weighs 1, any other less
      if (idle_a) {
        if (a.priority != b.priority) return a.priority < b.priority;
        if (a.remaining_s != b.remaining_s) return a.remaining_s > b.remaining_s;
      } else {
        if (a.weight != b.weight) return a.weight < b.weight;
        if (a.size != b.size) return a.size > b.size;
      }
      return a.job < b.job;
    }
  };

  void play(Turn& turn, const PlanView& view, GpuBudget& budget) const {
    const State& state = turn.state();
    Estimator& estimator = turn.estimator();
    std::vector<SizeRange> sizes;
    std::priority_queue<Player, std::vector<Player>, Loses> players;
    for (std::size_t i = 0; i < view.jobs.size(); ++i) {
      const JobId id = view.jobs[i];
      const JobState& job = state.job(id);
      sizes.push_back(sizes_of(job, respect_max_ ? most_fed_gpus(state, id, estimator) : job.spec.largest()));
      Player player;
      player.job = i;
      player.next = sizes[i].least;
      player.throughput = estimator.throughput(state, id, player.next);
      player.priority = job.spec.priority;
      player.remaining_s = estimator.remaining_s(state, id, player.next);
      players.push(player);
    }
    while (!players.empty() && budget.left() > 0) {
      Player winner = players.top();
      players.pop();
      if (!budget.take(winner.job, winner.next - winner.size)) continue;  // nor will it fit later
      winner.size = winner.next;
      winner.next = sizes[winner.job].after(winner.size);
      if (winner.next == 0) continue;
      const double throughput = estimator.throughput(state, view.jobs[winner.job], winner.next);
      winner.weight = throughput > 0 ? (throughput - winner.throughput) / throughput / (winner.next - winner.size) : -1;
      winner.throughput = throughput;
      players.push(winner);
    }
  }

  bool respect_max_;
  Time decided_{Duration(-1)};
};

}  // namespace

void register_afs(Registry& registry) {
  registry.add({
      .name = "afs",
      .summary = "Elastic: each GPU to the job to which it adds the largest share of speed; the shortest job first.",
      .source = "Hwang et al., NSDI 2021 (AFS-L); rules as in DeepBoot's simulator",
      .oracle = Oracle::no,
      .preemptive = true,
      .options =
          {{"respect_max",
            true,
            "no job gets more GPUs than the batch that it asked for can feed; false: every GPU is given away, up to "
            "the largest size of the jobs, as in DeepBoot's simulator",
            {}}},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<Afs>(arguments.options.get<bool>("respect_max"));
      },
  });
}

}  // namespace ebb::policies
