#include "ebb/sim/fault_source.h"

#include <algorithm>
#include <tuple>

namespace ebb::sim {

Result<FaultSource> FaultSource::make(const spec::Faults& faults, std::size_t nodes, std::uint64_t seed,
                                      Duration quantum) {
  FaultSource source;
  source.quantum_ = quantum;
  source.down_.resize(nodes);
  source.drains_.resize(nodes);
  source.endless_.resize(nodes);
  const auto to_quantum = [&](Duration d) { return (d + quantum / 2) / quantum * quantum; };
  for (const spec::NodeOutage& outage : faults.outages) {
    if (outage.node >= nodes) {
      return fail(ErrorCode::invalid_argument, "faults: an outage of node {}, but the cluster has nodes 0 to {}",
                  outage.node, nodes - 1);
    }
    const Time at(to_quantum(outage.at.time_since_epoch()));
    source.push({at, outage.node, outage.drain ? Kind::drain : Kind::fail, false, !outage.lasts});
    if (outage.lasts) {
      source.push({at + std::max(to_quantum(*outage.lasts), quantum), outage.node,
                   outage.drain ? Kind::undrain : Kind::repair, false, false});
    }
  }
  if (faults.mtbf) {
    source.mtbf_ = *faults.mtbf;
    source.mttr_ = faults.mttr;
    for (NodeId node = 0; node < nodes; ++node) {
      source.random_.emplace_back(seed, fmt::format("node-faults-{}", node));
      source.push({source.after(Time(), node, source.mtbf_), node, Kind::fail, true, false});
    }
  }
  return source;
}

void FaultSource::push(Change change) {
  if (change.at >= kEndOfTime) return;
  if (change.kind == Kind::repair || change.kind == Kind::undrain) ++recoveries_;
  changes_.push(change);
}

Time FaultSource::after(Time now, NodeId node, Duration mean) {
  const double seconds = random_[node].exponential(to_seconds(mean));
  if (seconds > to_seconds(kMaxDuration)) return kEndOfTime;
  const auto quanta = static_cast<std::int64_t>(seconds * 1e9 / static_cast<double>(quantum_.count()));
  return now + quantum_ * std::max<std::int64_t>(quanta, 1);
}

std::optional<Time> FaultSource::next() const {
  if (changes_.empty()) return std::nullopt;
  return changes_.top().at;
}

void FaultSource::take(Time now, std::vector<Event>& events) {
  while (!changes_.empty() && changes_.top().at == now) {
    const Change change = changes_.top();
    changes_.pop();
    if (change.endless) {
      ++endless_[change.node];
      any_endless_ = true;
    }
    switch (change.kind) {
      case Kind::fail:
        if (down_[change.node]++ == 0) events.emplace_back(NodeFailed{change.node});
        if (change.random) push({after(now, change.node, mttr_), change.node, Kind::repair, true, false});
        break;
      case Kind::repair:
        --recoveries_;
        if (--down_[change.node] == 0) events.emplace_back(NodeRepaired{change.node});
        if (change.random) push({after(now, change.node, mtbf_), change.node, Kind::fail, true, false});
        break;
      case Kind::drain:
        if (drains_[change.node]++ == 0) events.emplace_back(NodeDrained{change.node});
        break;
      case Kind::undrain:
        --recoveries_;
        if (--drains_[change.node] == 0) events.emplace_back(NodeUndrained{change.node});
        break;
    }
  }
}

}  // namespace ebb::sim
