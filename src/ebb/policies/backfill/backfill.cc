#include "ebb/policies/backfill/backfill.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "ebb/policies/backfill/estimate_queue.h"
#include "ebb/sched/room.h"

namespace ebb::policies {
namespace {

using namespace sched;

/// When and where the head of the queue will start if the running jobs end as estimated.
struct Reservation {
  JobId head = 0;
  Time at = kEndOfTime;  // kEndOfTime: not foreseeable (nodes that it needs are down)
  GroupMask groups = 0;  // where it will run
  GpuCount extra = 0;    // GPUs there that it will not need at that time
  // Strict placements: what will be free at that time beside the head's own GPUs.
  std::optional<FreeIndex> beside;
};

class Backfill final : public Policy {
 public:
  explicit Backfill(std::shared_ptr<const Placement> placement) : placement_(std::move(placement)) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Backfill>(*this); }

  void on_queued(const State& state, JobId job, Queued, Time) override {
    const QueueKey key = queue_key(state, job);
    queue_.insert(key);
    classes_[state.job(job).job_class].insert({key, remaining_estimate(state, job)});
  }

  void on_withdrawn(const State& state, JobId job, Time) override {
    dequeue(state, job);
    // Nobody waits for its sake any more.
    if (reservation_ && reservation_->head == job) reservation_.reset();
  }

  void on_started(const State& state, JobId job, Time now) override {
    expect_end(job, std::max(now, state.job(job).productive_at) + remaining_estimate(state, job));
  }

  void adopt(const State& state, JobId job, Time now) override {
    const JobState& held = state.job(job);
    const Time since = held.incarnate() ? std::max(held.held_since, held.productive_at) : now;
    expect_end(job, since + remaining_estimate(state, job));
  }

  void on_released(const State&, JobId job, Time) override {
    const auto end = expected_end_.find(job);
    if (end == expected_end_.end()) return;
    ends_.erase({end->second, job});
    expected_end_.erase(end);
  }

  void decide(Turn& turn) override {
    reservation_.reset();
    while (!queue_.empty() && !turn.error()) {
      const JobId head = queue_.begin()->job;
      auto place = find_place(turn.state(), *placement_, turn.state().class_of(head));
      if (!place) break;
      start(turn, head, std::move(*place));
    }
    if (queue_.empty() || turn.error()) return;
    reservation_ = placement_->strict() ? reserve_by_place(turn) : reserve_by_count(turn);
    fill(turn);
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = reason_for(state, job, ReasonCode::no_capacity);
    const bool enough = reason.available >= reason.needed;
    const bool head = reservation_ && reservation_->head == job;
    if (head && reservation_->at < kEndOfTime) reason.expected_start = reservation_->at;
    if (enough && head) reason.code = ReasonCode::fragmented;
    if (enough && !head) {
      // With a strict placement a gang that is not the head may also find no node of its own.
      const bool fits = find_place(state, *placement_, state.class_of(job)).has_value();
      reason.code = !fits          ? ReasonCode::fragmented
                    : reservation_ ? ReasonCode::reserved_for_head
                                   : ReasonCode::waiting_for_tick;
      if (fits && reservation_) reason.other = reservation_->head;
    }
    return reason;
  }

 private:
  static Duration remaining_estimate(const State& state, JobId id) {
    const JobState& job = state.job(id);
    const Duration estimate = job.spec.requested_time.value_or(job.spec.run_time);
    return std::max(Duration(0), estimate - job.progress);
  }

  void expect_end(JobId job, Time end) {
    const auto [entry, inserted] = expected_end_.try_emplace(job, end);
    if (!inserted) {
      ends_.erase({entry->second, job});
      entry->second = end;
    }
    ends_.insert({end, job});
  }

  void start(Turn& turn, JobId job, Allocation place) {
    expect_end(job, turn.now() + remaining_estimate(turn.state(), job));
    turn.start(job, std::move(place));
    dequeue(turn.state(), job);
  }

  void dequeue(const State& state, JobId job) {
    const QueueKey key = queue_key(state, job);
    const auto queue = classes_.find(state.job(job).job_class);
    queue_.erase(key);
    queue->second.erase(key);
    if (queue->second.empty()) classes_.erase(queue);
  }

  // Walks the running jobs in order of expected end; `freed` gets each one's shares on usable nodes and the time.
  template <typename Freed>
  void for_each_end(const Turn& turn, Freed&& freed) const {
    const Capacity& capacity = turn.state().capacity();
    for (const auto& [end, job] : ends_) {
      const Time at = std::max(end, turn.now());  // an overdue job is expected to end at any moment
      for (const NodeShare& share : turn.state().job(job).allocation) {
        if (capacity.usable(share.node)) {
          if (!freed(at, share)) return;
        }
      }
    }
  }

  Reservation reserve_by_count(const Turn& turn) const {
    const Capacity& capacity = turn.state().capacity();
    Reservation best;
    best.head = queue_.begin()->job;
    const JobClass& head = turn.state().class_of(best.head);
    for (const GroupMask option : head.options) {
      GpuCount free = capacity.free().sum(option);
      Time at = kEndOfTime;
      for_each_end(turn, [&](Time end, const NodeShare& share) {
        if (free >= head.gpus && end > at) return false;
        if ((option >> capacity.free().group_of(share.node) & 1) == 0) return true;
        free += share.gpus;
        if (free >= head.gpus && at == kEndOfTime) at = end;
        return true;
      });
      if (at < best.at) {
        best.at = at;
        best.groups = option;
        best.extra = free - head.gpus;
      }
    }
    return best;
  }

