/// Fuzzes the reader of profiles. The input is the files of one profile: each begins with a line "@placements",
/// "@scalability", "@constants" or "@validation-<batch>", its table follows. Whatever is accepted must keep what
/// profile_tables.h promises, and give finite numbers when it is looked up.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/perf/profile_tables.h"

namespace {

using namespace ebb;        // NOLINT: one function
using namespace ebb::perf;  // NOLINT

void add_file(ProfileFiles& files, std::string_view name, std::string_view text) {
  TableFile table{std::string(name), std::string(text)};
  constexpr std::string_view kValidation = "validation-";
  if (name == "placements") {
    files.placements = std::move(table);
  } else if (name == "scalability") {
    files.scalability = std::move(table);
  } else if (name == "constants") {
    files.constants = std::move(table);
  } else if (name.starts_with(kValidation)) {
    BatchSize batch = 0;
    std::from_chars(name.data() + kValidation.size(), name.data() + name.size(), batch);
    if (batch >= 1) files.validation.emplace_back(batch, std::move(table));
  }
}

ProfileFiles split_files(std::string_view text) {
  ProfileFiles files;
  files.name = "app";
  files.folder = "app";
  while (text.starts_with('@')) {
    const std::size_t line_end = std::min(text.find('\n'), text.size() - 1);
    const std::size_t next = text.find("\n@", line_end);
    const std::size_t end = next == std::string_view::npos ? text.size() : next + 1;
    const std::string_view name = text.substr(1, line_end - (text[line_end] == '\n' ? 1 : 0));
    add_file(files, name, text.substr(line_end + 1, end - line_end - 1));
    text.remove_prefix(end);
  }
  return files;
}

void check_times(double step_s, double sync_s) {
  EBB_CHECK(std::isfinite(step_s) && step_s > 0 && sync_s >= 0 && sync_s < step_s);
}

void check_placements(const ProfileTables& tables) {
  EBB_CHECK(!tables.placements.empty());
  for (const auto& [placement, curve] : tables.placements) {
    EBB_CHECK(!placement.empty() && canonical_placement(placement) == placement);
    EBB_CHECK(!curve.local.empty() && curve.step_s.size() == curve.local.size() &&
              curve.sync_s.size() == curve.local.size());
    EBB_CHECK(std::is_sorted(curve.local.begin(), curve.local.end(), std::less_equal<>()));
    for (std::size_t i = 0; i < curve.local.size(); ++i) check_times(curve.step_s[i], curve.sync_s[i]);
  }
}

void check_points(const ProfileTables& tables) {
  EBB_CHECK(!tables.points.empty() && tables.step_s.size() == tables.points.size() &&
            tables.sync_s.size() == tables.points.size());
  for (const Observation& point : tables.points) {
    check_times(point.step_s, point.sync_s);
    EBB_CHECK(point.nodes >= 1 && point.nodes <= point.replicas && point.nodes <= tables.most_nodes);
    EBB_CHECK(point.local >= tables.least_local && point.local <= tables.most_local);
    if (!tables.hull) continue;
    for (const GpuCount more : {0, 1}) {
      const auto at = tables.hull->locate({point.nodes, point.replicas + more, point.local});
      if (!at) continue;
      EBB_CHECK(std::isfinite(at->interpolate(tables.step_s)) && std::isfinite(at->interpolate(tables.sync_s)));
    }
  }
}

void check_validation(const ProfileTables& tables) {
  EBB_CHECK(!tables.validation.empty() && !tables.progress.empty());
  double batch = 0;
  for (const ValidationCurve& curve : tables.validation) {
    EBB_CHECK(curve.batch > batch && curve.progress.size() == tables.progress.size() &&
              curve.iteration.size() == tables.progress.size() && curve.gradient.size() == tables.progress.size());
    batch = curve.batch;
  }
  double progress = 0;
  for (const double at : tables.progress) {
    EBB_CHECK(std::isfinite(at) && at > progress);
    progress = at;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto result = read_profile_tables(split_files(text));
  if (!result) {
    EBB_CHECK(!result.error().message.empty());
    return 0;
  }
  if (*result == nullptr) return 0;  // a placeholder
  const ProfileTables& tables = **result;
  check_placements(tables);
  check_points(tables);
  check_validation(tables);
  const BatchLimits& limits = tables.limits;
  EBB_CHECK(limits.initial >= 1 && limits.initial <= limits.largest);
  EBB_CHECK(limits.local_min >= 1 && limits.local_min <= limits.local_max);
  EBB_CHECK(tables.max_gpus >= 0 && tables.fixed_batch >= 0 && tables.fixed_batch <= limits.largest);
  const ApplicationCosts& costs = tables.costs;
  for (const double seconds : {costs.restart_s, costs.afe_next_s, costs.stop_free_s, costs.cold_start_s}) {
    EBB_CHECK(seconds >= 0 && seconds <= to_seconds(kMaxDuration));
  }
  return 0;
}
