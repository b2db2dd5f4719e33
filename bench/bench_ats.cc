// Latency of one step of DeepBoot's scheduling on 1,000 nodes x 8 GPUs with 2,000 running elastic jobs, whose models
// are fitted to the built-in profiles:
//   ATS-T   a tick: the knapsack over all jobs, placement, resizes, with each solver, where a share of the jobs
//   reported
//           since the last tick (their estimates are computed anew, within the step); and where all jobs scale alike,
//           linearly up to 64 GPUs, so that any choice is as good as any other
//   ATS-I   between ticks: inference tasks arrive, and GPUs are taken back from training, where a share of the jobs
//           reported since the tick
// and, at each tick of the exact solver, the objectives of both solvers; the exact solver alone on jobs that are all
// alike; last, what the two placements are worth.
// Wall times and CPU times of the process: their difference is somebody else's.
// usage: bench_ats [TICKS]

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "bench_support.h"
#include "ebb/base/random.h"
#include "ebb/perf/goodput.h"
#include "ebb/perf/profile.h"
#include "ebb/policies/all.h"
#include "ebb/policies/deepboot/sizing.h"
#include "ebb/sched/knapsack.h"
#include "ebb/sched/knapsack_greedy.h"
#include "ebb/sched/scheduler.h"

namespace {

using namespace ebb;

constexpr std::size_t kJobs = 2'000;
constexpr std::size_t kNodes = 1'000;
constexpr int kEndsPerTick = 20;

struct Application {
  const perf::Profile* profile = nullptr;  // none: scales linearly
  ThroughputParams params;
  GpuCount largest = 64;
};

// What a job that ran on 1 to 16 GPUs has learned.
Application learned(const char* name, GpuCount largest) {
  Application application{perf::ProfileSet::built_in().find(name), {}, largest};
  const BatchLimits& limits = application.profile->limits();
  std::vector<perf::Observation> seen;
  for (const std::vector<GpuCount>& placement :
       std::vector<std::vector<GpuCount>>{{1}, {2}, {4}, {4, 4}, {4, 4, 4, 4}}) {
    for (const BatchSize local : {limits.local_min, (limits.local_min + limits.local_max) / 2, limits.local_max}) {
      const perf::StepTimes times = application.profile->step_times(placement, local);
      GpuCount gpus = 0;
      for (const GpuCount share : placement) gpus += share;
      seen.push_back({static_cast<std::int32_t>(placement.size()), gpus, local, times.step_s, times.sync_s});
    }
  }
  application.params = perf::fit_throughput(seen);
  return application;
}

// Of one step, milliseconds.
struct Cost {
  double wall = 0;
  double cpu = 0;
};

template <typename Work>
Cost measure(const Work& work) {
  const double cpu = ebb::bench::cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  work();
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return {ms, 1e3 * (ebb::bench::cpu_seconds() - cpu)};
}

struct Setup {
  std::string solver = "exact";
  std::string place = "incremental";
  bool alike = false;  // all jobs scale linearly, and changes cost nothing
};

class Driver {
 public:
  explicit Driver(const Setup& setup) : scheduler_(make(setup)), random_(7, "bench-ats") {
    applications_ = {learned("cifar10", 64),  learned("cifar10", 32), learned("deepspeech2", 32), learned("bert", 32),
                     learned("imagenet", 64), learned("yolov3", 32),  learned("ncf", 1)};
    if (setup.alike) applications_.assign(1, {});
    for (std::size_t i = 0; i < kJobs; ++i) submit();
    step({});
    for (int round = 0; round < 12; ++round) {
      report(1);
      tick();
    }
  }

  Cost tick() {
    now_ += std::chrono::seconds(30);
    events_.emplace_back(Tick{});
    const Cost cost = step({});
    for (const Decision& decision : result_.decisions) {
      if (const auto* resize = std::get_if<Resize>(&decision)) resized_ += resize->targets.size();
    }
    for (const JobId id : scheduler_.state().holding()) moved_ += gpus_in(scheduler_.state().job(id).arriving);
    confirm();
    return cost;
  }

