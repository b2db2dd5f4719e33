#pragma once

/// Internal: what the world confirms later (training that left GPUs, replicas that loaded), in order of time, then of
/// planning. A confirmation is void if what it is about has changed since: then it is dropped.

#include <cstdint>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "ebb/model/event.h"
#include "ebb/sched/state.h"

namespace ebb::sim {

class Confirmations {
 public:
  explicit Confirmations(const sched::State& state) : state_(state) {}

  void add(Time at, Event event);
  bool empty() const { return queue_.empty(); }
  /// When the next one is due; drops void ones before it.
  std::optional<Time> next();
  /// The next one that is due at `now`, unless it is void or an event of `batch`, of this very moment, makes it so.
  std::optional<Event> take(Time now, const std::vector<Event>& batch);
  /// Whether the next one, whenever it comes, says that a replica is ready.
  bool replica_next() const { return !queue_.empty() && std::holds_alternative<ReplicaReady>(queue_.top().event); }

 private:
  /// `stamp`: of its object when it was planned; another one: it is void.
  struct Confirmation {
    Time at{};
    std::uint64_t sequence = 0;
    std::uint64_t stamp = 0;
    Event event;
    bool operator>(const Confirmation& other) const {
      return std::tie(at, sequence) > std::tie(other.at, other.sequence);
    }
  };

  std::uint64_t stamp_of(const Event& event) const;
  bool is_void(const Confirmation& confirmation) const { return stamp_of(confirmation.event) != confirmation.stamp; }

  const sched::State& state_;
  std::priority_queue<Confirmation, std::vector<Confirmation>, std::greater<>> queue_;
  std::uint64_t sequence_ = 0;
};

}  // namespace ebb::sim
