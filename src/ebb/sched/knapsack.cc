#include "ebb/sched/knapsack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ebb/base/check.h"
#include "ebb/sched/knapsack_greedy.h"

namespace ebb::sched {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
/// Capacities that are computed together, in registers.
constexpr int kLanes = 8;
/// Groups whose rows are kept or dropped together.
constexpr std::size_t kBlock = 64;
/// Cells that are kept at once: 64 MiB. Above, blocks are computed again on the way back.
constexpr std::size_t kCells = std::size_t{1} << 23;
/// Far above what rounding does to a sum of as many values, far below what makes the search wide.
constexpr double kSlack = 1e-11;
/// A loss of so much of a group's largest value is none: rounding.
constexpr double kTied = 1e-12;

struct Item {
  int units = 0;
  double value = 0;
};

/// Best value of the first groups for capacities first ..= last, and the value of `last` up to `end`. What lies outside
/// cannot lead to an optimum.
struct Row {
  int first = 0;
  int last = 0;
  int end = 0;
  std::size_t at = 0;  // of the value of `first` in the block's cells
};

struct Block {
  std::vector<Row> rows;  // before its first group, and after each one
  std::vector<double> cells;
  std::vector<double> start;  // the cells of its first row, kept for good
  bool kept = true;
};

/// Which sums of units the first groups can make, for every number of groups: one bit a sum, up to a largest one.
class Sums {
 public:
  Sums(std::size_t groups, int largest) : words_(words(largest)), bits_((groups + 1) * words_) { bits_[0] = 1; }

  static std::size_t words(int largest) { return static_cast<std::size_t>(largest) / 64 + 1; }

  bool can(std::size_t groups, int sum) const {
    return (bits_[groups * words_ + static_cast<std::size_t>(sum) / 64] >> (sum % 64) & 1) != 0;
  }

  /// The group after the first `groups` may take so many.
  void offer(std::size_t groups, int units) {
    const std::uint64_t* before = bits_.data() + groups * words_;
    std::uint64_t* after = bits_.data() + (groups + 1) * words_;
    const auto skip = static_cast<std::size_t>(units) / 64;
    const int shift = units % 64;
    for (std::size_t k = skip; k < words_; ++k) after[k] |= before[k - skip] << shift;
    if (shift == 0) return;
    for (std::size_t k = skip + 1; k < words_; ++k) after[k] |= before[k - skip - 1] >> (64 - shift);
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;  // groups x words_
};

class Search {
 public:
  Search(std::span<const KnapsackGroup> groups, int capacity) : capacity_(capacity) {
    const KnapsackEstimate estimate = estimate_group_knapsack(groups, capacity);
    price_ = estimate.price;
    const double slack = kSlack * (std::abs(estimate.bound) + std::abs(estimate.value));
    floor_ = estimate.value - slack;
    const double gap = estimate.bound - estimate.value + 2 * slack;
    // Without its price a group's best item; what is left of that after the first i groups bounds what they can add.
    std::vector<double> best(groups.size());
    first_item_.push_back(0);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      double largest = 0;
      for (int w = 1; w <= most(groups[i]); ++w) {
        best[i] = std::max(best[i], net(groups[i], w));
        largest = std::max(largest, groups[i].value[static_cast<std::size_t>(w) - 1]);
      }
      const auto offer = [&](int units, double value, double loss) {
        if (loss > gap) return;
        items_.push_back({units, value});
        tied_ = tied_ && loss <= kTied * largest;
      };
      for (int w = 1; w <= most(groups[i]); ++w) {
        offer(w, groups[i].value[static_cast<std::size_t>(w) - 1], best[i] - net(groups[i], w));
      }
      offer(0, 0, best[i]);
      first_item_.push_back(items_.size());
    }
    ahead_.resize(groups.size() + 1);
    limit_.assign(groups.size() + 1, capacity);
    most_ahead_.resize(groups.size() + 1);
    for (std::size_t i = groups.size(); i-- > 0;) {
      const auto [least, largest] = std::minmax_element(items_of(i).begin(), items_of(i).end(), fewer_units);
      ahead_[i] = ahead_[i + 1] + best[i];
      limit_[i] = limit_[i + 1] - least->units;
      most_ahead_[i] = most_ahead_[i + 1] + largest->units;
    }
  }

