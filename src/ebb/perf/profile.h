#pragma once

/// Profiles: what was measured of an application, as tables, and the true speed and statistics read from them. A
/// simulation takes its truth from here; policies see it only with the option `oracle`.
///
/// A profile is a folder, named after the application:
///   origin_placements.csv, else placements.csv   placement,local_bsz,step_time,sync_time: one row a measured placement
///   scalability.csv (optional)                   num_nodes,num_replicas,local_bsz,step_time,sync_time
///   validation-<global batch>.csv                progress,iteration,metric,grad_sqr,grad_var: one row an epoch
///   constants.csv (optional)                     local_min,local_max,restart_s,afe_next_s,stop_free_s,cold_start_s
/// A placement is written as digits, GPUs of each node (1 to 9) in the order of ranks; rotations are the same. Without
/// constants.csv those of the built-in profile of that name hold; where there is none, the range of the placement table
/// and the defaults of ApplicationCosts.
///
/// Step times: linear in the local batch where the placement was measured, else linear in a Delaunay triangulation
/// (perf/delaunay.h) of (nodes, replicas, local batch), where more nodes than 16, and than the table has, count as its
/// most. Outside: the local batch is clamped to the range of the placement, or of the table; outside the hull, or if
/// the table has none, the seven-parameter fit of the table itself is used (perf/goodput.h), at the first need: that
/// call takes far longer than the others. StepTimes says which it was.
///
/// Source: Pollux (Qiao et al., OSDI 2021), its artifact's simulator. Thread-safe: all const functions.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/model/training.h"

namespace ebb::perf {

enum class Source : std::uint8_t {
  measured,      ///< at a measured placement, between measured local batches
  interpolated,  ///< between measured points
  clamped,       ///< either, but the local batch is outside the table: taken at its end
  fitted,        ///< outside the hull of all measurements
};

/// One optimizer step without accumulation.
struct StepTimes {
  double step_s = 0;
  double sync_s = 0;  ///< of it, synchronising gradients
  Source source = Source::measured;

  /// Seconds of a step with `accumulation` micro-steps before the one that synchronises.
  double with(std::int32_t accumulation) const { return step_s + accumulation * (step_s - sync_s); }
};

/// What resizing and starting costs this application, seconds.
struct ApplicationCosts {
  double restart_s = 30;    ///< stop, checkpoint, start again on other GPUs
  double afe_next_s = 3;    ///< grow or shrink with processes kept warm (DeepBoot's AFE)
  double stop_free_s = 1;   ///< the pause of a resize that does not stop training
  double cold_start_s = 6;  ///< start an inference replica of it

  bool operator==(const ApplicationCosts&) const = default;
};

struct ProfileTables;

/// A handle: copies share the tables.
class Profile {
 public:
  /// Reads the folder. Errors: not_found for a missing folder or file; invalid_argument naming file, line, column and
  /// value for a bad row, a table with no rows, validation files of different lengths, an impossible range.
  static Result<Profile> read(const std::filesystem::path& folder);

  const std::string& name() const;
  const BatchLimits& limits() const;
  std::int32_t epochs() const;  ///< to complete
  const ApplicationCosts& costs() const;

  /// `placement`: GPUs of each node in the order of ranks, each >= 1, not empty; rotations of it are the same.
  /// `local` >= 1. Never fails: see the header for what is outside the tables.
  StepTimes step_times(std::span<const GpuCount> placement, BatchSize local) const;
  /// Statistics of the epoch (0 = the first) at a global batch, clamped to the tables.
  GradientStats gradient(double batch, std::int32_t epoch) const;
  /// Progress per iteration at global batch `batch` against an iteration at the initial batch: >= 1 from there on.
  double gain(double batch, std::int32_t epoch) const;
  /// Iterations at the initial batch size after which `epochs` epochs are passed; epochs in 1..epochs(), else clamped.
  double progress_after(std::int32_t epochs) const;
  /// Cumulative optimizer steps at a global batch at the end of epoch `epoch` (0 = the first), linear between tables,
  /// clamped to them.
  double iterations(double batch, std::int32_t epoch) const;

 private:
  friend class ProfileSet;
  explicit Profile(std::shared_ptr<const ProfileTables> tables) : tables_(std::move(tables)) {}

  std::shared_ptr<const ProfileTables> tables_;
};

/// Profiles by name.
class ProfileSet {
 public:
  /// The profiles compiled into the program (bert, cifar10, deepspeech2, imagenet, ncf, yolov3). Read once.
  static const ProfileSet& built_in();
  /// One folder an application. Left out: folders with neither a placement table nor a validation file, and
  /// placeholders, whose placement table has only zeros. Errors: those of Profile::read(); not_found if there is none.
  static Result<ProfileSet> read(const std::filesystem::path& folder);

  /// nullptr if unknown.
  const Profile* find(std::string_view application) const;
  std::vector<std::string> names() const;

 private:
  std::vector<Profile> profiles_;  // by name
};

}  // namespace ebb::perf
