#pragma once

/// Random clusters, workloads and options for the property tests: jobs of all kinds with and without profiles,
/// inference tasks, services with a demand, faults, every policy with any of its options.

#include <string>

#include "ebb/base/random.h"
#include "ebb/model/workload.h"
#include "ebb/sim/simulator.h"

namespace ebb {

struct Case {
  ClusterSpec cluster;  ///< as simulated: with its pools
  Workload workload;
  sim::SimOptions options;

  /// What a failed test says to find it again.
  std::string text() const;
};

/// What a case may contain.
struct CaseLimits {
  std::uint64_t jobs = 40;
  bool inference = true;
  bool profiles = true;
};

Case random_case(std::uint64_t seed, const CaseLimits& limits = {});

}  // namespace ebb
