/// The job lists of the Tiresias simulator: job_id, num_gpu, submit_time, duration; other columns are ignored.

#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

class TiresiasReader : public FormatReader {
 public:
  Result<bool> preamble(std::string_view line) override {
    if (table_.has_header()) return false;
    EBB_RETURN_IF_ERROR(table_.read_header(line, {"job_id", "num_gpu", "submit_time", "duration"}));
    job_id_ = *table_.find("job_id");
    num_gpu_ = *table_.find("num_gpu");
    submit_time_ = *table_.find("submit_time");
    duration_ = *table_.find("duration");
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    EBB_RETURN_IF_ERROR(table_.read_row(line));
    EBB_RETURN_IF_ERROR(table_.copy_text(job_id_, job.name, false));
    EBB_ASSIGN_OR_RETURN(job.gpus, in_column("num_gpu", parse_gpus(table_[num_gpu_])));
    EBB_ASSIGN_OR_RETURN(const Duration submit, in_column("submit_time", parse_seconds(table_[submit_time_])));
    job.submit = Time(submit);
    EBB_ASSIGN_OR_RETURN(job.run_time, in_column("duration", parse_seconds(table_[duration_])));
    return Row::job;
  }

 private:
  CsvTable table_{',', true};
  std::size_t job_id_ = 0;
  std::size_t num_gpu_ = 0;
  std::size_t submit_time_ = 0;
  std::size_t duration_ = 0;
};

}  // namespace

std::unique_ptr<FormatReader> make_tiresias_reader() {
  return std::make_unique<TiresiasReader>();
}

}  // namespace ebb::trace
