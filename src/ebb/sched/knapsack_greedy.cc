#include "ebb/sched/knapsack_greedy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>

#include "ebb/base/check.h"

namespace ebb::sched {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int kRepairs = 16;

double value_of(const KnapsackGroup& group, int units) {
  return units == 0 ? 0 : group.value[static_cast<std::size_t>(units) - 1];
}

int items(const KnapsackGroup& group, int capacity) {
  return std::min(static_cast<int>(group.value.size()), capacity);
}

// The corners of a group's upper concave envelope, from (0, 0) on, as far as it rises.
struct Corner {
  int units = 0;
  double value = 0;
};

void append_envelope(const KnapsackGroup& group, int capacity, std::vector<Corner>& corners) {
  const std::size_t first = corners.size();
  corners.push_back({0, 0});
  for (int w = 1; w <= items(group, capacity); ++w) {
    const double value = value_of(group, w);
    if (!(value > corners.back().value)) continue;
    // A corner at or under the line from the one before it to the new point is none.
    while (corners.size() - first >= 2) {
      const Corner& a = corners[corners.size() - 2];
      const Corner& b = corners.back();
      if ((b.value - a.value) * (w - a.units) > (value - a.value) * (b.units - a.units)) break;
      corners.pop_back();
    }
    corners.push_back({w, value});
  }
}

struct Head {
  double slope = 0;
  std::uint32_t group = 0;
  std::uint32_t corner = 0;  // the segment from this corner to the next one

  bool operator<(const Head& other) const { return slope != other.slope ? slope < other.slope : group > other.group; }
};

// The two best moves of different groups for one number of units.
struct Moves {
  struct Move {
    double gain = kNever;
    std::size_t group = SIZE_MAX;
  };
  std::array<Move, 2> best;

  void offer(double gain, std::size_t group) {
    if (gain > best[0].gain) {
      if (best[0].group != group) best[1] = best[0];
      best[0] = {gain, group};
    } else if (group != best[0].group && gain > best[1].gain) {
      best[1] = {gain, group};
    }
  }
};

class Repair {
 public:
  Repair(std::span<const KnapsackGroup> groups, int capacity, KnapsackEstimate& estimate, int left)
      : groups_(groups), capacity_(capacity), estimate_(estimate), left_(left) {
    int most = 0;
    for (const KnapsackGroup& group : groups) most = std::max(most, items(group, capacity));
    more_.resize(static_cast<std::size_t>(most) + 1);
    less_.resize(static_cast<std::size_t>(most) + 1);
  }

  void run() {
    for (int round = 0; round < kRepairs && improve(); ++round) {
    }
    take_for_nothing();
  }

 private:
  // As the exact solver, from the last group back: what is worth no less than nothing is taken while there is room.
  void take_for_nothing() {
    for (std::size_t i = groups_.size(); i-- > 0;) {
      if (estimate_.units[i] > 0) continue;
      for (int w = 1; w <= std::min(items(groups_[i], capacity_), left_); ++w) {
        if (value_of(groups_[i], w) < 0) continue;
        estimate_.units[i] = w;
        left_ -= w;
        break;
      }
    }
  }

  // The best move of one group, or of one that takes more and one that takes less.
  bool improve() {
    survey();
    double best = 0;
    const Moves::Move* take = nullptr;
    const Moves::Move* give = nullptr;
    int taken = 0;
    int given = 0;
    const int most = static_cast<int>(more_.size()) - 1;
    const auto consider = [&](const Moves::Move& more, int up, const Moves::Move* less, int down) {
      const double gain = more.gain + (less == nullptr ? 0 : less->gain);
      if (!(gain > best)) return;
      best = gain;
      take = &more;
      give = less;
      taken = up;
      given = down;
    };
    for (int up = 0; up <= most; ++up) {
      if (up <= left_) consider(more_[up].best[0], up, nullptr, 0);
      for (int down = std::max(up - left_, 1); down <= most; ++down) {
        for (const Moves::Move& more : more_[up].best) {
          for (const Moves::Move& less : less_[down].best) {
            if (more.group != less.group) consider(more, up, &less, down);
          }
        }
      }
    }
    // Gains below what sums of this size can resolve would only be undone again.
    if (take == nullptr || best <= 1e-12 * estimate_.bound) return false;
    estimate_.units[take->group] += taken;
    if (give != nullptr) estimate_.units[give->group] -= given;
    left_ += given - taken;
    return true;
  }

  // more_[d]: what d more units gain at best; less_[d]: what d fewer cost at least, as a negative gain.
  void survey() {
    std::fill(more_.begin(), more_.end(), Moves{});
    std::fill(less_.begin(), less_.end(), Moves{});
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const int has = estimate_.units[i];
      const double value = value_of(groups_[i], has);
      for (int w = 0; w <= items(groups_[i], capacity_); ++w) {
        if (w > has) more_[w - has].offer(value_of(groups_[i], w) - value, i);
        if (w < has) less_[has - w].offer(value_of(groups_[i], w) - value, i);
      }
    }
  }

  std::span<const KnapsackGroup> groups_;
  int capacity_;
  KnapsackEstimate& estimate_;
  int left_;
  std::vector<Moves> more_;
  std::vector<Moves> less_;
};

}  // namespace

KnapsackEstimate estimate_group_knapsack(std::span<const KnapsackGroup> groups, int capacity) {
  EBB_CHECK(capacity >= 0);
  KnapsackEstimate estimate;
  estimate.units.resize(groups.size());
  std::vector<Corner> corners;
  std::vector<std::uint32_t> first(groups.size() + 1);
  std::vector<Head> heads;
  const auto head = [&](std::uint32_t group, std::uint32_t corner) {
    const Corner& a = corners[corner];
    const Corner& b = corners[corner + 1];
    return Head{(b.value - a.value) / (b.units - a.units), group, corner};
  };
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    first[i] = static_cast<std::uint32_t>(corners.size());
    append_envelope(groups[i], capacity, corners);
    if (corners.size() - first[i] >= 2) heads.push_back(head(i, first[i]));
  }
  first[groups.size()] = static_cast<std::uint32_t>(corners.size());
  std::priority_queue<Head> queue(std::less<Head>(), std::move(heads));
  int left = capacity;
  bool broken = false;
  while (!queue.empty() && left > 0) {
    const Head top = queue.top();
    queue.pop();
    const int units = corners[top.corner + 1].units - corners[top.corner].units;
    if (units > left) {
      // The first segment that does not fit would be taken in part by the relaxation.
      if (!broken) {
        broken = true;
        estimate.price = top.slope;
      }
      continue;
    }
    left -= units;
    estimate.units[top.group] = corners[top.corner + 1].units;
    if (top.corner + 2 < first[top.group + 1]) queue.push(head(top.group, top.corner + 1));
  }
  if (!broken && !queue.empty()) estimate.price = queue.top().slope;
  estimate.bound = estimate.price * capacity;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    double most = 0;
    for (std::size_t k = first[i]; k < first[i + 1]; ++k) {
      most = std::max(most, corners[k].value - estimate.price * corners[k].units);
    }
    estimate.bound += most;
  }
  Repair(groups, capacity, estimate, left).run();
  estimate.value = knapsack_value(groups, estimate.units);
  estimate.bound = std::max(estimate.bound, estimate.value);
  return estimate;
}

double knapsack_value(std::span<const KnapsackGroup> groups, std::span<const int> units) {
  double sum = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) sum += value_of(groups[i], units[i]);
  return sum;
}

}  // namespace ebb::sched
