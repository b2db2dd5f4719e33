#pragma once

/// Internal: files that `sim run` and `sim compare` both write.

#include <span>

#include "ebb/base/output_folder.h"
#include "ebb/cli/command.h"
#include "ebb/sim/result.h"

namespace ebb::cli {

/// report.html.
Result<void> write_report(const OutputFolder& folder, std::span<const sim::SimResult> results, const Context& context);
/// run.json: the effective settings of every run, and what the process cost since `started` (sim::monotonic_seconds()).
Result<void> write_run_json(const OutputFolder& folder, std::span<const sim::SimResult> results, const Context& context,
                            double started);

}  // namespace ebb::cli
