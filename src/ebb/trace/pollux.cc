/// Workloads of the simulators of Pollux (Qiao et al., OSDI 2021) and DeepBoot: elastic training jobs, named by the
/// application that they train, and in DeepBoot's also single inference tasks (`infer-...`). How long a training job
/// runs follows from the measured profile of its application and is not in the file.

#include <algorithm>

#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

constexpr std::string_view kTask = "infer-";

class PolluxReader : public FormatReader {
 public:
  explicit PolluxReader(bool has_tasks) : has_tasks_(has_tasks) {}

  Result<bool> preamble(std::string_view line) override {
    if (table_.has_header()) return false;
    if (has_tasks_) {
      EBB_RETURN_IF_ERROR(
          table_.read_header(line, {"name", "time", "application", "num_replicas", "batch_size", "duration"}));
      duration_ = *table_.find("duration");
    } else {
      EBB_RETURN_IF_ERROR(table_.read_header(line, {"name", "time", "application", "num_replicas", "batch_size"}));
    }
    name_ = *table_.find("name");
    time_ = *table_.find("time");
    application_ = *table_.find("application");
    num_replicas_ = *table_.find("num_replicas");
    batch_size_ = *table_.find("batch_size");
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    EBB_RETURN_IF_ERROR(table_.read_row(line));
    EBB_RETURN_IF_ERROR(table_.copy_text(name_, job.name, false));
    EBB_ASSIGN_OR_RETURN(const Duration submit, in_column("time", parse_seconds(table_[time_])));
    job.submit = Time(submit);
    EBB_RETURN_IF_ERROR(table_.copy_text(application_, job.application, false));
    EBB_ASSIGN_OR_RETURN(job.gpus, in_column("num_replicas", parse_gpus(table_[num_replicas_])));
    if (job.application.starts_with(kTask)) return task(job);
    EBB_ASSIGN_OR_RETURN(const std::int64_t batch,
                         in_column("batch_size", parse_integer(table_[batch_size_], 1, INT32_MAX)));
    job.batch_size = static_cast<BatchSize>(batch);
    job.sizing = Sizing::elastic;
    job.min_gpus = 1;  // the largest size is the profile's
    return Row::job;
  }

  void finish(Workload& workload) override {
    const auto training = std::count_if(workload.jobs.begin(), workload.jobs.end(),
                                        [](const JobSpec& job) { return job.kind == JobKind::training; });
    if (training == 0) return;
    workload.warnings.push_back(fmt::format("{} training job{} no run time: it follows from the application's profile",
                                            training, training == 1 ? " has" : "s have"));
  }

 private:
  // The columns of a training job's batch and run time mean nothing for a task, and the other way round.
  Result<Row> task(JobSpec& job) {
    if (!has_tasks_) {
      return fail(ErrorCode::invalid_argument,
                  "column 'application': {} is an inference task, which only the deepboot format has (with a column "
                  "'duration')",
                  shown(job.application));
    }
    job.kind = JobKind::inference;
    EBB_ASSIGN_OR_RETURN(job.run_time, in_column("duration", parse_seconds(table_[duration_])));
    return Row::job;
  }

  bool has_tasks_;
  CsvTable table_{',', true};
  std::size_t name_ = 0;
  std::size_t time_ = 0;
  std::size_t application_ = 0;
  std::size_t num_replicas_ = 0;
  std::size_t batch_size_ = 0;
  std::size_t duration_ = 0;
};

}  // namespace

std::unique_ptr<FormatReader> make_pollux_reader() {
  return std::make_unique<PolluxReader>(false);
}

std::unique_ptr<FormatReader> make_deepboot_reader() {
  return std::make_unique<PolluxReader>(true);
}

}  // namespace ebb::trace
