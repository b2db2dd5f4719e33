#include "ebb/policies/tiresias/tiresias.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/policies/tiresias/pollux_variant.h"
#include "ebb/sched/room.h"

namespace ebb::policies {
namespace {

using namespace sched;

struct Settings {
  std::vector<double> limits;  // GPU-seconds; queue q is left at limits[q]
  double promote = 0;          // 0: never
  bool accumulate = true;      // waiting counts over preemptions (reference), or since the last one (paper)
  bool reference_jump = true;  // wake for a demotion by the reference's formula, or exactly
};

/// Discretised least attained service. Jobs with one priority and one queue form a band; bands are walked in order. In
/// a band, running jobs come first, then waiting ones, then those that joined it since the last decision (arrived,
/// demoted, promoted): the tail, which exists only from then to the end of the decision. Stamps give the order inside
/// the first two; they are handed out at both ends.
class Tiresias final : public Policy {
 public:
  Tiresias(std::shared_ptr<const Placement> placement, Settings settings)
      : placement_(std::move(placement)), settings_(std::move(settings)) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Tiresias>(*this); }

  void on_queued(const State& state, JobId id, Queued why, Time now) override {
    if (jobs_.size() <= id) jobs_.resize(id + 1);
    Job& job = jobs_[id];
    if (why == Queued::submitted) job.priority = -state.job(id).spec.priority;
    if (why == Queued::stopped) {
      // Its place among the waiting was fixed when it was preempted.
      bands_[band_of(job)].waiting[state.job(id).job_class].insert({job.stamp, id});
      if (job.promote_at < kEndOfTime) promotions_.insert({job.promote_at, id});
      return;
    }
    begin_wait(id, now);
    bands_[band_of(job)].tail.push_back(id);
  }

  /// Its queue, and what it executed and waited so far, are kept: released, it joins the band that it left.
  void on_withdrawn(const State& state, JobId id, Time now) override {
    Job& job = jobs_[id];
    remove_waiting(bands_[band_of(job)], state.job(id).job_class, id);
    end_wait(id, now);
    job.promote_at = kEndOfTime;
  }

  void on_started(const State& state, JobId id, Time now) override {
    Job& job = jobs_[id];
    if (!job.running || job.since == now) return;
    // Confirmed later than decided: service counts from now.
    forget_crossing(state, id);
    job.since = now;
    remember_crossing(state, id);
  }

  /// Its bands and its room are counted in GPUs, which a resize changes.
  void on_resized(const State& state, JobId id, Time) override {
    if (!jobs_[id].running) return;
    leave_band(id);
    count_gpus(state, id);
    join_band(id);
  }

  /// What it executed so far takes it through the queues, one at each decision.
  void adopt(const State& state, JobId id, Time now) override {
    if (jobs_.size() <= id) jobs_.resize(id + 1);
    Job& job = jobs_[id];
    job.priority = -state.job(id).spec.priority;
    job.executed = state.job(id).held_until(now);
    if (state.job(id).phase != JobPhase::stopping) return enter_running(state, id, now, ++back_);
    job.stamp = ++back_;
    begin_wait(id, now);
  }

  void on_released(const State& state, JobId id, Time now) override {
    Job& job = jobs_[id];
    if (!job.running) return;  // preempted: left its band then
    leave_running(state, id, now);
  }

  void decide(Turn& turn) override {
    quantum_ = turn.quantum();
    change_queues(turn);
    walk(turn);
    ask_for_wake(turn);
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = reason_for(state, job, ReasonCode::lower_priority);
    if (reason.available >= reason.needed) reason.code = ReasonCode::fragmented;
    return reason;
  }

 private:
  struct Job {
    int priority = 0;  // negated: less goes first
    std::uint32_t queue = 0;
    bool running = false;
    std::int64_t stamp = 0;
    Time since{};                    // start of the present run or wait
    Duration executed{};             // since the first start or the last promotion, closed runs
    Duration waited{};               // see Settings::accumulate, closed waits
    Time promote_at = kEndOfTime;    // while waiting: when it will have waited long enough
    GpuCount gpus = 0;               // while running
    std::vector<GpuCount> by_group;  // while running: its GPUs by group
  };
  using Band = std::pair<int, std::uint32_t>;  // (negated priority, queue)
  using Ordered = std::set<std::pair<std::int64_t, JobId>>;
  struct BandJobs {
    Ordered running;
    std::vector<GpuCount> running_by_group;
    std::map<ClassId, Ordered> waiting;
    std::vector<JobId> tail;
  };
  /// Running jobs that will leave queue `first` with `second` GPUs, by the time at which they would have started had
  /// they run without a break: the first one has executed longest.
  using Crossings = std::map<std::pair<std::uint32_t, GpuCount>, std::set<std::pair<Time, JobId>>>;

