#include "ebb/policies/deepboot/placing.h"

#include <algorithm>

namespace ebb::policies::deepboot {

using namespace sched;

namespace {

using Left = std::vector<GpuCount>;

void take(Left& left, const Allocation& allocation) {
  for (const NodeShare& share : allocation) left[share.node] -= share.gpus;
}

void put_back(Left& left, const Allocation& allocation) {
  for (const NodeShare& share : allocation) left[share.node] += share.gpus;
}

// The first `gpus` of it, if those on the nodes where it has least go first (the last of equals).
Allocation shrunk(Allocation allocation, GpuCount gpus) {
  for (GpuCount surplus = gpus_in(allocation) - gpus; surplus > 0;) {
    auto least = allocation.begin();
    for (auto share = allocation.begin(); share != allocation.end(); ++share) {
      if (share->gpus <= least->gpus) least = share;
    }
    const GpuCount cut = std::min(surplus, least->gpus);
    least->gpus -= cut;
    surplus -= cut;
    if (least->gpus == 0) allocation.erase(least);
  }
  return allocation;
}

// `allocation`, which has been taken from `left`, with more on its own nodes, then on others.
Allocation grown(const State& state, Allocation allocation, GroupMask groups, GpuCount gpus, Left& left) {
  GpuCount missing = gpus - gpus_in(allocation);
  for (NodeShare& share : allocation) {
    const GpuCount more = std::min(missing, left[share.node]);
    share.gpus += more;
    left[share.node] -= more;
    missing -= more;
  }
  // Its own nodes have none left if any is missing.
  const Allocation rest = place_packed_in(state, groups, missing, left);
  allocation.insert(allocation.end(), rest.begin(), rest.end());
  return allocation;
}

class Placing {
 public:
  Placing(const State& state, const PlanView& view, const GpuBudget& budget)
      : state_(state), budget_(budget), left_(view.node_gpus) {
    for (const NodeSpec& node : state.capacity().spec().nodes) node_gpus_ = std::max(node_gpus_, node.gpus);
  }

  // What it certainly keeps.
  Allocation keep(std::size_t i, JobId id) {
    const JobState& job = state_.job(id);
    const GpuCount gpus = budget_.given(i);
    if (gpus == 0 || job.phase != JobPhase::running) return {};
    const GroupMask groups = budget_.groups(i);
    const auto elsewhere = [&](const NodeShare& share) {
      return (groups >> state_.capacity().free().group_of(share.node) & 1) == 0;
    };
    if (job.gpus != gpus && std::any_of(job.allocation.begin(), job.allocation.end(), elsewhere)) return {};
    Allocation kept = gpus < job.gpus ? shrunk(job.allocation, gpus) : job.allocation;
    take(left_, kept);
    return kept;
  }

  Allocation place(std::size_t i, const Allocation& kept) {
    const GpuCount gpus = budget_.given(i);
    const GroupMask groups = budget_.groups(i);
    Allocation here = grown(state_, kept, groups, gpus, left_);
    if (kept.empty() || static_cast<GpuCount>(here.size()) <= (gpus + node_gpus_ - 1) / node_gpus_) return here;
    put_back(left_, here);
    Allocation anew = place_packed_in(state_, groups, gpus, left_);
    if (gpus_in(anew) == gpus && anew.size() < here.size()) return anew;
    put_back(left_, anew);
    take(left_, here);
    return here;
  }

 private:
  const State& state_;
  const GpuBudget& budget_;
  Left left_;
  GpuCount node_gpus_ = 1;
};

}  // namespace

TrainingPlan place_incrementally(const State& state, const PlanView& view, const GpuBudget& budget,
                                 const std::vector<std::size_t>& order) {
  TrainingPlan plan;
  for (const JobId id : view.jobs) plan.emplace_back(id, Allocation{});
  Placing placing(state, view, budget);
  std::vector<std::pair<GpuCount, std::size_t>> changed;  // new size, place in `order`
  for (std::size_t k = 0; k < order.size(); ++k) {
    auto& [id, allocation] = plan[order[k]];
    const JobState& job = state.job(id);
    const GpuCount gpus = budget.given(order[k]);
    allocation = placing.keep(order[k], id);
    if (gpus > 0 && (job.phase != JobPhase::running || job.gpus != gpus)) changed.emplace_back(gpus, k);
  }
  std::sort(changed.begin(), changed.end());
  for (const auto& [gpus, k] : changed) {
    Allocation& allocation = plan[order[k]].second;
    allocation = placing.place(order[k], allocation);
  }
  return plan;
}

}  // namespace ebb::policies::deepboot
