#pragma once

/// How services are looked after under any policy: options common to all of them (registry.h lists them for --set).

#include <cstdint>

#include "ebb/base/units.h"

namespace ebb::sched {

/// Which training GPUs are taken back when a service needs some.
enum class Reclaim : std::uint8_t {
  least_loss,   ///< DeepBoot's ATS-I: one GPU at a time, where the sum of speed-ups falls least (gangs: see reclaim.h)
  largest_sum,  ///< least_loss by sums over all jobs: which of equal losses is taken depends on rounding
  node,         ///< Lyra: whole nodes, those with the fewest training GPUs first
  random,       ///< uniformly among the GPUs that may be taken, free ones too
  first_fit,    ///< the first nodes, whatever runs there
};

/// How long a replica stays warm and its GPUs unlent after it served.
enum class KeepAlive : std::uint8_t {
  none,       ///< not at all: it is stopped
  constants,  ///< min(base + bonus x hits, limit) x factor
  /// Nine of ten of the last gaps at the service, within (base and limit) x factor. Gaps of tasks are the times between
  /// their arrivals; those of a demand over time, for each number of replicas, the time since it last fell below that
  /// until it reaches it again: so long a replica would have rested.
  learned,
};

struct ServingOptions {
  Reclaim reclaim = Reclaim::least_loss;
  KeepAlive keep_alive = KeepAlive::constants;
  double factor = 1;
  Duration base = std::chrono::seconds(30);
  Duration bonus = std::chrono::seconds(15);
  Duration limit = std::chrono::seconds(120);
  std::int32_t headroom = 0;         ///< replicas of each service beyond its need that stay warm and are not lent
  bool place_at_ticks = true;        ///< false: tasks are placed between ticks only, as in DeepBoot's simulator
  bool allow_rigid_shrink = false;   ///< reclaim may take single GPUs of rigid gangs
  bool strip = false;                ///< training leaves every node that hosts a replica, at every decision
  bool serving_pool_first = false;   ///< other nodes only if none of the serving pool is or can be made free
  bool warm_after_eviction = false;  ///< a replica evicted at a tick is warm until the next step between ticks
  std::uint64_t seed = 1;            ///< of Reclaim::random
};

}  // namespace ebb::sched
