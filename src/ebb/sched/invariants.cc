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
  if (job.holds() != !job.allocation.empty())
    return broken("job {} is {} with {} nodes", id, to_string(job.phase), job.allocation.size());
  if (!job.holds()) return {};
  if (gpus_in(job.allocation) != job.spec.gpus) return broken("job {} holds a part of its gang", id);
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

}  // namespace

Result<void> check_invariants(const State& state) {
  const Capacity& capacity = state.capacity();
  std::vector<NodeUse> use(capacity.spec().nodes.size());
  std::size_t waiting = 0;
  std::size_t holding = 0;
  std::size_t starting = 0;
  GpuCount held = 0;
  GpuCount promised = 0;
  for (JobId id = 0; id < state.jobs().size(); ++id) {
    EBB_RETURN_IF_ERROR(check_job(state, id));
    const JobState& job = state.job(id);
    waiting += job.phase == JobPhase::waiting ? 1 : 0;
    if (!job.holds()) continue;
    ++holding;
    starting += job.phase == JobPhase::starting ? 1 : 0;
    held += job.spec.gpus;
    promised += job.promised;
    for (const NodeShare& share : job.allocation) {
      use[share.node].claimed += share.gpus;
      if (job.phase == JobPhase::stopping) use[share.node].releasing += share.gpus;
    }
  }
  if (waiting != state.waiting_count()) return broken("{} jobs wait, counted {}", waiting, state.waiting_count());
  if (holding != state.holding_count()) return broken("{} jobs hold GPUs, counted {}", holding, state.holding_count());
  if (starting != state.starting_count()) return broken("{} jobs start, counted {}", starting, state.starting_count());
  if (held != state.gpus_held()) return broken("{} GPUs are held, counted {}", held, state.gpus_held());

  GpuNanoseconds gpu_time = 0;
  for (const JobState& job : state.jobs()) {
    gpu_time += static_cast<GpuNanoseconds>(job.held_until(state.latest()).count()) * job.spec.gpus;
  }
  if (gpu_time != state.gpu_time()) return broken("the GPU-seconds of the jobs are not those held over time");
  std::vector<JobId> launchable = state.launchable();
  std::sort(launchable.begin(), launchable.end());
  if (std::adjacent_find(launchable.begin(), launchable.end()) != launchable.end()) {
    return broken("a job is to be launched twice");
  }
  for (const JobId id : launchable) {
    if (state.job(id).phase != JobPhase::starting || state.job(id).promised != 0) {
      return broken("job {} is to be launched, but is {}", id, to_string(state.job(id).phase));
    }
  }
  std::vector<GpuCount> usable_gpus(capacity.free().group_count());
  GpuCount promised_on_nodes = 0;
  for (NodeId n = 0; n < use.size(); ++n) {
    const GpuCount total = capacity.spec().nodes[n].gpus;
    const GpuCount node_promised = capacity.promised(n);
    promised_on_nodes += node_promised;
    // Every GPU has one owner; a promised one has its last owner and the next.
    if (use[n].claimed != capacity.held(n) + node_promised) {
      return broken("node {}: jobs claim {} GPUs, {} are held and {} promised", n, use[n].claimed, capacity.held(n),
                    node_promised);
    }
    if (capacity.held(n) > total) return broken("node {} holds {} of {} GPUs", n, capacity.held(n), total);
    if (use[n].releasing != capacity.releasing(n) + node_promised) {
      return broken("node {}: {} GPUs of stopping jobs, counted {} unpromised and {} promised", n, use[n].releasing,
                    capacity.releasing(n), node_promised);
    }
    const bool usable = capacity.up(n) && !capacity.draining(n);
    if (usable) usable_gpus[capacity.free().group_of(n)] += total;
    const GpuCount available = usable ? total - capacity.held(n) + capacity.releasing(n) : 0;
    if (available != capacity.available(n)) {
      return broken("node {}: {} GPUs available, indexed {}", n, available, capacity.available(n));
    }
  }
  for (GroupId g = 0; g < usable_gpus.size(); ++g) {
    if (usable_gpus[g] != capacity.usable_gpus(g)) {
      return broken("group {}: {} usable GPUs, counted {}", g, usable_gpus[g], capacity.usable_gpus(g));
    }
  }
  if (promised != promised_on_nodes)
    return broken("jobs wait for {} promised GPUs, nodes hold {}", promised, promised_on_nodes);
  return {};
}

}  // namespace ebb::sched
