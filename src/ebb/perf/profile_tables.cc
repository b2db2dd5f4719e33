#include "ebb/perf/profile_tables.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace ebb::perf {
namespace {

/// Large enough for any cluster, small enough for exact volumes (see delaunay.h).
constexpr std::int64_t kMostNodes = 4096;
constexpr std::int64_t kMostReplicas = 65536;
constexpr std::int64_t kMostLocal = std::int64_t{1} << 24;
/// A step of a day is a mistake in the file.
constexpr double kMostSeconds = 86400;
constexpr double kMost = 1e300;
/// The published tables end at 16 nodes, and more nodes are looked up as 16.
constexpr std::int32_t kPublishedNodes = 16;

struct Times {
  double step_s = 0;
  double sync_s = 0;
};

/// Zero times are left to the caller, who knows whether all of them are.
Result<Times> read_times(const TableRow& row, std::size_t step, std::size_t sync) {
  Times times;
  EBB_ASSIGN_OR_RETURN(times.step_s, row.number(step, 0, kMostSeconds));
  EBB_ASSIGN_OR_RETURN(times.sync_s, row.number(sync, 0, kMostSeconds));
  if (times.step_s > 0 && times.sync_s >= times.step_s) {
    return row.bad(sync, fmt::format("is not less than step_time, {:g}, of which it is a part", times.step_s));
  }
  return times;
}

Result<std::vector<GpuCount>> read_placement(const TableRow& row, std::size_t column) {
  std::vector<GpuCount> placement;
  for (const char digit : row.text(column)) {
    if (digit < '1' || digit > '9') break;
    placement.push_back(digit - '0');
  }
  if (placement.empty() || placement.size() != row.text(column).size()) {
    return row.bad(column, "is not a placement: one digit a node, each 1 to 9");
  }
  return canonical_placement(placement);
}

/// Fills `placements`; false for a placeholder.
Result<bool> read_placements(const TableFile& file, ProfileTables& tables) {
  struct Row {
    std::size_t line = 0;
    Times times;
  };
  std::map<std::pair<std::vector<GpuCount>, BatchSize>, Row> rows;
  std::optional<tl::unexpected<Error>> zero;
  bool measured = false;
  const auto visit = [&](const TableRow& row) -> Result<void> {
    EBB_ASSIGN_OR_RETURN(std::vector<GpuCount> placement, read_placement(row, 0));
    EBB_ASSIGN_OR_RETURN(const std::int64_t local, row.integer(1, 1, kMostLocal));
    EBB_ASSIGN_OR_RETURN(const Times times, read_times(row, 2, 3));
    if (times.step_s > 0) {
      measured = true;
    } else if (!zero) {
      zero = row.bad(2, "is not above 0");
    }
    const auto [same, fresh] =
        rows.try_emplace({std::move(placement), static_cast<BatchSize>(local)}, row.line(), times);
    if (!fresh) return row.bad(1, fmt::format("is there twice for this placement: in line {} too", same->second.line));
    return {};
  };
  EBB_RETURN_IF_ERROR(read_table(file, {"placement", "local_bsz", "step_time", "sync_time"}, visit));
  if (!measured) return false;
  if (zero) return *zero;
  for (const auto& [key, row] : rows) {
    PlacementCurve& curve = tables.placements[key.first];
    curve.local.push_back(key.second);
    curve.step_s.push_back(row.times.step_s);
    curve.sync_s.push_back(row.times.sync_s);
  }
  return true;
}

/// Appends the averages of all placements of the same size to the points.
void average_placements(ProfileTables& tables) {
  struct Sum {
    Times times;
    double rows = 0;
  };
  std::map<std::tuple<std::int32_t, GpuCount, BatchSize>, Sum> sums;
  for (const auto& [placement, curve] : tables.placements) {
    GpuCount replicas = 0;
    for (const GpuCount gpus : placement) replicas += gpus;
    for (std::size_t i = 0; i < curve.local.size(); ++i) {
      Sum& sum = sums[{static_cast<std::int32_t>(placement.size()), replicas, static_cast<BatchSize>(curve.local[i])}];
      sum.times.step_s += curve.step_s[i];
      sum.times.sync_s += curve.sync_s[i];
      sum.rows += 1;
    }
  }
  for (const auto& [key, sum] : sums) {
    const auto& [nodes, replicas, local] = key;
    tables.points.push_back({nodes, replicas, local, sum.times.step_s / sum.rows, sum.times.sync_s / sum.rows});
  }
}

Result<void> read_scalability(const TableFile& file, ProfileTables& tables) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::size_t> lines;
  const auto visit = [&](const TableRow& row) -> Result<void> {
    EBB_ASSIGN_OR_RETURN(const std::int64_t nodes, row.integer(0, 1, kMostNodes));
    EBB_ASSIGN_OR_RETURN(const std::int64_t replicas, row.integer(1, 1, kMostReplicas));
    EBB_ASSIGN_OR_RETURN(const std::int64_t local, row.integer(2, 1, kMostLocal));
    EBB_ASSIGN_OR_RETURN(const Times times, read_times(row, 3, 4));
    if (replicas < nodes) return row.bad(1, fmt::format("is less than num_nodes, {}", nodes));
    if (times.step_s == 0) return row.bad(3, "is not above 0");
    const auto [same, fresh] = lines.try_emplace({nodes, replicas, local}, row.line());
    if (!fresh) return row.bad(2, fmt::format("is there twice for this size: in line {} too", same->second));
    tables.points.push_back({static_cast<std::int32_t>(nodes), static_cast<GpuCount>(replicas),
                             static_cast<BatchSize>(local), times.step_s, times.sync_s});
    return {};
  };
  return read_table(file, {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"}, visit);
}

Result<void> triangulate(const std::string& folder, ProfileTables& tables) {
  std::vector<Delaunay::Point> points;
  tables.least_local = std::numeric_limits<BatchSize>::max();
  tables.most_nodes = kPublishedNodes;
  for (const Observation& point : tables.points) {
    points.push_back({point.nodes, point.replicas, point.local});
    tables.step_s.push_back(point.step_s);
    tables.sync_s.push_back(point.sync_s);
    tables.least_local = std::min(tables.least_local, point.local);
    tables.most_local = std::max(tables.most_local, point.local);
    tables.most_nodes = std::max(tables.most_nodes, point.nodes);
  }
  Result<Delaunay> made = Delaunay::triangulate(points);
  if (made) {
    tables.hull = std::move(*made);
  } else if (made.error().code != ErrorCode::failed_precondition) {
    return fail(made.error().code, "{}: {}", folder, made.error().message);
  }
  return {};
}

Result<ValidationCurve> read_validation(BatchSize batch, const TableFile& file) {
  ValidationCurve curve;
  curve.batch = batch;
  const auto visit = [&](const TableRow& row) -> Result<void> {
    EBB_ASSIGN_OR_RETURN(const double progress, row.number(0, 0, kMost));
    EBB_ASSIGN_OR_RETURN(const double iteration, row.number(1, 0, kMost));
    GradientStats gradient;
    EBB_ASSIGN_OR_RETURN(gradient.sqr, row.number(2, 0, kMost));
    EBB_ASSIGN_OR_RETURN(gradient.var, row.number(3, 0, kMost));
    if (progress <= (curve.progress.empty() ? 0 : curve.progress.back())) {
      return row.bad(0, "is not above that of the epoch before");
    }
    if (iteration <= (curve.iteration.empty() ? 0 : curve.iteration.back())) {
      return row.bad(1, "is not above that of the epoch before");
    }
    if (gradient.sqr + gradient.var <= 0) return row.bad(3, "is 0, and so is grad_sqr");
    curve.progress.push_back(progress);
    curve.iteration.push_back(iteration);
    curve.gradient.push_back(gradient);
    return {};
  };
  EBB_RETURN_IF_ERROR(read_table(file, {"progress", "iteration", "grad_sqr", "grad_var"}, visit));
  return curve;
}

Result<void> read_all_validation(ProfileFiles& files, ProfileTables& tables) {
  std::sort(files.validation.begin(), files.validation.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.name) < std::tie(b.first, b.second.name);
  });
  for (const auto& [batch, file] : files.validation) {
    EBB_ASSIGN_OR_RETURN(ValidationCurve curve, read_validation(batch, file));
    const std::string& first = files.validation.front().second.name;
    if (tables.validation.empty()) {
      tables.progress = curve.progress;
    } else if (curve.batch == tables.validation.back().batch) {
      return fail(ErrorCode::invalid_argument, "{}: another file has the same batch size", file.name);
    } else if (curve.progress.size() != tables.progress.size()) {
      return fail(ErrorCode::invalid_argument, "{}: {} rows, but {} has {}; all batch sizes need the same epochs",
                  file.name, curve.progress.size(), first, tables.progress.size());
    }
    for (std::size_t i = 0; i < curve.progress.size(); ++i) {
      tables.progress[i] = std::min(tables.progress[i], curve.progress[i]);
    }
    tables.validation.push_back(std::move(curve));
  }
  return {};
}

