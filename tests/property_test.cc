// Random clusters, jobs, services, failures and options under every policy: after every step all invariants hold, GPU
// time adds up, loans come back within their bound, every job that can run ends, what does not is reported, and the
// journal is replayed to the same decisions.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/policies/all.h"
#include "ebb/sim/journal_header.h"
#include "ebb/sim/output.h"
#include "ebb/trace/journal.h"
#include "random_case.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

using sched::JobPhase;
using sched::JobState;
using sched::ReplicaPhase;
using sched::ReplicaState;
using sched::State;

sched::Options sim_values(const Case& c) {
  std::vector<std::pair<std::string, std::string>> ours;
  for (const auto& assignment : c.options.set) {
    const auto specs = sim::sim_options();
    if (std::any_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == assignment.first; })) {
      ours.push_back(assignment);
    }
  }
  return sched::Options::parse(sim::sim_options(), ours).value();
}

/// Looks at the state after every step, and adds GPU time up on its own.
class Watch {
 public:
  explicit Watch(const Case& c) : spec_(c.cluster) {
    const sched::Options values = sim_values(c);
    bound_ = std::min(values.get<Duration>("drain"), values.get<Duration>("reclaim_bound"));
  }

  Result<void> look(const State& state, Time now) {
    if (++steps_ > kMostSteps) return fail(ErrorCode::internal, "no end at {} s", format_seconds(now));
    add_up(now);
    take_picture(state, now);
    EBB_RETURN_IF_ERROR(nobody_overstays(state, now));
    return nothing_runs_twice(state, now);
  }

  /// Seconds by state up to `end`, in the order of sim::GpuSeconds without idle ones.
  std::vector<double> seconds_until(Time end) {
    add_up(end);
    return {seconds_.begin(), seconds_.end()};
  }

 private:
  enum Kind : std::uint8_t { training, resizing, starting, serving, protect, sleep, kinds };
  /// So many GPUs do this from the picture on, and from `until` on that.
  struct Use {
    GpuCount gpus = 0;
    Kind now = training;
    Time until = kEndOfTime;
    Kind then = training;
  };

  void add_up(Time now) {
    for (const Use& use : uses_) {
      const Time turn = std::clamp(use.until, taken_, std::max(taken_, now));
      seconds_[use.now] += to_seconds(turn - taken_) * use.gpus;
      if (now > turn) seconds_[use.then] += to_seconds(now - turn) * use.gpus;
    }
    taken_ = std::max(taken_, now);
  }

  void take_picture(const State& state, Time now) {
    uses_.clear();
    taken_ = now;
    for (const JobId id : state.holding()) {
      const JobState& job = state.job(id);
      if (!job.incarnate()) continue;
      if (job.phase == JobPhase::running) {
        uses_.push_back({job.occupied, resizing, job.productive_at, training});
      } else {
        uses_.push_back({job.occupied, resizing});
      }
    }
    for (const ReplicaId id : state.live_replicas()) {
      const ReplicaState& replica = state.replica(id);
      const GpuCount gpus = replica.place.gpus;
      switch (replica.folded) {
        case ReplicaPhase::starting:
          if (replica.promised == 0) uses_.push_back({gpus, starting});
          break;
        case ReplicaPhase::serving:
          uses_.push_back({gpus, serving});
          break;
        case ReplicaPhase::protect:
          uses_.push_back({gpus, protect, replica.protect_until, sleep});
          break;
        case ReplicaPhase::sleep:
        case ReplicaPhase::stopping:
          uses_.push_back({gpus, sleep});
          break;
        case ReplicaPhase::gone:
          break;
      }
    }
  }

  // GPUs asked back come back within the bound, and whoever waits for them goes on then.
  Result<void> nobody_overstays(const State& state, Time now) const {
    for (const JobId id : state.holding()) {
      const JobState& job = state.job(id);
      if (job.changes() && now - job.told_at > bound_) {
        return fail(ErrorCode::internal, "job {} is {} since {} s", id, to_string(job.phase),
                    format_seconds(job.told_at));
      }
    }
    return {};
  }

