#include "random_case.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ebb/policies/all.h"
#include "ebb/sched/capacity.h"
#include "ebb/spec/cluster.h"

namespace ebb {
namespace {

using std::chrono::seconds;

class Maker {
 public:
  Maker(std::uint64_t seed, const CaseLimits& limits) : random_(seed, "case"), limits_(limits) {
    case_.options.seed = seed;
  }

  Case make() {
    const bool serves = limits_.inference && random_.below(2) == 0;
    add_options();
    case_.cluster = spec::parse_cluster(random_cluster()).value();
    if (serves) add_services();
    add_jobs(serves);
    case_.cluster = sim::cluster_for(case_.cluster, case_.workload, case_.options.lending);
    if (serves) fit_replicas();
    add_faults();
    return std::move(case_);
  }

 private:
  bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
  GpuCount up_to(GpuCount most) { return static_cast<GpuCount>(1 + random_.below(static_cast<std::uint64_t>(most))); }

  std::string random_cluster() {
    std::string text;
    const auto groups = 1 + random_.below(3);
    for (std::uint64_t g = 0; g < groups; ++g) {
      if (g > 0) text += "+";
      text += fmt::format("{}x{}", 1 + random_.below(6), 1 + random_.below(8));
      if (one_in(2)) text += fmt::format(":type{}", random_.below(2));
      if (one_in(3)) text += one_in(2) ? "@training" : "@serving";
    }
    return text;
  }

  // Any value of a choice or a switch; numbers and durations keep their defaults unless listed here.
  void set_some(std::span<const sched::OptionSpec> specs) {
    for (const sched::OptionSpec& spec : specs) {
      if (!one_in(3)) continue;
      std::string value;
      if (!spec.choices.empty()) {
        value = spec.choices[random_.below(spec.choices.size())];
      } else if (std::holds_alternative<bool>(spec.default_value)) {
        value = one_in(2) ? "true" : "false";
      } else if (spec.name == "drain") {
        value = one_in(2) ? "5s" : "20s";
      } else if (spec.name == "reclaim_bound") {
        value = one_in(2) ? "10s" : "60s";
      } else if (spec.name == "plan_delay") {
        value = "3s";
      } else if (spec.name == "keep_alive_factor") {
        value = one_in(2) ? "0" : "0.3";
      } else if (spec.name == "keep_alive_base") {
        value = one_in(2) ? "0" : "7s";
      } else if (spec.name == "measure_noise" || spec.name == "interference") {
        value = "0.2";
      } else {
        continue;
      }
      case_.options.set.emplace_back(spec.name, value);
    }
  }

  void add_options() {
    sim::SimOptions& options = case_.options;
    const auto registry = policies::all();
    const sched::PolicyInfo& policy = registry.policies()[random_.below(registry.policies().size())];
    options.policy = policy.name;
    set_some(policy.options);
    if (policy.name == "tiresias") options.set.emplace_back("limits", one_in(2) ? "50,400" : "20,100,1000");
    if (policy.name == "pollux") {
      options.set.emplace_back("population", "10");
      options.set.emplace_back("generations", "10");
    }
    if (!registry.make(policy.name, options.set)) options.set.clear();  // not together
    set_some(sched::Registry::common_options());
    set_some(sim::sim_options());
    options.skip_impossible = true;
    options.check_invariants = true;
    if (one_in(3)) options.round = seconds(1 + random_.below(60));
    if (one_in(3)) {
      options.time = options.round && one_in(2) ? spec::TimeModel::polled : spec::TimeModel::seconds;
    }
    if (one_in(3)) {
      constexpr perf::ResizeClass kKinds[] = {perf::ResizeClass::fixed, perf::ResizeClass::restart,
                                              perf::ResizeClass::afe, perf::ResizeClass::stop_free};
      options.resize_cost.kind = kKinds[random_.below(4)];
      if (options.resize_cost.kind == perf::ResizeClass::fixed) options.resize_cost.fixed = seconds(random_.below(30));
    }
    // Replicas that start between rounds only need rounds.
    if (!options.round) {
      std::erase_if(options.set, [](const auto& assignment) { return assignment.first == "place_at_ticks"; });
    }
    constexpr Lending kLendings[] = {Lending::none, Lending::pooled, Lending::partitioned};
    options.lending = kLendings[random_.below(3)];
  }

  void add_services() {
    for (std::uint64_t n = random_.below(3); n > 0; --n) {
      ServiceLoad load;
      load.spec.name = fmt::format("service-{}", n);
      load.spec.gpus = up_to(2);
      load.spec.start_delay = seconds(random_.below(20));
      load.spec.service_time = std::chrono::milliseconds(10 + random_.below(2000));
      load.spec.target_latency = load.spec.service_time * static_cast<int>(1 + random_.below(4));
      load.spec.percentile = 0.5 + 0.45 * random_.uniform();
      Time at{};
      for (std::uint64_t point = 1 + random_.below(6); point > 0; --point) {
        at += seconds(random_.below(400));
        load.requests.push_back({at, one_in(3) ? 0.0 : 8 * random_.uniform()});
        at += seconds(1);
      }
      case_.workload.services.push_back(load);
    }
  }

