#include "ebb/sim/lending_study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "ebb/sched/capacity.h"
#include "ebb/sim/parallel.h"

namespace ebb::sim {
namespace {

/// How far beyond the sweep's loads the headline is looked for.
constexpr double kMostLoad = 64;
constexpr double kLeastLoad = 1.0 / 64;
constexpr int kBisections = 8;
/// The search ends where the ratio of wait and run is this near to 1; a headline is found where it is that near.
constexpr double kCloseEnough = 0.02;
constexpr double kFound = 0.1;
/// Demand goes on for twice the longest run time after the last submission, within limits.
constexpr Duration kLeastTail = LendingWorkloadOptions().tail;
constexpr Duration kMostTail = std::chrono::hours(24 * 365);
/// Share of the progress that the sweep makes; the rest is the headline's.
constexpr double kSweepShare = 0.8;

/// serving_headroom, which the search for an equal share sets.
constexpr std::string_view kHeadroom = "serving_headroom";

enum class Which : std::uint8_t { both, none, lending };

struct Task {
  LendingRun run;
  Which which = Which::both;
  std::int32_t headroom = 0;  // of the run with lending, if above 0
  std::optional<SimResult> day;
  std::optional<Error> error;
};

LendingFigures figures_of(const SimResult& result) {
  const Summary& s = result.summary;
  LendingFigures f;
  f.mean_jct_s = s.training.avg_s;
  f.p99_jct_s = s.training.p99_s;
  f.mean_wait_s = s.queue.avg_s;
  f.mean_run_s = s.training.avg_s - s.queue.avg_s;
  f.makespan_s = s.makespan_s;
  f.lent_gpu_s = s.loans.gpu_seconds;
  f.freed_gpu_s = s.loans.net_gpu_seconds;
  f.in_target_share = s.inference.in_target_share;
  f.requests = s.inference.requests;
  f.reclaim_p50_s = s.loans.reclaim_p50_s;
  f.reclaim_p99_s = s.loans.reclaim_p99_s;
  f.reclaims = s.loans.reclaims;
  f.forced = s.loans.forced;
  f.restarts = s.restarts;
  f.preemptions = s.preemptions;
  f.jobs = s.jobs_completed;
  return f;
}

class Study {
 public:
  Study(ClusterSpec cluster, const Workload& trace, const std::vector<StudyService>& services, const SimOptions& common,
        const sched::Registry& registry, const std::function<void(double)>& progress, LendingStudy& out)
      : cluster_(std::move(cluster)),
        trace_(trace),
        services_(services),
        common_(common),
        registry_(registry),
        progress_(progress),
        out_(out) {
    Duration longest{};
    for (const JobSpec& job : trace.jobs) longest = std::max(longest, job.run_time);
    tail_ = std::clamp(2 * longest, kLeastTail, kMostTail);
  }

  Result<void> sweep();
  Result<void> find_headline(std::size_t column);
  Result<void> find_equal_share();

 private:
  Result<SimResult> simulate_one(const Workload& workload, std::uint64_t seed, Lending lending,
                                 std::int32_t headroom) const;
  void run(Task& task, bool keep_day) const;
  /// Runs them all; `from` and `to`: share of the progress before and after.
  Result<void> run_all(std::vector<Task>& tasks, double from, double to);
  Result<std::vector<LendingRun>> runs_at(std::size_t column, double load, Which which);
  Result<LendingEqualShare> with_headroom(std::int32_t headroom);
  Result<double> wait_over_run(std::size_t column, double load);

