#include "ebb/policies/optimus/optimus.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "ebb/sched/queue_key.h"
#include "ebb/sched/sizes.h"

namespace ebb::policies {
namespace {

using namespace sched;

/// Plans anew at every decision: the least size for each job in order of arrival, then step by step more for the job
/// whose remaining time falls most.
class Optimus final : public Policy {
 public:
  explicit Optimus(bool place_tasks) : place_tasks_(place_tasks) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Optimus>(*this); }
  bool resizes() const override { return true; }
  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}

  void decide(Turn& turn) override {
    decided_ = turn.now();
    const State& state = turn.state();
    PlanView view = plan_view(state, turn.now());
    GpuBudget budget(state, view);
    if (place_tasks_) {
      for (const JobId task : state.waiting_tasks()) {
        budget.withhold(state.capacity().serving_groups(), state.gpus_of_task(task));
      }
    }
    std::vector<std::size_t> order(view.jobs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return queue_key(state, view.jobs[a]) < queue_key(state, view.jobs[b]);
    });
    grow(turn, view, order, budget);
    if (place_tasks_) place_tasks(turn, view, budget);
    // Equal sizes are placed in order of submission, whatever their priority.
    std::sort(order.begin(), order.end());
    commit_plan(turn, place_sizes(state, view, budget, order, Fill::emptiest));
  }

  Reason explain(const State& state, JobId job, Time) const override { return why_without_gpus(state, job, decided_); }

 private:
  struct Growth {
    double gain = 0;  // seconds saved per GPU
    std::size_t job = 0;
    GpuCount next = 0;
    double next_step_s = 0;

    bool operator<(const Growth& other) const { return gain != other.gain ? gain < other.gain : job > other.job; }
  };
  struct Work {
    SizeRange sizes;
    double steps = 0;
  };

  static void grow(Turn& turn, const PlanView& view, const std::vector<std::size_t>& order, GpuBudget& budget) {
    const State& state = turn.state();
    Estimator& estimator = turn.estimator();
    std::vector<Work> work(view.jobs.size());
    std::priority_queue<Growth> heap;
    const auto offer = [&](std::size_t i, double step_s) {
      const GpuCount size = budget.given(i);
      const GpuCount next = work[i].sizes.after(size);
      if (next == 0) return;
      const double next_s = estimator.step_s(state, view.jobs[i], next);
      const double gain = (step_s - next_s) * work[i].steps / (next - size);
      if (gain > 0) heap.push({gain, i, next, next_s});
    };
    for (const std::size_t i : order) {
      const JobId id = view.jobs[i];
      work[i].sizes = sizes_of(state.job(id), most_fed_gpus(state, id, estimator));
      if (!budget.take(i, work[i].sizes.least) || work[i].sizes.fixed()) continue;
      work[i].steps = estimator.remaining_steps(state, id);
      offer(i, estimator.step_s(state, id, work[i].sizes.least));
    }
    while (!heap.empty() && budget.left() > 0) {
      const Growth best = heap.top();
      heap.pop();
      // What does not fit now will not fit later: the job stays at its size.
      if (budget.take(best.job, best.next - budget.given(best.job))) offer(best.job, best.next_step_s);
    }
  }

  // As in DeepBoot's simulator: each waiting task on the node with most GPUs left beside the lists that jobs keep.
  static void place_tasks(Turn& turn, PlanView& view, const GpuBudget& budget) {
    const State& state = turn.state();
    const Capacity& capacity = state.capacity();
    std::vector<GpuCount> left = view.node_gpus;
    for (NodeId n = 0; n < left.size(); ++n) {
      left[n] = capacity.may_serve(n) ? std::max(left[n], capacity.available(n)) : 0;
    }
    for (std::size_t i = 0; i < view.jobs.size(); ++i) {
      const JobState& job = state.job(view.jobs[i]);
      if (job.phase != JobPhase::running || job.gpus != budget.given(i)) continue;
      for (const NodeShare& share : job.allocation) left[share.node] -= share.gpus;
    }
    for (const JobId task : state.waiting_tasks()) {
      const auto emptiest = std::max_element(left.begin(), left.end());
      const GpuCount gpus = state.gpus_of_task(task);
      if (*emptiest < gpus) continue;
      const auto node = static_cast<NodeId>(emptiest - left.begin());
      *emptiest -= gpus;
      view.node_gpus[node] = std::max(view.node_gpus[node] - gpus, 0);
      turn.place_task(task, node);
    }
  }

  bool place_tasks_;
  Time decided_{Duration(-1)};
};

}  // namespace

void register_optimus(Registry& registry) {
  registry.add({
      .name = "optimus",
      .summary = "Elastic: one GPU at a time to the job whose estimated remaining time falls most.",
      .source = "Peng et al., EuroSys 2018; rules as in the simulators of Pollux and DeepBoot",
      .oracle = Oracle::no,
      .preemptive = true,
      .options = {{"place_tasks",
                   false,
                   "inference tasks that wait at a decision are placed by it, before training and where most GPUs are "
                   "left, as in DeepBoot's simulator",
                   {}}},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<Optimus>(arguments.options.get<bool>("place_tasks"));
      },
  });
}

}  // namespace ebb::policies