  static Band band_of(const Job& job) { return {job.priority, job.queue}; }
  bool last_queue(std::uint32_t queue) const { return queue >= settings_.limits.size(); }
  Time virtual_start(const Job& job) const { return job.since - job.executed; }

  // Executed time at which a job with this many GPUs has used up the limit of a queue.
  Duration limit_time(std::uint32_t queue, GpuCount gpus) const {
    return Duration(static_cast<std::int64_t>(std::ceil(settings_.limits[queue] * 1e9 / gpus)));
  }

  void remember_crossing(const State& state, JobId id) {
    const Job& job = jobs_[id];
    if (!last_queue(job.queue)) {
      crossings_[{job.queue, state.class_of(id).gpus}].insert({virtual_start(job), id});
    }
  }

  void forget_crossing(const State& state, JobId id) {
    const Job& job = jobs_[id];
    if (last_queue(job.queue)) return;
    const auto group = crossings_.find({job.queue, state.class_of(id).gpus});
    group->second.erase({virtual_start(job), id});
    if (group->second.empty()) crossings_.erase(group);
  }

  void begin_wait(JobId id, Time now) {
    Job& job = jobs_[id];
    job.since = now;
    promotions_.erase({job.promote_at, id});  // of a wait that a failure of the stopping job ended
    job.promote_at = kEndOfTime;
    if (settings_.promote <= 0 || job.queue == 0 || job.executed == Duration(0)) return;
    // Cut to whole quanta, as the reference does with its seconds. Later than anything for absurd factors.
    const double wanted = settings_.promote * static_cast<double>(job.executed.count());
    if (wanted > static_cast<double>(kMaxDuration.count())) return;
    const Duration target(static_cast<std::int64_t>(wanted) / quantum_.count() * quantum_.count());
    job.promote_at = now + (target - job.waited);
    promotions_.insert({job.promote_at, id});
  }

  void end_wait(JobId id, Time now) {
    Job& job = jobs_[id];
    promotions_.erase({job.promote_at, id});
    if (job.executed > Duration(0)) job.waited += now - job.since;
  }

  void enter_running(const State& state, JobId id, Time now, std::int64_t stamp) {
    Job& job = jobs_[id];
    job.running = true;
    job.since = now;
    job.stamp = stamp;
    count_gpus(state, id);
    join_band(id);
    remember_crossing(state, id);
  }

  void count_gpus(const State& state, JobId id) {
    std::vector<GpuCount>& by_group = jobs_[id].by_group;
    by_group.assign(state.capacity().free().group_count(), 0);
    for (const NodeShare& share : state.job(id).allocation) {
      by_group[state.capacity().free().group_of(share.node)] += share.gpus;
    }
  }

  void join_band(JobId id) {
    const Job& job = jobs_[id];
    BandJobs& band = bands_[band_of(job)];
    band.running.insert({job.stamp, id});
    band.running_by_group.resize(job.by_group.size());
    for (std::size_t g = 0; g < job.by_group.size(); ++g) band.running_by_group[g] += job.by_group[g];
  }

  void leave_band(JobId id) {
    const Job& job = jobs_[id];
    BandJobs& band = bands_[band_of(job)];
    band.running.erase({job.stamp, id});
    for (std::size_t g = 0; g < job.by_group.size(); ++g) band.running_by_group[g] -= job.by_group[g];
  }

  void leave_running(const State& state, JobId id, Time now) {
    Job& job = jobs_[id];
    leave_band(id);
    forget_crossing(state, id);
    job.executed += now - job.since;
    job.running = false;
  }

