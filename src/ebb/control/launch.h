#pragma once

/// What a worker is started with: the command of its job, and the environment that torchrun would give it.

#include "ebb/control/ledger.h"

namespace ebb::control {

/// Variables that every worker gets (docs/reference/job.md), after those of the request, which may not name them.
WorkerSpec make_worker(const ClusterSpec& cluster, const JobEntry& job, JobId id, std::size_t rank);

}  // namespace ebb::control
