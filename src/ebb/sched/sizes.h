#pragma once

/// What policies share that first choose how many GPUs each job gets, then where: the sizes a job may have, a count of
/// the GPUs that are left, the step from sizes to a plan (plan.h), and why a job got none.
///
///   PlanView view = plan_view(...);  GpuBudget budget(state, view);
///   budget.take(i, ...) for the jobs in the policy's order;  commit_plan(turn, place_sizes(...))
///
/// Jobs are named by their place in PlanView::jobs.

#include <vector>

#include "ebb/sched/plan.h"

namespace ebb::sched {

/// least, least + step, ... up to most.
struct SizeRange {
  GpuCount least = 0;
  GpuCount most = 0;
  GpuCount step = 1;

  /// The next size above `gpus`, one of the range or 0; 0 if there is none.
  GpuCount after(GpuCount gpus) const {
    if (gpus == 0) return least;
    return gpus + step <= most ? gpus + step : 0;
  }
  bool fixed() const { return least == most; }
};

/// The sizes that a decision may give a job beside none: its gang if it is rigid, the size it has if it is moldable and
/// runs (it changes by preemption and start only), else the legal sizes up to `cap`, or the least if that is more.
SizeRange sizes_of(const JobState& job, GpuCount cap);

/// The largest legal size at which every GPU has its smallest local batch, at the batch that was asked for (at the
/// largest batch, if none was).
GpuCount most_fed_gpus(const State& state, JobId job, const Estimator& estimator);

/// GPUs that are not given yet. A job's GPUs are of one type: that on which it runs, if its first ones are there, else
/// the type with most left.
class GpuBudget {
 public:
  GpuBudget(const State& state, const PlanView& view);

  /// Gives the job so many more; false, and nothing is given, if its type has fewer.
  bool take(std::size_t i, GpuCount gpus);
  /// Nobody gets these: at most so many, where most are left in the groups.
  void withhold(GroupMask groups, GpuCount gpus);
  /// The same, of GPUs of that type; a job is only ever given GPUs of one.
  bool take_in(std::size_t i, GroupMask groups, GpuCount gpus);
  GpuCount given(std::size_t i) const { return seats_[i].gpus; }
  /// The type (groups of nodes) of the job's GPUs; what it would be if it has none.
  GroupMask groups(std::size_t i) const { return seats_[i].gpus > 0 ? seats_[i].groups : choose(i, 0); }
  GpuCount left() const { return left_total_; }
  GpuCount left_in(GroupMask groups) const;

 private:
  struct Seat {
    GpuCount gpus = 0;
    GroupMask groups = 0;
  };

  GroupMask choose(std::size_t i, GpuCount gpus) const;
  void remove(GroupMask groups, GpuCount gpus);

  const State& state_;
  const PlanView& view_;
  std::vector<GpuCount> left_;  // by group
  GpuCount left_total_ = 0;
  std::vector<Seat> seats_;
};

enum class Fill : std::uint8_t { packed, emptiest };  ///< see place_packed(), place_emptiest()

/// The plan in which each job of the view has the GPUs that the budget gave it. Jobs that keep their number keep their
/// list; the others are placed by increasing size, equal ones in the order of `order` (places in the view, each once).
TrainingPlan place_sizes(const State& state, const PlanView& view, const GpuBudget& budget,
                         const std::vector<std::size_t>& order, Fill fill);

/// Why a job waits that needs at least so many GPUs, under such a policy whose last decision was at `decided`.
Reason why_without_gpus(const State& state, JobId job, GpuCount needed, Time decided);
inline Reason why_without_gpus(const State& state, JobId job, Time decided) {
  return why_without_gpus(state, job, state.class_of(job).smallest, decided);
}

}  // namespace ebb::sched