Result<void> read_constants(const TableFile& file, ProfileTables& tables) {
  const double most = to_seconds(kMaxDuration);
  constexpr std::int64_t kMostBatch = std::numeric_limits<BatchSize>::max();
  std::size_t rows = 0;
  const auto visit = [&](const TableRow& row) -> Result<void> {
    if (++rows > 1) return row.bad(0, "is in a second row; the file has one");
    EBB_ASSIGN_OR_RETURN(const std::int64_t local_min, row.integer(0, 1, kMostBatch));
    EBB_ASSIGN_OR_RETURN(const std::int64_t local_max, row.integer(1, 1, kMostBatch));
    if (local_min > local_max) return row.bad(0, fmt::format("is above local_max, {}", local_max));
    if (local_min > tables.limits.largest) {
      return row.bad(0, fmt::format("is above the largest global batch, {}", tables.limits.largest));
    }
    tables.limits.local_min = static_cast<BatchSize>(local_min);
    tables.limits.local_max = static_cast<BatchSize>(local_max);
    EBB_ASSIGN_OR_RETURN(tables.costs.restart_s, row.number(2, 0, most));
    EBB_ASSIGN_OR_RETURN(tables.costs.afe_next_s, row.number(3, 0, most));
    EBB_ASSIGN_OR_RETURN(tables.costs.stop_free_s, row.number(4, 0, most));
    EBB_ASSIGN_OR_RETURN(tables.costs.cold_start_s, row.number(5, 0, most));
    return {};
  };
  return read_table(file, {"local_min", "local_max", "restart_s", "afe_next_s", "stop_free_s", "cold_start_s"}, visit);
}

}  // namespace

