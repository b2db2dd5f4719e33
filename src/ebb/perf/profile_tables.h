#pragma once

/// Internal: the tables behind a Profile, and how they are made of files.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/model/training.h"
#include "ebb/perf/delaunay.h"
#include "ebb/perf/goodput.h"
#include "ebb/perf/profile.h"
#include "ebb/perf/profile_files.h"

namespace ebb::perf {

/// GPUs of each node in the order of ranks, turned so that it is the smallest of its rotations (ranks form a ring).
std::vector<GpuCount> canonical_placement(std::span<const GpuCount> placement);

/// What was measured of one placement, by local batch ascending.
struct PlacementCurve {
  std::vector<double> local;
  std::vector<double> step_s;
  std::vector<double> sync_s;
};

/// What one run of training measured, an entry an epoch.
struct ValidationCurve {
  double batch = 0;  ///< global
  std::vector<double> progress;
  std::vector<double> iteration;
  std::vector<GradientStats> gradient;
};

/// Filled by read_profile_tables(), then constant; lives behind a pointer.
struct ProfileTables {
  std::string name;
  BatchLimits limits;
  ApplicationCosts costs;

  std::map<std::vector<GpuCount>, PlacementCurve> placements;
  /// Step times by (nodes, replicas, local batch): placements averaged, in this order, then scalability.csv as it is.
  std::vector<Observation> points;
  std::vector<double> step_s;               ///< of each point
  std::vector<double> sync_s;               ///< of each point
  std::optional<Delaunay> hull;             ///< none if the points lie in one plane
  BatchSize least_local = 0;                ///< of all points
  BatchSize most_local = 0;                 ///< of all points
  std::int32_t most_nodes = 0;              ///< more nodes count as this many
  std::vector<ValidationCurve> validation;  ///< by batch ascending, at least one
  std::vector<double> progress;             ///< least of all batch sizes, at the end of each epoch

  /// The seven parameters of `points`, fitted at the first call.
  const ThroughputParams& fitted() const;

 private:
  mutable std::once_flag fit_once_;
  mutable ThroughputParams fit_;
};

/// nullptr for a placeholder: a placement table whose times are all 0, as traces have for applications that do not
/// train. Errors: those of Profile::read().
Result<std::shared_ptr<const ProfileTables>> read_profile_tables(ProfileFiles files);

}  // namespace ebb::perf
