#include "ebb/sim/compare.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "ebb/sim/parallel.h"

namespace ebb::sim {
namespace {

bool has_option(std::span<const sched::OptionSpec> specs, const std::string& name) {
  return std::any_of(specs.begin(), specs.end(), [&](const sched::OptionSpec& spec) { return spec.name == name; });
}

struct PlannedRun {
  CompareRun run;
  std::string policy;
  const Workload* workload = nullptr;
  std::optional<Error> error;
  std::atomic<std::uint64_t> done{0};
};

// The options that this policy has, out of those given for all.
Result<std::vector<std::pair<std::string, std::string>>> options_for(const sched::PolicyInfo& info,
                                                                     const SimOptions& common) {
  std::vector<std::pair<std::string, std::string>> set;
  for (const auto& assignment : common.set) {
    if (has_option(info.options, assignment.first) || has_option(sched::Registry::common_options(), assignment.first) ||
        has_option(sim_options(), assignment.first)) {
      set.push_back(assignment);
    }
  }
  return set;
}

Result<void> check_options(const SimOptions& common, const CompareOptions& options, const sched::Registry& registry) {
  for (const auto& [name, value] : common.set) {
    bool known = has_option(sched::Registry::common_options(), name) || has_option(sim_options(), name);
    for (const std::string& policy : options.policies) {
      EBB_ASSIGN_OR_RETURN(const sched::PolicyInfo* info, registry.find(policy));
      known = known || has_option(info->options, name);
    }
    if (!known)
      return fail(ErrorCode::not_found, "option {}={}: none of the policies has it (see 'ebb policies')", name, value);
  }
  return {};
}

std::string label_of(const CompareRun& run, const CompareOptions& options, const std::string& policy) {
  std::string label = policy;
  if (options.loads.size() > 1) label += fmt::format(", load {}", run.load);
  if (options.seeds.size() > 1) label += fmt::format(", seed {}", run.seed);
  return label;
}

void run_one(PlannedRun& planned, const ClusterSpec& cluster, const SimOptions& common, const CompareOptions& options,
             const sched::Registry& registry, const std::function<void()>& report) {
  SimOptions mine = common;
  mine.policy = planned.policy;
  mine.seed = planned.run.seed;
  SimHooks hooks;
  hooks.progress = [&](std::uint64_t done, std::uint64_t) {
    planned.done = done;
    report();
  };
  auto result = registry.find(planned.policy)
                    .and_then([&](const sched::PolicyInfo* info) { return options_for(*info, common); })
                    .and_then([&](auto set) {
                      mine.set = std::move(set);
                      return simulate(cluster, *planned.workload, mine, registry, hooks);
                    });
  planned.done = planned.workload->jobs.size();
  report();
  if (result) {
    planned.run.result = std::move(*result);
    planned.run.result.label = label_of(planned.run, options, planned.run.result.label);
  } else {
    planned.error = std::move(result.error());
    planned.error->message =
        fmt::format("{}: {}", label_of(planned.run, options, planned.policy), planned.error->message);
  }
}

}  // namespace

Result<std::vector<CompareRun>> compare(const ClusterSpec& cluster, const Workload& workload, const SimOptions& common,
                                        const CompareOptions& options, const sched::Registry& registry,
                                        const std::function<void(double)>& progress) {
  EBB_RETURN_IF_ERROR(check_options(common, options, registry));
  std::map<std::pair<double, std::uint64_t>, Workload> scaled;
  for (const double load : options.loads) {
    for (const std::uint64_t seed : options.seeds) {
      if (load == 1.0) continue;
      EBB_ASSIGN_OR_RETURN((scaled[{load, seed}]), trace::scale_load(workload, load, options.load_method, seed));
    }
  }
  std::vector<std::unique_ptr<PlannedRun>> all;
  std::uint64_t total = 0;
  for (const double load : options.loads) {
    for (const std::uint64_t seed : options.seeds) {
      for (const std::string& policy : options.policies) {
        auto planned = std::make_unique<PlannedRun>();
        planned->run.load = load;
        planned->run.seed = seed;
        planned->policy = policy;
        planned->workload = load == 1.0 ? &workload : &scaled.at({load, seed});
        total += planned->workload->jobs.size();
        all.push_back(std::move(planned));
      }
    }
  }

  std::mutex mutex;
  const auto report = [&] {
    if (!progress) return;
    const std::lock_guard lock(mutex);
    std::uint64_t done = 0;
    for (const auto& planned : all) done += planned->done;
    progress(static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
  };
  parallel_for(all.size(), options.threads,
               [&](std::size_t i) { run_one(*all[i], cluster, common, options, registry, report); });

  std::vector<CompareRun> runs;
  for (auto& planned : all) {
    if (planned->error) return tl::unexpected(std::move(*planned->error));
    runs.push_back(std::move(planned->run));
  }
  return runs;
}

}  // namespace ebb::sim