std::vector<GpuCount> canonical_placement(std::span<const GpuCount> placement) {
  // Two candidate starts race; the loser of a comparison skips all it has matched, so this takes linear time.
  const std::size_t n = placement.size();
  std::size_t a = 0;
  std::size_t b = 1;
  std::size_t same = 0;
  while (a < n && b < n && same < n) {
    const GpuCount left = placement[(a + same) % n];
    const GpuCount right = placement[(b + same) % n];
    if (left == right) {
      ++same;
      continue;
    }
    (left > right ? a : b) += same + 1;
    if (a == b) ++b;
    same = 0;
  }
  std::vector<GpuCount> smallest(placement.begin(), placement.end());
  std::rotate(smallest.begin(), smallest.begin() + static_cast<std::ptrdiff_t>(std::min(a, b)), smallest.end());
  return smallest;
}

const ThroughputParams& ProfileTables::fitted() const {
  std::call_once(fit_once_, [this] { fit_ = fit_throughput(points); });
  return fit_;
}

Result<std::shared_ptr<const ProfileTables>> read_profile_tables(ProfileFiles files) {
  const auto tables = std::make_shared<ProfileTables>();
  tables->name = files.name;
  if (!files.placements) {
    return fail(ErrorCode::not_found, "{}: there is neither origin_placements.csv nor placements.csv", files.folder);
  }
  EBB_ASSIGN_OR_RETURN(const bool measured, read_placements(*files.placements, *tables));
  if (!measured) return nullptr;
  if (files.validation.empty()) {
    return fail(ErrorCode::not_found, "{}: there is no validation-<global batch>.csv", files.folder);
  }
  average_placements(*tables);
  BatchSize local_min = tables->points.front().local;
  BatchSize local_max = local_min;
  for (const Observation& point : tables->points) {
    local_min = std::min(local_min, point.local);
    local_max = std::max(local_max, point.local);
  }
  if (files.scalability) EBB_RETURN_IF_ERROR(read_scalability(*files.scalability, *tables));
  EBB_RETURN_IF_ERROR(triangulate(files.folder, *tables));
  EBB_RETURN_IF_ERROR(read_all_validation(files, *tables));
  tables->limits = {static_cast<BatchSize>(tables->validation.front().batch),
                    static_cast<BatchSize>(tables->validation.back().batch), local_min, local_max};
  if (files.constants) EBB_RETURN_IF_ERROR(read_constants(*files.constants, *tables));
  return tables;
}

}  // namespace ebb::perf
