/// The table form of Microsoft's Philly trace: timestamp, duration, num_gpus, gpu_time, cluster. Jobs have no id: their
/// name is the number of their row. The wall times have no zone and are taken as they stand.

#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

class PhillyReader : public FormatReader {
 public:
  Result<bool> preamble(std::string_view line) override {
    if (table_.has_header()) return false;
    EBB_RETURN_IF_ERROR(table_.read_header(line, {"timestamp", "duration", "num_gpus"}));
    timestamp_ = *table_.find("timestamp");
    duration_ = *table_.find("duration");
    num_gpus_ = *table_.find("num_gpus");
    cluster_ = table_.find("cluster");
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    const std::size_t number = rows_++;  // bad rows count too: names do not depend on --skip-bad-rows
    EBB_RETURN_IF_ERROR(table_.read_row(line));
    EBB_ASSIGN_OR_RETURN(job.submit, in_column("timestamp", parse_timestamp(table_[timestamp_])));
    EBB_ASSIGN_OR_RETURN(job.run_time, in_column("duration", parse_seconds(table_[duration_])));
    EBB_ASSIGN_OR_RETURN(job.gpus, in_column("num_gpus", parse_gpus(table_[num_gpus_])));
    if (cluster_) EBB_RETURN_IF_ERROR(table_.copy_text(*cluster_, job.tenant, true));
    job.name = fmt::format_int(number).str();
    return Row::job;
  }

  char date_separator() const override { return ' '; }
  bool names_are_unique() const override { return true; }

 private:
  CsvTable table_{',', true};
  std::size_t timestamp_ = 0;
  std::size_t duration_ = 0;
  std::size_t num_gpus_ = 0;
  std::optional<std::size_t> cluster_;
  std::size_t rows_ = 0;
};

}  // namespace

std::unique_ptr<FormatReader> make_philly_reader() {
  return std::make_unique<PhillyReader>();
}

}  // namespace ebb::trace
