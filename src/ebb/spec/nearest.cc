#include "ebb/spec/nearest.h"

#include <algorithm>
#include <array>

namespace ebb::spec {
namespace {

constexpr std::size_t kMost = 64;

// Optimal string alignment distance, three rows at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::array<std::array<std::size_t, kMost + 1>, 3> rows{};
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const auto& above = rows[(i - 1) % 3];
    auto& row = rows[i % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], rows[(i - 2) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = kMost + 1;
  if (word.size() > kMost) return best;
  for (const std::string_view candidate : known) {
    if (candidate.size() > kMost) continue;
    const std::size_t d = distance(word, candidate);
    const std::size_t near = std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (d <= near && d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace ebb::spec