  Reservation reserve_by_place(const Turn& turn) const {
    const Capacity& capacity = turn.state().capacity();
    Reservation reservation;
    reservation.head = queue_.begin()->job;
    const JobClass& head = turn.state().class_of(reservation.head);
    FreeIndex free = capacity.free();
    std::optional<Time> tried;
    const auto try_place = [&](Time at) {
      for (const GroupMask option : head.options) {
        const auto place = placement_->place(free, capacity, option, head.gpus);
        if (!place) continue;
        free.remove(*place);
        reservation.at = at;
        reservation.groups = option;
        reservation.beside = std::move(free);
        return true;
      }
      return false;
    };
    for_each_end(turn, [&](Time end, const NodeShare& share) {
      if (tried && end > *tried && try_place(*tried)) return false;
      tried = end;
      free.set_available(share.node, free.available(share.node) + share.gpus);
      return true;
    });
    if (!reservation.beside && tried) try_place(*tried);
    return reservation;
  }

  // Starts jobs behind the head that do not delay it, in order of the queue. Room only shrinks meanwhile, so one pass
  // by repeated "first in the queue that may" is the same as walking the queue once.
  void fill(Turn& turn) {
    enum class Limit : std::uint8_t { none, window, closed };
    const State& state = turn.state();
    const Duration window = reservation_->at - turn.now();
    std::map<ClassId, Limit> limits;
    for (const auto& [id, queue] : classes_) limits[id] = Limit::none;
    limits[state.job(reservation_->head).job_class] = Limit::closed;
    while (!turn.error()) {
      // The first job in the queue among the classes.
      std::optional<QueueKey> next;
      ClassId next_class = 0;
      for (auto& [id, limit] : limits) {
        if (limit == Limit::closed) continue;
        const auto queue = classes_.find(id);
        const JobClass& job_class = state.capacity().job_class(id);
        if (queue == classes_.end() || !fits_by_count(state, job_class, 0)) {
          limit = Limit::closed;
          continue;
        }
        if (!placement_->strict()) {
          limit = may_outlast(state, job_class) ? Limit::none : Limit::window;
        }
        const auto first = queue->second.first_at_most(limit == Limit::none ? Duration::max() : window);
        if (first && (!next || *first < *next)) {
          next = first;
          next_class = id;
        }
      }
      if (!next) return;
      if (!try_start(turn, next->job, window)) {
        Limit& limit = limits[next_class];
        limit = limit == Limit::none && placement_->strict() ? Limit::window : Limit::closed;
      }
    }
  }

  static bool fits_by_count(const State& state, const JobClass& job_class, GroupMask not_in) {
    const FreeIndex& free = state.capacity().free();
    return std::any_of(job_class.options.begin(), job_class.options.end(),
                       [&](GroupMask option) { return (option & not_in) == 0 && free.sum(option) >= job_class.gpus; });
  }

  // Whether a job of the class may run beyond the reservation: elsewhere, or on GPUs that the head will not need.
  bool may_outlast(const State& state, const JobClass& job_class) const {
    return job_class.gpus <= reservation_->extra || fits_by_count(state, job_class, reservation_->groups);
  }

  bool try_start(Turn& turn, JobId job, Duration window) {
    const State& state = turn.state();
    const Capacity& capacity = state.capacity();
    const JobClass& job_class = state.class_of(job);
    const bool outlasts = remaining_estimate(state, job) > window;
    // Where it does not touch the reservation first, then, if it may, within.
    for (const bool within : {false, true}) {
      for (const GroupMask option : job_class.options) {
        if (((option & reservation_->groups) != 0) != within || capacity.free().sum(option) < job_class.gpus) continue;
        if (within && outlasts && !placement_->strict() && job_class.gpus > reservation_->extra) continue;
        auto place = placement_->place(capacity.free(), capacity, option, job_class.gpus);
        if (!place) continue;
        if (within && outlasts && !take_beside(*place, job_class.gpus)) continue;
        start(turn, job, std::move(*place));
        return true;
      }
    }
    return false;
  }

  // Takes GPUs that the head will not need at its start; false if these are not such.
  bool take_beside(const Allocation& place, GpuCount gpus) {
    if (!reservation_->beside) {
      reservation_->extra -= gpus;
      return true;
    }
    FreeIndex& beside = *reservation_->beside;
    if (std::any_of(place.begin(), place.end(),
                    [&](const NodeShare& share) { return beside.available(share.node) < share.gpus; })) {
      return false;
    }
    beside.remove(place);
    return true;
  }

  std::shared_ptr<const Placement> placement_;
  std::set<QueueKey> queue_;
  std::map<ClassId, EstimateQueue> classes_;
  std::set<std::pair<Time, JobId>> ends_;  // of jobs that hold GPUs, by expected end
  std::unordered_map<JobId, Time> expected_end_;
  std::optional<Reservation> reservation_;
};

}  // namespace

void register_backfill(Registry& registry) {
  registry.add({
      .name = "backfill",
      .summary =
          "EASY backfilling: the head of the queue gets a reservation, later jobs start if they do not delay it.",
      .source = "Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 2001",
      .oracle = Oracle::without_requested_time,
      .preemptive = false,
      .options = {},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<Backfill>(arguments.placement);
      },
  });
}

}  // namespace ebb::policies
