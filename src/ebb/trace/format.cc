#include <algorithm>
#include <array>
#include <charconv>

#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

constexpr std::array<std::pair<Format, const char*>, 8> kNames{{
    {Format::tiresias, "tiresias"},
    {Format::philly, "philly"},
    {Format::swf, "swf"},
    {Format::sacct, "sacct"},
    {Format::ebb_csv, "ebb-csv"},
    {Format::ebb_jsonl, "ebb-jsonl"},
    {Format::pollux, "pollux"},
    {Format::deepboot, "deepboot"},
}};

constexpr const char* kNamesText = "tiresias, philly, swf, sacct, ebb-csv, ebb-jsonl, pollux, deepboot";

// Columns that tell the tables apart. A header with at least half of a format's columns is taken for it, so that a
// misspelt column is reported as missing and not as an unknown format.
struct Header {
  Format format;
  char separator;
  std::array<std::string_view, 6> columns;  // "" = none
};
constexpr std::array<Header, 6> kHeaders{{
    {Format::tiresias, ',', {"job_id", "num_gpu", "submit_time", "duration"}},
    {Format::philly, ',', {"timestamp", "duration", "num_gpus", "gpu_time"}},
    {Format::sacct, '|', {"JobID", "Submit", "AllocTRES", "ReqTRES"}},
    {Format::ebb_csv, ',', {"job", "submit_s", "run_s", "gpus"}},
    // A header of pollux is one of deepboot cut short: where both fit alike, the first is taken.
    {Format::pollux, ',', {"time", "application", "num_replicas", "batch_size"}},
    {Format::deepboot, ',', {"time", "application", "num_replicas", "batch_size", "duration", "num_task"}},
}};

std::optional<Format> by_header(std::string_view line) {
  std::optional<Format> best;
  std::size_t most = 1;
  std::vector<std::string_view> fields;
  std::string scratch;
  for (const Header& header : kHeaders) {
    if (!split_fields(line, header.separator, header.separator == ',', fields, scratch)) continue;
    const auto present = static_cast<std::size_t>(
        std::count_if(header.columns.begin(), header.columns.end(), [&](std::string_view column) {
          return !column.empty() &&
                 std::any_of(fields.begin(), fields.end(), [&](std::string_view f) { return trim(f) == column; });
        }));
    if (present > most) {
      most = present;
      best = header.format;
    }
  }
  return best;
}

// SWF without comments: 18 numbers.
bool looks_like_swf(std::string_view line) {
  std::size_t count = 0;
  for (line = trim(line); !line.empty(); line = trim(line)) {
    const std::string_view field = line.substr(0, line.find_first_of(" \t"));
    double ignored = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), ignored);
    if (error != std::errc() || end != field.data() + field.size()) return false;
    line.remove_prefix(field.size());
    ++count;
  }
  return count >= 18;
}

}  // namespace

Result<Format> parse_format(std::string_view name) {
  for (const auto& [format, candidate] : kNames) {
    if (name == candidate) return format;
  }
  return fail(ErrorCode::invalid_argument, "{} is not a trace format: give one of {}", shown(name), kNamesText);
}

const char* to_string(Format format) {
  for (const auto& [candidate, name] : kNames) {
    if (candidate == format) return name;
  }
  return "unknown";
}

Result<std::optional<Format>> detect_format(std::string_view line) {
  line = trim(line);
  if (line.starts_with('#')) {
    if (trim(line.substr(1)).starts_with("ebb-trace")) return Format::ebb_csv;
    return std::optional<Format>();
  }
  if (line.starts_with(';')) return Format::swf;
  if (line.starts_with('{')) return Format::ebb_jsonl;
  if (const auto format = by_header(line)) return format;
  if (looks_like_swf(line)) return Format::swf;
  return fail(ErrorCode::invalid_argument,
              "cannot tell the format of the trace from its first line {}: give it with --format, one of {}",
              shown(line), kNamesText);
}

}  // namespace ebb::trace
