#pragma once

/// For tests: clusters and jobs in a line.

#include <string>

#include "ebb/model/cluster.h"
#include "ebb/model/job.h"

namespace ebb::sched {

inline void add_nodes(ClusterSpec& cluster, std::size_t nodes, GpuCount gpus, const std::string& type = "",
                      const std::string& pool = "") {
  for (std::size_t n = 0; n < nodes; ++n) {
    cluster.nodes.push_back({fmt::format("node-{:04}", cluster.nodes.size()), gpus, type, pool});
  }
}

inline ClusterSpec test_cluster(std::size_t nodes, GpuCount gpus) {
  ClusterSpec cluster;
  add_nodes(cluster, nodes, gpus);
  return cluster;
}

inline JobSpec test_job(GpuCount gpus, int run_s = 100, const std::string& tenant = "") {
  JobSpec job;
  job.gpus = gpus;
  job.run_time = std::chrono::seconds(run_s);
  job.tenant = tenant;
  return job;
}

inline Time at(int seconds) {
  return Time(std::chrono::seconds(seconds));
}

}  // namespace ebb::sched
