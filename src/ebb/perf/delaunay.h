#pragma once

/// Internal: linear interpolation between scattered points in space, in their Delaunay triangulation.
///
/// Measured points lie on a grid, so their triangulation is not unique: a third and more of the simplices have no
/// volume, simplices overlap, and which one answers changes the value by up to 43 %. Published results depend on it, so
/// both halves are fixed here: libqhull with the options that SciPy gives it, and a walk that finds the simplex.
///
///   1. Walk up: lift the point to the paraboloid and go to any neighbour whose plane is farther above, from simplex 0.
///   2. Walk on: while a barycentric coordinate is negative, go to the neighbour opposite to that vertex.
///   3. If that meets a simplex without volume, or goes on too long: the first in order that contains the point; where
///   a
///      simplex has no volume its neighbours are looked at, with more room on that side.
///
/// Coordinates are integers, and volumes are exact. Thread-safe: all const functions.
/// Sources: Barber, Dobkin, Huhdanpaa 1996 (Quickhull); the rules of scipy.spatial.Delaunay.find_simplex.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::perf {

class Delaunay {
 public:
  using Point = std::array<std::int64_t, 3>;

  /// The simplex of a point and its barycentric coordinates there.
  struct Location {
    std::int32_t simplex = 0;
    std::array<std::int32_t, 4> vertices{};  ///< indices of points
    std::array<double, 4> weights{};         ///< sum 1

    /// `values`: one a point.
    double interpolate(std::span<const double> values) const;
  };

  /// Errors: failed_precondition if the points lie in one plane (or are fewer than four); invalid_argument if they
  /// spread so far that volumes leave 64 bits; internal, with its message, if libqhull gives up.
  static Result<Delaunay> triangulate(std::span<const Point> points);

  /// nullopt outside the hull.
  std::optional<Location> locate(const Point& at) const;

  std::int32_t size() const { return static_cast<std::int32_t>(simplices_.size()); }

 private:
  static constexpr std::int32_t kNone = -1;

  struct Simplex {
    /// c_k = (cofactors[k] . (x - origin)) / volume for k < 3; origin = vertex 3. volume 0: flat.
    std::array<std::array<std::int64_t, 3>, 3> cofactors{};
    Point origin{};
    std::int64_t volume = 0;
    std::array<std::int32_t, 4> neighbours{};  ///< neighbour k is opposite vertex k
  };

  /// A simplex to look at in step 3, and where it may contain a point at all: most are ruled out by that alone.
  struct Candidate {
    std::array<std::int64_t, 3> low{};
    std::array<std::int64_t, 3> high{};
    std::int32_t simplex = 0;
    std::array<bool, 4> broad{};  ///< more room at that coordinate

    bool may_contain(const Point& at) const {
      // Without branches: they could not be predicted, and this runs for thousands.
      int inside = 1;
      for (std::size_t k = 0; k < 3; ++k) {
        inside &= static_cast<int>(at[k] >= low[k]);
        inside &= static_cast<int>(at[k] <= high[k]);
      }
      return inside != 0;
    }
  };

  void set_volume(std::int32_t simplex, std::span<const Point> points);
  /// Distance of a lifted point from the plane of a simplex.
  double above(std::int32_t simplex, const std::array<double, 4>& lifted) const;
  std::array<double, 4> weights(const Simplex& simplex, const Point& at) const;
  std::int32_t walk_up(const Point& at) const;
  std::optional<Location> walk_on(std::int32_t from, const Point& at) const;
  std::optional<Location> scan(const Point& at) const;
  void list_candidates(std::span<const Point> points);
  Location location(std::int32_t simplex, const std::array<double, 4>& weights) const;

  std::vector<Simplex> simplices_;
  std::vector<std::array<double, 5>> planes_;         ///< normal and offset of each, in the lifted space
  std::vector<std::array<std::int32_t, 4>> corners_;  ///< points of each
  std::vector<Candidate> candidates_;                 ///< in the order of step 3
  double scale_ = 1;                                  ///< lifted coordinate = scale |x|^2 + shift
  double shift_ = 0;
  Point low_{};
  Point high_{};
};

}  // namespace ebb::perf
