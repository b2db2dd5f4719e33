#include "ebb/sched/room.h"

#include <algorithm>
#include <bit>

namespace ebb::sched {

std::optional<Allocation> find_place(const State& state, const Placement& placement, const JobClass& job_class) {
  const Capacity& capacity = state.capacity();
  for (const GroupMask option : job_class.options) {
    if (capacity.free().sum(option) < job_class.gpus) continue;
    if (auto place = placement.place(capacity.free(), capacity, option, job_class.gpus)) return place;
  }
  return std::nullopt;
}

Room::Room(const State& state, const Placement& placement) : state_(state), placement_(placement) {
  const Capacity& capacity = state.capacity();
  left_.resize(capacity.free().group_count());
  for (GroupId g = 0; g < left_.size(); ++g) left_[g] = capacity.usable_gpus(g);
  // A start that is not confirmed yet cannot be taken back here: its GPUs are gone from the beginning.
  if (state.starting_count() > 0) {
    for (const JobId id : state.holding()) {
      if (state.job(id).phase != JobPhase::starting) continue;
      for (const NodeShare& share : state.job(id).allocation) {
        if (usable(share.node)) left_[capacity.free().group_of(share.node)] -= share.gpus;
      }
    }
  }
  for (const GpuCount gpus : left_) left_total_ += gpus;
  if (!placement.strict()) return;
  idle_ = capacity.free();
  all_ = capacity.free();
  for (const JobId id : state.holding()) {
    if (state.job(id).phase != JobPhase::running) continue;
    for (const NodeShare& share : state.job(id).allocation) {
      if (usable(share.node)) all_->set_available(share.node, all_->available(share.node) + share.gpus);
    }
  }
}

bool Room::usable(NodeId node) const {
  return state_.capacity().up(node) && !state_.capacity().draining(node);
}

bool Room::might_fit(const JobClass& job_class) const {
  return std::any_of(job_class.options.begin(), job_class.options.end(), [&](GroupMask option) {
    GpuCount sum = 0;
    for (GroupMask rest = option; rest != 0; rest &= rest - 1) {
      sum += left_[static_cast<std::size_t>(std::countr_zero(rest))];
    }
    return sum >= job_class.gpus;
  });
}

bool Room::keep(JobId id) {
  const JobState& job = state_.job(id);
  if (job.phase != JobPhase::running) return true;
  const FreeIndex& free = state_.capacity().free();
  bool fits = true;
  for (const NodeShare& share : job.allocation) {
    if (!usable(share.node)) continue;
    const GroupId group = free.group_of(share.node);
    fits = fits && left_[group] >= share.gpus && (!all_ || all_->available(share.node) >= share.gpus);
    left_[group] -= share.gpus;  // of one group, a gang may hold several nodes: count them together
  }
  if (fits) {
    for (const NodeShare& share : job.allocation) {
      if (!usable(share.node)) continue;
      left_total_ -= share.gpus;
      if (all_) all_->set_available(share.node, all_->available(share.node) - share.gpus);
    }
    return true;
  }
  for (const NodeShare& share : job.allocation) {
    if (!usable(share.node)) continue;
    left_[free.group_of(share.node)] += share.gpus;
    // What nobody has taken of it is idle from here on.
    if (idle_) {
      idle_->set_available(share.node,
                           std::min(idle_->available(share.node) + share.gpus, all_->available(share.node)));
    }
  }
  preempted_.push_back(id);
  Admission elsewhere;
  moves_ = reserve(id, elsewhere) || moves_;
  return false;
}

bool Room::keep_all(const std::vector<GpuCount>& by_group) {
  if (all_ || state_.capacity().unusable_nodes() > 0 || state_.starting_count() > 0) return false;
  for (GroupId g = 0; g < left_.size(); ++g) {
    if (g < by_group.size() && by_group[g] > left_[g]) return false;
  }
  for (GroupId g = 0; g < left_.size() && g < by_group.size(); ++g) {
    left_[g] -= by_group[g];
    left_total_ -= by_group[g];
  }
  return true;
}

// Takes room for the job out of what is left.
bool Room::reserve(JobId id, Admission& admission) {
  const JobClass& job_class = state_.class_of(id);
  admission.job = id;
  const auto take = [&](GroupId group, GpuCount gpus) {
    left_[group] -= gpus;
    left_total_ -= gpus;
    admission.groups |= GroupMask{1} << group;
  };
  if (all_) {
    const Capacity& capacity = state_.capacity();
    for (const FreeIndex* among : {&*idle_, &*all_}) {
      for (const GroupMask option : job_class.options) {
        auto place = placement_.place(*among, capacity, option, job_class.gpus);
        if (!place) continue;
        for (const NodeShare& share : *place) {
          take(all_->group_of(share.node), share.gpus);
          const GpuCount rest = all_->available(share.node) - share.gpus;
          all_->set_available(share.node, rest);
          idle_->set_available(share.node, std::min(idle_->available(share.node), rest));
        }
        admission.allocation = std::move(place);
        return true;
      }
    }
    return false;
  }
  for (const GroupMask option : job_class.options) {
    GpuCount sum = 0;
    std::optional<GroupId> whole;
    for (GroupMask rest = option; rest != 0; rest &= rest - 1) {
      const auto group = static_cast<GroupId>(std::countr_zero(rest));
      sum += left_[group];
      if (!whole && left_[group] >= job_class.gpus) whole = group;
    }
    if (sum < job_class.gpus) continue;
    if (whole) {
      take(*whole, job_class.gpus);
      return true;
    }
    GpuCount missing = job_class.gpus;
    for (GroupMask rest = option; missing > 0; rest &= rest - 1) {
      const auto group = static_cast<GroupId>(std::countr_zero(rest));
      const GpuCount taken = std::min(missing, left_[group]);
      if (taken > 0) take(group, taken);
      missing -= taken;
    }
    return true;
  }
  return false;
}

bool Room::admit(JobId id) {
  Admission admission;
  if (!reserve(id, admission)) return false;
  admitted_.push_back(std::move(admission));
  return true;
}

void Room::commit(Turn& turn) {
  for (const JobId id : preempted_) turn.preempt(id);
  for (Admission& admission : admitted_) {
    const JobClass& job_class = state_.class_of(admission.job);
    if (!admission.allocation) {
      admission.allocation =
          placement_.place(state_.capacity().free(), state_.capacity(), admission.groups, job_class.gpus);
    }
    // Gangs that span pools may have left the room in other pools than counted.
    if (!admission.allocation) admission.allocation = find_place(state_, placement_, job_class);
    if (admission.allocation) turn.start(admission.job, std::move(*admission.allocation));
  }
  if (moves_) turn.wake_at(turn.now());
}

}  // namespace ebb::sched