  // Demotions and promotions that are due, in order of arrival; both join the tail of their new queue.
  void change_queues(Turn& turn) {
    const State& state = turn.state();
    std::vector<JobId> due;
    for (const auto& [key, starts] : crossings_) {
      const Duration limit = limit_time(key.first, key.second);
      for (const auto& [start, id] : starts) {
        if (turn.now() - start < limit) break;
        due.push_back(id);
      }
    }
    while (!promotions_.empty() && promotions_.begin()->first <= turn.now()) {
      due.push_back(promotions_.begin()->second);
      promotions_.erase(promotions_.begin());
    }
    std::sort(due.begin(), due.end());
    for (const JobId id : due) {
      Job& job = jobs_[id];
      if (job.running) {
        forget_crossing(state, id);
        leave_band(id);
        ++job.queue;
        remember_crossing(state, id);
      } else {
        if (state.job(id).phase != JobPhase::waiting) {
          // Still being stopped: due again once it waits.
          continue;
        }
        BandJobs& band = bands_[band_of(job)];
        remove_waiting(band, state.job(id).job_class, id);
        job.executed = Duration(0);
        job.waited = Duration(0);
        job.queue = 0;
        job.promote_at = kEndOfTime;
      }
      bands_[band_of(job)].tail.push_back(id);
    }
  }

  void remove_waiting(BandJobs& band, ClassId job_class, JobId id) {
    const auto queue = band.waiting.find(job_class);
    if (queue == band.waiting.end() || queue->second.erase({jobs_[id].stamp, id}) == 0) {
      band.tail.erase(std::find(band.tail.begin(), band.tail.end(), id));
    } else if (queue->second.empty()) {
      band.waiting.erase(queue);
    }
  }

  void walk(Turn& turn) {
    const State& state = turn.state();
    Room room(state, *placement_);
    std::vector<JobId> admitted;
    for (auto entry = bands_.begin(); entry != bands_.end();) {
      BandJobs& band = entry->second;
      walk_running(turn, room, band);
      walk_waiting(turn, room, band, admitted);
      walk_tail(turn, room, band, admitted);
      entry = band.running.empty() && band.waiting.empty() ? bands_.erase(entry) : std::next(entry);
    }
    room.commit(turn);
    for (const JobId id : admitted) {
      if (state.job(id).phase == JobPhase::waiting) {
        // The placement found no room after all: it goes on waiting where it was.
        bands_[band_of(jobs_[id])].waiting[state.job(id).job_class].insert({jobs_[id].stamp, id});
        continue;
      }
      end_wait(id, turn.now());
      enter_running(state, id, turn.now(), jobs_[id].stamp);
    }
  }

  void preempt(const State& state, JobId id, Time now, std::int64_t stamp) {
    Job& job = jobs_[id];
    leave_running(state, id, now);
    job.stamp = stamp;
    if (!settings_.accumulate) job.waited = Duration(0);
    begin_wait(id, now);
  }

  void walk_running(Turn& turn, Room& room, BandJobs& band) {
    if (room.keep_all(band.running_by_group)) return;
    std::vector<JobId> lost;
    for (const auto& [stamp, id] : band.running) {
      if (!room.keep(id)) lost.push_back(id);
    }
    // Before everybody who waits in the band, in their own order.
    front_ -= static_cast<std::int64_t>(lost.size());
    for (std::size_t i = 0; i < lost.size(); ++i) {
      preempt(turn.state(), lost[i], turn.now(), front_ + static_cast<std::int64_t>(i));
    }
  }

  void walk_waiting(Turn& turn, Room& room, BandJobs& band, std::vector<JobId>& admitted) {
    const Capacity& capacity = turn.state().capacity();
    std::set<ClassId> closed;
    while (room.left() > 0) {
      auto best = band.waiting.end();
      for (auto queue = band.waiting.begin(); queue != band.waiting.end(); ++queue) {
        if (closed.contains(queue->first)) continue;
        if (!room.might_fit(capacity.job_class(queue->first))) {
          closed.insert(queue->first);
        } else if (best == band.waiting.end() || *queue->second.begin() < *best->second.begin()) {
          best = queue;
        }
      }
      if (best == band.waiting.end()) return;
      const JobId id = best->second.begin()->second;
      if (!room.admit(id)) {
        closed.insert(best->first);
        continue;
      }
      best->second.erase(best->second.begin());
      if (best->second.empty()) band.waiting.erase(best);
      jobs_[id].stamp = ++back_;
      admitted.push_back(id);
    }
  }

  void walk_tail(Turn& turn, Room& room, BandJobs& band, std::vector<JobId>& admitted) {
    const State& state = turn.state();
    for (const JobId id : band.tail) {
      Job& job = jobs_[id];
      job.stamp = ++back_;
      if (job.running) {
        join_band(id);
        if (!room.keep(id)) preempt(state, id, turn.now(), job.stamp);
      } else if (room.admit(id)) {
        admitted.push_back(id);
      } else {
        band.waiting[state.job(id).job_class].insert({job.stamp, id});
      }
    }
    band.tail.clear();
  }

