#pragma once

/// What a row is worth: the term of its job in the power mean, as a cost to be minimised. Looked up in a table by
/// size and by whether the job is on one node.

#include <algorithm>
#include <span>
#include <vector>

#include "ebb/policies/pollux/search.h"

namespace ebb::policies::pollux {

class Values {
 public:
  explicit Values(const Problem& problem);

  /// The term of job `j` on these GPUs, sorted by node. `gpus` = their sum: 0 or legal, or the row is the present one.
  double cost(std::size_t j, std::span<const NodeShare> row, GpuCount gpus) const {
    return is_present(j, row) ? kept_[j] : changed(j, gpus, row.size() > 1);
  }
  /// The same for GPUs that are not the present ones.
  double changed(std::size_t j, GpuCount gpus, bool several) const {
    return tables_[j][2 * static_cast<std::size_t>(gpus) + (several ? 1 : 0)];
  }
  bool is_present(std::size_t j, std::span<const NodeShare> row) const {
    return std::equal(row.begin(), row.end(), present_[j].begin(), present_[j].end());
  }
  const Allocation& present(std::size_t j) const { return present_[j]; }

  /// The mean of a sum of terms.
  double mean(double sum) const;

 private:
  double term(const SearchJob& job, double speedup, double factor) const;

  double fairness_;
  double scale_;
  double weights_ = 0;
  std::vector<Allocation> present_;  // by node
  std::vector<double> kept_;
  std::vector<std::vector<double>> tables_;  // by job: 2 x size + (several nodes)
};

/// Linear between the points, constant before the first and after the last.
SpeedPoint speed_at(const std::vector<SpeedPoint>& points, GpuCount gpus);

inline void sort_by_node(Allocation& row) {
  std::sort(row.begin(), row.end(), [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
}

}  // namespace ebb::policies::pollux
