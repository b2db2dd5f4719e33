#pragma once

#include <memory>
#include <optional>

#include "ebb/sched/policy.h"

namespace ebb::policies {

/// Tiresias as the simulators of Pollux and DeepBoot have it (README.md). `limit`: GPU-seconds at which a job leaves
/// the first queue; nullopt: never.
std::unique_ptr<sched::Policy> make_pollux_variant(std::optional<double> limit);

}  // namespace ebb::policies
