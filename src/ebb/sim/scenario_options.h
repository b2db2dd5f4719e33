#pragma once

/// What a scenario says about a run, as options of the simulator.

#include "ebb/base/result.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/scenario.h"

namespace ebb::sim {

/// Policy and options, rounds, resize cost, lending, profiles (read here), target, time model, seed and faults; where
/// the scenario does not say, the default of SimOptions. Trace, cluster and services are not options. Errors: those of
/// reading the profiles; invalid_argument for a resize cost that ResizeCost::parse() refuses.
Result<SimOptions> options_of(const spec::Scenario& scenario);

}  // namespace ebb::sim
