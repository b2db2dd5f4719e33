#pragma once

/// Where the GPUs of ATS-T's plan are, if jobs keep the nodes that they have. A job that shrinks leaves the nodes where
/// it has least; one that grows takes what is free on its own nodes, then the rest as place_packed() does. It moves as
/// a whole only if it would then be on fewer nodes, so that no job is on more nodes than if it were placed from scratch
/// at its turn. Turns, as from scratch: jobs that keep their number first, then by increasing size.

#include <vector>

#include "ebb/sched/sizes.h"

namespace ebb::policies::deepboot {

/// As place_sizes().
sched::TrainingPlan place_incrementally(const sched::State& state, const sched::PlanView& view,
                                        const sched::GpuBudget& budget, const std::vector<std::size_t>& order);

}  // namespace ebb::policies::deepboot
