#pragma once

/// Internal: what a format has to know. The driver (workload.cc) reads lines, skips blank ones, adds file and line to
/// messages, counts, checks names and sorts.
///
/// preamble() gets lines until it says that one is not part of the preamble (comments, header); row() gets that line
/// and all others. An error of preamble() is final; an error of row() is a bad row.

#include <memory>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/model/workload.h"
#include "ebb/trace/workload.h"

namespace ebb::trace {

enum class Row { job, left_out };

class FormatReader {
 public:
  virtual ~FormatReader() = default;

  /// True: the line belongs to the preamble. False: it is the first row.
  virtual Result<bool> preamble(std::string_view line) = 0;
  /// Fills `job` (which is fresh) or says that the row is not a job.
  virtual Result<Row> row(std::string_view line, JobSpec& job) = 0;
  /// Adds warnings and, for relative times, time_zero.
  virtual void finish(Workload&) {}
  /// For dated formats, what stands between date and time of day: submissions are times since 1970 and the driver
  /// shifts them. '\0': times are relative.
  virtual char date_separator() const { return '\0'; }
  /// True if names cannot repeat (they are row numbers).
  virtual bool names_are_unique() const { return false; }
};

std::unique_ptr<FormatReader> make_tiresias_reader();
std::unique_ptr<FormatReader> make_philly_reader();
std::unique_ptr<FormatReader> make_swf_reader(int procs_per_gpu);
std::unique_ptr<FormatReader> make_sacct_reader();
std::unique_ptr<FormatReader> make_ebb_csv_reader();
std::unique_ptr<FormatReader> make_ebb_jsonl_reader();
std::unique_ptr<FormatReader> make_pollux_reader();
std::unique_ptr<FormatReader> make_deepboot_reader();

/// The format that a line shows to be; nullopt: a comment that could begin any of several.
/// Errors: invalid_argument listing the formats.
Result<std::optional<Format>> detect_format(std::string_view line);

}  // namespace ebb::trace