  // Half a minute in which some jobs report, end and arrive.
  void pass(double share) {
    now_ += std::chrono::seconds(30);
    report(share);
    for (int k = 0; k < kEndsPerTick; ++k) {
      const auto& holding = scheduler_.state().holding();
      events_.emplace_back(JobFinished{holding[random_.below(holding.size())], {}});
      step({});
      submit();
    }
    step({});
  }

  // A step with so many new tasks of a service each that nobody has a replica of; a share of the jobs reports before.
  Cost tasks(int count, GpuCount gpus, double share) {
    report(share);
    now_ += std::chrono::seconds(1);
    for (int k = 0; k < count; ++k) {
      JobSpec task;
      task.name = fmt::format("task-{}", next_);
      task.kind = JobKind::inference;
      task.application = fmt::format("infer-{}", next_);
      task.gpus = gpus;
      task.submit = now_;
      events_.emplace_back(JobSubmitted{next_++, task});
    }
    events_.emplace_back(Timer{});
    const Cost cost = step({});
    for (const Decision& decision : result_.decisions) reclaimed_ += std::holds_alternative<Resize>(decision) ? 1 : 0;
    confirm();
    return cost;
  }

  const sched::State& state() const { return scheduler_.state(); }
  Time now() const { return now_; }
  std::size_t resized() const { return resized_; }
  std::size_t reclaimed() const { return reclaimed_; }
  /// GPUs that resized jobs took.
  std::int64_t moved() const { return moved_; }

 private:
  static sched::Scheduler make(const Setup& setup) {
    ClusterSpec cluster;
    for (std::size_t n = 0; n < kNodes; ++n) cluster.nodes.push_back({fmt::format("node-{:04}", n), 8, "", ""});
    const std::vector<std::pair<std::string, std::string>> set{
        {"solver", setup.solver}, {"place", setup.place}, {"change_penalty_s", setup.alike ? "0" : "10"}};
    return policies::all().make_scheduler("deepboot", set, std::move(cluster), {}).value();
  }

  void submit() {
    const Application& application = applications_[random_.below(applications_.size())];
    JobSpec job;
    job.name = fmt::format("job-{}", next_);
    job.sizing = Sizing::elastic;
    job.min_gpus = 1;
    job.max_gpus = application.largest;
    job.gpus = std::min<GpuCount>(4, job.max_gpus);
    job.submit = now_ - std::chrono::seconds(random_.below(20'000));
    if (application.profile != nullptr) {
      job.application = application.profile->name();
      job.batch = application.profile->limits();
    }
    job.run_time = std::chrono::hours(10);
    job_application_.resize(next_ + 1);
    job_application_[next_] = &application;
    events_.emplace_back(JobSubmitted{next_++, job});
  }

  // A share of the running jobs reports: another epoch, gradients as in the profile.
  void report(double share) {
    for (const JobId id : scheduler_.state().holding()) {
      const sched::JobState& job = scheduler_.state().job(id);
      if (!job.incarnate() || random_.uniform() >= share) continue;
      const Application& application = *job_application_[id];
      JobReport report;
      report.job = id;
      report.progress = job.progress_until(now_);
      report.most_gpus = std::max(job.gpus, job.report ? job.report->most_gpus : 0);
      if (application.profile == nullptr) {
        report.most_gpus = application.largest;
      } else {
        const std::int32_t epochs = application.profile->epochs();
        report.epoch = job.report ? std::min(job.report->epoch + 1, epochs - 1)
                                  : static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(epochs)));
        report.fraction_done = static_cast<double>(report.epoch) / epochs;
        report.gradient = application.profile->gradient(job.spec.batch.initial, report.epoch);
        report.throughput = application.params;
      }
      events_.emplace_back(report);
    }
    step({});
  }

  Cost step(std::span<const Event> more) {
    events_.insert(events_.end(), more.begin(), more.end());
    Result<void> stepped;
    const Cost cost = measure([&] { stepped = scheduler_.step(events_, now_, result_); });
    events_.clear();
    if (!stepped) {
      fmt::print(stderr, "{}\n", stepped.error().message);
      std::exit(1);
    }
    return cost;
  }

