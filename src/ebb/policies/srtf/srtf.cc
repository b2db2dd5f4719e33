#include "ebb/policies/srtf/srtf.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "ebb/sched/room.h"

namespace ebb::policies {
namespace {

using namespace sched;

// Time x GPUs may exceed 64 bits.
__extension__ using Wide = __int128;

/// Keeps one list of all jobs, sorted anew at every decision by remaining time (srtf) or remaining time x GPUs (srsf),
/// stably: jobs with equal keys keep their order in the list. The list itself is not stored. Waiting jobs of a class
/// have keys that do not change; the keys of running jobs with equal slope (1, or the GPUs) fall in step; so each of
/// these sets keeps its order, and a decision merges them. What stability means across sets, where keys are equal:
///   - a waiting job goes before a running one, and of two running ones the one whose key falls more slowly goes first:
///     before they met, it was smaller;
///   - a job that just joined the list goes last.
/// But with no time left (a job that still pays for its start, or whose end was not noticed yet), or when it has not
/// run since it was started, a running job goes before all others with its key: two such jobs would preempt each other
/// at every decision. Within a set, `era` and `order` say who came first.
struct Place {
  Duration time{};  // waiting: remaining time; running: when it will end if it goes on
  std::int64_t era = 0;
  std::int64_t order = 0;
  JobId job = 0;

  auto operator<=>(const Place&) const = default;
};

class ShortestFirst final : public Policy {
 public:
  ShortestFirst(std::shared_ptr<const Placement> placement, bool times_gpus)
      : placement_(std::move(placement)), times_gpus_(times_gpus) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<ShortestFirst>(*this); }

  void on_queued(const State& state, JobId job, Queued why, Time) override {
    places_.resize(std::max<std::size_t>(places_.size(), job + 1));
    Place& place = places_[job];
    place.job = job;
    const Duration remaining = state.job(job).spec.run_time - state.job(job).progress;
    place.time = std::max(remaining, Duration(0));
    if (why != Queued::stopped) {
      // At the end of the list: behind everybody, at this decision and among equals later.
      place.era = 2 * (decisions_ + 1) + 1;
      place.order = ++sequence_;
    }
    waiting_[{priority(state, job), state.job(job).job_class}].insert(place);
    waiting_gpus_ += state.class_of(job).gpus;
  }

  void on_withdrawn(const State& state, JobId job, Time) override { remove_waiting(state, job); }

  void on_started(const State& state, JobId job, Time now) override { move_end(state, job, now); }

  void adopt(const State& state, JobId job, Time now) override {
    places_.resize(std::max<std::size_t>(places_.size(), job + 1));
    Place& place = places_[job];
    place.job = job;
    place.order = ++sequence_;
    if (state.job(job).phase == JobPhase::stopping) return;  // it joins those that wait when it has stopped
    const Duration remaining = state.job(job).spec.run_time - state.job(job).progress_until(now);
    place.time = now.time_since_epoch() + std::max(Duration(0), remaining);
    running_[{priority(state, job), slope(state, job)}].insert(place);
  }

  void on_released(const State& state, JobId job, Time) override {
    const auto group = running_.find({priority(state, job), slope(state, job)});
    if (group == running_.end()) return;
    group->second.erase(places_[job]);
    if (group->second.empty()) running_.erase(group);
  }

  void decide(Turn& turn) override {
    ++decisions_;
    if (waiting_.empty()) return;
    const State& state = turn.state();
    Room room(state, *placement_);
    std::vector<JobId> admitted;
    walk(turn, room, admitted);

    // Equal keys keep the order of the list: what was waiting comes before what was running, new jobs come last.
    std::int64_t order = 0;
    for (const JobId job : room.preempted()) {
      Place place = remove_running(state, job);
      place.time = std::max(Duration(0), state.job(job).spec.run_time - state.job(job).progress_until(turn.now()));
      place.era = 2 * decisions_;
      place.order = ++order;
      places_[job] = place;  // joins waiting_ when it has stopped
    }
    room.commit(turn);
    order = 0;
    for (const JobId job : admitted) {
      if (state.job(job).phase == JobPhase::waiting) continue;
      Place place = remove_waiting(state, job);
      const bool is_new = place.era > 2 * decisions_;
      place.time = turn.now().time_since_epoch() + place.time;
      place.era = is_new ? decisions_ : -decisions_;
      place.order = ++order;
      places_[job] = place;
      running_[{priority(state, job), slope(state, job)}].insert(place);
    }
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = reason_for(state, job, ReasonCode::lower_priority);
    if (reason.available >= reason.needed) reason.code = ReasonCode::fragmented;
    return reason;
  }

 private:
  using Places = std::set<Place>;

  // Where the walk stands in one set.
  struct Cursor {
    int negated_priority = 0;
    Wide key = 0;
    GpuCount slope = 0;  // how fast the key falls: 0 for waiting jobs, the largest for new ones
    std::int64_t era = 0;
    std::int64_t order = 0;
    Places::const_iterator at;
    Places::const_iterator end;
    GpuCount weight = 1;
    bool running = false;

    auto rank() const { return std::tie(negated_priority, key, slope, era, order, at->job); }
    bool operator>(const Cursor& other) const { return rank() > other.rank(); }
  };

