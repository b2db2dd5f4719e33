#include "ebb/sched/sizes.h"

#include <algorithm>

namespace ebb::sched {

SizeRange sizes_of(const JobState& job, GpuCount cap) {
  const JobSpec& spec = job.spec;
  if (spec.sizing == Sizing::rigid) return {spec.gpus, spec.gpus, 1};
  if (spec.sizing == Sizing::moldable && job.phase == JobPhase::running) return {job.gpus, job.gpus, 1};
  return {spec.min_gpus, std::max(spec.legal_size(cap), spec.min_gpus), spec.gpu_step};
}

GpuCount most_fed_gpus(const State& state, JobId job, const Estimator& estimator) {
  const JobSpec& spec = state.job(job).spec;
  const GpuCount most = estimator.most_gpus(state, job, /*double_at_most=*/false);
  if (!spec.batch.known() || spec.batch_size <= 0) return most;
  return spec.legal_size(std::min(most, std::max(spec.batch_size / std::max(spec.batch.local_min, 1), 1)));
}

GpuBudget::GpuBudget(const State& state, const PlanView& view)
    : state_(state), view_(view), left_total_(view.total), seats_(view.jobs.size()) {
  const FreeIndex& nodes = state.capacity().free();
  left_.resize(nodes.group_count());
  for (NodeId n = 0; n < view.node_gpus.size(); ++n) left_[nodes.group_of(n)] += view.node_gpus[n];
}

GpuCount GpuBudget::left_in(GroupMask groups) const {
  GpuCount sum = 0;
  for (GroupId g = 0; g < left_.size(); ++g) {
    if ((groups >> g & 1) != 0) sum += left_[g];
  }
  return sum;
}

GroupMask GpuBudget::choose(std::size_t i, GpuCount gpus) const {
  const JobId id = view_.jobs[i];
  const std::vector<GroupMask>& options = state_.class_of(id).options;
  if (options.size() == 1) return options.front();
  const JobState& job = state_.job(id);
  if (job.phase == JobPhase::running) {
    const GroupId group = state_.capacity().free().group_of(job.allocation.front().node);
    for (const GroupMask option : options) {
      if ((option >> group & 1) != 0 && left_in(option) >= gpus) return option;
    }
  }
  return *std::max_element(options.begin(), options.end(),
                           [&](GroupMask a, GroupMask b) { return left_in(a) < left_in(b); });
}

bool GpuBudget::take(std::size_t i, GpuCount gpus) {
  return take_in(i, seats_[i].gpus > 0 ? seats_[i].groups : choose(i, gpus), gpus);
}

bool GpuBudget::take_in(std::size_t i, GroupMask groups, GpuCount gpus) {
  if (left_in(groups) < gpus) return false;
  Seat& seat = seats_[i];
  seat.groups = groups;
  seat.gpus += gpus;
  remove(groups, gpus);
  return true;
}

void GpuBudget::withhold(GroupMask groups, GpuCount gpus) {
  remove(groups, std::min(gpus, left_in(groups)));
}

void GpuBudget::remove(GroupMask groups, GpuCount gpus) {
  left_total_ -= gpus;
  while (gpus > 0) {
    GroupId from = 0;
    GpuCount most = 0;
    for (GroupId g = 0; g < left_.size(); ++g) {
      if ((groups >> g & 1) != 0 && left_[g] > most) {
        most = left_[g];
        from = g;
      }
    }
    const GpuCount taken = std::min(gpus, most);
    left_[from] -= taken;
    gpus -= taken;
  }
}

TrainingPlan place_sizes(const State& state, const PlanView& view, const GpuBudget& budget,
                         const std::vector<std::size_t>& order, Fill fill) {
  TrainingPlan plan;
  for (const JobId id : view.jobs) plan.emplace_back(id, Allocation{});
  std::vector<GpuCount> left = view.node_gpus;
  std::vector<std::pair<GpuCount, std::size_t>> changed;  // new size, place in `order`
  for (std::size_t k = 0; k < order.size(); ++k) {
    const JobState& job = state.job(view.jobs[order[k]]);
    const GpuCount gpus = budget.given(order[k]);
    if (gpus == 0) continue;
    if (job.phase != JobPhase::running || job.gpus != gpus) {
      changed.emplace_back(gpus, k);
      continue;
    }
    plan[order[k]].second = job.allocation;
    for (const NodeShare& share : job.allocation) left[share.node] -= share.gpus;
  }
  std::sort(changed.begin(), changed.end());
  for (const auto& [gpus, k] : changed) {
    const GroupMask groups = budget.groups(order[k]);
    plan[order[k]].second = fill == Fill::packed ? place_packed_in(state, groups, gpus, left)
                                                 : place_emptiest_in(state, groups, gpus, left);
  }
  return plan;
}

Reason why_without_gpus(const State& state, JobId job, GpuCount needed, Time decided) {
  Reason reason = reason_for(state, job, ReasonCode::lower_priority);
  reason.needed = needed;
  if (state.job(job).waiting_since > decided) {
    reason.code = ReasonCode::waiting_for_tick;
  } else if (reason.available >= reason.needed) {
    reason.code = ReasonCode::fragmented;
  } else if (state.holding_count() == 0) {
    reason.code = ReasonCode::no_capacity;
  }
  return reason;
}

}  // namespace ebb::sched
