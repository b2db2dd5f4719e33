// Random clusters, jobs, failures and options under every policy: after every step all invariants hold, every job that
// can run ends, and a replay of the journal and a fork of the state give the same decisions.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "ebb/base/random.h"
#include "ebb/policies/all.h"
#include "ebb/sched/scheduler.h"
#include "ebb/sim/journal_header.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/journal.h"

namespace ebb {
namespace {

struct Case {
  std::string cluster;
  Workload workload;
  sim::SimOptions options;
};

std::string random_cluster(Random& random) {
  std::string text;
  const auto groups = 1 + random.below(3);
  for (std::uint64_t g = 0; g < groups; ++g) {
    if (g > 0) text += "+";
    text += fmt::format("{}x{}", 1 + random.below(6), 1 + random.below(8));
    if (random.below(2) == 0) text += fmt::format(":type{}", random.below(2));
    if (random.below(2) == 0) text += random.below(2) == 0 ? "@training" : "@serving";
  }
  return text;
}

Case random_case(std::uint64_t seed) {
  Random random(seed, "case");
  Case c;
  c.cluster = random_cluster(random);
  const auto jobs = 1 + random.below(60);
  Time submit{};
  for (std::uint64_t i = 0; i < jobs; ++i) {
    JobSpec job;
    job.name = fmt::format("job-{}", i);
    job.tenant = fmt::format("tenant-{}", random.below(4));
    job.gpus = static_cast<GpuCount>(1 + random.below(random.below(2) == 0 ? 4 : 20));
    if (random.below(3) != 0) submit += std::chrono::seconds(random.below(40));
    if (random.below(4) == 0) submit += Duration(static_cast<std::int64_t>(random.below(1'000'000'000)));
    job.submit = submit;
    job.run_time = std::chrono::seconds(random.below(300));
    job.priority = random.below(4) == 0 ? static_cast<int>(random.below(3)) - 1 : 0;
    if (random.below(4) == 0) job.requested_time = job.run_time * static_cast<int>(random.below(3));
    if (random.below(6) == 0) job.gpu_type = fmt::format("type{}", random.below(2));
    if (random.below(6) == 0) job.pool = random.below(2) == 0 ? "training" : "serving";
    c.workload.jobs.push_back(job);
  }
  const auto registry = policies::all();
  c.options.policy = registry.policies()[random.below(registry.policies().size())].name;
  constexpr const char* kPlacements[] = {"count", "best_fit", "consolidate", "spread"};
  c.options.set = {{"placement", kPlacements[random.below(4)]}};
  if (c.options.policy == "tiresias") {
    c.options.set.emplace_back("limits", random.below(2) == 0 ? "50,400" : "20,100,1000");
    c.options.set.emplace_back("promote", random.below(2) == 0 ? "0" : "0.7");
    c.options.set.emplace_back("promote_wait", random.below(2) == 0 ? "accumulated" : "since_preemption");
    c.options.set.emplace_back("demotion", random.below(2) == 0 ? "reference" : "exact");
  }
  c.options.skip_impossible = true;
  c.options.seed = seed;
  if (random.below(3) == 0) c.options.round = std::chrono::seconds(1 + random.below(60));
  if (random.below(3) == 0) c.options.resize_cost.fixed = std::chrono::seconds(random.below(30));
  if (random.below(3) == 0) c.options.time = spec::TimeModel::seconds;
  if (random.below(4) == 0) c.options.set.emplace_back("charge_first_start", "true");
  const auto nodes = spec::parse_cluster(c.cluster).value().nodes.size();
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    spec::NodeOutage outage;
    outage.at = Time(std::chrono::seconds(random.below(600)));
    outage.node = static_cast<std::uint32_t>(random.below(nodes));
    outage.drain = random.below(2) == 0;
    if (random.below(8) != 0) outage.lasts = std::chrono::seconds(1 + random.below(200));
    c.options.faults.outages.push_back(outage);
  }
  if (random.below(4) == 0) {
    // Rare enough that every job gets through in the end even if it starts again from nothing.
    c.options.faults.mtbf = std::chrono::seconds(20'000);
    c.options.faults.mttr = std::chrono::seconds(60);
  }
  if (random.below(2) == 0) c.options.faults.checkpoint_interval = std::chrono::seconds(1 + random.below(30));
  return c;
}

// Whether a node is gone for good at the end: then jobs may be left over.
bool loses_nodes(const Case& c) {
  return std::any_of(c.options.faults.outages.begin(), c.options.faults.outages.end(),
                     [](const spec::NodeOutage& outage) { return !outage.lasts; });
}

void check_result(const Case& c, const sim::SimResult& result) {
  const Duration quantum = sim::quantum_of(c.options.time);
  RC_ASSERT(result.jobs.size() == c.workload.jobs.size());
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const sim::JobRecord& job = result.jobs[i];
    if (!job.end) {
      RC_ASSERT(!job.reason.empty());
      if (!loses_nodes(c)) RC_ASSERT(job.reason == "impossible");
      continue;
    }
    // Work is conserved: it held its GPUs at least for its run time, and every moment it either waited or held.
    const Duration run = (c.workload.jobs[i].run_time + quantum / 2) / quantum * quantum;
    const Duration held(std::llround(job.gpu_seconds * 1e9 / job.gpus));
    RC_ASSERT(held >= run);
    RC_ASSERT(*job.jct() == job.pending + held);
    const bool disturbed = !c.options.faults.outages.empty() || c.options.faults.mtbf;
    if (!disturbed && c.options.resize_cost.fixed == Duration(0)) RC_ASSERT(held == run);
  }
}

RC_GTEST_PROP(Property, InvariantsHoldAfterEveryStepAndReplayAgrees, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Case c = random_case(seed);
  const ClusterSpec cluster = spec::parse_cluster(c.cluster).value();
  const auto path = std::filesystem::temp_directory_path() / fmt::format("ebb_property_{}.jsonl", ::getpid());
  auto journal = trace::JournalWriter::create(path, sim::journal_header(cluster, c.workload, c.options)).value();
  sim::SimHooks hooks;
  hooks.journal = &journal;
  hooks.after_step = [](const sched::State& state, Time) { return sched::check_invariants(state); };
  const auto result = sim::simulate(cluster, c.workload, c.options, policies::all(), hooks);
  // Where resuming costs more than a job may run at a time, a preemptive policy gets nowhere; the simulator says so.
  if (!result && c.options.resize_cost.fixed > Duration(0) &&
      result.error().message.find("gets nowhere") != std::string::npos) {
    RC_SUCCEED("livelock found");
  }
  if (!result) RC_FAIL(fmt::format("seed {} on {}: {}: {}", seed, c.cluster, c.options.policy, result.error().message));
  RC_ASSERT(journal.close());
  check_result(c, *result);
  const auto replayed = sim::replay(path.string(), policies::all());
  std::filesystem::remove(path);
  if (!replayed) RC_FAIL(fmt::format("seed {} on {}: {}", seed, c.cluster, replayed.error().message));
}

// A live driver answers late and out of order: stops take a while, starts fail, jobs finish while they are stopped.
class SlowWorld {
 public:
  SlowWorld(const Case& c, Random& random)
      : scheduler_(spec::parse_cluster(c.cluster).value(),
                   policies::all().make(c.options.policy, sim::policy_assignments(c.options.set)).value()),
        jobs_(c.workload.jobs),
        random_(random) {}

  Result<void> play(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += std::chrono::seconds(1 + random_.below(20));
      std::vector<Event> events = happenings();
      if (random_.below(3) != 0) events.emplace_back(Tick{});
      sched::Scheduler fork(scheduler_);
      sched::StepResult forked;
      EBB_RETURN_IF_ERROR(scheduler_.step(events, now_, result_));
      EBB_RETURN_IF_ERROR(fork.step(events, now_, forked));
      if (forked.decisions != result_.decisions || forked.next_wake_at != result_.next_wake_at) {
        return fail(ErrorCode::internal, "a fork decides differently");
      }
      EBB_RETURN_IF_ERROR(sched::check_invariants(scheduler_.state()));
      EBB_RETURN_IF_ERROR(reasons_complete(events));
      for (const sched::Holder holder : scheduler_.take_launchable()) launched_.push_back(holder.id);
    }
    return {};
  }

  // Whoever began to wait and still waits was given a reason.
  Result<void> reasons_complete(const std::vector<Event>& events) const {
    for (const Event& event : events) {
      std::optional<JobId> queued;
      if (const auto* e = std::get_if<JobSubmitted>(&event)) queued = e->job;
      if (const auto* e = std::get_if<JobStopped>(&event)) queued = e->job;
      if (const auto* e = std::get_if<JobFailed>(&event)) queued = e->job;
      if (!queued || scheduler_.state().job(*queued).phase != sched::JobPhase::waiting) continue;
      const bool told = std::any_of(result_.reasons.begin(), result_.reasons.end(),
                                    [&](const auto& reason) { return reason.first == *queued; });
      if (!told) return fail(ErrorCode::internal, "job {} waits without a reason", *queued);
    }
    return {};
  }

  std::size_t finished() const { return finished_; }

 private:
  std::vector<Event> happenings() {
    std::vector<Event> events;
    for (const JobId job : launched_) {
      if (scheduler_.state().job(job).phase != sched::JobPhase::starting) continue;
      if (random_.below(8) == 0) {
        events.emplace_back(JobFailed{job, Duration(0)});
      } else {
        events.emplace_back(JobStarted{job, now_});
      }
    }
    launched_.clear();
    const sched::Capacity& capacity = scheduler_.state().capacity();
    const auto node = static_cast<NodeId>(random_.below(capacity.spec().nodes.size()));
    const bool fails = random_.below(10) == 0 && capacity.up(node);
    if (fails) events.emplace_back(NodeFailed{node});
    if (!fails && random_.below(3) == 0 && !capacity.up(node)) events.emplace_back(NodeRepaired{node});
    const std::vector<JobId> holding = scheduler_.state().holding();
    for (const JobId job : holding) {
      const auto& shares = scheduler_.state().job(job).allocation;
      const bool hit = fails && std::any_of(shares.begin(), shares.end(),
                                            [&](const NodeShare& share) { return share.node == node; });
      const bool told = std::any_of(events.begin(), events.end(), [&](const Event& event) {
        const auto* failed = std::get_if<JobFailed>(&event);
        const auto* started = std::get_if<JobStarted>(&event);
        return (failed != nullptr && failed->job == job) || (started != nullptr && started->job == job);
      });
      if (!told && (hit || (scheduler_.state().job(job).phase == sched::JobPhase::starting && random_.below(8) == 0))) {
        events.emplace_back(JobFailed{job, Duration(0)});
        continue;
      }
      const auto phase = scheduler_.state().job(job).phase;
      if (phase == sched::JobPhase::stopping && random_.below(2) == 0) {
        events.emplace_back(JobStopped{job, scheduler_.state().job(job).progress});
      } else if ((phase == sched::JobPhase::running || phase == sched::JobPhase::stopping) && random_.below(6) == 0) {
        events.emplace_back(JobFinished{job});
        ++finished_;
      } else if (phase == sched::JobPhase::running && random_.below(20) == 0) {
        events.emplace_back(JobFailed{job, Duration(0)});
      }
    }
    for (std::uint64_t n = random_.below(3); n > 0 && submitted_ < jobs_.size(); --n, ++submitted_) {
      JobSpec job = jobs_[submitted_];
      job.submit = now_;
      events.emplace_back(JobSubmitted{static_cast<JobId>(submitted_), job});
    }
    return events;
  }

  sched::Scheduler scheduler_;
  std::vector<JobSpec> jobs_;
  Random& random_;
  sched::StepResult result_;
  std::vector<JobId> launched_;
  std::size_t submitted_ = 0;
  std::size_t finished_ = 0;
  Time now_{};
};

RC_GTEST_PROP(Property, ASlowWorldBreaksNothing, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Case c = random_case(seed);
  Random random(seed, "slow world");
  SlowWorld world(c, random);
  const auto played = world.play(150);
  if (!played) RC_FAIL(fmt::format("seed {} on {}: {}: {}", seed, c.cluster, c.options.policy, played.error().message));
}

}  // namespace
}  // namespace ebb
