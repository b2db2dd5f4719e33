#pragma once

/// How many GPUs each training job gets under ATS-T: a group knapsack over speed-ups, in which a size other than the
/// present one counts less, by what the change costs.
///
///   value(w) = speedup(ceil(w / G) nodes, w) x (w == present ? 1 : f)
///   reference f = max(age - c restarts, 0) / (age + c): the share of its age not lost to changes, with one more
///   expected  f = max(T - cost, 0) / T: what is left of the time T to the next change
///
/// The fast solver looks only at the present size, those next to it and twice as many: most of a tick's time goes into
/// estimates of speed-ups.
///
/// Source: DeepBoot's simulator, policy `dp`.

#include <vector>

#include "ebb/sched/knapsack.h"
#include "ebb/sched/sizes.h"

namespace ebb::policies::deepboot {

struct SizingOptions {
  bool exact = true;           ///< knapsack.h over all sizes; else knapsack_greedy.h over some, see above
  bool expected_cost = false;  ///< cost of a change: learned and amortised, else the constant
  double change_penalty_s = 10;
  GpuCount most_gpus = 64;  ///< of one job
};

/// What changes cost so far: seconds without progress after starts and resizes.
class ChangeCosts {
 public:
  void add(JobId job, double seconds);
  /// The mean of the job, else that of all, else `unknown`.
  double expected(JobId job, double unknown) const;

 private:
  struct Sum {
    double seconds = 0;
    std::uint32_t changes = 0;
  };
  std::vector<Sum> jobs_;
  Sum all_;
};

/// f of the reference. `age_s` since its submission.
double constant_factor(double age_s, std::uint32_t restarts, double cost_s);
/// f of a change that costs so much, if the next one is expected after `interval_s`.
double expected_factor(double interval_s, double cost_s);

/// One job of the plan with its values.
struct Candidate {
  std::size_t job = 0;          ///< its place in the view
  sched::GroupMask groups = 0;  ///< where it competes: nodes of one GPU type
  sched::KnapsackGroup values;
};

/// All jobs of the view by (priority, attained service, submission). Measures speed-ups against ceil(total / jobs)
/// GPUs from now on.
std::vector<Candidate> value_sizes(const sched::State& state, sched::Estimator& estimator, const sched::PlanView& view,
                                   Time now, const SizingOptions& options, const ChangeCosts& costs);

/// Gives the candidates their GPUs: a knapsack for each priority, highest first, and set of groups. Consumes values.
void share_out(const sched::State& state, const sched::PlanView& view, std::vector<Candidate>& candidates, bool exact,
               sched::GpuBudget& budget);

}  // namespace ebb::policies::deepboot
