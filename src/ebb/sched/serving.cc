#include "ebb/sched/serving.h"

#include <algorithm>

#include "ebb/sched/reclaim.h"

namespace ebb::sched {
namespace {

constexpr std::size_t kGapsKept = 32;

}  // namespace

Serving::Serving(ServingOptions options) : options_(options), random_(options.seed, "reclaim") {}

void Serving::on_task(const State& state, JobId task, Time now) {
  if (options_.keep_alive != KeepAlive::learned) return;
  const ServiceId service = *state.find_service(state.job(task).spec.application);
  if (arrivals_.size() <= service) arrivals_.resize(service + 1);
  Arrivals& arrivals = arrivals_[service];
  if (arrivals.last) arrivals.gaps.push_back(now - *arrivals.last);
  if (arrivals.gaps.size() > kGapsKept) arrivals.gaps.pop_front();
  arrivals.last = now;
}

std::optional<Duration> Serving::keep_alive(ServiceId service, std::uint32_t hits) const {
  const auto scaled = [&](Duration d) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(d.count()) * options_.factor));
  };
  switch (options_.keep_alive) {
    case KeepAlive::none:
      return std::nullopt;
    case KeepAlive::constants:
      if (options_.bonus > Duration(0) && hits >= (options_.limit - options_.base) / options_.bonus) {
        return scaled(options_.limit);
      }
      return scaled(std::min(options_.base + options_.bonus * hits, options_.limit));
    case KeepAlive::learned:
      break;
  }
  if (service >= arrivals_.size() || arrivals_[service].gaps.empty()) return scaled(options_.base);
  std::vector<Duration> gaps(arrivals_[service].gaps.begin(), arrivals_[service].gaps.end());
  const auto at = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() * 9 / 10);
  std::nth_element(gaps.begin(), at, gaps.end());
  return std::clamp(*at, scaled(std::min(options_.base, options_.limit)), scaled(options_.limit));
}

void Serving::run(Turn& turn, bool place_tasks) {
  stop_unkept(turn);
  serve_warm(turn);
  std::vector<Pending> pending;
  balance(turn, pending);
  std::vector<ServiceId> evicted;
  if (place_tasks) {
    for (const JobId task : turn.state().waiting_tasks()) {
      pending.push_back({*turn.state().find_service(turn.state().job(task).spec.application), task});
    }
    evicted = std::exchange(evicted_, {});
  }
  if (pending.empty()) return;
  const State& state = turn.state();
  // Training jobs, replicas, and what waits for one: at least one.
  const auto jobs = static_cast<GpuCount>(state.active_count() + pending.size() + state.live_replicas().size());
  const GpuCount total = state.capacity().total_gpus();
  turn.estimator().set_fair_share((total + jobs - 1) / jobs);
  GpuFinder finder(turn, random_);
  std::vector<std::pair<Pending, NodeId>> found;
  for (const Pending& one : pending) {
    if (const auto node = finder.find(state.services()[one.service].spec.gpus)) found.emplace_back(one, *node);
  }
  finder.commit();
  for (const auto& [one, node] : found) {
    const auto warm = std::find(evicted.begin(), evicted.end(), one.service);
    const bool is_warm = warm != evicted.end();
    if (is_warm) evicted.erase(warm);
    turn.start_replica(one.service, {node, state.services()[one.service].spec.gpus}, one.task,
                       keep_alive(one.service, 0), is_warm);
  }
}

void Serving::stop_unkept(Turn& turn) const {
  if (options_.keep_alive != KeepAlive::none) return;
  const std::vector<ReplicaId> replicas = turn.state().live_replicas();
  for (const ReplicaId id : replicas) {
    if (turn.state().replica(id).rests()) turn.stop_replica(id);
  }
}

// Each waiting task takes the most reused warm replica of its service, the oldest among equals.
void Serving::serve_warm(Turn& turn) const {
  const State& state = turn.state();
  const std::vector<JobId> tasks = state.waiting_tasks();
  for (const JobId task : tasks) {
    const ServiceId service = *state.find_service(state.job(task).spec.application);
    std::optional<ReplicaId> best;
    std::uint32_t most = 0;
    for (const ReplicaId id : state.services()[service].replicas) {
      const ReplicaState& replica = state.replica(id);
      if (!replica.rests() || (best && replica.hits <= most)) continue;
      best = id;
      most = replica.hits;
    }
    if (!best) continue;
    const bool slept = state.replica(*best).phase(turn.now()) == ReplicaPhase::sleep;
    turn.serve(task, *best, keep_alive(service, slept ? 0 : most + 1));
  }
}

// Services with a demand: warm replicas wake, surplus ones rest; what is missing is pending.
void Serving::balance(Turn& turn, std::vector<Pending>& pending) const {
  const State& state = turn.state();
  for (ServiceId id = 0; id < state.services().size(); ++id) {
    const ServiceState& service = state.services()[id];
    std::int32_t missing = service.demand - service.serving;
    if (missing == 0) continue;
    const std::vector<ReplicaId> replicas = service.replicas;
    for (auto replica = replicas.begin(); missing > 0 && replica != replicas.end(); ++replica) {
      if (!state.replica(*replica).rests()) continue;
      turn.wake_replica(*replica);
      --missing;
    }
    for (auto replica = replicas.rbegin(); missing < 0 && replica != replicas.rend(); ++replica) {
      const ReplicaState& is = state.replica(*replica);
      if (is.folded != ReplicaPhase::serving || is.task) continue;
      turn.rest_replica(*replica, keep_alive(id, is.hits).value_or(Duration(0)));
      ++missing;
    }
    for (; missing > 0; --missing) pending.push_back({id, std::nullopt});
  }
}

std::optional<Time> Serving::next_wake(const State& state, Time now) const {
  bool lacks = !state.waiting_tasks().empty();
  for (const ServiceState& service : state.services()) lacks = lacks || service.demand > service.serving;
  return lacks ? next_sleep(state, now) : std::nullopt;
}

std::optional<Time> Serving::next_sleep(const State& state, Time now) {
  std::optional<Time> next;
  for (const ReplicaId id : state.live_replicas()) {
    const ReplicaState& replica = state.replica(id);
    if (replica.phase(now) == ReplicaPhase::protect && (!next || replica.protect_until < *next)) {
      next = replica.protect_until;
    }
  }
  return next;
}

}  // namespace ebb::sched
