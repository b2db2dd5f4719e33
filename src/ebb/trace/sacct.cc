/// Slurm's accounting, as `sacct --parsable2` prints it: fields separated by '|' without any quoting, a header line.
/// Rows that are not finished GPU jobs (steps, jobs without a GPU, jobs that still run or never started) are left out
/// and counted in a warning: they are no mistakes.

#include <algorithm>
#include <array>

#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

// States in which a job has not ended.
constexpr std::array<std::string_view, 13> kUnfinished{
    "PENDING",      "RUNNING",  "SUSPENDED", "CONFIGURING", "COMPLETING", "REQUEUED",    "REQUEUE_FED",
    "REQUEUE_HOLD", "RESIZING", "SIGNALING", "STAGE_OUT",   "STOPPED",    "SPECIAL_EXIT"};
// States of a job that may have ended without ever starting.
constexpr std::array<std::string_view, 4> kMaybeNeverStarted{"CANCELLED", "DEADLINE", "REVOKED", "BOOT_FAIL"};

bool is_unknown(std::string_view text) {
  return text.empty() || text == "Unknown" || text == "None" || text == "N/A";
}

// [D-]HH:MM:SS or MM:SS, seconds with an optional fraction.
Result<Duration> parse_clock(std::string_view text) {
  const std::string_view whole_text = trim(text);
  const auto malformed = [&] {
    return fail(ErrorCode::invalid_argument, "{} is not a time [DD-]HH:MM:SS or MM:SS", shown(whole_text));
  };
  std::string_view rest = whole_text;
  std::int64_t days = 0;
  const std::size_t dash = rest.find('-');
  const bool has_days = dash != std::string_view::npos && dash > 0;
  if (has_days) {
    const auto parsed = parse_integer(rest.substr(0, dash), 0, 36500);
    if (!parsed) return malformed();
    days = *parsed;
    rest.remove_prefix(dash + 1);
  }
  std::array<std::string_view, 3> parts;
  std::size_t count = 0;
  while (true) {
    if (count == parts.size()) return malformed();
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    parts[count++] = rest.substr(0, colon);
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  if (count < 2 || (has_days && count < 3)) return malformed();
  std::int64_t hours = 0;
  if (count == 3) {
    const auto parsed = parse_integer(parts[0], 0, 24 * 36500);
    if (!parsed) return malformed();
    hours = *parsed;
  }
  const auto minutes = parse_integer(parts[count - 2], 0, 59);
  const auto seconds = parse_seconds(parts[count - 1]);
  if (!minutes || !seconds || *seconds >= std::chrono::seconds(60)) return malformed();
  const Duration sum = std::chrono::hours(days * 24 + hours) + std::chrono::minutes(*minutes) + *seconds;
  if (sum > kMaxDuration) return fail(ErrorCode::invalid_argument, "{} is more than 100 years", shown(whole_text));
  return sum;
}

struct Gpus {
  std::int64_t count = 0;  ///< 0 = none
  std::string_view type;   ///< "" = not known
};

// GPUs in a list like "billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1". The plain entry counts; without it
// the typed ones are summed. They give the type if they agree.
Result<Gpus> parse_tres(std::string_view tres) {
  constexpr std::string_view kGpu = "gres/gpu";
  std::int64_t plain = 0;
  Gpus typed;
  bool several_types = false;
  while (!tres.empty()) {
    const std::size_t comma = std::min(tres.find(','), tres.size());
    std::string_view entry = trim(tres.substr(0, comma));
    tres.remove_prefix(std::min(comma + 1, tres.size()));
    if (!entry.starts_with(kGpu)) continue;
    const std::string_view whole_entry = entry;
    entry.remove_prefix(kGpu.size());
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || (equals > 0 && entry[0] != ':')) continue;  // gres/gpumem and the like
    const auto count = parse_integer(entry.substr(equals + 1), 0, kMaxJobGpus);
    if (!count) {
      return fail(ErrorCode::invalid_argument, "{}: {}", shown(whole_entry), count.error().message);
    }
    if (equals == 0) {
      plain += *count;
    } else if (*count > 0) {
      const std::string_view type = entry.substr(1, equals - 1);
      several_types = several_types || (typed.count > 0 && type != typed.type);
      typed.type = type;
      typed.count += *count;
    }
  }
  if (several_types) typed.type = {};
  const Gpus gpus = plain > 0 ? Gpus{plain, typed.type} : typed;
  if (gpus.count > kMaxJobGpus) {
    return fail(ErrorCode::invalid_argument, "{} GPUs are outside 1 to {}", gpus.count, kMaxJobGpus);
  }
  return gpus;
}

