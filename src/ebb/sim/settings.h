#pragma once

/// The settings of a run in words: what a reader needs to judge the figures, or to make them again.

#include <string>
#include <utility>
#include <vector>

#include "ebb/sched/options.h"
#include "ebb/sim/simulator.h"

namespace ebb::sim {

/// `policy_values` and `sim_values`: all options with their effective values.
std::vector<std::pair<std::string, std::string>> settings_of(const ClusterSpec& cluster, const Workload& workload,
                                                             const SimOptions& options,
                                                             const sched::Options& policy_values,
                                                             const sched::Options& sim_values);

}  // namespace ebb::sim
