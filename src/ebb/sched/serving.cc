#include "ebb/sched/serving.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <utility>

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

struct Placed {
  ServiceId service = 0;
  std::optional<JobId> task;
  NodeId node = 0;
};

// Calls `f` with the waiting tasks in order of their number; of a service, until it says false.
template <typename F>
void for_waiting_tasks(const State& state, const F& f) {
  struct Head {
    std::set<JobId>::const_iterator task;
    ServiceId service = 0;
    bool operator>(const Head& other) const { return *task > *other.task; }
  };
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  for (ServiceId id = 0; id < state.services().size(); ++id) {
    if (!state.services()[id].waiting.empty()) heads.push({state.services()[id].waiting.begin(), id});
  }
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    if (!f(head.service, *head.task)) continue;
    if (++head.task != state.services()[head.service].waiting.end()) heads.push(head);
  }
}

}  // namespace

Serving::Serving(ServingOptions options) : options_(options), random_(options.seed, "reclaim") {}

Serving::Learned& Serving::learned_of(ServiceId service) {
  if (learned_.size() <= service) learned_.resize(service + 1);
  return learned_[service];
}

void Serving::Learned::add_gap(Duration gap) {
  gaps.push_back(gap);
  if (gaps.size() > kGapsKept) gaps.pop_front();
}

void Serving::on_task(const State& state, JobId task, Time now) {
  if (options_.keep_alive != KeepAlive::learned) return;
  Learned& learned = learned_of(state.job(task).service);
  if (learned.last_task) learned.add_gap(now - *learned.last_task);
  learned.last_task = now;
}

void Serving::on_demand(ServiceId service, std::int32_t replicas, Time now) {
  if (options_.keep_alive != KeepAlive::learned) return;
  Learned& learned = learned_of(service);
  learned.fell_at.resize(std::max<std::size_t>(learned.fell_at.size(), static_cast<std::size_t>(replicas)));
  for (std::int32_t k = replicas; k < learned.demand; ++k) learned.fell_at[static_cast<std::size_t>(k)] = now;
  for (std::int32_t k = learned.demand; k < replicas; ++k) {
    std::optional<Time>& fell_at = learned.fell_at[static_cast<std::size_t>(k)];
    if (fell_at) learned.add_gap(now - *fell_at);
    fell_at.reset();
  }
  learned.demand = replicas;
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
  if (service >= learned_.size() || learned_[service].gaps.empty()) return scaled(options_.base);
  std::vector<Duration> gaps(learned_[service].gaps.begin(), learned_[service].gaps.end());
  const auto at = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() * 9 / 10);
  std::nth_element(gaps.begin(), at, gaps.end());
  return std::clamp(*at, scaled(std::min(options_.base, options_.limit)), scaled(options_.limit));
}

void Serving::run(Turn& turn, bool place_tasks) {
  stop_unkept(turn);
  serve_warm(turn);
  std::vector<ServiceId> missing;
  std::vector<ServiceId> spare;
  balance(turn, missing, spare);
  const State& state = turn.state();
  const std::size_t tasks = place_tasks ? state.waiting_tasks().size() : 0;
  std::vector<ServiceId> evicted;
  if (place_tasks) evicted = std::exchange(evicted_, {});
  if (missing.empty() && tasks == 0 && spare.empty()) return;
  // Training jobs, replicas, and what waits for one: at least one.
  const auto jobs = static_cast<GpuCount>(state.active_count() + missing.size() + tasks + spare.size() +
                                          state.live_replicas().size());
  const GpuCount total = state.capacity().total_gpus();
  turn.estimator().set_fair_share((total + jobs - 1) / jobs);
  GpuFinder finder(turn, random_);
  std::vector<Placed> found;
  // What finds no place now finds none after others were placed, nor does anything larger.
  GpuCount too_large = std::numeric_limits<GpuCount>::max();
  const auto place = [&](ServiceId service, std::optional<JobId> task) {
    const GpuCount gpus = state.services()[service].spec.gpus;
    if (gpus >= too_large) return false;
    const auto node = finder.find(gpus);
    if (!node) {
      too_large = gpus;
      return false;
    }
    found.push_back({service, task, *node});
    return true;
  };
  for (const ServiceId service : missing) place(service, std::nullopt);
  if (place_tasks) for_waiting_tasks(state, place);
  for (const ServiceId service : spare) place(service, std::nullopt);
  finder.commit();
  for (const auto& [service, task, node] : found) {
    const auto warm = std::find(evicted.begin(), evicted.end(), service);
    const bool is_warm = warm != evicted.end();
    if (is_warm) evicted.erase(warm);
    turn.start_replica(service, {node, state.services()[service].spec.gpus}, task, keep_alive(service, 0), is_warm);
  }
}

void Serving::start_placed(Turn& turn) const {
  const State& state = turn.state();
  for (const auto& [task, node] : turn.placed_tasks()) {
    const ServiceId service = state.job(task).service;
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
  std::vector<std::pair<JobId, ServiceId>> served;
  for (ServiceId id = 0; id < state.services().size(); ++id) {
    const ServiceState& service = state.services()[id];
    auto task = service.waiting.begin();
    for (std::size_t n = service.resting.size(); n > 0 && task != service.waiting.end(); --n) {
      served.emplace_back(*task++, id);
    }
  }
  std::sort(served.begin(), served.end());
  for (const auto& [task, service] : served) {
    const ReplicaId replica = state.services()[service].resting.begin()->second;
    const bool slept = state.replica(replica).phase(turn.now()) == ReplicaPhase::sleep;
    turn.serve(task, replica, keep_alive(service, slept ? 0 : state.replica(replica).hits + 1));
  }
}

// Services with a demand: warm replicas wake, surplus ones rest; what is missing is listed. A replica that loads will
// serve, but serves nobody yet: none rests in its favour.
void Serving::balance(Turn& turn, std::vector<ServiceId>& lacking, std::vector<ServiceId>& spare) const {
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
    for (std::int32_t i = 0; i < missing; ++i) lacking.push_back(id);
    const std::int32_t unheld = hold_headroom(turn, id, headroom) - std::max(-missing, 0);
    for (std::int32_t i = 0; i < unheld; ++i) spare.push_back(id);
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
  for (ServiceId id = 0; id < state.services().size(); ++id) {
    const ServiceState& service = state.services()[id];
    // A replica is ready that nobody needs any more, or that is headroom: it rests.
    if (service.demand < service.serving && ready_replicas(state, id) > service.demand) return now;
  }
  return state.lacks_replicas() ? next_sleep(state, now) : std::nullopt;
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
