#pragma once

/// Failures, repairs and drains of nodes in the order of time: those that a scenario lists, and random ones, drawn as
/// they are needed (exponential time to failure and to repair, one stream of random numbers a node). Overlapping
/// outages of a node count as one.

#include <optional>
#include <queue>
#include <vector>

#include "ebb/base/random.h"
#include "ebb/base/result.h"
#include "ebb/model/event.h"
#include "ebb/spec/scenario.h"

namespace ebb::sim {

class FaultSource {
 public:
  /// Errors: invalid_argument for an outage of a node that the cluster does not have.
  static Result<FaultSource> make(const spec::Faults& faults, std::size_t nodes, std::uint64_t seed, Duration quantum);

  std::optional<Time> next() const;
  /// Whether something will come back: a repair, or the end of a drain.
  bool recovery_ahead() const { return recoveries_ > 0; }
  /// Whether the node failed or drains under an outage without end.
  bool gone_for_good(NodeId node) const { return endless_[node] > 0; }
  bool any_gone_for_good() const { return any_endless_; }
  /// Takes all changes at `now` (= next()).
  void take(Time now, std::vector<Event>& events);

 private:
  enum class Kind : std::uint8_t { fail, repair, drain, undrain };
  struct Change {
    Time at{};
    NodeId node = 0;
    Kind kind = Kind::fail;
    bool random = false;
    bool endless = false;

    auto key() const { return std::tie(at, node, kind); }
    bool operator>(const Change& other) const { return key() > other.key(); }
  };

  void push(Change change);
  Time after(Time now, NodeId node, Duration mean);

  Duration mtbf_{};
  Duration mttr_{};
  Duration quantum_{1};
  std::priority_queue<Change, std::vector<Change>, std::greater<>> changes_;
  std::size_t recoveries_ = 0;
  std::vector<Random> random_;         // by node
  std::vector<std::uint32_t> down_;    // by node: outages that cover now
  std::vector<std::uint32_t> drains_;  // by node
  bool any_endless_ = false;
  std::vector<std::uint32_t> endless_;  // by node: outages without end so far
};

}  // namespace ebb::sim