  void ask_for_wake(Turn& turn) {
    // Times in this clock are multiples of the quantum.
    const auto round_up = [&](Duration d) {
      const std::int64_t quantum = turn.quantum().count();
      return Duration((d.count() + quantum - 1) / quantum * quantum);
    };
    for (const auto& [key, starts] : crossings_) {
      const auto& [queue, gpus] = key;
      if (settings_.reference_jump) {
        // now + ceil((limit - executed seconds) / GPUs) of the job that executed longest among those below the limit.
        const Duration limit(static_cast<std::int64_t>(settings_.limits[queue] * 1e9));
        const auto first = starts.upper_bound({turn.now() - limit, std::numeric_limits<JobId>::max()});
        if (first == starts.end()) continue;
        const Duration executed = turn.now() - first->first;
        turn.wake_at(turn.now() + round_up(Duration((limit - executed).count() / gpus +
                                                    ((limit - executed).count() % gpus != 0 ? 1 : 0))));
      } else {
        const Duration until = starts.begin()->first + limit_time(queue, gpus) - turn.now();
        turn.wake_at(turn.now() + round_up(std::max(until, turn.quantum())));
      }
    }
    const auto promotion = promotions_.upper_bound({turn.now(), std::numeric_limits<JobId>::max()});
    if (promotion != promotions_.end() && promotion->first < kEndOfTime) {
      turn.wake_at(turn.now() + round_up(promotion->first - turn.now()));
    }
  }

  std::shared_ptr<const Placement> placement_;
  Settings settings_;
  std::vector<Job> jobs_;  // by job
  std::map<Band, BandJobs> bands_;
  Crossings crossings_;
  std::set<std::pair<Time, JobId>> promotions_;  // waiting jobs, by promote_at
  Duration quantum_ = Duration(1);
  std::int64_t front_ = 0;
  std::int64_t back_ = 0;
};

Result<std::unique_ptr<Policy>> make(const PolicyArguments& arguments) {
  Settings settings;
  settings.limits = arguments.options.get<std::vector<double>>("limits");
  settings.promote = arguments.options.get<double>("promote");
  settings.accumulate = arguments.options.get<std::string>("promote_wait") == "accumulated";
  settings.reference_jump = arguments.options.get<std::string>("demotion") == "reference";
  for (std::size_t i = 1; i < settings.limits.size(); ++i) {
    if (settings.limits[i] <= settings.limits[i - 1]) {
      return fail(ErrorCode::invalid_argument, "option limits: {} is not above {}; give GPU-seconds in rising order",
                  settings.limits[i], settings.limits[i - 1]);
    }
  }
  if (arguments.options.get<std::string>("variant") == "pollux") {
    if (settings.promote > 0) {
      return fail(ErrorCode::invalid_argument, "option promote: variant=pollux never promotes; leave it at 0");
    }
    return make_pollux_variant(settings.limits.empty() ? std::nullopt : std::optional(settings.limits.front()));
  }
  return std::make_unique<Tiresias>(arguments.placement, std::move(settings));
}

}  // namespace

void register_tiresias(Registry& registry) {
  registry.add({
      .name = "tiresias",
      .summary = "Preemptive, least attained service in discrete queues; needs no run times.",
      .source = "Gu et al., NSDI 2019 (2D-LAS); rules as in its simulator",
      .oracle = Oracle::no,
      .preemptive = true,
      .options =
          {
              {"limits",
               std::vector<double>{3250, 7200},
               "attained service in GPU-seconds at which a job leaves each queue but the last",
               {},
               1e-3,
               3e9},
              {"promote",
               0.0,
               "a job returns to the first queue once it has waited this many times as long as it ran; 0: never",
               {},
               0,
               1e6},
              {"promote_wait",
               std::string("accumulated"),
               "which waiting counts for promote: all since the first start or last promotion (accumulated, as the "
               "reference), or since the last preemption (the paper's rule)",
               {"accumulated", "since_preemption"}},
              {"demotion",
               std::string("reference"),
               "when a demotion wakes the scheduler: by the reference's formula ((limit - run time) / GPUs ahead), or "
               "exactly when the limit is reached",
               {"reference", "exact"}},
              {"variant",
               std::string("tiresias"),
               "rules of the paper's own simulator, or those of the two queues with which Pollux and DeepBoot compare: "
               "the first of `limits` counts, jobs have the size that they asked for on the emptiest nodes",
               {"tiresias", "pollux"}},
          },
      .make = make,
  });
}

}  // namespace ebb::policies
