#include "ebb/trace/workload.h"

#include <algorithm>
#include <unordered_set>

#include "ebb/base/files.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"
#include "ebb/trace/transform.h"

namespace ebb::trace {
namespace {

constexpr std::size_t kMostMessages = 5;
// Comment lines that may stand before the line that shows the format.
constexpr std::size_t kMostUndecided = 1000;

std::unique_ptr<FormatReader> make_reader(Format format, const ReadOptions& options) {
  switch (format) {
    case Format::tiresias:
      return make_tiresias_reader();
    case Format::philly:
      return make_philly_reader();
    case Format::swf:
      return make_swf_reader(options.procs_per_gpu);
    case Format::sacct:
      return make_sacct_reader();
    case Format::ebb_csv:
      return make_ebb_csv_reader();
    case Format::ebb_jsonl:
      return make_ebb_jsonl_reader();
    case Format::pollux:
      return make_pollux_reader();
    case Format::deepboot:
      return make_deepboot_reader();
  }
  return nullptr;
}

/// One reading: lines go in, the workload comes out.
class Reading {
 public:
  Reading(std::string file, const ReadOptions& options) : file_(std::move(file)), options_(options) {}

  Result<void> line(std::size_t number, std::string_view text) {
    if (trim(text).empty()) return {};
    if (reader_ == nullptr) {
      EBB_ASSIGN_OR_RETURN(const bool decided, decide(number, text));
      if (!decided) return {};
    }
    if (in_preamble_) {
      Result<bool> taken = reader_->preamble(text);
      if (!taken) return at(number, taken.error().message);
      if (*taken) return {};
      in_preamble_ = false;
    }
    return row(number, text);
  }

  Result<ReadResult> finish() {
    Workload& workload = result_.workload;
    if (workload.jobs.empty()) return empty();
    result_.report.rows_read = workload.jobs.size();
    if (reader_->date_separator() != '\0') shift_to_zero();
    sort();
    reader_->finish(workload);
    if (result_.report.rows_skipped > 0) {
      workload.warnings.push_back(fmt::format("{} bad row{} left out; the first: {}", result_.report.rows_skipped,
                                              result_.report.rows_skipped == 1 ? " was" : "s were",
                                              result_.report.first_bad_rows.front()));
    }
    return std::move(result_);
  }

 private:
  tl::unexpected<Error> at(std::size_t number, std::string_view message) const {
    return fail(ErrorCode::invalid_argument, "{}:{}: {}", file_, number, message);
  }

  // Finds the format; comments that came before it was known are handed on then.
  Result<bool> decide(std::size_t number, std::string_view text) {
    std::optional<Format> format = options_.format;
    if (!format) {
      auto detected = detect_format(text);
      if (!detected) return at(number, detected.error().message);
      format = *detected;
      if (!format && undecided_.size() < kMostUndecided) {
        undecided_.emplace_back(text);
        return false;
      }
      if (!format) return at(number, "the file begins with too many comments: give its format with --format");
    }
    result_.report.format = *format;
    reader_ = make_reader(*format, options_);
    for (const std::string& comment : undecided_) {
      // '#' means nothing to formats other than ebb-csv, where it begins a comment.
      if (*format == Format::ebb_csv) EBB_RETURN_IF_ERROR(reader_->preamble(comment));
    }
    undecided_.clear();
    return true;
  }

  Result<void> row(std::size_t number, std::string_view text) {
    JobSpec job;
    Result<Row> row = reader_->row(text, job);
    if (row && *row == Row::left_out) return {};
    if (row && !reader_->names_are_unique() && !names_.insert(job.name).second) {
      row = fail(ErrorCode::invalid_argument, "job {} appears a second time; names must be unique", shown(job.name));
    }
    if (row) {
      out_of_order_ += job.submit < latest_ ? 1 : 0;
      latest_ = std::max(latest_, job.submit);
      if (result_.workload.jobs.size() == kMaxJobs) {
        return fail(ErrorCode::resource_exhausted, "{}:{}: more than {} jobs; cut the trace into parts", file_, number,
                    kMaxJobs);
      }
      result_.workload.jobs.push_back(std::move(job));
      return {};
    }
    if (!options_.skip_bad_rows) {
      return at(number, row.error().message + "; correct it, or leave bad rows out with --skip-bad-rows");
    }
    ++result_.report.rows_skipped;
    if (result_.report.first_bad_rows.size() < kMostMessages) {
      result_.report.first_bad_rows.push_back(fmt::format("{}:{}: {}", file_, number, row.error().message));
    }
    return {};
  }

  tl::unexpected<Error> empty() {
    std::string why = "it is empty";
    if (result_.report.rows_skipped > 0) {
      why = fmt::format("all {} rows are bad; the first: {}", result_.report.rows_skipped,
                        result_.report.first_bad_rows.front());
    } else if (reader_ != nullptr) {
      Workload left_out;
      reader_->finish(left_out);
      why = fmt::format("read as {}", to_string(result_.report.format));
      for (const std::string& warning : left_out.warnings) why += "; " + warning;
    }
    return fail(ErrorCode::invalid_argument, "{}: the trace has no jobs ({})", file_, why);
  }

  void shift_to_zero() {
    auto& jobs = result_.workload.jobs;
    const Time first = std::min_element(jobs.begin(), jobs.end(), [](const JobSpec& a, const JobSpec& b) {
                         return a.submit < b.submit;
                       })->submit;
    for (JobSpec& job : jobs) job.submit = Time(job.submit - first);
    result_.workload.time_zero = format_timestamp(first, reader_->date_separator());
  }

  void sort() {
    if (out_of_order_ == 0) return;
    auto& workload = result_.workload;
    sort_by_submission(workload.jobs);
    workload.warnings.push_back(fmt::format("{} row{} submitted before an earlier row; jobs were sorted by submission",
                                            out_of_order_, out_of_order_ == 1 ? " is" : "s are"));
  }

  std::string file_;
  const ReadOptions& options_;
  std::unique_ptr<FormatReader> reader_;
  bool in_preamble_ = true;
  std::vector<std::string> undecided_;
  std::unordered_set<std::string> names_;
  Time latest_{};
  std::size_t out_of_order_ = 0;
  ReadResult result_;
};

Result<ReadResult> read(LineReader lines, const ReadOptions& options) {
  if (options.procs_per_gpu < 1 || options.procs_per_gpu > kMaxJobGpus) {
    return fail(ErrorCode::invalid_argument, "{} processors a GPU is outside 1 to {}", options.procs_per_gpu,
                kMaxJobGpus);
  }
  Reading reading(lines.name(), options);
  std::string_view text;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, lines.next(text));
    if (!more) return reading.finish();
    EBB_RETURN_IF_ERROR(reading.line(lines.line_number(), text));
  }
}

}  // namespace

Result<ReadResult> read_workload(const std::filesystem::path& path, const ReadOptions& options) {
  EBB_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  return read(std::move(lines), options);
}

Result<ReadResult> read_workload_text(std::string name, std::string text, const ReadOptions& options) {
  return read(LineReader::from_text(std::move(name), std::move(text)), options);
}

}  // namespace ebb::trace
