#pragma once

/// Rows of genomes: immutable, made once, known by number, shared by all genomes of a search.

#include <span>
#include <vector>

#include "ebb/policies/pollux/search_values.h"

namespace ebb::policies::pollux {

using RowId = std::uint32_t;

struct Row {
  std::uint32_t first = 0;
  std::uint32_t count = 0;  ///< nodes
  GpuCount gpus = 0;
  double cost = 0;         ///< see Values
  std::uint64_t hash = 0;  ///< of job and shares
};

class Rows {
 public:
  explicit Rows(const Values& values) : values_(values) {}

  const Row& operator[](RowId id) const { return rows_[id]; }
  std::span<const NodeShare> shares(RowId id) const { return {shares_.data() + rows_[id].first, rows_[id].count}; }

  /// `shares`: sorted by node, none empty, of a legal size (see Values::cost).
  RowId add(std::size_t job, std::span<const NodeShare> shares) {
    Row row{static_cast<std::uint32_t>(shares_.size()), static_cast<std::uint32_t>(shares.size()), 0, 0,
            mix(job + 0x9e3779b97f4a7c15ULL)};
    for (const NodeShare& share : shares) {
      row.gpus += share.gpus;
      row.hash = mix(row.hash ^ (std::uint64_t{share.node} << 32 | static_cast<std::uint32_t>(share.gpus)));
    }
    row.cost = values_.cost(job, shares, row.gpus);
    shares_.insert(shares_.end(), shares.begin(), shares.end());
    rows_.push_back(row);
    return static_cast<RowId>(rows_.size() - 1);
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  const Values& values_;
  std::vector<Row> rows_;
  std::vector<NodeShare> shares_;
};

}  // namespace ebb::policies::pollux
