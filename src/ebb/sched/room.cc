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
        if (state_.capacity().usable(share.node)) left_[capacity.free().group_of(share.node)] -= share.gpus;
      }
    }
  }
  // Nor can those of replicas, unless they are told to stop.
  for (const ReplicaId id : state.live_replicas()) {
    const ReplicaState& replica = state.replica(id);
    if (replica.folded == ReplicaPhase::stopping || !state_.capacity().usable(replica.place.node)) continue;
    left_[capacity.free().group_of(replica.place.node)] -= replica.place.gpus;
  }
  for (const GpuCount gpus : left_) left_total_ += gpus;
  for (GroupId g = 0; g < left_.size(); ++g) idle_left_.push_back(capacity.free().group_sum(g));
  if (!placement.strict()) return;
  idle_ = capacity.free();
  all_ = capacity.free();
  for (const JobId id : state.holding()) {
    if (state.job(id).phase != JobPhase::running) continue;
    for (const NodeShare& share : state.job(id).allocation) {
      if (state_.capacity().usable(share.node))
        all_->set_available(share.node, all_->available(share.node) + share.gpus);
    }
  }
}

// From what is left in a group. A job that is admitted takes idle GPUs first; one that keeps its own takes no idle
// ones, unless others have taken its own.
void Room::take_from(GroupId group, GpuCount gpus, bool admitted) {
  left_[group] -= gpus;
  left_total_ -= gpus;
  GpuCount& idle = idle_left_[group];
  idle = std::min(admitted ? std::max(idle - gpus, 0) : idle, left_[group]);
}

// The same of a node's GPUs, for strict placements.
void Room::take_of(NodeId node, GpuCount gpus, bool admitted) {
  const GpuCount rest = all_->available(node) - gpus;
  all_->set_available(node, rest);
  const GpuCount idle = idle_->available(node);
  idle_->set_available(node, std::min(admitted ? std::max(idle - gpus, 0) : idle, rest));
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
    if (!state_.capacity().usable(share.node)) continue;
    const GroupId group = free.group_of(share.node);
    fits = fits && left_[group] >= share.gpus && (!all_ || all_->available(share.node) >= share.gpus);
    left_[group] -= share.gpus;  // a gang may hold several nodes of one group: count them together
  }
  for (const NodeShare& share : job.allocation) {
    if (state_.capacity().usable(share.node)) left_[free.group_of(share.node)] += share.gpus;
  }
  for (const NodeShare& share : job.allocation) {
    if (!state_.capacity().usable(share.node)) continue;
    const GroupId group = free.group_of(share.node);
    if (fits) {
      take_from(group, share.gpus, /*admitted=*/false);
      if (all_) take_of(share.node, share.gpus, /*admitted=*/false);
    } else {
      // What nobody has taken of it is idle from here on.
      idle_left_[group] = std::min(idle_left_[group] + share.gpus, left_[group]);
      if (idle_) {
        idle_->set_available(share.node,
                             std::min(idle_->available(share.node) + share.gpus, all_->available(share.node)));
      }
    }
  }
  if (fits) return true;
  preempted_.push_back(id);
  // It may go on elsewhere, on idle GPUs only: two jobs that are equal must not push each other around for ever.
  Admission elsewhere;
  moves_ = reserve(id, /*idle_only=*/true, elsewhere) || moves_;
  return false;
}

bool Room::keep_all(const std::vector<GpuCount>& by_group) {
  if (all_ || state_.capacity().unusable_nodes() > 0 || state_.starting_count() > 0) return false;
  for (GroupId g = 0; g < left_.size(); ++g) {
    if (g < by_group.size() && by_group[g] > left_[g]) return false;
  }
  for (GroupId g = 0; g < left_.size() && g < by_group.size(); ++g) {
    take_from(g, by_group[g], /*admitted=*/false);
  }
  return true;
}

// Takes room for the job out of what is left; where idle GPUs will do, nobody loses any.
bool Room::reserve(JobId id, bool idle_only, Admission& admission) {
  const JobClass& job_class = state_.class_of(id);
  admission.job = id;
  for (const bool idle : {true, false}) {
    if (!idle && idle_only) break;
    for (const GroupMask option : job_class.options) {
      if (all_ ? reserve_nodes(idle ? *idle_ : *all_, option, job_class.gpus, admission)
               : reserve_count(idle ? idle_left_ : left_, option, job_class.gpus, admission)) {
        return true;
      }
    }
  }
  return false;
}

bool Room::reserve_nodes(const FreeIndex& among, GroupMask option, GpuCount gpus, Admission& admission) {
  auto place = placement_.place(among, state_.capacity(), option, gpus);
  if (!place) return false;
  for (const NodeShare& share : *place) {
    take_from(all_->group_of(share.node), share.gpus, /*admitted=*/true);
    take_of(share.node, share.gpus, /*admitted=*/true);
  }
  admission.allocation = std::move(place);
  return true;
}

bool Room::reserve_count(const std::vector<GpuCount>& among, GroupMask option, GpuCount gpus, Admission& admission) {
  GpuCount sum = 0;
  std::optional<GroupId> whole;
  for (GroupMask rest = option; rest != 0; rest &= rest - 1) {
    const auto group = static_cast<GroupId>(std::countr_zero(rest));
    sum += among[group];
    if (!whole && among[group] >= gpus) whole = group;
  }
  if (sum < gpus) return false;
  const GroupMask from = whole ? GroupMask{1} << *whole : option;
  for (GroupMask rest = from; gpus > 0; rest &= rest - 1) {
    const auto group = static_cast<GroupId>(std::countr_zero(rest));
    const GpuCount taken = std::min(gpus, among[group]);
    if (taken == 0) continue;
    gpus -= taken;
    admission.groups |= GroupMask{1} << group;
    take_from(group, taken, /*admitted=*/true);
  }
  return true;
}

bool Room::admit(JobId id) {
  Admission admission;
  if (!reserve(id, /*idle_only=*/false, admission)) return false;
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
