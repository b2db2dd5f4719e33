#pragma once

/// The GPUs of the cluster: who may use which, what is held, what is being given back, what is promised.
///
/// Of the GPUs of a node, `held` belong to jobs until their processes are confirmed gone. Of these, `releasing` are
/// held by jobs that were told to stop and promised to nobody; `promised` will pass to a new job once they are
/// confirmed free. What a decision may use is `free + releasing` on nodes that are up and not draining (available()).
///
/// Eligibility: a job may name a GPU type and a pool. A gang never mixes GPU types; within one type it may span pools.
/// A job that names no pool runs in the pool "training" if the cluster has one, otherwise outside the pool "serving".
/// Where the cluster names no types (or no pools) at all, it does not tell them apart, and those that jobs name count
/// for nothing. Replicas of services run in the pool "serving" if the cluster has one, otherwise anywhere. Lending
/// widens this: `pooled` lets training and serving use both pools, `partitioned` lets training use both.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/cluster.h"
#include "ebb/model/job.h"
#include "ebb/model/service.h"
#include "ebb/sched/free_index.h"

namespace ebb::sched {

/// Who holds GPUs or is promised some: a job, or a replica of a service.
struct Holder {
  enum class Kind : std::uint8_t { job, replica };
  Kind kind = Kind::job;
  std::uint32_t id = 0;  ///< JobId or ReplicaId

  static Holder job(JobId id) { return {Kind::job, id}; }
  static Holder replica(ReplicaId id) { return {Kind::replica, id}; }
  bool operator==(const Holder&) const = default;
};
/// Promises that came true: whose, and how many GPUs.
using MetPromises = std::vector<std::pair<Holder, GpuCount>>;

/// Jobs with the same gang size and the same eligible groups are interchangeable to a placement: one class.
using ClassId = std::uint32_t;

struct JobClass {
  GpuCount gpus = 0;  ///< gang size; of a job that is not rigid: what it asks for, or the most that the cluster holds
  GpuCount smallest = 0;           ///< least legal size; `gpus` of a rigid job
  std::vector<GroupMask> options;  ///< one a GPU type that the job may use, in order of the cluster
  GpuCount largest = 0;            ///< GPUs of the largest option when the cluster is empty and whole

  bool possible() const { return smallest <= largest; }
};

class Capacity {
 public:
  explicit Capacity(ClusterSpec spec, Lending lending = Lending::none);

  const ClusterSpec& spec() const { return spec_; }
  GpuCount total_gpus() const { return total_gpus_; }
  GpuCount type_gpus(std::size_t type) const { return type_gpus_[type]; }
  std::size_t type_count() const { return type_gpus_.size(); }
  std::size_t type_of_group(GroupId group) const { return group_type_[group]; }
  const FreeIndex& free() const { return free_; }

  Lending lending() const { return lending_; }
  /// The groups that replicas may use, and those whose GPUs count as lent when they train.
  GroupMask serving_groups() const { return serving_groups_; }
  GroupMask lendable_groups() const { return lendable_groups_; }
  bool may_serve(NodeId node) const { return (serving_groups_ >> free_.group_of(node) & 1) != 0; }
  bool in_serving_pool(NodeId node) const { return (lendable_groups_ >> free_.group_of(node) & 1) != 0; }

  /// The class of a job; made when first seen.
  ClassId class_of(const JobSpec& job);
  const JobClass& job_class(ClassId id) const { return classes_[id]; }
  std::size_t class_count() const { return classes_.size(); }

  bool up(NodeId node) const { return nodes_[node].up; }
  bool draining(NodeId node) const { return nodes_[node].draining; }
  /// Up and not draining: something new may be placed on it.
  bool usable(NodeId node) const { return nodes_[node].up && !nodes_[node].draining; }
  void set_up(NodeId node, bool up);
  void set_draining(NodeId node, bool draining);
  GpuCount available(NodeId node) const { return free_.available(node); }
  GpuCount held(NodeId node) const { return nodes_[node].held; }
  GpuCount releasing(NodeId node) const { return nodes_[node].releasing; }
  GpuCount promised(NodeId node) const { return nodes_[node].promised; }
  /// GPUs of the group on nodes that are up and not draining, held or not.
  GpuCount usable_gpus(GroupId group) const { return group_usable_[group]; }
  /// Nodes that failed or are draining.
  std::size_t unusable_nodes() const { return unusable_nodes_; }

  /// How few nodes can hold `gpus` in the groups, counting every GPU of the nodes that are up and not draining as
  /// free; 0 if they cannot.
  std::size_t least_nodes(GroupMask groups, GpuCount gpus) const;

  /// Takes available GPUs for `holder`: free ones at once, the rest as promises. Returns how many were promised.
  GpuCount take(Holder holder, const Allocation& allocation);
  /// The holder was told to stop.
  void begin_release(const Allocation& allocation);
  /// The GPUs are confirmed free. `releasing` tells whether begin_release() came before. Promises on these nodes are
  /// met in the order in which they were made; each one met is appended to `met`.
  void release(const Allocation& allocation, bool releasing, MetPromises& met);
  /// Gives up what `holder` took, including promises not met yet.
  void cancel(Holder holder, const Allocation& allocation, MetPromises& met);

 private:
  struct Node {
    GpuCount total = 0;
    GpuCount held = 0;
    GpuCount releasing = 0;
    GpuCount promised = 0;
    bool up = true;
    bool draining = false;
  };
  struct Promise {
    Holder holder;
    NodeId node = 0;
    GpuCount gpus = 0;
  };

  void refresh(NodeId node);
  void count_usable(NodeId node, bool usable);
  void give_back(NodeId node, GpuCount gpus, bool releasing, MetPromises& met);

  ClusterSpec spec_;
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, std::string>> group_names_;  // (type, pool)
  std::vector<std::size_t> group_type_;
  std::vector<GroupMask> type_groups_;
  std::vector<GpuCount> type_gpus_;
  std::vector<GpuCount> group_gpus_;
  std::vector<std::vector<std::uint32_t>> usable_nodes_of_size_;  // by group, by total GPUs: nodes up, not draining
  std::vector<GpuCount> group_usable_;
  std::size_t unusable_nodes_ = 0;
  GpuCount total_gpus_ = 0;
  Lending lending_;
  GroupMask all_groups() const { return (GroupMask{1} << (group_names_.size() - 1) << 1) - 1; }

  GroupMask training_groups_ = 0;  // where jobs that name no pool run when nothing is lent
  GroupMask serving_groups_ = 0;
  GroupMask lendable_groups_ = 0;
  FreeIndex free_;
  std::vector<JobClass> classes_;
  std::vector<std::pair<std::tuple<GpuCount, GpuCount, GpuCount, GpuCount, GroupMask>, ClassId>>
      class_index_;                // sorted
  std::vector<Promise> promises_;  // oldest first; empty nearly always
};

}  // namespace ebb::sched
