#pragma once

/// A plan of elastic policies: which GPUs every training job shall have from now on. plan_view() says what there is to
/// plan with, commit_plan() turns the plan into decisions: sleeping replicas that are in the way stop, jobs without
/// GPUs are preempted, running ones resized all at once, waiting ones started.
///
/// Lists of GPUs keep the order in which the policy built them: the order of ranks.

#include <utility>
#include <vector>

#include "ebb/sched/policy.h"

namespace ebb::sched {

struct PlanView {
  std::vector<JobId> jobs;          ///< training jobs that wait or run, in order of submission
  std::vector<GpuCount> node_gpus;  ///< by node: what training may have, with all that `jobs` hold now counted as free
  GpuCount total = 0;               ///< sum of node_gpus
};

/// Jobs that are held, starting, resizing or stopping, replicas that serve or are protected, and nodes that failed or
/// drain are left out, with their GPUs. Nodes that no waiting or running job may use have 0.
PlanView plan_view(const State& state, Time now);

using TrainingPlan = std::vector<std::pair<JobId, Allocation>>;  ///< one entry for every job of the view

/// Takes GPUs for a job from `left` (by node): the fullest-free node as a whole again and again until one node holds
/// the rest, then the tightest such node (lowest first). Only nodes that the job may use, of one GPU type. Less than
/// `gpus` if there is not enough.
Allocation place_packed(const State& state, JobId job, GpuCount gpus, std::vector<GpuCount>& left);
/// The same, but always all that is wanted and there from the node with most free GPUs (lowest first).
Allocation place_emptiest(const State& state, JobId job, GpuCount gpus, std::vector<GpuCount>& left);
/// The same in groups that the caller chose: those of one GPU type.
Allocation place_packed_in(const State& state, GroupMask groups, GpuCount gpus, std::vector<GpuCount>& left);
Allocation place_emptiest_in(const State& state, GroupMask groups, GpuCount gpus, std::vector<GpuCount>& left);

/// Cuts from the end of the list until the size is legal; nothing is left if no size is.
void cut_to_legal(const JobSpec& spec, Allocation& allocation);

/// Carries the plan out. Allocations of illegal size are cut to the next legal one, from their end. With
/// Turn::serving().strip, training leaves every node that hosts a replica; where nobody trains, sleeping ones stop.
void commit_plan(Turn& turn, TrainingPlan plan);

}  // namespace ebb::sched
