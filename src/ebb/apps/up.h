#pragma once

/// `ebb up`: controller, agent and API of one machine in one process.

#include "ebb/cli/cli.h"

namespace ebb {

/// Runs until stop_cluster(). Errors: what keeps it from starting; internal if it cannot go on.
Result<void> run_cluster(const cli::UpOptions& options, const cli::Streams& streams);

/// Ends run_cluster() from another thread; false if it does not run.
bool stop_cluster();

}  // namespace ebb
