/// The Standard Workload Format of the Parallel Workloads Archive: 18 fields separated by white space, -1 = unknown,
/// comments and headers after ';'. Processors become GPUs: ceil(processors / procs_per_gpu).

#include <algorithm>
#include <array>

#include "ebb/trace/fields.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

constexpr std::size_t kFields = 18;
// Numbers of the fields that ebb reads, from 1 as the format's description counts them.
constexpr std::size_t kJobNumber = 1;
constexpr std::size_t kSubmit = 2;
constexpr std::size_t kRunTime = 4;
constexpr std::size_t kAllocated = 5;
constexpr std::size_t kRequested = 8;
constexpr std::size_t kRequestedTime = 9;
constexpr std::size_t kUser = 12;

class SwfReader : public FormatReader {
 public:
  explicit SwfReader(int procs_per_gpu) : procs_per_gpu_(procs_per_gpu) {}

  Result<bool> preamble(std::string_view line) override {
    line = trim(line);
    if (!line.starts_with(';')) return false;
    line = trim(line.substr(1));
    constexpr std::string_view kStart = "UnixStartTime:";
    if (line.starts_with(kStart)) {
      // A start time that makes no sense is no reason to refuse the jobs.
      const auto start = parse_integer(line.substr(kStart.size()), 0, 3'000'000'000);
      if (start && *start > 0) start_ = Time(std::chrono::seconds(*start));
    }
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    if (trim(line).starts_with(';')) return Row::left_out;
    EBB_RETURN_IF_ERROR(split(line));
    EBB_ASSIGN_OR_RETURN(const std::int64_t number,
                         in_column("1 job number", parse_integer(field(kJobNumber), 0, INT64_MAX)));
    job.name = fmt::format_int(number).str();
    EBB_ASSIGN_OR_RETURN(const Duration submit, in_column("2 submit time", parse_seconds(field(kSubmit))));
    job.submit = Time(submit);
    if (field(kRunTime) == "-1") {
      return fail(ErrorCode::invalid_argument, "column '4 run time': '-1': the run time is unknown");
    }
    EBB_ASSIGN_OR_RETURN(job.run_time, in_column("4 run time", parse_seconds(field(kRunTime))));
    EBB_ASSIGN_OR_RETURN(job.gpus, gpus());
    if (field(kRequestedTime) != "-1") {
      EBB_ASSIGN_OR_RETURN(const Duration requested,
                           in_column("9 requested time", parse_seconds(field(kRequestedTime))));
      if (requested > Duration::zero()) job.requested_time = requested;
    }
    if (field(kUser) != "-1") {
      EBB_ASSIGN_OR_RETURN(const std::int64_t user, in_column("12 user id", parse_integer(field(kUser), 0, INT64_MAX)));
      job.tenant = fmt::format("user{}", user);
    }
    return Row::job;
  }

  void finish(Workload& workload) override {
    if (start_) workload.time_zero = format_timestamp(*start_, ' ');
  }

 private:
  std::string_view field(std::size_t number) const { return fields_[number - 1]; }

  Result<void> split(std::string_view line) {
    std::size_t count = 0;
    std::size_t at = 0;
    while (count < kFields) {
      at = line.find_first_not_of(" \t", at);
      if (at == std::string_view::npos) break;
      const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
      fields_[count++] = line.substr(at, end - at);
      at = end;
    }
    if (count < kFields) {
      return fail(ErrorCode::invalid_argument, "the row has {} fields, the format {}: field {} is missing", count,
                  kFields, count + 1);
    }
    return {};
  }

  Result<GpuCount> gpus() const {
    const std::int64_t most = std::int64_t{kMaxJobGpus} * procs_per_gpu_;
    EBB_ASSIGN_OR_RETURN(std::int64_t processors,
                         in_column("8 requested processors", parse_integer(field(kRequested), -1, most)));
    if (processors <= 0) {
      EBB_ASSIGN_OR_RETURN(processors, in_column("5 allocated processors", parse_integer(field(kAllocated), -1, most)));
    }
    if (processors <= 0) {
      return fail(ErrorCode::invalid_argument,
                  "columns '8 requested processors' and '5 allocated processors': '{}' and '{}': the number of "
                  "processors is unknown",
                  field(kRequested), field(kAllocated));
    }
    return static_cast<GpuCount>((processors + procs_per_gpu_ - 1) / procs_per_gpu_);
  }

  int procs_per_gpu_;
  std::optional<Time> start_;
  std::array<std::string_view, kFields> fields_;
};

}  // namespace

std::unique_ptr<FormatReader> make_swf_reader(int procs_per_gpu) {
  return std::make_unique<SwfReader>(procs_per_gpu);
}

}  // namespace ebb::trace
