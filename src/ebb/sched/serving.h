#pragma once

/// Looks after services and inference tasks within a step, under every policy: lets warm replicas serve, starts cold
/// ones, rests those that are not needed, and takes GPUs back from training where services need them (reclaim).
///
///   1. replicas that are not kept alive stop
///   2. waiting tasks are served by warm replicas of their service (most reused first), services with a demand wake
///      theirs or rest the surplus
///   3. what is left is placed: on free GPUs (nodes with the fewest training GPUs first), else in place of sleeping
///      replicas, else on GPUs taken back from training (ServingOptions::reclaim)
///
/// Headroom (ServingOptions::headroom): of every service so many replicas more than it needs are warm and held, so that
/// nobody else gets their GPUs; a demand that rises by no more is met at once. All needs come first, and together with
/// them it is at most what the serving pool holds: services in order. Used up, it is made up for as in step 3.
///
/// A demand that finds no place waits for the next step. Its memory (gaps for learned keep-alive, the random
/// generator) is part of the scheduler's state. Sources: DeepBoot (ATS-I), Lyra.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "ebb/base/random.h"
#include "ebb/sched/policy.h"
#include "ebb/sched/serving_options.h"

namespace ebb::sched {

class Serving {
 public:
  explicit Serving(ServingOptions options);

  const ServingOptions& options() const { return options_; }

  /// A task arrived, or a service wants so many replicas: what learned keep-alive is made of.
  void on_task(const State& state, JobId task, Time now);
  void on_demand(ServiceId service, std::int32_t replicas, Time now);
  /// A replica of the service was evicted at a tick.
  void on_evicted(ServiceId service) { evicted_.push_back(service); }
  /// `place_tasks`: whether step 3 is done for tasks; it always is for the demand of services.
  void run(Turn& turn, bool place_tasks);
  /// Starts replicas for the tasks that the policy placed itself.
  void start_placed(Turn& turn) const;
  /// When a warm replica falls asleep that something waits for; a Timer event then makes it available.
  std::optional<Time> next_wake(const State& state, Time now) const;
  /// When the next warm replica falls asleep.
  static std::optional<Time> next_sleep(const State& state, Time now);

 private:
  /// How long a replica of a service went unused until it was needed again.
  struct Learned {
    std::deque<Duration> gaps;  // the latest ones
    std::optional<Time> last_task;
    std::int32_t demand = 0;
    std::vector<std::optional<Time>> fell_at;  // by k: when the demand was last above k, if it is not now

    void add_gap(Duration gap);
  };

  Learned& learned_of(ServiceId service);
  std::optional<Duration> keep_alive(ServiceId service, std::uint32_t hits) const;
  void stop_unkept(Turn& turn) const;
  void serve_warm(Turn& turn) const;
  /// A service is listed once for every replica that it lacks, and for every one of its headroom (`spare`).
  void balance(Turn& turn, std::vector<ServiceId>& lacking, std::vector<ServiceId>& spare) const;
  static std::int32_t hold_headroom(Turn& turn, ServiceId service, std::int32_t headroom);

  ServingOptions options_;
  std::vector<Learned> learned_;    // by service
  std::vector<ServiceId> evicted_;  // at the last tick, with ServingOptions::warm_after_eviction
  Random random_;
};

}  // namespace ebb::sched