  // Whatever was told to stop, shrink, start or resize does so now.
  void confirm() {
    const sched::StepResult decided = result_;
    for (const JobId id : scheduler_.state().holding()) {
      const sched::JobState& job = scheduler_.state().job(id);
      if (job.phase == sched::JobPhase::stopping) events_.emplace_back(JobStopped{id, job.progress_until(now_)});
      if (job.phase == sched::JobPhase::resizing && !job.departing.empty()) events_.emplace_back(JobShrunk{id});
    }
    step({});
    for (const sched::Holder& holder : scheduler_.take_launchable()) {
      if (holder.kind == sched::Holder::Kind::replica) {
        events_.emplace_back(ReplicaReady{holder.id});
      } else if (const sched::JobState& job = scheduler_.state().job(holder.id);
                 job.phase == sched::JobPhase::starting) {
        events_.emplace_back(JobStarted{holder.id, now_ + std::chrono::seconds(10)});
      } else {
        events_.emplace_back(JobResized{holder.id, now_ + std::chrono::seconds(5), job.progress});
      }
    }
    step({});
    result_ = decided;
  }

  std::vector<Application> applications_;
  std::vector<const Application*> job_application_;
  sched::Scheduler scheduler_;
  Random random_;
  Time now_ = Time(std::chrono::hours(10));
  JobId next_ = 0;
  std::vector<Event> events_;
  sched::StepResult result_;
  std::size_t resized_ = 0;
  std::size_t reclaimed_ = 0;
  std::int64_t moved_ = 0;
};

void print(const std::string& what, const std::vector<Cost>& costs) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (const Cost& cost : costs) {
    wall.push_back(cost.wall);
    cpu.push_back(cost.cpu);
  }
  const auto at = ebb::bench::percentile;
  fmt::print("{:<66} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", what, at(wall, 0.5), at(wall, 0.99), at(cpu, 0.5),
             at(cpu, 0.99));
}

struct Objectives {
  double exact = 0;
  double incremental = 0;
  double bound = 0;
  double worst = 1;  // incremental / exact
};

// Both solvers on what the next tick will see, each on the sizes that it looks at.
void compare(const Driver& driver, sched::Estimator& estimator, Objectives& sums) {
  const sched::PlanView view = sched::plan_view(driver.state(), driver.now());
  const auto groups_for = [&](bool exact) {
    policies::deepboot::SizingOptions options;
    options.exact = exact;
    std::vector<sched::KnapsackGroup> groups;
    for (auto& candidate :
         policies::deepboot::value_sizes(driver.state(), estimator, view, driver.now(), options, {})) {
      groups.push_back(std::move(candidate.values));
    }
    return groups;
  };
  const auto groups = groups_for(true);
  const double exact = sched::knapsack_value(groups, sched::solve_group_knapsack(groups, view.total));
  const double incremental = sched::estimate_group_knapsack(groups_for(false), view.total).value;
  sums.exact += exact;
  sums.incremental += incremental;
  sums.bound += sched::estimate_group_knapsack(groups, view.total).bound;
  sums.worst = std::min(sums.worst, incremental / exact);
}

