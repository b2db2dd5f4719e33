#pragma once

/// The header of a simulator's journal: all that a replay needs beside the events.

#include <string>

#include "ebb/base/result.h"
#include "ebb/model/cluster.h"
#include "ebb/sim/simulator.h"

namespace ebb::sim {

/// A JSON object for trace::JournalWriter.
std::string journal_header(const ClusterSpec& cluster, const Workload& workload, const SimOptions& options);

struct ReplaySetup {
  ClusterSpec cluster;
  SimOptions options;  ///< policy, set, time (by its quantum), lending, profiles and seed
  bool profiles = false;
};
/// Errors: invalid_argument for a header that this simulator did not write.
Result<ReplaySetup> parse_journal_header(const std::string& header);

}  // namespace ebb::sim
