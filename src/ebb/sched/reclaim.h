#pragma once

/// Finds GPUs for replicas within one step: free ones, those of sleeping replicas, and those taken back from training
/// (ServingOptions::reclaim). Works on a picture of the nodes until commit() turns it into decisions, so that several
/// replicas of one step may take GPUs of the same job.
///
/// Taking from training goes by reduction steps: an elastic job to its next smaller legal size; a job at its smallest,
/// or a rigid gang, only as a whole, and then all that it frees is offered at once. What a step loses is the speed-up
/// that the job loses by it. Where the policy sizes no jobs, all are taken whole, and it is the GPU-seconds of useful
/// work since the job's last start: what it has done since its last checkpoint, as far as the scheduler can tell. (With
/// ServingOptions::allow_rigid_shrink it is the speed-up there too: DeepBoot's rule, which its presets keep.) Under
/// policies that size jobs a rigid gang counts with its speed-up, as the others do: seconds of work and speed-ups
/// cannot be compared. Cost of the first replica: one estimate for each (job, node) pair of training, cached by the
/// estimator. What a node would lose is kept until one of its jobs changes, so that each further replica costs a look
/// at every node.

#include <optional>
#include <vector>

#include "ebb/base/random.h"
#include "ebb/sched/policy.h"

namespace ebb::sched {

class GpuFinder {
 public:
  GpuFinder(Turn& turn, Random& random);

  /// A node of the serving pool with `gpus` GPUs, which are then taken; nullopt if there is none.
  std::optional<NodeId> find(GpuCount gpus);
  /// Stops sleepers, preempts and resizes jobs: what find() took is available afterwards.
  void commit();

 private:
  struct Job {
    JobId id = 0;
    Allocation allocation;  // as planned; empty: preempted
    bool changed = false;
    bool shrinkable = false;
    double value = 0;  // what losing all of `allocation` costs
  };
  /// What it costs to take so many GPUs from the training of a node.
  struct Loss {
    GpuCount missing = 0;
    double loss = 0;
    std::size_t job = 0;  // the one that comes first among those that may lose them
  };
  struct Node {
    GpuCount free = 0;
    GpuCount training = 0;
    std::vector<ReplicaId> sleepers;
    std::vector<std::size_t> jobs;  // indices of jobs_ on it, in order of jobs_
    std::optional<Loss> known;      // as long as none of `jobs` changes
  };
  /// One reduction of a job: what remains of it, and what that costs.
  struct Step {
    std::size_t job = 0;
    Allocation rest;
    GpuCount freed_here = 0;
    double loss = 0;
  };

  std::optional<NodeId> search(GpuCount gpus);
  GpuCount asleep(const Node& node) const;
  void take(NodeId node, GpuCount gpus);
  void evict(NodeId node, GpuCount gpus);
  Step reduce(std::size_t job, NodeId node) { return reduce(jobs_[job], job, node); }
  Step reduce(const Job& job, std::size_t index, NodeId node);
  double loss_of(std::size_t job, NodeId node);
  double loss_of_all(NodeId node, GpuCount missing);
  Loss least_loss(NodeId node, GpuCount missing);
  void apply(const Step& step);
  std::optional<NodeId> with_least_loss(GpuCount gpus);
  std::optional<NodeId> with_largest_sum();
  std::optional<NodeId> whole_node(GpuCount gpus);
  std::optional<NodeId> at_random(GpuCount gpus);
  std::optional<NodeId> first_fit(GpuCount gpus);
  void reduce_until(NodeId node, GpuCount gpus);
  void clear_training(NodeId node);
  void take_from_training(NodeId node, GpuCount gpus);

  Turn& turn_;
  Random& random_;
  std::vector<Job> jobs_;  // running training jobs, by (attained service, submission)
  std::vector<Node> nodes_;
  std::vector<NodeId> order_;      // serving nodes, fewest training GPUs first (whole nodes, first fit: by index)
  std::vector<NodeId> elsewhere_;  // likewise, those where nothing is looked for before order_ has nothing more
  std::vector<ReplicaId> evicted_;
};

}  // namespace ebb::sched
