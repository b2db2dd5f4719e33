// A live driver answers late and out of order: stops and resizes take a while, starts and replicas fail, jobs finish
// while they are told to stop, demand moves, plans come when they are out of date, owners hold, release and cancel
// jobs. All invariants hold after every step, a fork of the scheduler decides the same, whoever waits knows why, and
// the journal can be replayed.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <set>

#include "ebb/policies/all.h"
#include "ebb/sched/scheduler.h"
#include "ebb/sim/journal_header.h"
#include "ebb/trace/journal.h"
#include "random_case.h"

namespace ebb {
namespace {

using sched::Holder;
using sched::JobPhase;
using sched::JobState;
using sched::ReplicaPhase;
using sched::ReplicaState;

class SlowWorld {
 public:
  SlowWorld(const Case& c, Random& random)
      : scheduler_(sim::make_scheduler(c.cluster, c.options, false, policies::all()).value()),
        jobs_(c.workload.jobs),
        services_(c.workload.services),
        random_(random) {}

  Result<void> play(int steps, trace::JournalWriter& journal) {
    for (int i = 0; i < steps; ++i) {
      now_ += std::chrono::seconds(1 + random_.below(20));
      std::vector<Event> events = happenings();
      if (!one_in(3)) {
        events.emplace_back(Tick{});
      } else if (one_in(2)) {
        events.emplace_back(Timer{});
      }
      sched::Scheduler fork(scheduler_);
      sched::StepResult forked;
      EBB_RETURN_IF_ERROR(scheduler_.step(events, now_, result_));
      EBB_RETURN_IF_ERROR(fork.step(events, now_, forked));
      if (forked.decisions != result_.decisions || forked.next_wake_at != result_.next_wake_at ||
          forked.serve_at != result_.serve_at) {
        return fail(ErrorCode::internal, "a fork decides differently");
      }
      for (const Event& event : events) journal.write(now_, event);
      for (const Decision& decision : result_.decisions) journal.write(now_, decision);
      EBB_RETURN_IF_ERROR(sched::check_invariants(scheduler_.state()));
      EBB_RETURN_IF_ERROR(reasons_complete(events));
      for (const Holder holder : scheduler_.take_launchable()) launched_.push_back(holder);
      for (const Decision& decision : result_.decisions) {
        if (const auto* request = std::get_if<PlanRequest>(&decision)) {
          plans_.push_back({request->plan, scheduler_.policy().plan(request->input)});
        }
      }
    }
    return {};
  }

 private:
  bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
  const sched::State& state() const { return scheduler_.state(); }

  // Whoever began to wait and still waits was given a reason.
  Result<void> reasons_complete(const std::vector<Event>& events) const {
    for (const Event& event : events) {
      std::optional<JobId> queued;
      if (const auto* e = std::get_if<JobSubmitted>(&event)) queued = e->job;
      if (const auto* e = std::get_if<JobStopped>(&event)) queued = e->job;
      if (const auto* e = std::get_if<JobReleased>(&event)) queued = e->job;
      if (const auto* e = std::get_if<JobFailed>(&event)) queued = e->job;
      if (!queued || state().job(*queued).phase != JobPhase::waiting || !state().job(*queued).training()) continue;
      const bool told = std::any_of(result_.reasons.begin(), result_.reasons.end(),
                                    [&](const auto& reason) { return reason.first == *queued; });
      if (!told) return fail(ErrorCode::internal, "job {} waits without a reason", *queued);
    }
    return {};
  }

