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
  balance(turn, missing);
  const State& state = turn.state();
  const std::size_t tasks = place_tasks ? state.waiting_tasks().size() : 0;
  std::vector<ServiceId> evicted;
  if (place_tasks) evicted = std::exchange(evicted_, {});
  if (missing.empty() && tasks == 0) return;
  // Training jobs, replicas, and what waits for one: at least one.
  const auto jobs = static_cast<GpuCount>(state.active_count() + missing.size() + tasks + state.live_replicas().size());
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
  finder.commit();
  for (const auto& [service, task, node] : found) {
    const auto warm = std::find(evicted.begin(), evicted.end(), service);
    const bool is_warm = warm != evicted.end();
    if (is_warm) evicted.erase(warm);
    turn.start_replica(service, {node, state.services()[service].spec.gpus}, task, keep_alive(service, 0), is_warm);
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

// Services with a demand: warm replicas wake, surplus ones rest; what is missing is listed.
void Serving::balance(Turn& turn, std::vector<ServiceId>& lacking) const {
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
    for (; missing > 0; --missing) lacking.push_back(id);
  }
}

std::optional<Time> Serving::next_wake(const State& state, Time now) const {
  return state.lacks_replicas() ? next_sleep(state, now) : std::nullopt;
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