  static int priority(const State& state, JobId job) { return -state.job(job).spec.priority; }
  GpuCount slope(const State& state, JobId job) const { return times_gpus_ ? state.class_of(job).gpus : 1; }

  // A job that was started and has not run since: it keeps what the decision that started it gave it.
  static bool just_started(const State& state, JobId id, Time now) {
    const JobState& job = state.job(id);
    return job.phase == JobPhase::starting || now <= job.useful_since;
  }

  void read(Cursor& cursor, const State& state, Time now) const {
    const Place& place = *cursor.at;
    const Duration remaining = cursor.running ? std::max(Duration(0), place.time - now.time_since_epoch()) : place.time;
    cursor.key = static_cast<Wide>(remaining.count()) * cursor.weight;
    const bool is_new = !cursor.running && place.era > 2 * decisions_;
    cursor.slope = cursor.running ? cursor.weight : is_new ? std::numeric_limits<GpuCount>::max() : 0;
    if (cursor.running && (remaining == Duration(0) || just_started(state, place.job, now))) cursor.slope = -1;
    cursor.era = place.era;
    cursor.order = place.order;
  }

  void walk(Turn& turn, Room& room, std::vector<JobId>& admitted) const {
    const State& state = turn.state();
    std::priority_queue<Cursor, std::vector<Cursor>, std::greater<>> heads;
    const GpuCount idle = state.capacity().free().sum(~GroupMask{0});
    GpuCount smallest_waiting = std::numeric_limits<GpuCount>::max();
    const auto push = [&](const Places& places, int negated_priority, GpuCount weight, bool running) {
      Cursor cursor;
      cursor.negated_priority = negated_priority;
      cursor.at = places.begin();
      cursor.end = places.end();
      cursor.weight = weight;
      cursor.running = running;
      read(cursor, state, turn.now());
      heads.push(cursor);
    };
    for (const auto& [group, places] : waiting_) {
      const GpuCount gpus = state.capacity().job_class(group.second).gpus;
      smallest_waiting = std::min(smallest_waiting, gpus);
      push(places, group.first, times_gpus_ ? gpus : 1, false);
    }
    // Where all that wait fit beside those that run, nobody can lose anything.
    const bool by_count = state.capacity().free().group_count() == 1 && !placement_->strict();
    if (!by_count || waiting_gpus_ > idle) {
      for (const auto& [group, places] : running_) push(places, group.first, group.second, true);
    }

    GpuCount taken = 0;  // by waiting jobs so far
    while (!heads.empty()) {
      // Nobody who waits can fit any more, and nobody who runs has lost anything.
      if (by_count && room.left() < smallest_waiting && taken <= idle) return;
      Cursor cursor = heads.top();
      heads.pop();
      const JobId job = cursor.at->job;
      if (cursor.running) {
        room.keep(job);
      } else {
        // What does not fit now never will within this walk, nor will the others of its class.
        if (!room.admit(job)) continue;
        admitted.push_back(job);
        taken += state.class_of(job).gpus;
      }
      if (++cursor.at == cursor.end) continue;
      read(cursor, state, turn.now());
      heads.push(cursor);
    }
  }

  Place remove_running(const State& state, JobId job) {
    const auto group = running_.find({priority(state, job), slope(state, job)});
    group->second.erase(places_[job]);
    if (group->second.empty()) running_.erase(group);
    return places_[job];
  }

  Place remove_waiting(const State& state, JobId job) {
    const auto group = waiting_.find({priority(state, job), state.job(job).job_class});
    group->second.erase(places_[job]);
    if (group->second.empty()) waiting_.erase(group);
    waiting_gpus_ -= state.class_of(job).gpus;
    return places_[job];
  }

  // The key of a running job does not count what its start cost: whoever takes its place would pay as much, and without
  // that a job that was just resumed would fall behind those it was preferred to.
  void move_end(const State& state, JobId job, Time started) {
    const Duration end =
        started.time_since_epoch() + std::max(Duration(0), state.job(job).spec.run_time - state.job(job).progress);
    if (places_[job].time == end) return;
    Place place = remove_running(state, job);
    place.time = end;
    places_[job] = place;
    running_[{priority(state, job), slope(state, job)}].insert(place);
  }

  std::shared_ptr<const Placement> placement_;
  bool times_gpus_;
  std::vector<Place> places_;                           // by job
  std::map<std::pair<int, ClassId>, Places> waiting_;   // by (priority, class)
  std::map<std::pair<int, GpuCount>, Places> running_;  // by (priority, slope)
  std::int64_t waiting_gpus_ = 0;
  std::int64_t decisions_ = 0;
  std::int64_t sequence_ = 0;
};

PolicyInfo info(const char* name, const char* key, bool times_gpus) {
  return {
      .name = name,
      .summary = fmt::format("Preemptive, shortest {} first; needs to know run times.", key),
      .source = "the reference SRTF and SRSF of the Tiresias simulator (Gu et al., NSDI 2019)",
      .oracle = Oracle::yes,
      .preemptive = true,
      .options = {},
      .make = [times_gpus](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<ShortestFirst>(arguments.placement, times_gpus);
      },
  };
}

}  // namespace

void register_srtf(Registry& registry) {
  registry.add(info("srtf", "remaining time", false));
  registry.add(info("srsf", "remaining time x GPUs", true));
}

}  // namespace ebb::policies
