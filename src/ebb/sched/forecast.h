#pragma once

/// When waiting jobs will start, without the simulator: a fork of the scheduler goes on by itself, under the policy in
/// charge, on the assumption that nobody submits anything more and that every job runs as long as predicted.
///
///   1. predict how long each job runs: as its owner said (requested_time); else as the median of completed jobs of its
///      tenant, else of all (of the latest 1,000, at least 5); else not at all: it never ends here
///   2. end the running job that is predicted to end first, step, confirm what the step decides (GPUs are given back
///      within a second), note who starts
///   3. until nothing waits (or, `to_the_end`, nothing runs either), nobody ends, or `max_steps` are done
///
/// A job that has run longer than predicted is expected to end soon: after a tenth of what it has run. What a policy
/// asks its planner (PlanRequest) is not answered, so that such policies have no forecast.
///
/// Errors: internal, if the fork refuses an event. Any thread; the fork is the caller's.

#include <cstdint>
#include <map>
#include <optional>

#include "ebb/base/result.h"
#include "ebb/sched/scheduler.h"

namespace ebb::sched {

struct Forecast {
  Time made{};
  std::map<JobId, Time> starts;  ///< of jobs that waited and are known to start
  std::map<JobId, Time> ends;    ///< of active jobs that are known to end within the forecast
  std::size_t by_request = 0;    ///< active jobs whose run time their owners said
  std::size_t by_history = 0;    ///< those predicted from completed ones
  std::size_t unknown = 0;       ///< and those of which nothing is known
  std::size_t history = 0;       ///< completed jobs that the second ones rest on
};

enum class Until : std::uint8_t { nothing_waits, the_end };
Result<Forecast> forecast(Scheduler fork, Time now, Until until = Until::nothing_waits, std::size_t max_steps = 20'000);

}  // namespace ebb::sched
