#pragma once

/// Admission of preemptive policies: a walk over all jobs, most deserving first, in which every usable GPU counts as
/// free at the beginning. A running job keeps its GPUs if nobody before it took them; a waiting job is admitted if it
/// fits in what is left; whoever does not fit is passed. At the end commit() preempts the running jobs that lost their
/// GPUs and starts the admitted ones on what is free or being given back.
///
/// With a placement for which counting is enough the walk keeps one number a group; with a strict one it plays on a
/// copy of the free index.

#include <optional>
#include <vector>

#include "ebb/sched/policy.h"

namespace ebb::sched {

class Room {
 public:
  Room(const State& state, const Placement& placement);

  /// Whether a job of the class could be admitted now, by counting.
  bool might_fit(const JobClass& job_class) const;
  /// GPUs left in all groups.
  GpuCount left() const { return left_total_; }

  /// A job that holds GPUs, at its place in the order: true if it goes on. A job that is still starting always does.
  bool keep(JobId job);
  /// The same for many at once, given their GPUs by group: true, and all are kept, if this can be told by counting.
  bool keep_all(const std::vector<GpuCount>& by_group);
  /// A waiting job at its place in the order: true if it will be started.
  bool admit(JobId job);

  const std::vector<JobId>& preempted() const { return preempted_; }
  /// Carries out the walk. Jobs that move (preempted, but with room elsewhere) need another tick at once: asked for.
  void commit(Turn& turn);

 private:
  struct Admission {
    JobId job = 0;
    GroupMask groups = 0;
    std::optional<Allocation> allocation;  // strict placements only
  };

  bool reserve(JobId job, bool idle_only, Admission& admission);
  bool reserve_nodes(const FreeIndex& among, GroupMask option, GpuCount gpus, Admission& admission);
  bool reserve_count(const std::vector<GpuCount>& among, GroupMask option, GpuCount gpus, Admission& admission);
  void take_from(GroupId group, GpuCount gpus, bool admitted);
  void take_of(NodeId node, GpuCount gpus, bool admitted);

  const State& state_;
  const Placement& placement_;
  std::vector<GpuCount> left_;       // by group
  std::vector<GpuCount> idle_left_;  // of these, held by nobody
  GpuCount left_total_ = 0;
  // Strict placements: GPUs free or held by jobs whose turn has not come (all_), and those of them that nobody holds
  // (idle_).
  std::optional<FreeIndex> all_;
  std::optional<FreeIndex> idle_;
  std::vector<JobId> preempted_;
  std::vector<Admission> admitted_;
  bool moves_ = false;
};

/// The place of a gang among what is available now, over the types that it may use; nullopt if there is none.
std::optional<Allocation> find_place(const State& state, const Placement& placement, const JobClass& job_class);

}  // namespace ebb::sched
