#pragma once

/// Internal: fills in what a workload leaves to the profiles of its applications, before it is simulated.

#include <string_view>

#include "ebb/base/result.h"
#include "ebb/model/cluster.h"
#include "ebb/model/workload.h"
#include "ebb/perf/profile.h"

namespace ebb::sim {

/// Whether some job is an inference task; whether some job names what it trains or serves.
bool has_tasks(const Workload& workload);
bool names_applications(const Workload& workload);

/// For training jobs of a known application: batch limits, largest size, and the run time alone on the GPUs asked for,
/// where the trace does not say. `up_to_cluster`: the largest size is the cluster's, whatever the profile says. Errors:
/// invalid_argument for a job of an unknown application without a run time, or with a batch size that no GPU count
/// satisfies.
Result<void> resolve_profiles(Workload& workload, const perf::ProfileSet& profiles, const ClusterSpec& cluster,
                              bool up_to_cluster);

/// Time to start a replica of a service of inference tasks: of the profile that its name contains ("infer-bert-1" is of
/// bert), or the default of perf::ApplicationCosts.
Duration start_delay_of(std::string_view service, const perf::ProfileSet* profiles);

/// The cluster with pools "training" (the first half of its nodes) and "serving", if it names none.
ClusterSpec in_halves(ClusterSpec cluster);

}  // namespace ebb::sim
