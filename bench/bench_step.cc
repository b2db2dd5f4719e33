// Latency of one step of the core on 1,000 nodes x 8 GPUs with 2,000 running and 10,000 waiting jobs: every step, one
// job ends and another is submitted, under every policy that leaves the sizes of jobs alone. Times the step with the
// tick (events folded, decision taken, validated, folded). usage: bench_step [PLACEMENT]

#include <fmt/format.h>

#include <chrono>
#include <queue>

#include "bench_support.h"
#include "ebb/base/random.h"
#include "ebb/policies/all.h"
#include "ebb/sched/scheduler.h"
#include "ebb/spec/cluster.h"

namespace {

using namespace ebb;

constexpr std::size_t kWaiting = 10'000;
constexpr int kSteps = 5'000;

class Driver {
 public:
  Driver(const std::string& policy, const std::string& placement)
      : scheduler_(spec::parse_cluster("1000x8").value(),
                   policies::all()
                       .make(policy, std::vector<std::pair<std::string, std::string>>{{"placement", placement}})
                       .value()),
        random_(7, "bench-step") {}

  void fill() {
    for (JobId i = 0; i < 2'000 + kWaiting; ++i) events_.emplace_back(submission());
    events_.emplace_back(Tick{});
    step();
  }

  // The next end, and a submission for it.
  double one() {
    while (true) {
      const auto [at, job, incarnation] = ends_.top();
      ends_.pop();
      const auto& state = scheduler_.state().job(job);
      if (state.phase != sched::JobPhase::running || state.incarnations != incarnation) continue;
      now_ = std::max(at, now_);
      events_.emplace_back(JobFinished{job, {}});
      break;
    }
    events_.emplace_back(submission());
    events_.emplace_back(Tick{});
    return step();
  }

  const sched::State& state() const { return scheduler_.state(); }
  bool resizes() const { return scheduler_.policy().resizes(); }

 private:
  // Gangs of 1 to 16 with a mean of 4: 2,000 of them fill 8,000 GPUs.
  JobSubmitted submission() {
    JobSpec job;
    constexpr GpuCount kSizes[] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 6};
    job.gpus = kSizes[random_.below(10)];
    job.tenant = fmt::format("t{}", random_.below(20));
    job.submit = now_;
    job.run_time = std::chrono::milliseconds(1000 + random_.below(20'000'000));
    job.requested_time = job.run_time * 2;
    return {next_++, job};
  }

  double step() {
    const auto start = std::chrono::steady_clock::now();
    check(scheduler_.step(events_, now_, result_));
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    events_.clear();
    for (const Decision& decision : result_.decisions) {
      if (const auto* preempt = std::get_if<Preempt>(&decision)) {
        events_.emplace_back(JobStopped{preempt->job, scheduler_.state().job(preempt->job).progress_until(now_)});
      }
    }
    sched::StepResult ignored;
    check(scheduler_.step(events_, now_, ignored));
    events_.clear();
    for (const sched::Holder holder : scheduler_.take_launchable()) {
      const JobId job = holder.id;
      events_.emplace_back(JobStarted{job, now_});
      const auto& state = scheduler_.state().job(job);
      ends_.emplace(now_ + (state.spec.run_time - state.progress), job, state.incarnations);
    }
    check(scheduler_.step(events_, now_, ignored));
    events_.clear();
    return us;
  }

  static void check(const Result<void>& result) {
    if (result) return;
    fmt::print(stderr, "{}\n", result.error().message);
    std::exit(1);
  }

  sched::Scheduler scheduler_;
  Random random_;
  Time now_{};
  JobId next_ = 0;
  std::vector<Event> events_;
  sched::StepResult result_;
  std::priority_queue<std::tuple<Time, JobId, std::uint32_t>, std::vector<std::tuple<Time, JobId, std::uint32_t>>,
                      std::greater<>>
      ends_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string placement = argc > 1 ? argv[1] : "count";
  fmt::print("{:<10} {:<12} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}\n", "policy", "placement", "running", "waiting",
             "p50 us", "p99 us", "max us", "mean us");
  const auto registry = policies::all();
  for (const auto& info : registry.policies()) {
    Driver driver(info.name, placement);
    if (driver.resizes()) continue;  // bench_ats and bench/pollux.py measure those
    driver.fill();
    std::vector<double> us;
    double sum = 0;
    for (int i = 0; i < kSteps; ++i) {
      us.push_back(driver.one());
      sum += us.back();
    }
    fmt::print("{:<10} {:<12} {:>8} {:>8} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f}\n", info.name, placement,
               driver.state().holding_count(), driver.state().waiting_count(), ebb::bench::percentile(us, 0.5),
               ebb::bench::percentile(us, 0.99), ebb::bench::percentile(us, 1), sum / kSteps);
  }
  return 0;
}