class SacctReader : public FormatReader {
 public:
  Result<bool> preamble(std::string_view line) override {
    if (table_.has_header()) return false;
    EBB_RETURN_IF_ERROR(table_.read_header(line, {"JobID", "Submit"}));
    job_id_ = *table_.find("JobID");
    submit_ = *table_.find("Submit");
    for (auto& [name, index] : optional_) index = table_.find(name);
    const bool has_run_time = has(kElapsedRaw) || has(kElapsed) || (has(kStart) && has(kEnd));
    if (!has_run_time || !(has(kAllocTres) || has(kReqTres))) {
      return fail(ErrorCode::invalid_argument,
                  "the header lacks: {}; it has: {}; run sacct with -o "
                  "JobID,Account,Submit,Start,End,ElapsedRaw,TimelimitRaw,State,AllocTRES,ReqTRES",
                  has_run_time ? "AllocTRES or ReqTRES" : "ElapsedRaw, Elapsed or Start with End",
                  table_.columns_found());
    }
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    EBB_RETURN_IF_ERROR(table_.read_row(line));
    if (table_[job_id_].find('.') != std::string_view::npos) return leave_out(steps_);
    EBB_ASSIGN_OR_RETURN(const bool gpus_found, read_gpus(job));
    if (!gpus_found) return leave_out(without_gpu_);
    if (!has_ended()) return leave_out(unfinished_);
    EBB_RETURN_IF_ERROR(table_.copy_text(job_id_, job.name, false));
    EBB_ASSIGN_OR_RETURN(job.submit, in_column("Submit", parse_timestamp(table_[submit_])));
    EBB_ASSIGN_OR_RETURN(job.run_time, run_time());
    if (job.run_time == Duration::zero() && is_one_of(kMaybeNeverStarted)) return leave_out(unfinished_);
    EBB_RETURN_IF_ERROR(read_limit(job));
    for (const Column column : {kAccount, kUser}) {
      if (job.tenant.empty() && has(column)) EBB_RETURN_IF_ERROR(table_.copy_text(at(column), job.tenant, true));
    }
    return Row::job;
  }

  void finish(Workload& workload) override {
    const auto warn = [&](std::size_t count, const char* what) {
      if (count > 0) workload.warnings.push_back(fmt::format("{} {} left out", count, what));
    };
    warn(steps_, steps_ == 1 ? "row is a job step and was" : "rows are job steps and were");
    warn(without_gpu_, without_gpu_ == 1 ? "job held no GPU and was" : "jobs held no GPU and were");
    warn(unfinished_, unfinished_ == 1 ? "job had not ended or never started and was"
                                       : "jobs had not ended or never started and were");
  }

  char date_separator() const override { return 'T'; }

 private:
  enum Column { kElapsedRaw, kElapsed, kStart, kEnd, kAllocTres, kReqTres, kAccount, kUser, kLimitRaw, kLimit, kState };

  bool has(Column column) const { return optional_[column].second.has_value(); }
  std::size_t at(Column column) const { return *optional_[column].second; }
  /// The trimmed field, "" if there is no such column.
  std::string_view value(Column column) const { return has(column) ? trim(table_[at(column)]) : std::string_view(); }

  Row leave_out(std::size_t& counter) {
    ++counter;
    return Row::left_out;
  }

