#pragma once

/// A JobRequest as JSON, the same keys as in job files (docs/reference/job.md), durations in nanoseconds. For what ebb
/// writes itself; people's files are read by spec/job_file.h.

#include <nlohmann/json_fwd.hpp>

#include "ebb/base/result.h"
#include "ebb/model/job_request.h"
#include "ebb/model/worker.h"

namespace ebb::wire {

nlohmann::ordered_json to_json(const JobRequest& request);
/// Errors: invalid_argument for what to_json() would not write.
Result<JobRequest> job_request_from(const nlohmann::ordered_json& json);

nlohmann::ordered_json to_json(const WorkerExit& exit);
Result<WorkerExit> worker_exit_from(const nlohmann::ordered_json& json);

}  // namespace ebb::wire
