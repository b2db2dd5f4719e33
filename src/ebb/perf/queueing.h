#pragma once

/// Waiting in an M/D/c queue: Poisson arrivals, one fixed service time D, c servers, first come first served. Exact
/// (Crommelin's embedded chain for the numbers in the system, Franx's finite sum for the waiting time).

#include <cstdint>

#include "ebb/base/units.h"

namespace ebb::perf {

/// P(wait <= x), 0..1; 0 if the servers cannot keep up (rate x D >= c). `rate_per_s` >= 0, `service_time` > 0, c >= 1.
double mdc_wait_within(double rate_per_s, Duration service_time, std::int32_t c, Duration x);

/// The least c for which at least `percentile` of the requests are answered within `target` (waiting + service); 0 if
/// the rate is 0. `target` >= `service_time`. At most `most` (>= 1): returned if even that is too few.
std::int32_t mdc_replicas(double rate_per_s, Duration service_time, Duration target, double percentile,
                          std::int32_t most);

}  // namespace ebb::perf
