#pragma once

/// A list of jobs to be submitted: what a trace file holds.

#include <string>
#include <vector>

#include "ebb/model/job.h"
#include "ebb/model/service.h"

namespace ebb {

struct Workload {
  /// In order of submission (ties in file order). Times are relative to `time_zero`: the first submission of a dated
  /// trace, or the file's own time 0.
  std::vector<JobSpec> jobs;
  /// Services with a demand over time. Services of inference tasks need not be listed: a task names its own.
  std::vector<ServiceLoad> services;
  /// For dated traces: the wall time of time 0 as the file writes it, for example "2017-10-01 00:02:01".
  std::string time_zero;
  /// What the reader noticed and a user should know, one sentence each.
  std::vector<std::string> warnings;
};

}  // namespace ebb
