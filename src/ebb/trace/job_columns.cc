#include "ebb/trace/job_columns.h"

#include <array>

#include "ebb/trace/fields.h"
#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

// A whole number of JobSpec as a column: `Default` is written as an empty field.
template <auto Member, std::int32_t Default, std::int32_t Min, std::int32_t Max>
constexpr JobColumn number(std::string_view name) {
  return {
      name, false,
      [](const JobSpec& job) { return job.*Member == Default ? std::string() : fmt::format_int(job.*Member).str(); },
      [](JobSpec& job, std::string_view text) -> Result<void> {
        EBB_ASSIGN_OR_RETURN(const std::int64_t value, parse_integer(text, Min, Max));
        job.*Member = static_cast<std::int32_t>(value);
        return {};
      }};
}

template <auto Member>
constexpr JobColumn batch_limit(std::string_view name) {
  return {name, false,
          [](const JobSpec& job) {
            return job.batch.*Member == 0 ? std::string() : fmt::format_int(job.batch.*Member).str();
          },
          [](JobSpec& job, std::string_view text) -> Result<void> {
            EBB_ASSIGN_OR_RETURN(const std::int64_t value, parse_integer(text, 0, INT32_MAX));
            job.batch.*Member = static_cast<BatchSize>(value);
            return {};
          }};
}

constexpr std::array<JobColumn, 11> kColumns{{
    {"kind", true,
     [](const JobSpec& job) { return std::string(job.kind == JobKind::training ? "" : to_name(job.kind)); },
     [](JobSpec& job, std::string_view text) -> Result<void> {
       EBB_ASSIGN_OR_RETURN(job.kind, parse_kind(trim(text)));
       return {};
     }},
    {"sizing", true,
     [](const JobSpec& job) { return std::string(job.sizing == Sizing::rigid ? "" : to_string(job.sizing)); },
     [](JobSpec& job, std::string_view text) -> Result<void> {
       EBB_ASSIGN_OR_RETURN(job.sizing, parse_sizing(trim(text)));
       return {};
     }},
    number<&JobSpec::min_gpus, 0, 0, kMaxJobGpus>("min_gpus"),
    number<&JobSpec::max_gpus, 0, 0, kMaxJobGpus>("max_gpus"),
    number<&JobSpec::gpu_step, 1, 1, kMaxJobGpus>("gpu_step"),
    {"application", true, [](const JobSpec& job) { return job.application; },
     [](JobSpec& job, std::string_view text) -> Result<void> {
       EBB_RETURN_IF_ERROR(check_text(text));
       job.application = text;
       return {};
     }},
    number<&JobSpec::batch_size, 0, 0, INT32_MAX>("batch_size"),
    batch_limit<&BatchLimits::initial>("batch_initial"),
    batch_limit<&BatchLimits::largest>("batch_largest"),
    batch_limit<&BatchLimits::local_min>("batch_local_min"),
    batch_limit<&BatchLimits::local_max>("batch_local_max"),
}};

template <typename... Args>
tl::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::invalid_argument, format, std::forward<Args>(args)...);
}

Result<void> check_legal_sizes(const JobSpec& job) {
  const char* sizing = to_string(job.sizing);
  if (job.min_gpus < 1) return bad("min_gpus is needed where sizing is {}", sizing);
  if (job.gpu_step < 1) return bad("gpu_step {} is below 1", job.gpu_step);
  if (job.max_gpus == 0 && job.application.empty()) {
    return bad("max_gpus is needed where no application is given whose profile could tell it");
  }
  if (job.max_gpus != 0 && job.max_gpus < job.min_gpus) {
    return bad("max_gpus {} is less than min_gpus {}", job.max_gpus, job.min_gpus);
  }
  const auto legal = [&](GpuCount n) { return n >= job.min_gpus && (n - job.min_gpus) % job.gpu_step == 0; };
  if (job.max_gpus != 0 && !legal(job.max_gpus)) {
    return bad("max_gpus {} is not min_gpus {} and a multiple of gpu_step {}", job.max_gpus, job.min_gpus,
               job.gpu_step);
  }
  if (!legal(job.gpus) || (job.max_gpus != 0 && job.gpus > job.max_gpus)) {
    return bad("gpus {} is none of the sizes {}, {} + {}, ... up to {}", job.gpus, job.min_gpus, job.min_gpus,
               job.gpu_step, job.max_gpus == 0 ? "what the application allows" : fmt::format("{}", job.max_gpus));
  }
  return {};
}

Result<void> check_batch(const JobSpec& job) {
  const BatchLimits& batch = job.batch;
  if (batch == BatchLimits{}) return {};
  if (batch.initial < 1 || batch.largest < 1 || batch.local_min < 1 || batch.local_max < 1) {
    return bad("batch_initial, batch_largest, batch_local_min and batch_local_max are given together, each at least 1");
  }
  if (batch.largest < batch.initial) {
    return bad("batch_largest {} is less than batch_initial {}", batch.largest, batch.initial);
  }
  if (batch.local_max < batch.local_min) {
    return bad("batch_local_max {} is less than batch_local_min {}", batch.local_max, batch.local_min);
  }
  if (batch.largest / job.smallest() < batch.local_min) {
    return bad("batch_largest {} is less than batch_local_min {} on each of {} GPUs: no number of GPUs fits",
               batch.largest, batch.local_min, job.smallest());
  }
  if (job.batch_size > batch.largest) {
    return bad("batch_size {} is more than batch_largest {}", job.batch_size, batch.largest);
  }
  return {};
}

}  // namespace

std::span<const JobColumn> job_columns() {
  return kColumns;
}

Result<void> check_sizes(const JobSpec& job) {
  if (job.kind == JobKind::inference) {
    if (job.application.empty()) return bad("application is needed where kind is inference: the service of the task");
    if (job.sizing != Sizing::rigid)
      return bad("sizing is rigid where kind is inference, not {}", to_string(job.sizing));
  }
  if (job.sizing != Sizing::rigid) {
    EBB_RETURN_IF_ERROR(check_legal_sizes(job));
  } else if (job.min_gpus != 0 || job.max_gpus != 0 || job.gpu_step != 1) {
    return bad("min_gpus, max_gpus and gpu_step need the sizing moldable or elastic");
  }
  if (job.batch_size < 0) return bad("batch_size {} is negative", job.batch_size);
  return check_batch(job);
}

}  // namespace ebb::trace
