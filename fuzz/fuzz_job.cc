/// Fuzzes job files: what is read keeps its limits, and is read again from what is written of it.

#include <cstdint>
#include <string>

#include "ebb/base/check.h"
#include "ebb/spec/job_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto job = ebb::spec::parse_job("f.yaml", text, "/base");
  if (!job) return 0;
  EBB_CHECK(!job->command.empty() && !job->command.front().empty());
  EBB_CHECK(job->workers >= 1 && job->workers <= ebb::kMaxWorkers && job->gpus_per_worker >= 1);
  EBB_CHECK(job->working_directory.starts_with('/'));
  for (const std::string& argument : job->command) EBB_CHECK(argument.find('\0') == std::string::npos);
  for (const auto& [name, value] : job->environment) {
    EBB_CHECK(name.find('=') == std::string::npos && value.find('\0') == std::string::npos);
  }
  const auto again = ebb::spec::parse_job("again", ebb::spec::format_job(*job), "");
  EBB_CHECK(again && *again == *job);
  return 0;
}