// The exact solver where the groups differ in nothing, or hardly.
void solve_alike(int times) {
  const auto solve = [&](const std::string& what, int capacity, auto&& value) {
    std::vector<sched::KnapsackGroup> groups(kJobs);
    for (std::size_t i = 0; i < kJobs; ++i) {
      for (int w = 1; w <= 64; ++w) groups[i].value.push_back(value(i, w));
    }
    std::vector<Cost> costs;
    for (int i = 0; i < times; ++i) {
      costs.push_back(measure([&] { sched::solve_group_knapsack(groups, capacity); }));
    }
    print(fmt::format("knapsack exact, {}, {} GPUs", what, capacity), costs);
  };
  const auto third = [](int w) { return w / 3.0; };
  const auto even = [](std::size_t, int w) { return w % 2 == 0 ? w / 4.0 : -std::numeric_limits<double>::infinity(); };
  const auto spiked = [](double factor) {
    return [factor](std::size_t, int w) { return w / 4.0 * (w == 4 ? 1 : factor); };
  };
  solve("all linear", 8'000, [&](std::size_t, int w) { return third(w); });
  solve("all linear, even sizes", 7'999, even);
  solve("all w^0.7", 8'000, [](std::size_t, int w) { return std::pow(w, 0.7); });
  solve("linear, less but for 4", 7'990, spiked(0.99));
  solve("linear, less but for 4", 8'100, spiked(0.99));
  solve("linear, less but for 4", 8'100, spiked(0.9));
  solve("linear, half of them with less", 8'000,
        [&](std::size_t i, int w) { return third(w) * (i % 2 == 0 ? 1 : 0.99); });
}

// What each placement of changed jobs makes of the sizes: the speed-ups on the nodes that jobs really are on.
void compare_placements(int ticks) {
  for (const char* place : {"scratch", "incremental"}) {
    Driver driver({.place = place});
    sched::Estimator estimator(driver.state().capacity().spec(), nullptr, {.adapt_batch = true});
    estimator.set_fair_share(4);
    double sum = 0;
    const std::int64_t moved = driver.moved();
    for (int i = 0; i < ticks; ++i) {
      driver.pass(0.1);
      driver.tick();
      driver.tasks(1, 1, 0);
      for (const JobId id : driver.state().holding()) {
        sum += estimator.speedup(driver.state(), id, driver.state().job(id).allocation);
      }
    }
    fmt::print("place={}: sum of speed-ups as placed {:.3f}, {:.1f} GPUs a tick taken by resized jobs\n", place,
               sum / ticks, static_cast<double>(driver.moved() - moved) / ticks);
  }
}

void scale(int ticks) {
  Objectives sums;
  for (const char* solver : {"exact", "incremental"}) {
    for (const double share : {0.0, 0.1, 1.0}) {
      Driver driver({.solver = solver});
      sched::Estimator estimator(driver.state().capacity().spec(), nullptr, {.adapt_batch = true});
      std::vector<Cost> costs;
      const std::size_t resized = driver.resized();
      for (int i = 0; i < ticks; ++i) {
        driver.pass(share);
        if (std::string(solver) == "exact" && share > 0.5) compare(driver, estimator, sums);
        costs.push_back(driver.tick());
      }
      print(fmt::format("ATS-T {}, {:.0f} % reported, {:.0f} resizes a tick", solver, 100 * share,
                        static_cast<double>(driver.resized() - resized) / ticks),
            costs);
    }
    Driver driver({.solver = solver, .alike = true});
    std::vector<Cost> costs;
    const std::size_t resized = driver.resized();
    for (int i = 0; i < ticks; ++i) {
      driver.pass(0);
      costs.push_back(driver.tick());
    }
    print(fmt::format("ATS-T {}, all alike, {:.0f} resizes a tick", solver,
                      static_cast<double>(driver.resized() - resized) / ticks),
          costs);
  }
  fmt::print(
      "objective (sum of speed-ups, mean of {} ticks): exact {:.3f}, incremental {:.3f} (worst {:.5f} of exact), "
      "bound {:.3f}\n",
      ticks, sums.exact / ticks, sums.incremental / ticks, sums.worst, sums.bound / ticks);
}

void reclaim(int ticks) {
  for (const double share : {0.0, 0.1, 1.0}) {
    Driver driver({});
    for (const auto& [count, gpus] : {std::pair(1, 1), {8, 1}, {8, 4}, {64, 1}}) {
      std::vector<Cost> costs;
      const std::size_t reclaimed = driver.reclaimed();
      for (int i = 0; i < ticks; ++i) {
        driver.pass(0);
        driver.tick();
        costs.push_back(driver.tasks(count, gpus, share));
      }
      print(fmt::format("ATS-I, {} new task{} of {} GPU{}, {:.0f} % reported, reclaims in {} of {}", count,
                        count > 1 ? "s" : "", gpus, gpus > 1 ? "s" : "", 100 * share, driver.reclaimed() - reclaimed,
                        ticks),
            costs);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int ticks = argc > 1 ? std::atoi(argv[1]) : 200;
  fmt::print("{:<66} {:>8} {:>8} {:>8} {:>8}\n", "step, 1,000 nodes x 8 GPUs, 2,000 elastic jobs", "p50 ms", "p99 ms",
             "cpu p50", "cpu p99");
  scale(ticks);
  reclaim(ticks);
  solve_alike(std::min(ticks, 20));
  compare_placements(ticks);
  return 0;
}
