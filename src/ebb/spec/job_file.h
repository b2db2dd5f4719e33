#pragma once

/// Jobs as their owners write them: one YAML or JSON file, one job (or one array). docs/reference/job.md describes
/// every key. Reader, writer and JSON Schema are made of one table of keys (job_file.cc).
///
/// Errors: file, line and column with key, value and what is allowed; an unknown key names the nearest known one.
/// Functions are free of shared state: call them from any thread.

#include <filesystem>
#include <string>

#include "ebb/base/result.h"
#include "ebb/model/job_request.h"

namespace ebb::spec {

/// Larger files are refused.
inline constexpr std::size_t kMaxJobFileBytes = std::size_t{8} << 20;
/// Of names of jobs, tenants, nodes and GPU types.
inline constexpr std::size_t kMaxNameCharacters = 128;
/// Of all arguments and variables together, each with its end, and of any one of them: what the kernel passes on.
inline constexpr std::size_t kMaxCommandBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxArgumentBytes = (std::size_t{128} << 10) - 1;
inline constexpr std::size_t kMaxVariableNameBytes = 256;
inline constexpr std::size_t kMaxDependencies = 1'000;
inline constexpr std::int64_t kMinMemoryBytes = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxMemoryBytes = std::int64_t{1} << 50;

/// `base`: the absolute folder that a relative working_directory is resolved against, and the working directory where
/// the file gives none. With an empty `base`, a relative one is an error and an absent one stays "".
Result<JobRequest> read_job(const std::filesystem::path& path, const std::filesystem::path& base);
/// From text; `name` stands for the file in messages.
Result<JobRequest> parse_job(const std::string& name, const std::string& text, const std::filesystem::path& base);

/// One line of JSON that parse_job() takes back to the same request (durations of more than 50 days: to a microsecond).
std::string format_job(const JobRequest& request);

/// The JSON Schema (2020-12) of such a file: docs/reference/job.schema.json.
std::string job_schema();

}  // namespace ebb::spec