  template <std::size_t N>
  bool is_one_of(const std::array<std::string_view, N>& states) const {
    const std::string_view text = value(kState);  // "CANCELLED by 1000"
    return std::find(states.begin(), states.end(), text.substr(0, text.find(' '))) != states.end();
  }

  bool has_ended() const {
    if (is_one_of(kUnfinished) || is_unknown(trim(table_[submit_]))) return false;
    return (!has(kStart) || !is_unknown(value(kStart))) && (!has(kEnd) || !is_unknown(value(kEnd)));
  }

  // What was held; a job that has not held anything may still have asked for GPUs.
  Result<bool> read_gpus(JobSpec& job) const {
    for (const Column column : {kAllocTres, kReqTres}) {
      if (!has(column)) continue;
      EBB_ASSIGN_OR_RETURN(const Gpus gpus, in_column(optional_[column].first, parse_tres(value(column))));
      if (gpus.count == 0) continue;
      EBB_RETURN_IF_ERROR(in_column(optional_[column].first, check_text(gpus.type)));
      job.gpus = static_cast<GpuCount>(gpus.count);
      job.gpu_type = gpus.type;
      return true;
    }
    return false;
  }

  Result<Duration> run_time() const {
    if (!value(kElapsedRaw).empty()) return in_column("ElapsedRaw", parse_seconds(value(kElapsedRaw)));
    if (!value(kElapsed).empty()) return in_column("Elapsed", parse_clock(value(kElapsed)));
    if (!has(kStart) || !has(kEnd)) {
      return fail(ErrorCode::invalid_argument, "column '{}' is empty; the run time is needed",
                  optional_[has(kElapsedRaw) ? kElapsedRaw : kElapsed].first);
    }
    EBB_ASSIGN_OR_RETURN(const Time start, in_column("Start", parse_timestamp(value(kStart))));
    EBB_ASSIGN_OR_RETURN(const Time end, in_column("End", parse_timestamp(value(kEnd))));
    if (end < start) {
      return fail(ErrorCode::invalid_argument, "column 'End': {} is before the start {}", shown(value(kEnd)),
                  shown(value(kStart)));
    }
    return end - start;
  }

  Result<void> read_limit(JobSpec& job) const {
    const auto no_limit = [](std::string_view text) {
      return is_unknown(text) || text == "UNLIMITED" || text == "Partition_Limit" || text == "INVALID";
    };
    Duration limit{};
    if (const std::string_view raw = value(kLimitRaw); !no_limit(raw)) {
      EBB_ASSIGN_OR_RETURN(const std::int64_t minutes,
                           in_column("TimelimitRaw", parse_integer(raw, 0, kMaxDuration / std::chrono::minutes(1))));
      limit = std::chrono::minutes(minutes);
    } else if (const std::string_view text = value(kLimit); !no_limit(text)) {
      EBB_ASSIGN_OR_RETURN(limit, in_column("Timelimit", parse_clock(text)));
    }
    if (limit > Duration::zero()) job.requested_time = limit;
    return {};
  }

  CsvTable table_{'|', false};
  std::size_t job_id_ = 0;
  std::size_t submit_ = 0;
  std::array<std::pair<const char*, std::optional<std::size_t>>, 11> optional_{{{"ElapsedRaw", {}},
                                                                                {"Elapsed", {}},
                                                                                {"Start", {}},
                                                                                {"End", {}},
                                                                                {"AllocTRES", {}},
                                                                                {"ReqTRES", {}},
                                                                                {"Account", {}},
                                                                                {"User", {}},
                                                                                {"TimelimitRaw", {}},
                                                                                {"Timelimit", {}},
                                                                                {"State", {}}}};
  std::size_t steps_ = 0;
  std::size_t without_gpu_ = 0;
  std::size_t unfinished_ = 0;
};

}  // namespace

std::unique_ptr<FormatReader> make_sacct_reader() {
  return std::make_unique<SacctReader>();
}

}  // namespace ebb::trace