  ClusterSpec cluster_;
  const Workload& trace_;
  const std::vector<StudyService>& services_;
  const SimOptions& common_;
  const sched::Registry& registry_;
  const std::function<void(double)>& progress_;
  LendingStudy& out_;
  Duration tail_{};
  double done_ = 0;
};

// Two decimals, or three digits of small ones: people read and type loads.
double round_load(double load) {
  double scale = 100;
  while (load * scale < 100) scale *= 10;
  return std::round(load * scale) / scale;
}

Result<SimResult> Study::simulate_one(const Workload& workload, std::uint64_t seed, Lending lending,
                                      std::int32_t headroom) const {
  SimOptions options = common_;
  if (headroom > 0) options.set.emplace_back(kHeadroom, fmt::format("{}", headroom));
  options.lending = lending;
  options.seed = seed;
  options.end_with_jobs = true;
  options.skip_impossible = false;  // such jobs were left out of the trace
  return simulate(cluster_, workload, options, registry_);
}

void Study::run(Task& task, bool keep_day) const {
  LendingRun& run = task.run;
  const LendingOptions& options = out_.options;
  LendingWorkloadOptions draw;
  draw.load = run.load;
  draw.seed = run.seed;
  draw.request_noise = options.request_noise;
  draw.day_start = options.day_start;
  draw.tail = tail_;
  const Workload workload = lending_workload(cluster_, trace_, services_, out_.columns[run.column].plan, draw);
  const auto simulate_into = [&](Lending lending, LendingFigures& figures, std::int32_t headroom = 0) {
    auto result = simulate_one(workload, run.seed, lending, headroom);
    if (!result) {
      task.error = std::move(result.error());
      task.error->message = fmt::format("load {}, serving mean {:.1f} %, seed {}, lending {}: {}", run.load,
                                        100 * out_.columns[run.column].plan.mean_share, run.seed, to_string(lending),
                                        task.error->message);
      return;
    }
    figures = figures_of(*result);
    const Time from = workload.jobs.front().submit;
    const Time to = from + duration_from_seconds(figures.makespan_s).value_or(kMaxDuration);
    figures.idle_gpu_s = idle_gpu_seconds(cluster_, workload.services, from, to);
    figures.past_demand = to > workload.jobs.back().submit + tail_;
    if (keep_day && lending != Lending::none) task.day = std::move(*result);
  };
  if (task.which != Which::lending) simulate_into(Lending::none, run.none);
  if (task.which != Which::none && !task.error) simulate_into(options.lending, run.lending, task.headroom);
}

Result<void> Study::run_all(std::vector<Task>& tasks, double from, double to) {
  std::mutex mutex;
  double total = 0;
  double done = 0;
  const auto weight = [](const Task& task) { return task.run.load * (task.which == Which::both ? 2 : 1); };
  for (const Task& task : tasks) total += weight(task);
  // The heavy ones first, so that no thread is left alone with one at the end.
  std::vector<std::size_t> order(tasks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tasks[a].run.load != tasks[b].run.load ? tasks[a].run.load > tasks[b].run.load : a < b;
  });
  parallel_for(tasks.size(), out_.options.threads, [&](std::size_t i) {
    Task& task = tasks[order[i]];
    const bool is_day = task.which == Which::both && task.run.column == out_.day_column &&
                        task.run.load == out_.day_load && task.run.seed == out_.options.seeds.front();
    run(task, is_day);
    if (!progress_) return;
    const std::lock_guard lock(mutex);
    done += weight(task);
    done_ = std::max(done_, from + (to - from) * done / total);
    progress_(done_);
  });
  for (Task& task : tasks) {
    if (task.error) return tl::unexpected(std::move(*task.error));
    if (task.day) out_.day = std::move(*task.day);
  }
  return {};
}

Result<void> Study::sweep() {
  std::vector<Task> tasks;
  for (std::size_t column = 0; column < out_.columns.size(); ++column) {
    for (const double load : out_.options.loads) {
      for (const std::uint64_t seed : out_.options.seeds) {
        Task task;
        task.run.column = column;
        task.run.load = load;
        task.run.seed = seed;
        tasks.push_back(std::move(task));
      }
    }
  }
  EBB_RETURN_IF_ERROR(run_all(tasks, 0, out_.options.find_headline ? kSweepShare : 1));
  const std::size_t seeds = out_.options.seeds.size();
  for (std::size_t first = 0; first < tasks.size(); first += seeds) {
    std::vector<LendingRun> runs;
    for (std::size_t i = 0; i < seeds; ++i) runs.push_back(tasks[first + i].run);
    out_.cells.push_back(cell_of(runs));
    out_.runs.insert(out_.runs.end(), runs.begin(), runs.end());
  }
  return {};
}

Result<std::vector<LendingRun>> Study::runs_at(std::size_t column, double load, Which which) {
  std::vector<Task> tasks;
  for (const std::uint64_t seed : out_.options.seeds) {
    Task task;
    task.run.column = column;
    task.run.load = load;
    task.run.seed = seed;
    task.which = which;
    tasks.push_back(std::move(task));
  }
  EBB_RETURN_IF_ERROR(run_all(tasks, done_, done_ + (1 - done_) / 4));
  std::vector<LendingRun> runs;
  for (Task& task : tasks) runs.push_back(task.run);
  return runs;
}

double ratio_of(const std::vector<LendingRun>& runs) {
  double wait = 0;
  double run = 0;
  for (const LendingRun& one : runs) {
    wait += one.none.mean_wait_s;
    run += one.none.mean_run_s;
  }
  return run > 0 ? wait / run : 0;
}

Result<double> Study::wait_over_run(std::size_t column, double load) {
  for (const LendingCell& cell : out_.cells) {
    if (cell.column == column && cell.load == load) {
      return cell.run_none_s.mean > 0 ? cell.wait_none_s.mean / cell.run_none_s.mean : 0;
    }
  }
  EBB_ASSIGN_OR_RETURN(const auto runs, runs_at(column, load, Which::none));
  return ratio_of(runs);
}

Result<void> Study::find_headline(std::size_t column) {
  std::vector<double> loads = out_.options.loads;
  std::sort(loads.begin(), loads.end());
  double low = 0;   // below: jobs wait shorter than they run
  double high = 0;  // above
  for (const double load : loads) {
    EBB_ASSIGN_OR_RETURN(const double ratio, wait_over_run(column, load));
    if (ratio < 1) {
      low = load;
      high = 0;
    } else if (high == 0) {
      high = load;
    }
  }
  double at = low > 0 ? low : high;
  while (high == 0 && at < kMostLoad) {
    at = std::min(2 * at, kMostLoad);
    EBB_ASSIGN_OR_RETURN(const double ratio, wait_over_run(column, at));
    (ratio < 1 ? low : high) = at;
  }
  while (low == 0 && at > kLeastLoad) {
    at = std::max(at / 2, kLeastLoad);
    EBB_ASSIGN_OR_RETURN(const double ratio, wait_over_run(column, at));
    (ratio < 1 ? low : high) = at;
  }
  double nearest = std::numeric_limits<double>::infinity();
  double best = at;
  for (int i = 0; low > 0 && high > 0 && i < kBisections && nearest >= kCloseEnough; ++i) {
    at = round_load((low + high) / 2);
    if (at <= low || at >= high) break;
    EBB_ASSIGN_OR_RETURN(const double ratio, wait_over_run(column, at));
    if (std::abs(ratio - 1) < nearest) {
      nearest = std::abs(ratio - 1);
      best = at;
    }
    (ratio < 1 ? low : high) = at;
  }
  LendingHeadline headline;
  headline.column = column;
  EBB_ASSIGN_OR_RETURN(headline.runs, runs_at(column, best, Which::both));
  headline.wait_over_run = ratio_of(headline.runs);
  headline.found = std::abs(headline.wait_over_run - 1) < kFound;
  headline.cell = cell_of(headline.runs);
  out_.headline = std::move(headline);
  return {};
}

// The headline's runs with lending again, with headroom.
Result<LendingEqualShare> Study::with_headroom(std::int32_t headroom) {
  LendingEqualShare share;
  share.headroom = headroom;
  std::vector<Task> tasks;
  for (const LendingRun& run : out_.headline->runs) {
    Task task;
    task.run = run;
    task.which = Which::lending;
    task.headroom = headroom;
    tasks.push_back(std::move(task));
  }
  if (headroom > 0) EBB_RETURN_IF_ERROR(run_all(tasks, done_, done_ + (1 - done_) / 4));
  for (Task& task : tasks) share.runs.push_back(task.run);
  share.cell = cell_of(share.runs);
  share.reached = share.cell.in_target_change.mean >= 0;
  return share;
}

Result<void> Study::find_equal_share() {
  std::int32_t most = 1;
  for (const StudyService& service : services_) most = std::max(most, most_replicas(cluster_, service.spec.gpus));
  EBB_ASSIGN_OR_RETURN(LendingEqualShare share, with_headroom(0));
  std::int32_t too_small = 0;
  while (!share.reached && share.headroom < most) {
    too_small = share.headroom;
    EBB_ASSIGN_OR_RETURN(share, with_headroom(std::clamp(2 * share.headroom, 1, most)));
  }
  while (share.reached && share.headroom - too_small > 1) {
    EBB_ASSIGN_OR_RETURN(LendingEqualShare middle, with_headroom((too_small + share.headroom) / 2));
    if (middle.reached) {
      share = std::move(middle);
    } else {
      too_small = middle.headroom;
    }
  }
  out_.headline->equal_share = std::move(share);
  return {};
}

/// The trace's training jobs that both halves' rules can run, in order.
Result<Workload> training_of(const ClusterSpec& cluster, const Workload& trace, bool skip_impossible,
                             std::vector<std::string>& warnings) {
  Workload training;
  sched::Capacity capacity(cluster);
  std::size_t tasks = 0;
  std::size_t impossible = 0;
  for (const JobSpec& job : trace.jobs) {
    if (job.kind != JobKind::training) {
      ++tasks;
      continue;
    }
    const sched::JobClass& job_class = capacity.job_class(capacity.class_of(job));
    if (!job_class.possible()) {
      if (impossible++ == 0 && !skip_impossible) {
        return fail(ErrorCode::invalid_argument,
                    "job '{}' needs {} GPUs, but the training half has {} that it may use: without lending it could "
                    "never run. Use a larger --cluster, or leave such jobs out with --skip-impossible",
                    job.name, job_class.smallest, job_class.largest);
      }
      continue;
    }
    training.jobs.push_back(job);
  }
  if (training.jobs.empty()) {
    return fail(ErrorCode::invalid_argument, "the trace has no training job that could run; lending needs some");
  }
  if (tasks > 0) {
    warnings.push_back(
        fmt::format("{} inference tasks of the trace are left out: the services' demand stands for them", tasks));
  }
  if (impossible > 0) {
    warnings.push_back(fmt::format("{} of {} jobs are too large for the training half and were left out", impossible,
                                   impossible + training.jobs.size()));
  }
  return training;
}

Result<void> check(const LendingOptions& options) {
  const auto bad = [](const char* what, double value, const char* range) {
    return fail(ErrorCode::invalid_argument, "{} {}: give {}", what, value, range);
  };
  for (const double load : options.loads) {
    if (!(load >= kLeastLoad && load <= kMostLoad)) return bad("load", load, "a number from 1/64 to 64");
  }
  for (const double mean : options.means) {
    if (!(mean > 0 && mean <= 1))
      return bad("serving mean", 100 * mean, "per cent of the serving GPUs, above 0 to 100");
  }
  if (options.power && !(*options.power >= 0 && *options.power <= 100)) {
    return bad("shape power", *options.power, "a number from 0 to 100");
  }
  if (!(options.request_noise >= 0 && options.request_noise <= 2)) {
    return bad("request noise", options.request_noise, "a number from 0 to 2");
  }
  if (options.loads.empty() || (options.means.empty() && !options.power) || options.seeds.empty()) {
    return fail(ErrorCode::invalid_argument, "a study needs at least one load, one serving mean and one seed");
  }
  if (options.equal_share && !options.find_headline) {
    return fail(ErrorCode::invalid_argument,
                "an equal share of requests in target is looked for at the headline, "
                "which was not asked for");
  }
  if (options.lending == Lending::none) {
    return fail(ErrorCode::invalid_argument,
                "lending none is what every run is compared with: give pooled or "
                "partitioned");
  }
  return {};
}

Result<std::vector<LendingColumn>> columns_of(const ClusterSpec& cluster, const std::vector<StudyService>& services,
                                              const LendingOptions& options) {
  std::vector<WeightedShape> shapes;
  for (const StudyService& service : services) shapes.push_back(service.demand);
  std::vector<LendingColumn> columns;
  for (const double mean : options.means) {
    EBB_ASSIGN_OR_RETURN(const double power, power_for_mean(shapes, mean));
    EBB_ASSIGN_OR_RETURN(DemandPlan plan, plan_demand(cluster, services, power));
    columns.push_back({mean, std::move(plan)});
  }
  if (options.power) {
    EBB_ASSIGN_OR_RETURN(DemandPlan plan, plan_demand(cluster, services, *options.power));
    columns.push_back({std::nullopt, std::move(plan)});
  }
  std::sort(columns.begin(), columns.end(),
            [](const LendingColumn& a, const LendingColumn& b) { return a.plan.mean_share < b.plan.mean_share; });
  return columns;
}

std::size_t headline_column(const std::vector<LendingColumn>& columns, const LendingOptions& options) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (options.headline_mean ? columns[i].asked == options.headline_mean : options.power && !columns[i].asked) {
      return i;
    }
  }
  return (columns.size() - 1) / 2;
}

