/// ebb's own table: `# ebb-trace v1`, optional `# time_zero: ...`, then job, submit_s, run_s, gpus and what else is
/// known of a job.

#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/job_columns.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

constexpr std::string_view kMagic = "ebb-trace v";
constexpr std::string_view kTimeZero = "time_zero:";
constexpr std::int64_t kVersion = 1;

class EbbCsvReader : public FormatReader {
 public:
  Result<bool> preamble(std::string_view line) override {
    if (table_.has_header()) return false;
    if (line.starts_with('#')) {
      EBB_RETURN_IF_ERROR(comment(trim(line.substr(1))));
      return true;
    }
    EBB_RETURN_IF_ERROR(table_.read_header(line, {"job", "submit_s", "run_s", "gpus"}));
    job_ = *table_.find("job");
    submit_s_ = *table_.find("submit_s");
    run_s_ = *table_.find("run_s");
    gpus_ = *table_.find("gpus");
    tenant_ = table_.find("tenant");
    priority_ = table_.find("priority");
    requested_s_ = table_.find("requested_s");
    gpu_type_ = table_.find("gpu_type");
    pool_ = table_.find("pool");
    for (const JobColumn& column : job_columns()) {
      if (const auto index = table_.find(column.name)) further_.emplace_back(*index, &column);
    }
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    EBB_RETURN_IF_ERROR(table_.read_row(line));
    EBB_RETURN_IF_ERROR(table_.copy_text(job_, job.name, false));
    EBB_ASSIGN_OR_RETURN(const Duration submit, in_column("submit_s", parse_seconds(table_[submit_s_])));
    job.submit = Time(submit);
    EBB_ASSIGN_OR_RETURN(job.run_time, in_column("run_s", parse_seconds(table_[run_s_])));
    EBB_ASSIGN_OR_RETURN(job.gpus, in_column("gpus", parse_gpus(table_[gpus_])));
    if (priority_ && !trim(table_[*priority_]).empty()) {
      EBB_ASSIGN_OR_RETURN(const std::int64_t priority,
                           in_column("priority", parse_integer(table_[*priority_], -kMaxPriority, kMaxPriority)));
      job.priority = static_cast<int>(priority);
    }
    if (requested_s_ && !trim(table_[*requested_s_]).empty()) {
      EBB_ASSIGN_OR_RETURN(job.requested_time, in_column("requested_s", parse_seconds(table_[*requested_s_])));
    }
    if (tenant_) EBB_RETURN_IF_ERROR(table_.copy_text(*tenant_, job.tenant, true));
    if (gpu_type_) EBB_RETURN_IF_ERROR(table_.copy_text(*gpu_type_, job.gpu_type, true));
    if (pool_) EBB_RETURN_IF_ERROR(table_.copy_text(*pool_, job.pool, true));
    for (const auto& [index, column] : further_) {
      const std::string_view field = table_[index];
      if (!(column->is_text ? field : trim(field)).empty())
        EBB_RETURN_IF_ERROR(in_column(column->name, column->set(job, field)));
    }
    EBB_RETURN_IF_ERROR(check_sizes(job));
    return Row::job;
  }

  void finish(Workload& workload) override { workload.time_zero = time_zero_; }

 private:
  Result<void> comment(std::string_view text) {
    if (text.starts_with(kMagic)) {
      const auto version = parse_integer(text.substr(kMagic.size()), 1, INT32_MAX);
      if (!version) return fail(ErrorCode::invalid_argument, "the version: {}", version.error().message);
      if (*version > kVersion) {
        return fail(ErrorCode::invalid_argument, "this is version {} of ebb-csv; this ebb reads up to version {}",
                    *version, kVersion);
      }
    } else if (text.starts_with(kTimeZero)) {
      const std::string_view value = trim(text.substr(kTimeZero.size()));
      EBB_RETURN_IF_ERROR(in_column("time_zero", check_text(value)));
      time_zero_ = value;
    }
    return {};
  }

  CsvTable table_{',', true};
  std::size_t job_ = 0;
  std::size_t submit_s_ = 0;
  std::size_t run_s_ = 0;
  std::size_t gpus_ = 0;
  std::optional<std::size_t> tenant_;
  std::optional<std::size_t> priority_;
  std::optional<std::size_t> requested_s_;
  std::optional<std::size_t> gpu_type_;
  std::optional<std::size_t> pool_;
  std::vector<std::pair<std::size_t, const JobColumn*>> further_;  // those of job_columns() that the header has
  std::string time_zero_;
};

}  // namespace

std::unique_ptr<FormatReader> make_ebb_csv_reader() {
  return std::make_unique<EbbCsvReader>();
}

}  // namespace ebb::trace
