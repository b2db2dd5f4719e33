#pragma once

/// Many runs at once: policies x loads x seeds, on several threads. The order and the content of the results do not
/// depend on the number of threads.

#include <functional>
#include <string>
#include <vector>

#include "ebb/sim/simulator.h"
#include "ebb/trace/transform.h"

namespace ebb::sim {

struct CompareOptions {
  std::vector<std::string> policies;
  std::vector<double> loads = {1.0};  ///< factors of the trace's load
  trace::LoadMethod load_method = trace::LoadMethod::compress;
  std::vector<std::uint64_t> seeds = {1};
  unsigned threads = 1;
};

struct CompareRun {
  double load = 1;
  std::uint64_t seed = 1;
  SimResult result;
};

/// `common`: everything but policy and seed; its `set` goes to every policy that has such an option, and to the
/// simulator. `progress`: share done, 0..1, called from one thread at a time.
/// Errors: those of simulate() and scale_load(), with the run in front; not_found for an option that none of the
/// policies has. The first in the order of runs.
Result<std::vector<CompareRun>> compare(const ClusterSpec& cluster, const Workload& workload, const SimOptions& common,
                                        const CompareOptions& options, const sched::Registry& registry,
                                        const std::function<void(double)>& progress = {});

}  // namespace ebb::sim