void warn_of_long_runs(LendingStudy& study) {
  std::vector<LendingRun> runs = study.runs;
  if (study.headline) runs.insert(runs.end(), study.headline->runs.begin(), study.headline->runs.end());
  const auto past = std::count_if(
      runs.begin(), runs.end(), [](const LendingRun& run) { return run.none.past_demand || run.lending.past_demand; });
  if (past == 0) return;
  study.warnings.push_back(
      fmt::format("{} of {} pairs of runs outlast the planned demand, which then stays as it is", past, runs.size()));
}

}  // namespace

LendingCell cell_of(const std::vector<LendingRun>& runs) {
  LendingCell cell;
  cell.column = runs.front().column;
  cell.load = runs.front().load;
  cell.jobs = runs.front().none.jobs;
  const auto over = [&](auto&& value) {
    std::vector<double> values;
    for (const LendingRun& run : runs) values.push_back(static_cast<double>(value(run)));
    return estimate_of(values);
  };
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  cell.jct_change = over([&](const LendingRun& r) { return share(r.lending.mean_jct_s, r.none.mean_jct_s) - 1; });
  cell.jct_none_s = over([](const LendingRun& r) { return r.none.mean_jct_s; });
  cell.jct_lending_s = over([](const LendingRun& r) { return r.lending.mean_jct_s; });
  cell.lent_gpu_h = over([](const LendingRun& r) { return r.lending.lent_gpu_s / 3600; });
  cell.freed_gpu_h = over([](const LendingRun& r) { return r.lending.freed_gpu_s / 3600; });
  cell.idle_gpu_h = over([](const LendingRun& r) { return r.lending.idle_gpu_s / 3600; });
  cell.bound_used = over([&](const LendingRun& r) { return share(r.lending.freed_gpu_s, r.lending.idle_gpu_s); });
  cell.in_target_none = over([](const LendingRun& r) { return r.none.in_target_share; });
  cell.in_target_lending = over([](const LendingRun& r) { return r.lending.in_target_share; });
  cell.in_target_change = over([](const LendingRun& r) { return r.lending.in_target_share - r.none.in_target_share; });
  cell.wait_none_s = over([](const LendingRun& r) { return r.none.mean_wait_s; });
  cell.run_none_s = over([](const LendingRun& r) { return r.none.mean_run_s; });
  cell.restarts_none = over([](const LendingRun& r) { return r.none.restarts; });
  cell.restarts_lending = over([](const LendingRun& r) { return r.lending.restarts; });
  cell.reclaims = over([](const LendingRun& r) { return r.lending.reclaims; });
  double reclaiming = 0;
  for (const LendingRun& run : runs) {
    cell.forced += run.lending.forced;
    if (run.lending.reclaims == 0) continue;
    ++reclaiming;
    cell.reclaim_p50_s += run.lending.reclaim_p50_s;
    cell.reclaim_p99_s += run.lending.reclaim_p99_s;
  }
  if (reclaiming > 0) {
    cell.reclaim_p50_s /= reclaiming;
    cell.reclaim_p99_s /= reclaiming;
  }
  return cell;
}

