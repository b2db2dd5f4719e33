#include "ebb/sched/plan.h"

#include <algorithm>
#include <limits>

namespace ebb::sched {
namespace {

bool in(GroupMask groups, const Capacity& capacity, NodeId node) {
  return (groups >> capacity.free().group_of(node) & 1) != 0;
}

// The option (GPU type) of the job with the most GPUs left, the first among equals.
GroupMask best_option(const State& state, JobId job, const std::vector<GpuCount>& left) {
  const auto& options = state.class_of(job).options;
  if (options.size() == 1) return options.front();
  GroupMask best = 0;
  GpuCount most = -1;
  for (const GroupMask option : options) {
    GpuCount sum = 0;
    for (NodeId n = 0; n < left.size(); ++n) {
      if (in(option, state.capacity(), n)) sum += left[n];
    }
    if (sum > most) {
      most = sum;
      best = option;
    }
  }
  return best;
}

// The node with most GPUs left, the lowest among equals; nothing if all are empty.
std::optional<NodeId> emptiest(const Capacity& capacity, GroupMask groups, const std::vector<GpuCount>& left) {
  std::optional<NodeId> best;
  for (NodeId n = 0; n < left.size(); ++n) {
    if (left[n] > 0 && in(groups, capacity, n) && (!best || left[n] > left[*best])) best = n;
  }
  return best;
}

bool same_gpus(Allocation a, Allocation b) {
  const auto by_node = [](const NodeShare& x, const NodeShare& y) { return x.node < y.node; };
  std::sort(a.begin(), a.end(), by_node);
  std::sort(b.begin(), b.end(), by_node);
  return a == b;
}

// Sleeping replicas stay where a GPU is left for them under the plan.
void stop_sleepers(Turn& turn, const TrainingPlan& plan) {
  const State& state = turn.state();
  if (state.live_replicas().empty()) return;
  const Capacity& capacity = state.capacity();
  std::vector<GpuCount> left(capacity.spec().nodes.size());
  for (NodeId n = 0; n < left.size(); ++n) left[n] = capacity.usable(n) ? capacity.available(n) : 0;
  for (const auto& [job, allocation] : plan) {
    if (state.job(job).phase == JobPhase::running) {
      for (const NodeShare& share : state.job(job).allocation) left[share.node] += share.gpus;
    }
    for (const NodeShare& share : allocation) left[share.node] -= share.gpus;
  }
  std::vector<ReplicaId> sleepers;
  for (const ReplicaId id : state.live_replicas()) {
    if (state.replica(id).phase(turn.now()) != ReplicaPhase::sleep) continue;
    sleepers.push_back(id);
    left[state.replica(id).place.node] += state.replica(id).place.gpus;
  }
  std::sort(sleepers.begin(), sleepers.end(), [&](ReplicaId a, ReplicaId b) {
    const Duration delay_a = state.services()[state.replica(a).service].spec.start_delay;
    const Duration delay_b = state.services()[state.replica(b).service].spec.start_delay;
    return delay_a != delay_b ? delay_a < delay_b : a < b;
  });
  for (const ReplicaId id : sleepers) {
    const NodeShare& place = state.replica(id).place;
    if (left[place.node] >= place.gpus) {
      left[place.node] -= place.gpus;
    } else {
      turn.stop_replica(id);
    }
  }
}

void strip_replica_nodes(Turn& turn, TrainingPlan& plan) {
  const State& state = turn.state();
  std::vector<bool> hosts(state.capacity().spec().nodes.size());
  std::vector<bool> lags(hosts.size());  // hosts only replicas that end at this very moment
  // Where nobody trains, sleeping replicas make room: else a job could wait for ever beside free GPUs.
  const bool nobody_trains = state.holding_count() == 0;
  std::vector<ReplicaId> sleepers;
  for (const ReplicaId id : state.live_replicas()) {
    const ReplicaPhase phase = state.replica(id).phase(turn.now());
    if (phase == ReplicaPhase::sleep && nobody_trains) {
      sleepers.push_back(id);
    } else if (phase != ReplicaPhase::stopping) {
      hosts[state.replica(id).place.node] = true;
    } else if (turn.serving().strip == Strip::lagging) {
      lags[state.replica(id).place.node] = true;
    }
  }
  bool waits = false;
  for (auto& [job, allocation] : plan) {
    waits = waits || std::any_of(allocation.begin(), allocation.end(),
                                 [&](const NodeShare& share) { return lags[share.node] && !hosts[share.node]; });
    std::erase_if(allocation, [&](const NodeShare& share) { return hosts[share.node] || lags[share.node]; });
  }
  // Those nodes are there for the next decision, which may be the last thing that happens.
  if (waits) turn.wake_at(turn.now());
  for (const ReplicaId id : sleepers) {
    const auto on_node = [&](const NodeShare& share) { return share.node == state.replica(id).place.node; };
    const bool in_the_way = std::any_of(plan.begin(), plan.end(), [&](const auto& entry) {
      return std::any_of(entry.second.begin(), entry.second.end(), on_node);
    });
    if (in_the_way) turn.stop_replica(id);
  }
}

}  // namespace

PlanView plan_view(const State& state, Time now) {
  const Capacity& capacity = state.capacity();
  PlanView view;
  view.node_gpus.resize(capacity.spec().nodes.size());
  GroupMask groups = 0;
  const auto plannable = [&](const JobState& job) {
    if (!job.training()) return false;
    if (job.phase == JobPhase::waiting) return true;
    return job.phase == JobPhase::running &&
           std::all_of(job.allocation.begin(), job.allocation.end(),
                       [&](const NodeShare& share) { return capacity.usable(share.node); });
  };
  for (JobId id = state.first_active(); id < state.jobs().size(); ++id) {
    const JobState& job = state.job(id);
    if (!plannable(job)) continue;
    view.jobs.push_back(id);
    for (const GroupMask option : state.class_of(id).options) groups |= option;
    if (job.phase != JobPhase::running) continue;
    for (const NodeShare& share : job.allocation) view.node_gpus[share.node] += share.gpus;
  }
  for (NodeId n = 0; n < view.node_gpus.size(); ++n) view.node_gpus[n] += capacity.available(n);
  for (const ReplicaId id : state.live_replicas()) {
    const ReplicaState& replica = state.replica(id);
    if (replica.phase(now) == ReplicaPhase::sleep && capacity.usable(replica.place.node)) {
      view.node_gpus[replica.place.node] += replica.place.gpus;
    }
  }
  for (NodeId n = 0; n < view.node_gpus.size(); ++n) {
    if (!in(groups, capacity, n)) view.node_gpus[n] = 0;
    view.total += view.node_gpus[n];
  }
  return view;
}

Allocation place_packed(const State& state, JobId job, GpuCount gpus, std::vector<GpuCount>& left) {
  return place_packed_in(state, best_option(state, job, left), gpus, left);
}

Allocation place_packed_in(const State& state, GroupMask groups, GpuCount gpus, std::vector<GpuCount>& left) {
  const Capacity& capacity = state.capacity();
  const std::size_t group_count = capacity.free().group_count();
  const GroupMask all = group_count >= kMaxGroups ? ~GroupMask{0} : (GroupMask{1} << group_count) - 1;
  const bool everywhere = (groups & all) == all;
  Allocation allocation;
  while (gpus > 0) {
    // The tightest node that holds all that is wanted, and the one with most GPUs; the lowest among equals.
    std::optional<NodeId> tightest;
    std::optional<NodeId> fullest_free;
    GpuCount least = std::numeric_limits<GpuCount>::max();
    GpuCount most = 0;
    for (NodeId n = 0; n < left.size(); ++n) {
      const GpuCount free = left[n];
      const bool better = (free >= gpus && free < least) || free > most;
      if (!better || !(everywhere || in(groups, capacity, n))) continue;
      if (free >= gpus && free < least) {
        least = free;
        tightest = n;
        if (free == gpus) break;
      }
      if (free > most) {
        most = free;
        fullest_free = n;
      }
    }
    const std::optional<NodeId> node = tightest ? tightest : fullest_free;
    if (!node) break;
    const GpuCount taken = std::min(gpus, left[*node]);
    allocation.push_back({*node, taken});
    left[*node] -= taken;
    gpus -= taken;
  }
  return allocation;
}

Allocation place_emptiest(const State& state, JobId job, GpuCount gpus, std::vector<GpuCount>& left) {
  return place_emptiest_in(state, best_option(state, job, left), gpus, left);
}

Allocation place_emptiest_in(const State& state, GroupMask groups, GpuCount gpus, std::vector<GpuCount>& left) {
  Allocation allocation;
  while (gpus > 0) {
    const std::optional<NodeId> node = emptiest(state.capacity(), groups, left);
    if (!node) break;
    const GpuCount taken = std::min(gpus, left[*node]);
    allocation.push_back({*node, taken});
    left[*node] -= taken;
    gpus -= taken;
  }
  return allocation;
}

void cut_to_legal(const JobSpec& spec, Allocation& allocation) {
  GpuCount surplus = gpus_in(allocation);
  surplus -= spec.legal_size(surplus);
  while (surplus > 0) {
    NodeShare& last = allocation.back();
    const GpuCount cut = std::min(surplus, last.gpus);
    last.gpus -= cut;
    surplus -= cut;
    if (last.gpus == 0) allocation.pop_back();
  }
}

void commit_plan(Turn& turn, TrainingPlan plan) {
  const State& state = turn.state();
  stop_sleepers(turn, plan);
  if (turn.serving().strip != Strip::off) strip_replica_nodes(turn, plan);
  for (auto& [job, allocation] : plan) cut_to_legal(state.job(job).spec, allocation);
  std::vector<Target> targets;
  for (const auto& [job, allocation] : plan) {
    const JobState& was = state.job(job);
    if (was.phase != JobPhase::running || allocation == was.allocation) continue;
    if (allocation.empty()) {
      turn.preempt(job);
    } else if (turn.ordered_placements() || !same_gpus(allocation, was.allocation)) {
      targets.push_back({job, allocation});
    }
  }
  if (!targets.empty()) turn.resize(std::move(targets));
  for (auto& [job, allocation] : plan) {
    if (state.job(job).phase == JobPhase::waiting && !allocation.empty()) turn.start(job, std::move(allocation));
  }
}

}  // namespace ebb::sched