  void add_jobs(bool serves) {
    const auto jobs = random_.below(limits_.jobs + 1);
    Time submit{};
    int profiled = limits_.profiles && one_in(3) ? 5 : 0;
    for (std::uint64_t i = 0; i < jobs; ++i) {
      if (!one_in(3)) submit += seconds(random_.below(40));
      if (one_in(4)) submit += Duration(static_cast<std::int64_t>(random_.below(1'000'000'000)));
      JobSpec job = serves && one_in(2) ? task() : profiled-- > 0 ? job_with_profile() : plain_job();
      job.name = fmt::format("job-{}", i);
      job.tenant = fmt::format("tenant-{}", random_.below(4));
      job.submit = submit;
      case_.workload.jobs.push_back(job);
    }
    if (case_.workload.jobs.empty() && case_.workload.services.empty()) case_.workload.jobs.push_back(plain_job());
  }

  JobSpec task() {
    JobSpec job;
    job.kind = JobKind::inference;
    const std::uint64_t which = random_.below(4);
    job.application = fmt::format("service-{}", which);
    job.gpus = which == 0 ? 2 : 1;
    for (const ServiceLoad& load : case_.workload.services) {
      if (load.spec.name == job.application) job.gpus = load.spec.gpus;
    }
    job.run_time = one_in(5) ? Duration(0) : Duration(seconds(random_.below(30)));
    return job;
  }

  JobSpec plain_job() {
    JobSpec job;
    job.gpus = static_cast<GpuCount>(1 + random_.below(one_in(2) ? 4 : 20));
    job.run_time = seconds(random_.below(300));
    job.priority = one_in(4) ? static_cast<int>(random_.below(3)) - 1 : 0;
    if (one_in(4)) job.requested_time = job.run_time * static_cast<int>(random_.below(3));
    if (one_in(6)) job.gpu_type = fmt::format("type{}", random_.below(2));
    if (one_in(6)) job.pool = one_in(2) ? "training" : "serving";
    size(job);
    if (one_in(5)) job.batch = {.initial = 64, .largest = 640, .local_min = 8, .local_max = 64};
    return job;
  }

  JobSpec job_with_profile() {
    JobSpec job;
    constexpr const char* kApplications[] = {"ncf", "cifar10", "bert"};
    job.application = kApplications[random_.below(3)];
    job.gpus = up_to(4);
    if (one_in(2)) job.batch_size = job.application == "bert" ? 24 : 256;
    size(job);
    if (job.sizing != Sizing::rigid && one_in(2)) job.max_gpus = 0;  // the profile says
    return job;
  }

  // Half of the jobs can run on other sizes than the one asked for.
  void size(JobSpec& job) {
    if (one_in(2)) return;
    job.sizing = one_in(3) ? Sizing::moldable : Sizing::elastic;
    job.gpu_step = up_to(2);
    const auto below = static_cast<std::uint64_t>((job.gpus - 1) / job.gpu_step);
    job.min_gpus =
        job.gpus - job.gpu_step * static_cast<GpuCount>(random_.below(std::min<std::uint64_t>(below, 3) + 1));
    job.max_gpus = job.gpus + job.gpu_step * static_cast<GpuCount>(random_.below(4));
  }

  // The largest node that serves holds every replica: anything else is refused as bad input.
  void fit_replicas() {
    const sched::Capacity capacity(case_.cluster, case_.options.lending);
    GpuCount largest = 0;
    for (NodeId n = 0; n < case_.cluster.nodes.size(); ++n) {
      if ((capacity.serving_groups() >> capacity.free().group_of(n) & 1) == 0) continue;
      largest = std::max(largest, case_.cluster.nodes[n].gpus);
    }
    for (ServiceLoad& load : case_.workload.services) load.spec.gpus = std::min(load.spec.gpus, largest);
    for (JobSpec& job : case_.workload.jobs) {
      if (job.kind == JobKind::inference) job.gpus = std::min(job.gpus, largest);
    }
  }

  void add_faults() {
    spec::Faults& faults = case_.options.faults;
    for (std::uint64_t i = random_.below(4); i > 0; --i) {
      spec::NodeOutage outage;
      outage.at = Time(seconds(random_.below(600)));
      outage.node = static_cast<std::uint32_t>(random_.below(case_.cluster.nodes.size()));
      outage.drain = one_in(2);
      if (!one_in(8)) outage.lasts = seconds(1 + random_.below(200));
      faults.outages.push_back(outage);
    }
    if (one_in(4)) {
      // Rare enough that every job gets through in the end even if it starts again from nothing.
      faults.mtbf = seconds(100'000);
      faults.mttr = seconds(60);
    }
    if (one_in(2)) faults.checkpoint_interval = seconds(random_.below(30));
  }

  Random random_;
  CaseLimits limits_;
  Case case_;
};

}  // namespace

Case random_case(std::uint64_t seed, const CaseLimits& limits) {
  return Maker(seed, limits).make();
}

std::string Case::text() const {
  std::vector<std::string> set;
  for (const auto& [key, value] : options.set) set.push_back(key + "=" + value);
  return fmt::format("seed {}: {} {} on {}, lending {}, {}, round {}, cost {}, {} jobs, {} services", options.seed,
                     options.policy, fmt::join(set, " "), spec::format_cluster(cluster), to_string(options.lending),
                     spec::to_string(options.time), options.round ? format_seconds(*options.round) : "-",
                     options.resize_cost.to_string(), workload.jobs.size(), workload.services.size());
}

}  // namespace ebb
