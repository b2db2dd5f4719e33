#pragma once

/// Clusters as one writes them on a command line: groups of nodes joined by '+', each NODESxGPUS[:TYPE][@POOL].
///
///   16x4                                         16 nodes of 4 GPUs
///   8x8:a100@training+4x4:t4@serving             two GPU types in two pools
///
/// Nodes are numbered over the whole cluster and called node-0000, node-0001, ... (as many digits as the last number
/// needs, at least four). Types and pools are made of letters, digits, '.', '_' and '-'.
///
/// Limits: 1 to 1,000,000 nodes, 1 to 4,096 GPUs a node, 10,000,000 GPUs and 64 different (type, pool) pairs in all.

#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/model/cluster.h"

namespace ebb::spec {

inline constexpr std::int64_t kMaxNodes = 1'000'000;
inline constexpr std::int64_t kMaxGpusPerNode = 4096;
inline constexpr std::int64_t kMaxClusterGpus = 10'000'000;
inline constexpr std::size_t kMaxGroups = 64;

/// Errors: invalid_argument that shows the text, points at what is wrong in it and gives the form.
Result<ClusterSpec> parse_cluster(std::string_view text);

/// The shortest text for the cluster: parse_cluster gives it back if its nodes have the names that parse_cluster gives.
std::string format_cluster(const ClusterSpec& cluster);

}  // namespace ebb::spec