  std::vector<Event> happenings() {
    std::vector<Event> events;
    told_.clear();
    launch(events);
    const auto failed = change_node(events);
    const std::vector<JobId> holding = state().holding();
    for (const JobId job : holding) train(job, failed, events);
    withdraw(events);
    const std::vector<ReplicaId> replicas = state().live_replicas();
    for (const ReplicaId replica : replicas) serve(replica, failed, events);
    move_demand(events);
    for (std::uint64_t n = random_.below(3); n > 0 && submitted_ < jobs_.size(); --n, ++submitted_) {
      JobSpec job = jobs_[submitted_];
      job.submit = now_;
      job.application = job.kind == JobKind::inference ? job.application : "";
      if (job.sizing != Sizing::rigid && job.max_gpus == 0) job.max_gpus = job.gpus;
      if (job.run_time == Duration(0)) job.run_time = std::chrono::seconds(10);
      const auto id = static_cast<JobId>(submitted_);
      events.emplace_back(JobSubmitted{id, job});
      if (job.kind != JobKind::training) continue;
      if (one_in(8)) events.emplace_back(JobHeld{id});
      if (one_in(16)) events.emplace_back(JobCancelled{id});
    }
    if (!plans_.empty() && one_in(2)) {
      events.emplace_back(plans_.front());
      plans_.erase(plans_.begin());
    }
    return events;
  }

  void launch(std::vector<Event>& events) {
    std::vector<Holder> later;
    for (const Holder holder : launched_) {
      if (told_.contains(key(holder))) continue;
      if (one_in(4)) {
        later.push_back(holder);
      } else if (holder.kind == Holder::Kind::replica) {
        if (state().replica(holder.id).folded != ReplicaPhase::starting) continue;
        told_.insert(key(holder));
        events.emplace_back(ReplicaReady{holder.id});
      } else {
        const JobState& job = state().job(holder.id);
        if (job.promised > 0 || !job.departing.empty()) continue;  // it failed and was started again
        if (job.phase == JobPhase::starting) {
          events.emplace_back(JobStarted{holder.id, now_ + std::chrono::seconds(random_.below(30))});
        } else if (job.phase == JobPhase::resizing) {
          events.emplace_back(JobResized{holder.id, now_ + std::chrono::seconds(random_.below(30)), job.progress});
        } else {
          continue;
        }
        told_.insert(key(holder));
      }
    }
    launched_ = std::move(later);
  }

  // A node fails, comes back, drains or drains no longer. The one that failed.
  std::optional<NodeId> change_node(std::vector<Event>& events) {
    const sched::Capacity& capacity = state().capacity();
    const auto node = static_cast<NodeId>(random_.below(capacity.spec().nodes.size()));
    if (!capacity.up(node)) {
      if (one_in(2)) events.emplace_back(NodeRepaired{node});
    } else if (one_in(12)) {
      events.emplace_back(NodeFailed{node});
      return node;
    } else if (capacity.draining(node)) {
      if (one_in(2)) events.emplace_back(NodeUndrained{node});
    } else if (one_in(15)) {
      events.emplace_back(NodeDrained{node});
    }
    return std::nullopt;
  }

  void train(JobId id, std::optional<NodeId> failed, std::vector<Event>& events) {
    const JobState& job = state().job(id);
    const auto on_it = [&](const NodeShare& share) { return failed && share.node == *failed; };
    const bool hit = std::any_of(job.allocation.begin(), job.allocation.end(), on_it) ||
                     std::any_of(job.departing.begin(), job.departing.end(), on_it);
    if (hit) {
      events.emplace_back(JobFailed{id, Duration(0)});
      return;
    }
    if (told_.contains(key(Holder::job(id)))) return;
    if (one_in(30)) {
      events.emplace_back(JobFailed{id, job.progress});
    } else if (job.incarnate() && one_in(8)) {
      events.emplace_back(JobFinished{id, {}});
    } else if (job.phase == JobPhase::stopping && one_in(2)) {
      events.emplace_back(JobStopped{id, job.progress});
    } else if (job.phase == JobPhase::resizing && !job.departing.empty() && one_in(2)) {
      events.emplace_back(JobShrunk{id});
    } else if (job.phase == JobPhase::running && one_in(4)) {
      events.emplace_back(report_of(id));
    }
  }

