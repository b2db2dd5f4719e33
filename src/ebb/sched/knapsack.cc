#include "ebb/sched/knapsack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "ebb/base/check.h"

namespace ebb::sched {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
/// Capacities that are computed together, in registers.
constexpr int kLanes = 8;
/// Cells of the table that are kept at once: 64 MiB. Above, rows are computed again on the way back.
constexpr std::size_t kCells = std::size_t{1} << 23;

/// Rows of the dynamic program: row i holds the best value of the first i groups for each capacity. Each is preceded by
/// `margin_` cells of -infinity, where no item fits, and rounded up to whole lanes.
class Table {
 public:
  Table(std::span<const KnapsackGroup> groups, int capacity) : groups_(groups), capacity_(capacity) {
    std::size_t most = 0;
    for (const KnapsackGroup& group : groups)
      most = std::max(most, std::min<std::size_t>(group.value.size(), capacity));
    margin_ = most;
    stride_ = margin_ + (static_cast<std::size_t>(capacity) / kLanes + 1) * kLanes;
    const std::size_t rows = groups.size() + 1;
    kept_ = std::clamp<std::size_t>(kCells / stride_, 2, std::max<std::size_t>(rows, 2));
    cells_.assign(kept_ * stride_, kNever);
    // One row every so many is kept for good, so that the rows between two of them can be computed again.
    if (rows > kept_) {
      every_ = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(rows))));
      marks_.assign((rows / every_ + 1) * stride_, kNever);
      kept_ = every_ + 1;
      cells_.assign(kept_ * stride_, kNever);
    } else {
      every_ = rows;
    }
  }

  std::vector<int> solve() {
    std::fill_n(row(0) + margin_, stride_ - margin_, 0.0);
    for (std::size_t first = 0; first < groups_.size(); first += every_) {
      if (first > 0) std::copy_n(row(every_), stride_, row(0));
      mark(first);
      fill_block(first, capacity_);
    }
    std::vector<int> units(groups_.size());
    int left = capacity_;
    for (std::size_t i = groups_.size(); i-- > 0;) {
      const std::size_t first = i / every_ * every_;
      if (i % every_ == every_ - 1 && i + 1 < groups_.size()) {
        std::copy_n(&marks_[first / every_ * stride_], stride_, row(0));
        fill_block(first, left);
      }
      units[i] = fewest_units(i, row(i - first), row(i - first + 1)[margin_ + static_cast<std::size_t>(left)], left);
      left -= units[i];
    }
    return units;
  }

 private:
  double* row(std::size_t i) { return &cells_[i * stride_]; }

  void mark(std::size_t first) {
    if (!marks_.empty()) std::copy_n(row(0), stride_, &marks_[first / every_ * stride_]);
  }

  // The rows of the groups from `first` to the next mark, for capacities up to `limit`. Beyond the most that all groups
  // up to here can use, a row is flat.
  void fill_block(std::size_t first, int limit) {
    const std::size_t end = std::min(first + every_, groups_.size());
    std::size_t useful = 0;
    for (std::size_t i = 0; i < first; ++i) useful += groups_[i].value.size();
    for (std::size_t i = first; i < end; ++i) {
      useful = std::min(useful + groups_[i].value.size(), static_cast<std::size_t>(capacity_));
      const auto top = std::min(static_cast<int>(useful), limit);
      double* after = row(i - first + 1);
      fill_row(groups_[i].value, row(i - first) + margin_, after + margin_, top);
      std::fill(after + margin_ + top + 1, after + stride_, after[margin_ + static_cast<std::size_t>(top)]);
    }
  }

  void fill_row(const std::vector<double>& value, const double* before, double* after, int top) const {
    const std::size_t items = std::min(value.size(), margin_);
    for (int c = 0; c <= top; c += kLanes) {
      std::array<double, kLanes> best;
      for (int k = 0; k < kLanes; ++k) best[k] = before[c + k];
      for (std::size_t w = 1; w <= items; ++w) {
        const double gain = value[w - 1];
        const double* from = before + c - w;
        for (int k = 0; k < kLanes; ++k) {
          const double with = from[k] + gain;
          best[k] = with > best[k] ? with : best[k];
        }
      }
      for (int k = 0; k < kLanes; ++k) after[c + k] = best[k];
    }
  }

  // The same sums as in fill_row(), so that equality is exact.
  int fewest_units(std::size_t i, const double* before, double best, int left) const {
    const std::vector<double>& value = groups_[i].value;
    const int items = std::min(static_cast<int>(std::min(value.size(), margin_)), left);
    for (int w = 1; w <= items; ++w) {
      if (value[static_cast<std::size_t>(w) - 1] == kNever) continue;
      if (before[margin_ + static_cast<std::size_t>(left - w)] + value[static_cast<std::size_t>(w) - 1] == best)
        return w;
    }
    return 0;
  }

  std::span<const KnapsackGroup> groups_;
  int capacity_;
  std::size_t margin_ = 0;
  std::size_t stride_ = 0;
  std::size_t kept_ = 0;   // rows in cells_
  std::size_t every_ = 0;  // groups of a block
  std::vector<double> cells_;
  std::vector<double> marks_;  // the row before each block, if not all rows are kept
};

}  // namespace

std::vector<int> solve_group_knapsack(std::span<const KnapsackGroup> groups, int capacity) {
  EBB_CHECK(capacity >= 0);
  if (groups.empty()) return {};
  return Table(groups, capacity).solve();
}

}  // namespace ebb::sched