  std::vector<int> solve() {
    const std::size_t groups = first_item_.size() - 1;
    const bool small = (groups + 1) * Sums::words(limit_[0]) <= kCells;
    return tied_ && price_ > 0 && small ? solve_tied(groups) : solve_table(groups);
  }

 private:
  // No item that is left loses anything: a choice is an optimum if it takes as many units as such items can make. Units
  // are counted beyond the least that each group takes.
  std::vector<int> solve_tied(std::size_t groups) const {
    Sums sums(groups, limit_[0]);
    for (std::size_t i = 0; i < groups; ++i) {
      for (const Item& item : items_of(i)) sums.offer(i, item.units - least(i));
    }
    int left = limit_[0];
    while (!sums.can(groups, left)) --left;
    std::vector<int> units(groups);
    for (std::size_t i = groups; i-- > 0;) {
      const auto taken = std::find_if(items_of(i).begin(), items_of(i).end(), [&](const Item& item) {
        const int beyond = item.units - least(i);
        return beyond <= left && sums.can(i, left - beyond);
      });
      units[i] = taken->units;
      left -= units[i] - least(i);
    }
    return units;
  }

  std::vector<int> solve_table(std::size_t groups) {
    blocks_.resize((groups + kBlock - 1) / kBlock);
    Row row{.first = 0, .last = 0, .end = limit_[0], .at = 0};
    std::vector<double> cells{0.0};
    trim(row, cells, 0);
    std::size_t kept = 0;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].start = cells;
      blocks_[b].rows.assign(1, row);
      fill(b);
      row = blocks_[b].rows.back();
      const auto from = blocks_[b].cells.begin() + static_cast<std::ptrdiff_t>(row.at);
      cells.assign(from, from + (row.last - row.first + 1));
      row.at = 0;
      kept += blocks_[b].cells.size();
      if (kept > kCells) drop(b);
    }
    std::vector<int> units(groups);
    int left = capacity_;
    for (std::size_t i = groups; i-- > 0;) {
      const std::size_t b = i / kBlock;
      if (!blocks_[b].kept) fill(b);
      units[i] = choose(i, left);
      left -= units[i];
      if (i % kBlock == 0) drop(b);
    }
    return units;
  }

  static bool fewer_units(const Item& a, const Item& b) { return a.units < b.units; }
  std::span<const Item> items_of(std::size_t i) const {
    return std::span(items_).subspan(first_item_[i], first_item_[i + 1] - first_item_[i]);
  }
  int least(std::size_t i) const { return limit_[i + 1] - limit_[i]; }
  int most(const KnapsackGroup& group) const { return std::min(static_cast<int>(group.value.size()), capacity_); }
  double net(const KnapsackGroup& group, int units) const {
    return group.value[static_cast<std::size_t>(units) - 1] - price_ * units;
  }
  // Whether a choice of the first i groups that is worth so much within capacity c may be part of an optimum.
  bool hopeful(double value, std::size_t i, int c) const {
    return value + ahead_[i] + price_ * std::min(capacity_ - c, most_ahead_[i]) >= floor_;
  }

  void drop(std::size_t b) {
    blocks_[b].cells = {};
    blocks_[b].rows.resize(1);
    blocks_[b].kept = false;
  }

  // The rows of a block from its first one.
  void fill(std::size_t b) {
    Block& block = blocks_[b];
    block.cells = block.start;
    block.kept = true;
    std::vector<double> after;
    const std::size_t end = std::min((b + 1) * kBlock, first_item_.size() - 1);
    for (std::size_t i = b * kBlock; i < end; ++i) {
      Row row = advance(block, i, after);
      trim(row, after, i + 1);
      row.at = block.cells.size();
      block.cells.insert(block.cells.end(), after.begin(), after.end());
      block.rows.push_back(row);
    }
  }

  Row advance(const Block& block, std::size_t i, std::vector<double>& after) {
    const Row& row = block.rows.back();
    const std::span<const Item> items = items_of(i);
    const int largest = most_ahead_[i] - most_ahead_[i + 1];
    Row next;
    next.first = std::min(row.first + least(i), limit_[i + 1]);
    next.last = std::min(row.last + largest, limit_[i + 1]);
    next.end = row.end == limit_[i] ? limit_[i + 1] : next.last;
    // The row with its flat part as far as it is read, between cells of -infinity.
    const auto margin = static_cast<std::size_t>(largest);
    const auto width = static_cast<std::size_t>(row.last - row.first + 1);
    const auto flat = static_cast<std::size_t>(std::min(row.end - row.last, largest - least(i)));
    before_.assign(margin + width + flat + margin + kLanes, kNever);
    const auto from = block.cells.begin() + static_cast<std::ptrdiff_t>(row.at);
    std::copy(from, from + static_cast<std::ptrdiff_t>(width), before_.begin() + static_cast<std::ptrdiff_t>(margin));
    std::fill_n(before_.begin() + static_cast<std::ptrdiff_t>(margin + width), flat, block.cells[row.at + width - 1]);
    const int count = next.last - next.first + 1;
    after.resize(static_cast<std::size_t>(count + kLanes));
    // before_[c - row.first + margin] is the value at capacity c.
    const double* zero = before_.data() + margin + (next.first - row.first);
    for (int c = 0; c < count; c += kLanes) {
      std::array<double, kLanes> best;
      best.fill(kNever);
      for (const Item& item : items) {
        const double* source = zero + c - item.units;
        for (int k = 0; k < kLanes; ++k) {
          const double with = source[k] + item.value;
          best[k] = with > best[k] ? with : best[k];
        }
      }
      std::copy(best.begin(), best.end(), after.begin() + c);
    }
    after.resize(static_cast<std::size_t>(count));
    return next;
  }

  // Takes off what cannot lead to an optimum and what is flat at the end.
  void trim(Row& row, std::vector<double>& cells, std::size_t i) const {
    const auto hopeful_cell = [&](std::size_t k) { return hopeful(cells[k], i, row.first + static_cast<int>(k)); };
    std::size_t to = cells.size();
    if (row.end == limit_[i] && hopeful(cells.back(), i, limit_[i])) {
      while (to > 1 && cells[to - 2] == cells[to - 1]) --to;
      row.last = row.first + static_cast<int>(to) - 1;
    } else {
      for (; row.last < row.end && hopeful(cells.back(), i, row.last + 1); ++row.last) cells.push_back(cells.back());
      to = cells.size();
      while (to > 1 && !hopeful_cell(to - 1)) --to;
      row.last = row.first + static_cast<int>(to) - 1;
      row.end = row.last;
    }
    std::size_t from = 0;
    while (from + 1 < to && !hopeful_cell(from)) ++from;
    row.first += static_cast<int>(from);
    cells.resize(to);
    cells.erase(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(from));
  }

  static double value_at(const Block& block, const Row& row, int c) {
    if (c < row.first || c > row.end) return kNever;
    return block.cells[row.at + static_cast<std::size_t>(std::min(c, row.last) - row.first)];
  }

  // The same sums as in advance(), so that equality is exact. Items are in order of preference.
  int choose(std::size_t i, int left) const {
    const Block& block = blocks_[i / kBlock];
    const Row& before = block.rows[i % kBlock];
    const double best = value_at(block, block.rows[i % kBlock + 1], left);
    for (std::size_t k = first_item_[i]; k < first_item_[i + 1]; ++k) {
      if (value_at(block, before, left - items_[k].units) + items_[k].value == best) return items_[k].units;
    }
    EBB_CHECK(false);
    return 0;
  }

  int capacity_;
  double price_ = 0;
  double floor_ = 0;
  std::vector<double> ahead_;            // by number of groups done: what the others can be worth beyond the price
  std::vector<int> most_ahead_;          // units that the others can take
  std::vector<int> limit_;               // units that they leave: no item that is left to them takes fewer
  bool tied_ = true;                     // no item loses anything against the relaxation
  std::vector<Item> items_;              // of each group, those that an optimum may have
  std::vector<std::size_t> first_item_;  // by group
  std::vector<Block> blocks_;
  std::vector<double> before_;
};

}  // namespace

std::vector<int> solve_group_knapsack(std::span<const KnapsackGroup> groups, int capacity) {
  EBB_CHECK(capacity >= 0);
  if (groups.empty()) return {};
  return Search(groups, capacity).solve();
}

}  // namespace ebb::sched
