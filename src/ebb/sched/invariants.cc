#include <algorithm>
#include <bit>

#include "ebb/sched/state.h"

namespace ebb::sched {
namespace {

template <typename... Args>
tl::unexpected<Error> broken(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::internal, "invariant broken: {}", fmt::format(format, std::forward<Args>(args)...));
}

struct NodeUse {
  GpuCount held = 0;       // by jobs that own them or must still let go of them
  GpuCount releasing = 0;  // of these, by jobs that were told to stop
  GpuCount claimed = 0;    // by all starts, met or not
};

Result<void> check_job(const State& state, JobId id) {
  const JobState& job = state.job(id);
  if (job.holds() != !job.allocation.empty() && job.training()) {
    return broken("job {} is {} with {} nodes", id, to_string(job.phase), job.allocation.size());
  }
  if (job.phase != JobPhase::resizing && !(job.departing.empty() && job.arriving.empty())) {
    return broken("job {} changes its GPUs, but is {}", id, to_string(job.phase));
  }
  if (job.active() && id < state.first_active()) {
    return broken("job {} is {}, but no job below {} is active", id, to_string(job.phase), state.first_active());
  }
  const bool ended = job.phase == JobPhase::finished || job.phase == JobPhase::cancelled;
  if (ended != job.end.has_value()) {
    return broken("job {} is {} {} a time of its end", id, to_string(job.phase), job.end ? "with" : "without");
  }
  if (job.phase == JobPhase::held && !job.training()) return broken("task {} is held", id);
  if (!job.holds() || !job.training()) return {};
  const GpuCount gpus = gpus_in(job.allocation);
  if (job.gpus != gpus || job.spec.legal_size(gpus) != gpus) return broken("job {} holds a part of its gang", id);
  const GpuCount occupied = job.phase == JobPhase::starting ? 0 : gpus - gpus_in(job.arriving) + gpus_in(job.departing);
  if (job.occupied != occupied) return broken("job {} is on {} GPUs, counted {}", id, occupied, job.occupied);
  GroupMask groups = 0;
  for (const NodeShare& share : job.allocation) {
    groups |= GroupMask{1} << state.capacity().free().group_of(share.node);
  }
  const auto& options = state.class_of(id).options;
  if (std::none_of(options.begin(), options.end(), [&](GroupMask option) { return (groups & ~option) == 0; })) {
    return broken("job {} is on nodes that it may not use", id);
  }
  return {};
}

// Replicas: each in one phase, bound to its task and the task to it.
Result<void> check_serving(const State& state) {
  std::vector<std::int32_t> serving(state.services().size());
  std::size_t alive = 0;
  GpuCount gpus = 0;
  for (ReplicaId id = 0; id < state.replicas().size(); ++id) {
    const ReplicaState& replica = state.replica(id);
    const bool works = replica.folded == ReplicaPhase::starting || replica.folded == ReplicaPhase::serving;
    if (replica.task && (!works || state.job(*replica.task).replica != id)) {
      return broken("replica {} is {} and bound to task {}, which is not bound to it", id, to_string(replica.folded),
                    *replica.task);
    }
    if (!replica.alive()) continue;
    ++alive;
    if (replica.promised == 0) gpus += replica.place.gpus;
    if (works && !replica.task) ++serving[replica.service];
  }
  if (alive != state.live_replicas().size() || gpus != state.gpus_serving()) {
    return broken("{} replicas with {} GPUs are alive, counted {} with {}", alive, gpus, state.live_replicas().size(),
                  state.gpus_serving());
  }
  std::size_t queued = 0;
  for (ServiceId id = 0; id < serving.size(); ++id) {
    const ServiceState& service = state.services()[id];
    queued += service.waiting.size();
    const auto resting = std::count_if(service.replicas.begin(), service.replicas.end(), [&](ReplicaId replica) {
      const ReplicaState& is = state.replica(replica);
      return is.rests() && service.resting.contains({-std::int64_t{is.hits}, replica});
    });
    if (static_cast<std::size_t>(resting) != service.resting.size()) {
      return broken("service {} has {} replicas that rest, listed {}", id, resting, service.resting.size());
    }
    if (serving[id] != state.services()[id].serving) {
      return broken("service {} has {} replicas that serve, counted {}", id, serving[id], state.services()[id].serving);
    }
  }
  std::size_t waiting = 0;
  std::size_t active = 0;
  for (JobId id = 0; id < state.jobs().size(); ++id) {
    const JobState& job = state.job(id);
    if (job.training() || !job.active()) continue;
    ++active;
    if (job.phase == JobPhase::waiting) {
      ++waiting;
      if (!state.waiting_tasks().contains(id) || !state.services()[job.service].waiting.contains(id)) {
        return broken("task {} waits, but not in the queue of service {}", id, job.service);
      }
    } else if (!job.replica || state.replica(*job.replica).task != id) {
      return broken("task {} is {} without a replica of its own", id, to_string(job.phase));
    }
  }
  if (waiting != state.waiting_tasks().size() || waiting != queued || active != state.active_tasks()) {
    return broken("{} of {} tasks wait, counted {} of {}", waiting, active, state.waiting_tasks().size(),
                  state.active_tasks());
  }
  return {};
}

// What the jobs and replicas that are alive add up to.
struct Sums {
  std::vector<NodeUse> use;  // by node
  std::size_t waiting = 0;
  std::size_t holding = 0;
  std::size_t starting = 0;
  GpuCount held = 0;
  GpuCount promised = 0;
};

void add_job(const JobState& job, Sums& sums) {
  if (!job.training()) return;
  sums.waiting += job.phase == JobPhase::waiting ? 1 : 0;
  if (!job.holds()) return;
  ++sums.holding;
  sums.starting += job.phase == JobPhase::starting ? 1 : 0;
  sums.held += job.gpus;
  sums.promised += job.promised;
  for (const NodeShare& share : job.allocation) {
    sums.use[share.node].claimed += share.gpus;
    if (job.phase == JobPhase::stopping) sums.use[share.node].releasing += share.gpus;
  }
  for (const NodeShare& share : job.departing) {
    sums.use[share.node].claimed += share.gpus;
    sums.use[share.node].releasing += share.gpus;
  }
}

void add_replica(const ReplicaState& replica, Sums& sums) {
  sums.promised += replica.promised;
  sums.use[replica.place.node].claimed += replica.place.gpus;
  if (replica.folded == ReplicaPhase::stopping) sums.use[replica.place.node].releasing += replica.place.gpus;
}

Result<void> check_counts(const State& state, const Sums& sums) {
  if (sums.waiting != state.waiting_count()) {
    return broken("{} jobs wait, counted {}", sums.waiting, state.waiting_count());
  }
  if (sums.holding != state.holding_count()) {
    return broken("{} jobs hold GPUs, counted {}", sums.holding, state.holding_count());
  }
  if (sums.starting != state.starting_count()) {
    return broken("{} jobs start, counted {}", sums.starting, state.starting_count());
  }
  if (sums.held != state.gpus_held()) return broken("{} GPUs are held, counted {}", sums.held, state.gpus_held());
  return {};
}

// GPUs under training now, and over time.
Result<void> check_gpu_time(const State& state) {
  GpuNanoseconds gpu_time = 0;
  GpuCount occupied = 0;
  for (const JobState& job : state.jobs()) {
    gpu_time += job.gpu_time_until(state.latest());
    occupied += job.occupied;
  }
  if (occupied != state.gpus_occupied()) {
    return broken("training is on {} GPUs, counted {}", occupied, state.gpus_occupied());
  }
  const GpuCount total = state.capacity().total_gpus();
  if (occupied + state.gpus_serving() > total) {
    return broken("training is on {} GPUs and replicas on {} of {}", occupied, state.gpus_serving(), total);
  }
  if (gpu_time != state.gpu_time()) return broken("the GPU-seconds of the jobs are not those held over time");
  return {};
}

Result<void> check_launchable(const State& state, const Holder& holder) {
  if (std::count(state.launchable().begin(), state.launchable().end(), holder) != 1) {
    return broken("a {} is to be launched twice", holder.kind == Holder::Kind::job ? "job" : "replica");
  }
  if (holder.kind == Holder::Kind::replica) {
    const ReplicaState& replica = state.replica(holder.id);
    if (replica.folded == ReplicaPhase::starting && replica.promised == 0) return {};
    return broken("replica {} is to be launched, but is {}", holder.id, to_string(replica.folded));
  }
  const JobState& job = state.job(holder.id);
  const bool due = job.phase == JobPhase::starting || (job.phase == JobPhase::resizing && job.departing.empty());
  if (due && job.promised == 0) return {};
  return broken("job {} is to be launched, but is {}", holder.id, to_string(job.phase));
}

// Every GPU of a node has one owner; a promised one has its last owner and the next.
Result<void> check_node(const Capacity& capacity, NodeId n, const NodeUse& use) {
  const GpuCount total = capacity.spec().nodes[n].gpus;
  const GpuCount promised = capacity.promised(n);
  if (use.claimed != capacity.held(n) + promised) {
    return broken("node {}: jobs claim {} GPUs, {} are held and {} promised", n, use.claimed, capacity.held(n),
                  promised);
  }
  if (capacity.held(n) > total) return broken("node {} holds {} of {} GPUs", n, capacity.held(n), total);
  if (use.releasing != capacity.releasing(n) + promised) {
    return broken("node {}: {} GPUs of stopping jobs, counted {} unpromised and {} promised", n, use.releasing,
                  capacity.releasing(n), promised);
  }
  const bool usable = capacity.up(n) && !capacity.draining(n);
  const GpuCount available = usable ? total - capacity.held(n) + capacity.releasing(n) : 0;
  if (available != capacity.available(n)) {
    return broken("node {}: {} GPUs available, indexed {}", n, available, capacity.available(n));
  }
  return {};
}

Result<void> check_nodes(const Capacity& capacity, const Sums& sums) {
  std::vector<GpuCount> usable_gpus(capacity.free().group_count());
  GpuCount promised = 0;
  for (NodeId n = 0; n < sums.use.size(); ++n) {
    EBB_RETURN_IF_ERROR(check_node(capacity, n, sums.use[n]));
    promised += capacity.promised(n);
    const bool usable = capacity.up(n) && !capacity.draining(n);
    if (usable) usable_gpus[capacity.free().group_of(n)] += capacity.spec().nodes[n].gpus;
  }
  for (GroupId g = 0; g < usable_gpus.size(); ++g) {
    if (usable_gpus[g] != capacity.usable_gpus(g)) {
      return broken("group {}: {} usable GPUs, counted {}", g, usable_gpus[g], capacity.usable_gpus(g));
    }
  }
  if (sums.promised != promised) {
    return broken("jobs wait for {} promised GPUs, nodes hold {}", sums.promised, promised);
  }
  return {};
}

}  // namespace

Result<void> check_invariants(const State& state) {
  Sums sums;
  sums.use.resize(state.capacity().spec().nodes.size());
  for (JobId id = 0; id < state.jobs().size(); ++id) {
    EBB_RETURN_IF_ERROR(check_job(state, id));
    add_job(state.job(id), sums);
  }
  EBB_RETURN_IF_ERROR(check_serving(state));
  for (const ReplicaId id : state.live_replicas()) add_replica(state.replica(id), sums);
  EBB_RETURN_IF_ERROR(check_counts(state, sums));
  EBB_RETURN_IF_ERROR(check_gpu_time(state));
  for (const Holder& holder : state.launchable()) EBB_RETURN_IF_ERROR(check_launchable(state, holder));
  return check_nodes(state.capacity(), sums);
}

}  // namespace ebb::sched