  // Processes of training and replicas that exist, on each node.
  Result<void> nothing_runs_twice(const State& state, Time now) const {
    std::vector<GpuCount> used(spec_.nodes.size());
    for (const JobId id : state.holding()) {
      const JobState& job = state.job(id);
      if (!job.incarnate()) continue;
      for (const NodeShare& share : job.allocation) used[share.node] += share.gpus;
      for (const NodeShare& share : job.arriving) used[share.node] -= share.gpus;
      for (const NodeShare& share : job.departing) used[share.node] += share.gpus;
    }
    for (const ReplicaId id : state.live_replicas()) {
      const ReplicaState& replica = state.replica(id);
      if (replica.promised == 0) used[replica.place.node] += replica.place.gpus;
      if ((state.capacity().serving_groups() >> state.capacity().free().group_of(replica.place.node) & 1) == 0) {
        return fail(ErrorCode::internal, "replica {} is on a node that does not serve", id);
      }
    }
    for (NodeId n = 0; n < used.size(); ++n) {
      if (used[n] <= spec_.nodes[n].gpus) continue;
      return fail(ErrorCode::internal, "node {} runs {} GPUs' worth at {} s", n, used[n], format_seconds(now));
    }
    return {};
  }

  // Far more than any of these cases needs.
  static constexpr int kMostSteps = 250'000;

  ClusterSpec spec_;
  int steps_ = 0;
  Duration bound_{};
  Time taken_{};
  std::vector<Use> uses_;
  std::array<double, kinds> seconds_{};
};

Result<sim::SimResult> run(const Case& c, const fs::path& path, Watch* watch) {
  auto journal = trace::JournalWriter::create(path, sim::journal_header(c.cluster, c.workload, c.options)).value();
  sim::SimHooks hooks;
  hooks.journal = &journal;
  if (watch != nullptr) hooks.after_step = [&](const State& state, Time now) { return watch->look(state, now); };
  EBB_ASSIGN_OR_RETURN(auto result, sim::simulate(c.cluster, c.workload, c.options, policies::all(), hooks));
  EBB_RETURN_IF_ERROR(journal.close());
  return result;
}

