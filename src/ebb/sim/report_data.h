#pragma once

/// What the page of report.h draws, computed from runs: distribution curves, views (which runs are compared with each
/// other), tenants folded to a few rows, warnings said once, and the summary in words.
///
/// Pure functions: the same results give the same values. Definitions of the figures: result.h. Percentiles and curves
/// are nearest rank: the q-quantile of n values is the ceil(q n)-th smallest. Thread rule: anywhere.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/sim/result.h"

namespace ebb::sim {

/// `share` of the values are at most `value_s`.
struct CdfPoint {
  double value_s = 0;
  double share = 0;

  bool operator==(const CdfPoint&) const = default;
};

/// A distribution as points of its curve, by rising value, no value twice.
struct Cdf {
  std::size_t count = 0;  ///< values it was made of
  double zero_share = 0;  ///< share of the values that are zero (pending time: jobs that never waited)
  std::vector<CdfPoint> points;
};

inline constexpr std::size_t kCdfPoints = 200;

/// All the values as points if they are at most `max_points` (at least 2), else the smallest value and `max_points` - 1
/// evenly spread quantiles, the last of which is the largest value.
Cdf cdf_of(std::vector<Duration> values, std::size_t max_points = kCdfPoints);

/// JCT of the completed training jobs.
Cdf jct_cdf(const SimResult& run);
/// Pending time of the completed training jobs.
Cdf pending_cdf(const SimResult& run);

/// `value` to `digits` significant decimal digits, to keep pages small; 0 for anything not finite.
double round_significant(double value, int digits);

/// A label taken apart: "srsf, load 1.5, seed 2" is the contender "srsf" under "load 1.5, seed 2".
struct RunName {
  std::string contender;  ///< what is compared: the label without load and seed; the policy if nothing is left
  std::string condition;  ///< what it ran under: the parts "load ..." and "seed ..."; "" if there are none
  bool oracle = false;    ///< the label (or policy) says that it knows the true run times
};
RunName parse_label(const SimResult& run);

/// Runs that are shown together.
struct View {
  std::string name;               ///< the condition they share, or "all runs"
  std::vector<std::size_t> runs;  ///< indices into the results
  bool by_label = false;          ///< several conditions at once: runs go by their labels, not by their contenders
};

inline constexpr std::size_t kRunsTogether = 8;

/// One view for every condition, in order of appearance (clusters of different names are different conditions). Runs
/// of several conditions that are no more than kRunsTogether get a view of all of them in front. Never empty unless
/// `results` is.
std::vector<View> views_of(std::span<const SimResult> results);

/// GPU-seconds by tenant over the runs of a view.
struct TenantTable {
  struct Row {
    std::string tenant;               ///< "" = nobody in particular
    std::size_t folded = 0;           ///< tenants that this row sums up; 0 for a row of one tenant
    std::vector<double> gpu_seconds;  ///< one for each run of the view
  };
  std::vector<Row> rows;
};

/// The `top` tenants by their sum over the runs (ties by name), then one row for all others. A single other tenant
/// keeps a row of its own.
TenantTable fold_tenants(std::span<const SimResult> results, std::span<const std::size_t> runs, std::size_t top = 10);

/// Spans of histories that a page holds, of all runs together: about 20 bytes each.
inline constexpr std::size_t kPageSpans = 3 * kMaxSpans;

/// By run, whether its histories go into the page: those of earlier runs first.
std::vector<bool> histories_shown(std::span<const SimResult> results, std::size_t most = kPageSpans);

/// A warning and the runs that gave it.
struct RunWarning {
  std::string text;
  std::vector<std::size_t> runs;
};
std::vector<RunWarning> fold_warnings(std::span<const SimResult> results);

/// A view in words.
struct Verdict {
  std::string sentence;            ///< best and worst by average completion time and by p99 pending time
  std::vector<std::string> notes;  ///< what a reader must know to trust the sentence: oracle knowledge, jobs missing
};
Verdict verdict_of(std::span<const SimResult> results, const View& view);

}  // namespace ebb::sim
