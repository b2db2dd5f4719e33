#include "ebb/sched/serving.h"

#include <algorithm>

#include "ebb/sched/reclaim.h"

namespace ebb::sched {
namespace {

constexpr std::size_t kGapsKept = 32;

/// Replicas that serve the demand of a service.
std::int32_t ready_replicas(const State& state, ServiceId service) {
  const std::vector<ReplicaId>& replicas = state.services()[service].replicas;
  return static_cast<std::int32_t>(std::count_if(replicas.begin(), replicas.end(), [&](ReplicaId id) {
    const ReplicaState& replica = state.replica(id);
    return replica.folded == ReplicaPhase::serving && !replica.task;
  }));
}

std::int32_t held_replicas(const State& state, ServiceId service) {
  const std::vector<ReplicaId>& replicas = state.services()[service].replicas;
  return static_cast<std::int32_t>(
      std::count_if(replicas.begin(), replicas.end(), [&](ReplicaId id) { return state.replica(id).held(); }));
}

/// GPUs of the serving pool (of all nodes, where none is called so) beyond what services need now.
GpuCount room_beyond_need(const State& state) {
  const Capacity& capacity = state.capacity();
  const GroupMask pool = capacity.lendable_groups() != 0 ? capacity.lendable_groups() : capacity.serving_groups();
  std::int64_t room = 0;
  for (GroupId group = 0; group < capacity.free().group_count(); ++group) {
    if ((pool >> group & 1) != 0) room += capacity.usable_gpus(group);
  }
  for (const ServiceState& service : state.services()) room -= std::int64_t{service.demand} * service.spec.gpus;
  for (const ReplicaId id : state.live_replicas()) room -= state.replica(id).task ? state.replica(id).place.gpus : 0;
  for (const JobId task : state.waiting_tasks()) room -= state.job(task).spec.gpus;
  return static_cast<GpuCount>(std::max<std::int64_t>(room, 0));
}

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

void Serving::run(Turn& turn, bool place) {
  stop_unkept(turn);
  serve_warm(turn);
  std::vector<Pending> pending;
  std::vector<Pending> spare;
  balance(turn, pending, spare);
  if (!place) return;
  for (const JobId task : turn.state().waiting_tasks()) {
    pending.push_back({*turn.state().find_service(turn.state().job(task).spec.application), task});
  }
  pending.insert(pending.end(), spare.begin(), spare.end());
  std::vector<ServiceId> evicted = std::exchange(evicted_, {});
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

void Serving::start_placed(Turn& turn) const {
  const State& state = turn.state();
  for (const auto& [task, node] : turn.placed_tasks()) {
    const ServiceId service = *state.find_service(state.job(task).spec.application);
    turn.start_replica(service, {node, state.gpus_of_task(task)}, task, keep_alive(service, 0));
  }
}

void Serving::stop_unkept(Turn& turn) const {
  if (options_.keep_alive != KeepAlive::none) return;
  const std::vector<ReplicaId> replicas = turn.state().live_replicas();
  for (const ReplicaId id : replicas) {
    const ReplicaState& replica = turn.state().replica(id);
    if (replica.rests() && !replica.held()) turn.stop_replica(id);
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

// Services with a demand: warm replicas wake, surplus ones rest; what is missing is pending. A replica that loads will
// serve, but serves nobody yet: none rests in its favour.
void Serving::balance(Turn& turn, std::vector<Pending>& pending, std::vector<Pending>& spare) const {
  const State& state = turn.state();
  GpuCount room = options_.headroom > 0 ? room_beyond_need(state) : 0;
  for (ServiceId id = 0; id < state.services().size(); ++id) {
    const ServiceState& service = state.services()[id];
    if (options_.headroom == 0 && service.demand == service.serving) continue;
    const std::int32_t headroom = std::min(options_.headroom, room / service.spec.gpus);
    room -= headroom * service.spec.gpus;
    const std::vector<ReplicaId> replicas = service.replicas;
    std::int32_t ready = ready_replicas(state, id);
    const std::int32_t loading = service.serving - ready;
    for (auto replica = replicas.begin(); ready < service.demand && replica != replicas.end(); ++replica) {
      if (!state.replica(*replica).rests()) continue;
      turn.wake_replica(*replica);
      ++ready;
    }
    std::int32_t held = held_replicas(state, id);
    for (auto replica = replicas.rbegin(); ready > service.demand && replica != replicas.rend(); ++replica) {
      const ReplicaState& is = state.replica(*replica);
      if (is.folded != ReplicaPhase::serving || is.task) continue;
      const bool hold = held < headroom;
      turn.rest_replica(*replica, hold ? kHeld : keep_alive(id, is.hits).value_or(Duration(0)));
      held += hold ? 1 : 0;
      --ready;
    }
    const std::int32_t missing = service.demand - ready - loading;
    for (std::int32_t i = 0; i < missing; ++i) pending.push_back({id, std::nullopt});
    const std::int32_t lacking = hold_headroom(turn, id, headroom) - std::max(-missing, 0);
    for (std::int32_t i = 0; i < lacking; ++i) spare.push_back({id, std::nullopt});
  }
}

// Holds so many warm replicas, those first that are held already; what is too many sleeps. Returns how many are
// missing.
std::int32_t Serving::hold_headroom(Turn& turn, ServiceId id, std::int32_t headroom) {
  const State& state = turn.state();
  std::int32_t held = held_replicas(state, id);
  const std::vector<ReplicaId> replicas = state.services()[id].replicas;
  for (auto replica = replicas.rbegin(); held > headroom && replica != replicas.rend(); ++replica) {
    if (!state.replica(*replica).held()) continue;
    turn.rest_replica(*replica, Duration(0));
    --held;
  }
  for (auto replica = replicas.begin(); held < headroom && replica != replicas.end(); ++replica) {
    if (!state.replica(*replica).rests() || state.replica(*replica).held()) continue;
    turn.rest_replica(*replica, kHeld);
    ++held;
  }
  return headroom - held;
}

std::optional<Time> Serving::next_wake(const State& state, Time now) const {
  bool lacks = !state.waiting_tasks().empty();
  for (ServiceId id = 0; id < state.services().size(); ++id) {
    const ServiceState& service = state.services()[id];
    lacks = lacks || service.demand > service.serving;
    // A replica is ready that nobody needs any more, or that is headroom: it rests.
    if (service.demand < service.serving && ready_replicas(state, id) > service.demand) return now;
  }
  return lacks ? next_sleep(state, now) : std::nullopt;
}

std::optional<Time> Serving::next_sleep(const State& state, Time now) {
  std::optional<Time> next;
  for (const ReplicaId id : state.live_replicas()) {
    const ReplicaState& replica = state.replica(id);
    if (replica.phase(now) == ReplicaPhase::protect && !replica.held() && (!next || replica.protect_until < *next)) {
      next = replica.protect_until;
    }
  }
  return next;
}

}  // namespace ebb::sched