#define SAY(condition) \
  if (!(condition)) return fail(ErrorCode::internal, "not so: " #condition)

// What a run must fulfil as a whole.
class Judge {
 public:
  Judge(const Case& c, const sim::SimResult& result) : c_(c), result_(result) {}

  Result<void> judge(Watch& watch) const {
    SAY(result_.jobs.size() == c_.workload.jobs.size());
    for (std::size_t i = 0; i < result_.jobs.size(); ++i) {
      if (auto judged = result_.jobs[i].end ? completed(i) : left_over(i); !judged) {
        judged.error().message = fmt::format("job {}: {}", i, judged.error().message);
        return judged;
      }
    }
    EBB_RETURN_IF_ERROR(gpu_time(watch));
    const sim::Summary& summary = result_.summary;
    SAY(summary.jobs_completed + summary.jobs_impossible == summary.jobs_total);
    SAY(summary.training.count + summary.inference.count == summary.jobs_completed);
    SAY(summary.inference.in_target_share >= 0 && summary.inference.in_target_share <= 1 + 1e-12);
    const sched::Options values = sim_values(c_);
    const double bound = to_seconds(std::min(values.get<Duration>("drain"), values.get<Duration>("reclaim_bound")));
    SAY(summary.loans.reclaim_p99_s <= bound);
    if (values.get<Duration>("drain") <= values.get<Duration>("reclaim_bound")) SAY(summary.loans.forced == 0);
    if (summary.loans.forced > 0) SAY(warned("reclaim_bound"));
    return {};
  }

 private:
  bool warned(const char* part) const {
    const auto& warnings = result_.summary.warnings;
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& w) { return w.find(part) != std::string::npos; });
  }
  // Nodes that are gone for good, or services that keep all they ever got, leave jobs over.
  bool may_strand() const {
    return !c_.workload.services.empty() ||
           std::any_of(c_.options.faults.outages.begin(), c_.options.faults.outages.end(),
                       [](const spec::NodeOutage& outage) { return !outage.lasts; });
  }

  Result<void> left_over(std::size_t i) const {
    const sim::JobRecord& job = result_.jobs[i];
    SAY(!job.reason.empty());
    SAY(job.reason == "impossible" || may_strand());
    SAY(warned(job.reason == "impossible"       ? "too large for the cluster"
               : job.kind == JobKind::inference ? "never served"
                                                : "did not complete"));
    return {};
  }

  Result<void> completed(std::size_t i) const {
    const sim::JobRecord& job = result_.jobs[i];
    const JobSpec& spec = c_.workload.jobs[i];
    const Duration quantum = spec::quantum_of(c_.options.time);
    const Duration run = (spec.run_time + quantum / 2) / quantum * quantum;
    SAY(job.start && *job.start <= *job.end && job.pending >= Duration(0));
    SAY(*job.jct() >= job.pending);
    if (spec.sizing != Sizing::rigid || !spec.application.empty() || spec.run_time == Duration(0)) {
      if (job.kind == JobKind::inference) SAY(*job.jct() >= run);
      return {};
    }
    // Work is conserved: it held its GPUs at least for its run time, and every moment it either waited or held.
    const double held = job.gpu_seconds / job.gpus;
    const double slack = 1e-6 * (1 + to_seconds(*job.jct()));
    SAY(held >= to_seconds(run) - slack);
    SAY(std::abs(to_seconds(*job.jct() - job.pending) - held) < slack);
    const bool disturbed = !c_.options.faults.outages.empty() || c_.options.faults.mtbf ||
                           c_.options.resize_cost != perf::ResizeCost() ||
                           sim_values(c_).get<Duration>("drain") > Duration(0);
    if (!disturbed) SAY(std::abs(held - to_seconds(run)) < slack);
    return {};
  }

  Result<void> gpu_time(Watch& watch) const {
    const sim::GpuSeconds& by = result_.summary.gpu_seconds_by_state;
    const std::vector<double> told = {by.training, by.resizing, by.starting, by.serving, by.protect, by.sleeping};
    double all = by.idle;
    for (const double seconds : told) all += seconds;
    Time start = kEndOfTime;
    for (const JobSpec& job : c_.workload.jobs) start = std::min(start, job.submit);
    for (const ServiceLoad& load : c_.workload.services) start = std::min(start, load.requests.front().at);
    const sched::Options values = sim_values(c_);
    if (c_.options.time != spec::TimeModel::fractional)
      start = Time(
          std::chrono::duration_cast<std::chrono::seconds>(start.time_since_epoch() + std::chrono::milliseconds(500)));
    const double end = to_seconds(start.time_since_epoch()) + all / result_.cluster_gpus;
    const auto counted = watch.seconds_until(Time(Duration(std::llround(end * 1e9))));
    for (std::size_t kind = 0; kind < told.size(); ++kind) {
      if (std::abs(counted[kind] - told[kind]) <= 1e-6 * (1 + all)) continue;
      return fail(ErrorCode::internal, "GPU-seconds of kind {}: told {}, counted {} until {} s", kind, told[kind],
                  counted[kind], end);
    }
    SAY(std::abs(result_.summary.gpu_seconds - by.training - by.resizing) <= 1e-6 * (1 + all));
    return {};
  }

  const Case& c_;
  const sim::SimResult& result_;
};

fs::path journal_path(const char* name) {
  return fs::temp_directory_path() / fmt::format("ebb_property_{}_{}.jsonl", name, ::getpid());
}

// Where a change of GPUs costs more than a job may run at a time, a policy may get nowhere; the simulator says so.
bool livelock(const Case& c, const Error& error) {
  const bool costly = c.options.resize_cost != perf::ResizeCost() || sim_values(c).get<Duration>("drain") > Duration(0);
  // So may a search that is given little time, with gangs that fit in one way only.
  return (costly || c.options.policy == "pollux") && error.message.find("gets nowhere") != std::string::npos;
}

Result<void> judge_run(const Case& c, bool twice) {
  const fs::path path = journal_path("a");
  Watch watch(c);
  const auto result = run(c, path, &watch);
  if (!result) return livelock(c, result.error()) ? Result<void>() : tl::unexpected(result.error());
  EBB_RETURN_IF_ERROR(Judge(c, *result).judge(watch));
  EBB_RETURN_IF_ERROR(sim::replay(path.string(), policies::all()));
  if (twice) {
    const fs::path second = journal_path("b");
    EBB_ASSIGN_OR_RETURN(const auto again, run(c, second, nullptr));
    SAY(read_file(path).value() == read_file(second).value());
    SAY(sim::summary_json(again.summary) == sim::summary_json(result->summary));
    fs::remove(second);
  }
  fs::remove(path);
  return {};
}

#undef SAY

RC_GTEST_PROP(Property, EveryRunKeepsItsPromises, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Case c = random_case(seed);
  const auto judged = judge_run(c, seed % 4 == 0);
  if (!judged) RC_FAIL(fmt::format("{}\n{}", c.text(), judged.error().message));
}

}  // namespace
}  // namespace ebb
