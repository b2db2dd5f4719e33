#include "ebb/policies/tiresias/pollux_variant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "ebb/sched/sizes.h"

namespace ebb::policies {
namespace {

using namespace sched;

/// Two queues in order of arrival and of demotion, never re-ordered. A job stays at its place, whether it runs, waits
/// or is held, until it is demoted or ends.
class PolluxTiresias final : public Policy {
 public:
  explicit PolluxTiresias(std::optional<double> limit) : limit_(limit) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<PolluxTiresias>(*this); }

  bool plans_over_sleepers() const override { return true; }

  void on_queued(const State&, JobId id, Queued why, Time now) override {
    if (jobs_.size() <= id) jobs_.resize(id + 1);
    if (why == Queued::submitted) queues_[0].push_back(id);
    // A job that lost all of its GPUs to a service counts as running until the next decision, one that broke does not.
    if (why == Queued::failed) pause(jobs_[id], now);
  }

  /// Held, it stays at its place, but uses up nothing.
  void on_withdrawn(const State&, JobId id, Time now) override { pause(jobs_[id], now); }

  void on_started(const State&, JobId id, Time now) override {
    // Confirmed later than decided: service counts from now.
    if (jobs_[id].running) jobs_[id].since = now;
  }

  void adopt(const State& state, JobId id, Time now) override {
    if (jobs_.size() <= id) jobs_.resize(id + 1);
    queues_[0].push_back(id);
    jobs_[id].executed = state.job(id).held_until(now);
    jobs_[id].running = state.job(id).phase != JobPhase::stopping;
    jobs_[id].since = now;
  }

  void decide(Turn& turn) override {
    const State& state = turn.state();
    decided_ = turn.now();
    for (auto& queue : queues_) {
      std::erase_if(queue, [&](JobId id) { return !state.job(id).active(); });
    }
    count_time(turn);
    demote(state);
    walk(turn);
    ask_for_wake(turn);
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = why_without_gpus(state, job, state.class_of(job).gpus, decided_);
    // Placing never fails here: what is free is kept back for jobs that go first and for inference tasks.
    if (reason.code == ReasonCode::fragmented) reason.code = ReasonCode::lower_priority;
    return reason;
  }

 private:
  struct Job {
    bool running = false;  // as of the last decision
    bool demoted = false;
    Time since{};         // while running: up to when `executed` counts
    Duration executed{};  // time running, pauses for starts and resizes included
  };

  static void pause(Job& job, Time now) {
    if (job.running) job.executed += now - job.since;
    job.running = false;
  }

  void count_time(const Turn& turn) {
    for (const auto& queue : queues_) {
      for (const JobId id : queue) {
        Job& job = jobs_[id];
        if (!job.running || turn.state().job(id).phase == JobPhase::starting) continue;
        job.executed += turn.now() - job.since;
        job.since = turn.now();
      }
    }
  }

  // Executed time at which a job has used up the first queue.
  Duration limit_time(const State& state, JobId id) const {
    const double wanted = std::ceil(*limit_ * 1e9 / state.class_of(id).gpus);
    return wanted < static_cast<double>(kMaxDuration.count()) ? Duration(static_cast<std::int64_t>(wanted))
                                                              : kMaxDuration;
  }

  void demote(const State& state) {
    if (!limit_) return;
    std::vector<JobId> due;
    for (const JobId id : queues_[0]) {
      if (jobs_[id].running && jobs_[id].executed >= limit_time(state, id)) due.push_back(id);
    }
    std::sort(due.begin(), due.end());
    for (const JobId id : due) jobs_[id].demoted = true;
    std::erase_if(queues_[0], [&](JobId id) { return jobs_[id].demoted; });
    queues_[1].insert(queues_[1].end(), due.begin(), due.end());
  }

  // Places in the view, by priority, then queue, then place in the queue.
  std::vector<std::size_t> in_order(const State& state, const PlanView& view) const {
    std::vector<std::tuple<int, std::size_t, std::size_t>> ranked;  // negated priority, rank, place in the view
    for (const auto& queue : queues_) {
      for (const JobId id : queue) {
        const auto found = std::lower_bound(view.jobs.begin(), view.jobs.end(), id);
        if (found == view.jobs.end() || *found != id) continue;  // held, starting, ...: not ours to decide
        ranked.emplace_back(-state.job(id).spec.priority, ranked.size(),
                            static_cast<std::size_t>(found - view.jobs.begin()));
      }
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::size_t> order;
    for (const auto& [priority, rank, i] : ranked) order.push_back(i);
    return order;
  }

  void walk(Turn& turn) {
    const State& state = turn.state();
    const PlanView view = plan_view(state, turn.now());
    GpuBudget budget(state, view);
    for (const JobId task : state.waiting_tasks()) {
      const ServiceState& service = state.services()[state.job(task).service];
      budget.withhold(state.capacity().serving_groups(), service.spec.gpus);
    }
    TrainingPlan plan;
    for (const JobId id : view.jobs) plan.emplace_back(id, Allocation{});
    std::vector<GpuCount> left = view.node_gpus;
    std::vector<std::size_t> starts;
    for (const std::size_t i : in_order(state, view)) {
      const JobState& job = state.job(view.jobs[i]);
      // All that it asked for counts, even if a service has taken some of it.
      if (!budget.take(i, state.class_of(view.jobs[i]).gpus)) continue;
      if (job.phase != JobPhase::running) {
        starts.push_back(i);
        continue;
      }
      plan[i].second = job.allocation;
      for (const NodeShare& share : job.allocation) left[share.node] -= share.gpus;
    }
    for (const std::size_t i : starts) {
      Allocation& allocation = plan[i].second;
      allocation = place_emptiest_in(state, budget.groups(i), budget.given(i), left);
      if (gpus_in(allocation) == budget.given(i)) continue;
      for (const NodeShare& share : allocation) left[share.node] += share.gpus;
      allocation.clear();
    }
    commit_plan(turn, std::move(plan));
    for (const JobId id : view.jobs) {
      const JobPhase phase = state.job(id).phase;
      Job& job = jobs_[id];
      if (phase == JobPhase::waiting || phase == JobPhase::stopping) {
        job.running = false;
      } else if (!job.running) {
        job.running = true;
        job.since = turn.now();
      }
    }
  }

  void ask_for_wake(Turn& turn) const {
    if (!limit_) return;
    const std::int64_t quantum = turn.quantum().count();
    for (const JobId id : queues_[0]) {
      if (!jobs_[id].running) continue;
      // At least one quantum: a job that broke just before its demotion is demoted at the next decision.
      const Duration ahead = std::max(limit_time(turn.state(), id) - jobs_[id].executed, turn.quantum());
      if (ahead > kEndOfTime - turn.now() - turn.quantum()) continue;
      turn.wake_at(turn.now() + Duration((ahead.count() + quantum - 1) / quantum * quantum));
    }
  }

  std::optional<double> limit_;
  std::vector<Job> jobs_;  // by number
  std::array<std::vector<JobId>, 2> queues_;
  Time decided_{Duration(-1)};
};

}  // namespace

std::unique_ptr<Policy> make_pollux_variant(std::optional<double> limit) {
  return std::make_unique<PolluxTiresias>(limit);
}

}  // namespace ebb::policies