Result<LendingStudy> study_lending(const ClusterSpec& given, const Workload& trace,
                                   const std::vector<StudyService>& services, const SimOptions& common,
                                   const LendingOptions& options, const sched::Registry& registry,
                                   const std::function<void(double)>& progress) {
  EBB_RETURN_IF_ERROR(check(options));
  const bool has_headroom =
      std::any_of(common.set.begin(), common.set.end(), [](const auto& entry) { return entry.first == kHeadroom; });
  if (options.equal_share && has_headroom) {
    return fail(ErrorCode::invalid_argument,
                "{} is given, but for an equal share of requests in target it is what is looked for: leave one of the "
                "two out",
                kHeadroom);
  }
  const ClusterSpec cluster = cluster_for(given, {}, Lending::pooled);
  LendingStudy study;
  study.options = options;
  EBB_ASSIGN_OR_RETURN(study.halves, halves_of(cluster));
  EBB_ASSIGN_OR_RETURN(const Workload training, training_of(cluster, trace, common.skip_impossible, study.warnings));
  EBB_ASSIGN_OR_RETURN(study.columns, columns_of(cluster, services, options));
  const std::size_t column = headline_column(study.columns, options);
  study.day_column = column;
  std::vector<double> loads = options.loads;
  std::sort(loads.begin(), loads.end());
  study.day_load = loads[(loads.size() - 1) / 2];
  Study runner(cluster, training, services, common, registry, progress, study);
  EBB_RETURN_IF_ERROR(runner.sweep());
  if (options.find_headline) EBB_RETURN_IF_ERROR(runner.find_headline(column));
  if (options.equal_share) EBB_RETURN_IF_ERROR(runner.find_equal_share());
  warn_of_long_runs(study);
  return study;
}

}  // namespace ebb::sim
