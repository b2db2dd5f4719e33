#include "ebb/control/launch.h"

#include <fmt/format.h>

#include <algorithm>

namespace ebb::control {

WorkerSpec make_worker(const ClusterSpec& cluster, const JobEntry& job, JobId id, std::size_t rank) {
  const JobRequest& request = *job.request;
  const StartRequested& placed = job.workers[rank].placed;
  // Ranks are given node by node.
  std::vector<NodeId> nodes;
  std::size_t local_rank = 0;
  std::size_t local_size = 0;
  for (std::size_t other = 0; other < job.workers.size(); ++other) {
    const NodeId node = job.workers[other].placed.node;
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
    if (node != placed.node) continue;
    if (other < rank) ++local_rank;
    ++local_size;
  }
  const auto group = std::find(nodes.begin(), nodes.end(), placed.node) - nodes.begin();

  WorkerSpec spec;
  spec.id = placed.worker;
  spec.node = placed.node;
  spec.slots = placed.slots;
  spec.fence = placed.fence;
  spec.command = request.command;
  for (const auto& [name, value] : request.environment) spec.environment.push_back(name + "=" + value);
  const auto set = [&](const char* name, const auto& value) {
    spec.environment.push_back(fmt::format("{}={}", name, value));
  };
  set("RANK", rank);
  set("WORLD_SIZE", job.workers.size());
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", local_size);
  set("GROUP_RANK", group);
  set("MASTER_ADDR", nodes.size() == 1 ? "127.0.0.1" : cluster.nodes[nodes.front()].name);
  set("MASTER_PORT", placed.port);
  set("EBB_JOB_ID", id);
  set("EBB_JOB_NAME", request.name);
  set("EBB_INCARNATION", job.incarnation);
  if (!request.checkpoint_folder.empty()) set("EBB_CHECKPOINT_DIR", request.checkpoint_folder);
  if (job.array_index) set("EBB_ARRAY_INDEX", *job.array_index);
  spec.working_directory = request.working_directory;
  spec.memory_bytes = request.memory_bytes;
  spec.time_limit = request.time_limit;
  spec.contract = request.elasticity == Elasticity::contract;
  spec.grace_time = request.grace_time;
  return spec;
}

}  // namespace ebb::control
