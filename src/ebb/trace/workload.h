#pragma once

/// Reading and writing lists of jobs: traces in the formats that schedulers and their papers use, and ebb's own.
///
/// Reading goes row by row: recognise the format from the first meaningful line (unless given), find the columns by
/// name, turn each row into a JobSpec, then sort by submission (stable, with a warning if anything moved). Dated
/// formats (philly, sacct) are shifted so that the first submission is time 0; the others keep their own time 0.
/// Every format may be gzipped, have CRLF line ends, a byte-order mark, blank lines and columns that ebb ignores.
/// docs/reference/traces.md specifies each format.
///
/// Errors: a message with file, line, column and value. A bad row ends the reading, or with
/// ReadOptions::skip_bad_rows is left out and counted; a bad header, a damaged file and a trace without any job always
/// end it. Functions are free of shared state: call them from any thread.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/workload.h"

namespace ebb::trace {

enum class Format { tiresias, philly, swf, sacct, ebb_csv, ebb_jsonl, pollux, deepboot };

/// "tiresias", "philly", "swf", "sacct", "ebb-csv", "ebb-jsonl", "pollux" or "deepboot". Errors: invalid_argument
/// listing the names.
Result<Format> parse_format(std::string_view name);
const char* to_string(Format format);

/// Limits of one row; whatever is beyond is a bad row.
inline constexpr GpuCount kMaxJobGpus = 1'000'000;
inline constexpr std::size_t kMaxTextBytes = 4096;
/// The most jobs of a workload.
inline constexpr std::size_t kMaxJobs = 20'000'000;

struct ReadOptions {
  std::optional<Format> format;  ///< recognised from the content if not given
  int procs_per_gpu = 1;         ///< swf counts processors: this many make one GPU; at least 1
  bool skip_bad_rows = false;    ///< leave bad rows out and count them
};

struct ReadReport {
  Format format = Format::ebb_csv;
  std::size_t rows_read = 0;                ///< rows that became jobs
  std::size_t rows_skipped = 0;             ///< bad rows left out
  std::vector<std::string> first_bad_rows;  ///< messages of the first five of them
};

struct ReadResult {
  Workload workload;
  ReadReport report;
};

Result<ReadResult> read_workload(const std::filesystem::path& path, const ReadOptions& options);
/// The same from memory (not gzipped); `name` stands for the file in messages.
Result<ReadResult> read_workload_text(std::string name, std::string text, const ReadOptions& options);

/// Writes all of the workload or nothing. ebb_csv and ebb_jsonl hold every field: reading them back gives the same
/// workload, to the nanosecond. The others are for other programs: they leave out tenant and requested time where they
/// have no column for them. Errors: invalid_argument for sacct, pollux and deepboot, for an empty workload, for
/// services (a trace has none), for a job outside the limits above, and naming the first job with something that the
/// format cannot hold but that changes what is simulated (priority, GPU type, pool, kind, sizing, application,
/// fractions of a second in swf, undated times in philly).
Result<void> write_workload(const std::filesystem::path& path, const Workload& workload, Format format);
/// The same as text.
Result<std::string> write_workload_text(const Workload& workload, Format format);

}  // namespace ebb::trace
