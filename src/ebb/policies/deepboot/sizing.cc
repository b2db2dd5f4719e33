#include "ebb/policies/deepboot/sizing.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "ebb/sched/knapsack_greedy.h"

namespace ebb::policies::deepboot {

using namespace sched;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
/// A job that is new is expected to change no sooner than this.
constexpr double kLeastInterval = 60;

double age_s(const JobState& job, Time now) {
  return to_seconds(now - job.spec.submit);
}

// The sizes that the fast solver considers: the present one, those next to it, and twice as many.
bool looked_at(GpuCount gpus, GpuCount present, GpuCount step) {
  const auto close = [&](GpuCount to) { return std::abs(gpus - to) < step; };
  return close(present) || close(present - step) || close(present + step) || close(2 * present);
}

// Starts and resizes.
double changes(const JobState& job) {
  return job.restarts() + (job.incarnations > 0 ? 1 : 0);
}

// Seconds from one change of a job to its next, over all jobs.
double mean_interval_s(const State& state, const PlanView& view, Time now) {
  double age = 0;
  double count = 0;
  for (const JobId id : view.jobs) {
    age += age_s(state.job(id), now);
    count += changes(state.job(id));
  }
  return count > 0 ? std::max(age / count, kLeastInterval) : kLeastInterval;
}

std::vector<std::size_t> by_service(const State& state, const PlanView& view, Time now) {
  std::vector<std::tuple<int, GpuNanoseconds, std::size_t>> keys;
  keys.reserve(view.jobs.size());
  for (std::size_t i = 0; i < view.jobs.size(); ++i) {
    const JobState& job = state.job(view.jobs[i]);
    keys.emplace_back(-job.spec.priority, job.gpu_time_until(now), i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::size_t> order;
  order.reserve(keys.size());
  for (const auto& key : keys) order.push_back(std::get<2>(key));
  return order;
}

}  // namespace

void ChangeCosts::add(JobId job, double seconds) {
  if (jobs_.size() <= job) jobs_.resize(job + 1);
  for (Sum* sum : {&jobs_[job], &all_}) {
    sum->seconds += seconds;
    ++sum->changes;
  }
}

double ChangeCosts::expected(JobId job, double unknown) const {
  if (job < jobs_.size() && jobs_[job].changes > 0) return jobs_[job].seconds / jobs_[job].changes;
  return all_.changes > 0 ? all_.seconds / all_.changes : unknown;
}

double constant_factor(double age_s, std::uint32_t restarts, double cost_s) {
  const double whole = age_s + cost_s;
  return whole > 0 ? std::max(age_s - cost_s * restarts, 0.0) / whole : 1;
}

double expected_factor(double interval_s, double cost_s) {
  return interval_s > 0 ? std::max(interval_s - cost_s, 0.0) / interval_s : 0;
}

std::vector<Candidate> value_sizes(const State& state, Estimator& estimator, const PlanView& view, Time now,
                                   const SizingOptions& options, const ChangeCosts& costs) {
  const auto jobs = static_cast<GpuCount>(view.jobs.size());
  estimator.set_fair_share((view.total + jobs - 1) / jobs);
  const double mean_s = options.expected_cost ? mean_interval_s(state, view, now) : 0;
  GpuBudget asked(state, view);  // spreads jobs that may use several GPU types over them
  std::vector<Candidate> candidates;
  candidates.reserve(view.jobs.size());
  for (const std::size_t i : by_service(state, view, now)) {
    const JobId id = view.jobs[i];
    const JobState& job = state.job(id);
    const GpuCount present = job.phase == JobPhase::running ? job.gpus : 0;
    const GpuCount cap = std::min(estimator.most_gpus(state, id, /*double_at_most=*/true), options.most_gpus);
    const SizeRange sizes = sizes_of(job, std::max(cap, present));
    Candidate& candidate = candidates.emplace_back();
    candidate.job = i;
    if (!asked.take(i, sizes.most)) asked.take(i, std::min(sizes.most, asked.left_in(asked.groups(i))));
    candidate.groups = asked.groups(i);
    const double factor = options.expected_cost
                              ? expected_factor((age_s(job, now) + mean_s) / (changes(job) + 1),
                                                costs.expected(id, options.change_penalty_s))
                              : constant_factor(age_s(job, now), job.restarts(), options.change_penalty_s);
    const GpuCount highest = std::min(sizes.most, view.total);
    std::vector<double>& value = candidate.values.value;
    value.assign(static_cast<std::size_t>(std::max(highest, 0)), kNever);
    for (GpuCount w = sizes.least; w <= highest; w += sizes.step) {
      if (!options.exact && present > 0 && !looked_at(w, present, sizes.step)) continue;
      const double speedup = estimator.speedup(state, id, estimator.packed_nodes(w), w);
      value[static_cast<std::size_t>(w) - 1] = w == present ? speedup : speedup * factor;
    }
  }
  return candidates;
}

void share_out(const State& state, const PlanView& view, std::vector<Candidate>& candidates, bool exact,
               GpuBudget& budget) {
  const auto priority = [&](const Candidate& candidate) { return state.job(view.jobs[candidate.job]).spec.priority; };
  std::vector<bool> done(candidates.size());
  for (std::size_t first = 0; first < candidates.size(); ++first) {
    if (done[first]) continue;
    std::vector<std::size_t> members;
    std::vector<KnapsackGroup> groups;
    for (std::size_t k = first; k < candidates.size() && priority(candidates[k]) == priority(candidates[first]); ++k) {
      if (candidates[k].groups != candidates[first].groups) continue;
      done[k] = true;
      members.push_back(k);
      groups.push_back(std::move(candidates[k].values));
    }
    const GpuCount capacity = budget.left_in(candidates[first].groups);
    const std::vector<int> units =
        exact ? solve_group_knapsack(groups, capacity) : estimate_group_knapsack(groups, capacity).units;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Candidate& candidate = candidates[members[m]];
      if (units[m] > 0) budget.take_in(candidate.job, candidate.groups, units[m]);
    }
  }
}

}  // namespace ebb::policies::deepboot
