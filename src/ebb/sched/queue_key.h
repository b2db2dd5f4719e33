#pragma once

/// The order of arrival, with priorities: higher priority first, then the order of submission. A job keeps its place
/// when it comes back after a failure.

#include <compare>

#include "ebb/sched/state.h"

namespace ebb::sched {

struct QueueKey {
  int negated_priority = 0;
  JobId job = 0;

  auto operator<=>(const QueueKey&) const = default;
};

inline QueueKey queue_key(const State& state, JobId job) {
  return {-state.job(job).spec.priority, job};
}

}  // namespace ebb::sched
