#include "ebb/perf/delaunay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

extern "C" {
#include <libqhull_r/qhull_ra.h>
}

namespace ebb::perf {
namespace {

/// Room for rounding of a barycentric coordinate, and on the side of a neighbour without volume.
constexpr double kRoom = 100 * std::numeric_limits<double>::epsilon();
constexpr double kBroadRoom = 0x1p-26;
/// Of the determinant of three differences: six products.
constexpr double kLargestVolume = 9e18 / 6;
/// So that even the broad room reaches less than one unit, the next integer, out of the box around a simplex.
constexpr double kLargestSide = 0x1p25;

/// The options of SciPy: lifted (d), last coordinate scaled (Qbb), coplanar points kept (Qc), a point at infinity for
/// grids (Qz), wide facets allowed (Q12), facets of more than four vertices cut into simplices (Qt).
constexpr char kOptions[] = "qhull d Qbb Qc Qz Q12 Qt";

using Point = Delaunay::Point;

Point difference(const Point& a, const Point& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

std::int64_t dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/// Whether four of the points span a volume.
bool solid(std::span<const Point> points) {
  const Point none{};
  Point line{};
  Point normal{};
  for (const Point& point : points) {
    const Point to = difference(point, points.front());
    if (line == none) {
      line = to;
    } else if (normal == none) {
      normal = cross(line, to);
    } else if (dot(normal, to) != 0) {
      return true;
    }
  }
  return false;
}

/// libqhull's state and what it wrote about an error.
class Qhull {
 public:
  Qhull() : errors_(open_memstream(&text_, &length_)) {}
  Qhull(const Qhull&) = delete;
  Qhull& operator=(const Qhull&) = delete;
  ~Qhull() {
    if (ran_) {
      qh_freeqhull(state_.get(), !qh_ALL);
      int long_blocks = 0;
      int long_bytes = 0;
      qh_memfreeshort(state_.get(), &long_blocks, &long_bytes);
    }
    if (errors_ != nullptr) std::fclose(errors_);
    std::free(text_);
  }

  Result<void> run(std::span<const Point> points) {
    if (errors_ == nullptr) return fail(ErrorCode::resource_exhausted, "no memory for a triangulation");
    for (const Point& point : points) {
      for (const std::int64_t value : point) coordinates_.push_back(static_cast<coordT>(value));
    }
    std::string options = kOptions;
    qh_zero(state_.get(), errors_);
    ran_ = true;
    const int code = qh_new_qhull(state_.get(), 3, static_cast<int>(points.size()), coordinates_.data(), False,
                                  options.data(), nullptr, errors_);
    if (code == 0) return {};
    std::fflush(errors_);
    return fail(ErrorCode::internal, "libqhull cannot triangulate {} points (code {}): {}", points.size(), code,
                std::string(text_, length_));
  }

  qhT& operator*() const { return *state_; }
  qhT* operator->() const { return state_.get(); }

 private:
  std::unique_ptr<qhT> state_ = std::make_unique<qhT>();
  std::vector<coordT> coordinates_;  // libqhull keeps pointing at them
  bool ran_ = false;
  char* text_ = nullptr;
  std::size_t length_ = 0;
  std::FILE* errors_;
};

template <typename T>
T* element(const setT& set, int index) {
  return static_cast<T*>(set.e[index].p);
}

bool inside(const std::array<double, 4>& weights) {
  return std::all_of(weights.begin(), weights.end(), [](double c) { return c >= -kRoom && c <= 1 + kRoom; });
}

}  // namespace

double Delaunay::Location::interpolate(std::span<const double> values) const {
  double sum = 0;
  for (std::size_t k = 0; k < 4; ++k) sum += weights[k] * values[static_cast<std::size_t>(vertices[k])];
  return sum;
}

Result<Delaunay> Delaunay::triangulate(std::span<const Point> points) {
  Delaunay made;
  if (!points.empty()) made.low_ = made.high_ = points.front();
  for (const Point& point : points) {
    for (std::size_t k = 0; k < 3; ++k) {
      made.low_[k] = std::min(made.low_[k], point[k]);
      made.high_[k] = std::max(made.high_[k], point[k]);
    }
  }
  double volume = 1;
  for (std::size_t k = 0; k < 3; ++k) {
    const double side = 1 + static_cast<double>(made.high_[k]) - static_cast<double>(made.low_[k]);
    if (side > kLargestSide) return fail(ErrorCode::invalid_argument, "the points spread too far: over {:g}", side);
    volume *= side;
  }
  if (volume > kLargestVolume) {
    return fail(ErrorCode::invalid_argument, "the points spread too far: in a box of {:g}", volume);
  }
  if (!solid(points)) return fail(ErrorCode::failed_precondition, "{} points lie in one plane", points.size());

  Qhull qhull;
  EBB_RETURN_IF_ERROR(qhull.run(points));
  made.scale_ = qhull->last_newhigh / (qhull->last_high - qhull->last_low);
  made.shift_ = -qhull->last_low * made.scale_;

  // Simplices are numbered in the order of the facet list without those of the upper hull.
  std::vector<std::int32_t> number(qhull->facet_id, kNone);
  std::int32_t count = 0;
  for (const facetT* facet = qhull->facet_list; facet != nullptr && facet->next != nullptr; facet = facet->next) {
    if (!facet->upperdelaunay) number[facet->id] = count++;
  }
  for (const facetT* facet = qhull->facet_list; facet != nullptr && facet->next != nullptr; facet = facet->next) {
    if (facet->upperdelaunay) continue;
    if (qh_setsize(&*qhull, facet->vertices) != 4 || qh_setsize(&*qhull, facet->neighbors) != 4) {
      return fail(ErrorCode::internal, "libqhull left a facet that is no simplex");
    }
    Simplex& simplex = made.simplices_.emplace_back();
    std::array<std::int32_t, 4>& corners = made.corners_.emplace_back();
    for (int k = 0; k < 4; ++k) {
      const auto at = static_cast<std::size_t>(k);
      corners[at] = qh_pointid(&*qhull, element<vertexT>(*facet->vertices, k)->point);
      if (corners[at] < 0 || static_cast<std::size_t>(corners[at]) >= points.size()) {
        return fail(ErrorCode::internal, "libqhull made a simplex with a point that was not given");
      }
      simplex.neighbours[at] = number[element<facetT>(*facet->neighbors, k)->id];
    }
    made.planes_.push_back({facet->normal[0], facet->normal[1], facet->normal[2], facet->normal[3], facet->offset});
    made.set_volume(made.size() - 1, points);
  }
  if (made.simplices_.empty()) return fail(ErrorCode::internal, "libqhull made no simplex");
  made.list_candidates(points);
  return made;
}

void Delaunay::set_volume(std::int32_t simplex, std::span<const Point> points) {
  Simplex& made = simplices_[static_cast<std::size_t>(simplex)];
  const auto corner = [&](std::size_t k) {
    return points[static_cast<std::size_t>(corners_[static_cast<std::size_t>(simplex)][k])];
  };
  made.origin = corner(3);
  const Point a = difference(corner(0), made.origin);
  const Point b = difference(corner(1), made.origin);
  const Point c = difference(corner(2), made.origin);
  made.cofactors = {cross(b, c), cross(c, a), cross(a, b)};
  made.volume = dot(a, made.cofactors[0]);
}

std::array<double, 4> Delaunay::weights(const Simplex& simplex, const Point& at) const {
  const Point to = difference(at, simplex.origin);
  std::array<double, 4> c{};
  c[3] = 1;
  for (std::size_t k = 0; k < 3; ++k) {
    c[k] = static_cast<double>(dot(simplex.cofactors[k], to)) / static_cast<double>(simplex.volume);
    c[3] -= c[k];
  }
  return c;
}

double Delaunay::above(std::int32_t simplex, const std::array<double, 4>& lifted) const {
  const std::array<double, 5>& plane = planes_[static_cast<std::size_t>(simplex)];
  double distance = plane[4];
  for (std::size_t k = 0; k < 4; ++k) distance += plane[k] * lifted[k];
  return distance;
}

Delaunay::Location Delaunay::location(std::int32_t simplex, const std::array<double, 4>& weights) const {
  return {simplex, corners_[static_cast<std::size_t>(simplex)], weights};
}

std::optional<Delaunay::Location> Delaunay::locate(const Point& at) const {
  for (std::size_t k = 0; k < 3; ++k) {
    if (at[k] < low_[k] || at[k] > high_[k]) return std::nullopt;
  }
  return walk_on(walk_up(at), at);
}

std::int32_t Delaunay::walk_up(const Point& at) const {
  std::array<double, 4> lifted{};
  for (std::size_t k = 0; k < 3; ++k) {
    lifted[k] = static_cast<double>(at[k]);
    lifted[3] += lifted[k] * lifted[k];
  }
  lifted[3] = lifted[3] * scale_ + shift_;

  std::int32_t current = 0;
  double best = above(current, lifted);
  bool moved = true;
  while (moved && best <= 0) {
    moved = false;
    for (std::size_t k = 0; k < 4; ++k) {
      // `current` may change inside this loop, and k goes on: the neighbours of the new one from there.
      const std::int32_t next = simplices_[static_cast<std::size_t>(current)].neighbours[k];
      if (next == kNone) continue;
      const double distance = above(next, lifted);
      if (distance > best + kRoom * (1 + std::abs(best))) {
        current = next;
        best = distance;
        moved = true;
      }
    }
  }
  return current;
}

std::optional<Delaunay::Location> Delaunay::walk_on(std::int32_t from, const Point& at) const {
  std::int32_t current = from;
  for (std::size_t step = 0; step < 1 + simplices_.size() / 4; ++step) {
    const Simplex& simplex = simplices_[static_cast<std::size_t>(current)];
    if (simplex.volume == 0) return scan(at);
    const std::array<double, 4> c = weights(simplex, at);
    const auto negative = std::find_if(c.begin(), c.end(), [](double weight) { return weight < -kRoom; });
    if (negative == c.end()) {
      if (inside(c)) return location(current, c);
      return scan(at);
    }
    current = simplex.neighbours[static_cast<std::size_t>(negative - c.begin())];
    if (current == kNone) return std::nullopt;
  }
  return scan(at);
}

void Delaunay::list_candidates(std::span<const Point> points) {
  std::vector<bool> listed(simplices_.size());
  const auto list = [&](std::int32_t simplex, std::int32_t asked_from) {
    const auto index = static_cast<std::size_t>(simplex);
    // Coordinates of integer points are multiples of 1 / volume: with a small volume no room lets in a point outside,
    // and looking again finds nothing new.
    const bool exact = std::abs(simplices_[index].volume) < static_cast<std::int64_t>(1 / kBroadRoom);
    if (listed[index] && exact) return;
    listed[index] = true;
    Candidate candidate;
    candidate.simplex = simplex;
    candidate.low = candidate.high = simplices_[index].origin;
    for (const std::int32_t corner : corners_[index]) {
      for (std::size_t k = 0; k < 3; ++k) {
        candidate.low[k] = std::min(candidate.low[k], points[static_cast<std::size_t>(corner)][k]);
        candidate.high[k] = std::max(candidate.high[k], points[static_cast<std::size_t>(corner)][k]);
      }
    }
    for (std::size_t k = 0; k < 4; ++k) candidate.broad[k] = simplices_[index].neighbours[k] == asked_from;
    candidates_.push_back(candidate);
  };
  for (std::int32_t current = 0; current < size(); ++current) {
    const Simplex& simplex = simplices_[static_cast<std::size_t>(current)];
    if (simplex.volume != 0) {
      list(current, size());
      continue;
    }
    for (const std::int32_t next : simplex.neighbours) {
      if (next != kNone && simplices_[static_cast<std::size_t>(next)].volume != 0) list(next, current);
    }
  }
}

std::optional<Delaunay::Location> Delaunay::scan(const Point& at) const {
  for (const Candidate& candidate : candidates_) {
    if (!candidate.may_contain(at)) continue;
    const std::array<double, 4> c = weights(simplices_[static_cast<std::size_t>(candidate.simplex)], at);
    bool hit = true;
    for (std::size_t k = 0; k < 4; ++k) {
      hit = hit && c[k] >= (candidate.broad[k] ? -kBroadRoom : -kRoom) && c[k] <= 1 + kRoom;
    }
    if (hit) return location(candidate.simplex, c);
  }
  return std::nullopt;
}

}  // namespace ebb::perf