  // Jobs that broke back off before a retry or are given up; owners hold, release and cancel.
  void withdraw(std::vector<Event>& events) {
    std::vector<Event> more;
    for (const Event& event : events) {
      const auto* broke = std::get_if<JobFailed>(&event);
      if (broke == nullptr) continue;
      if (one_in(4)) {
        more.emplace_back(JobHeld{broke->job});
      } else if (one_in(6)) {
        more.emplace_back(JobCancelled{broke->job});
      }
    }
    for (JobId id = state().first_active(); id < state().jobs().size(); ++id) {
      const JobState& job = state().job(id);
      const bool waits = job.phase == JobPhase::waiting;
      if (!job.training() || !(waits || job.phase == JobPhase::held)) continue;
      if (one_in(40)) {
        more.emplace_back(JobCancelled{id});
      } else if (waits && one_in(12)) {
        more.emplace_back(JobHeld{id});
        if (one_in(4)) more.emplace_back(JobReleased{id});
      } else if (!waits && one_in(5)) {
        more.emplace_back(JobReleased{id});
      }
    }
    events.insert(events.end(), more.begin(), more.end());
  }

  JobReport report_of(JobId id) {
    JobReport report;
    report.job = id;
    report.progress = state().job(id).progress_until(now_);
    report.fraction_done = random_.uniform();
    report.steps_done = 1000 * random_.uniform();
    report.most_gpus = state().job(id).gpus;
    if (one_in(2)) report.gradient = {0.1 + random_.uniform(), 0.1 + random_.uniform()};
    if (one_in(2)) {
      report.throughput = ThroughputParams{
          random_.uniform(), 0.01 * random_.uniform(), random_.uniform(), 0.01, 0.1, 0.01, 1 + random_.uniform()};
    }
    return report;
  }

  void serve(ReplicaId id, std::optional<NodeId> failed, std::vector<Event>& events) {
    const ReplicaState& replica = state().replica(id);
    const bool stops = replica.folded == ReplicaPhase::stopping && one_in(2);
    if ((failed && replica.place.node == *failed) || stops) {
      events.emplace_back(ReplicaStopped{id});
    } else if (told_.contains(key(Holder::replica(id)))) {
      return;
    } else if (one_in(40)) {
      events.emplace_back(ReplicaStopped{id});  // it broke
    } else if (replica.task && replica.folded == ReplicaPhase::serving && one_in(2)) {
      events.emplace_back(JobFinished{*replica.task, {}});
    }
  }

  void move_demand(std::vector<Event>& events) {
    if (!services_added_) {
      for (ServiceId id = 0; id < services_.size(); ++id) events.emplace_back(ServiceAdded{id, services_[id].spec});
      services_added_ = true;
    }
    if (services_.empty() || !one_in(5)) return;
    const auto id = static_cast<ServiceId>(random_.below(services_.size()));
    events.emplace_back(ServiceDemand{id, static_cast<std::int32_t>(random_.below(6))});
  }

  static std::pair<int, std::uint32_t> key(Holder holder) { return {static_cast<int>(holder.kind), holder.id}; }

  sched::Scheduler scheduler_;
  std::vector<JobSpec> jobs_;
  std::vector<ServiceLoad> services_;
  Random& random_;
  sched::StepResult result_;
  std::vector<Holder> launched_;
  std::set<std::pair<int, std::uint32_t>> told_;  // an event of this batch is about them
  std::vector<PlanReady> plans_;
  std::size_t submitted_ = 0;
  bool services_added_ = false;
  Time now_{};
};

RC_GTEST_PROP(Property, ASlowWorldBreaksNothing, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Case c = random_case(seed, {.jobs = 60, .profiles = false});
  Random random(seed, "slow world");
  SlowWorld world(c, random);
  const auto path = std::filesystem::temp_directory_path() / fmt::format("ebb_slow_world_{}.jsonl", seed);
  auto journal = trace::JournalWriter::create(path, sim::journal_header(c.cluster, {}, c.options)).value();
  const auto played = world.play(150, journal);
  if (!played) RC_FAIL(fmt::format("{}\n{}", c.text(), played.error().message));
  RC_ASSERT(journal.close().has_value());
  const auto replayed = sim::replay(path.string(), policies::all());
  if (!replayed) RC_FAIL(fmt::format("{}\n{}", c.text(), replayed.error().message));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ebb
