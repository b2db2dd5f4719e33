#include "ebb/sched/registry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ebb/base/check.h"

namespace ebb::sched {

void Registry::add(PolicyInfo info) {
  EBB_CHECK(!find(info.name));
  policies_.push_back(std::move(info));
}

Result<const PolicyInfo*> Registry::find(std::string_view name) const {
  std::vector<std::string> known;
  for (const PolicyInfo& info : policies_) {
    if (info.name == name) return &info;
    known.push_back(info.name);
  }
  return fail(ErrorCode::not_found, "unknown policy '{}'; known: {}", name, fmt::join(known, ", "));
}

std::span<const OptionSpec> Registry::common_options() {
  static const std::vector<OptionSpec> options = {
      {"placement",
       std::string("count"),
       "how a gang is placed on nodes",
       {"count", "best_fit", "consolidate", "spread"}},
      {"adapt_batch",
       std::string("policy"),
       "whether jobs with a profile choose their batch size by goodput (on) or keep the one asked for (off)",
       {"policy", "on", "off"}},
      {"oracle",
       false,
       "estimates read the true profiles, which only a simulation knows, instead of what jobs report",
       {}},
      {"speedup",
       std::string("goodput"),
       "how the value of GPUs to a job is estimated: by its goodput model, or linear in the number",
       {"goodput", "linear"}},
      {"fair_share",
       std::string("packed"),
       "where the fair share, against which speed-ups are measured, is laid out: packed, or all on one node (as the "
       "simulators of Pollux and DeepBoot have it)",
       {"packed", "one_node"}},
      {"reclaim",
       std::string("least_loss"),
       "which training GPUs are taken back for services: least loss (of speed-up; where the policy sizes no jobs, of "
       "work since their start; largest_sum: of speed-up, by sums over all jobs, whose rounding chooses among equal "
       "losses as in DeepBoot's simulator), whole nodes, random, or first nodes",
       {"least_loss", "largest_sum", "node", "random", "first_fit"}},
      {"keep_alive",
       std::string("constants"),
       "how long a replica stays warm and unlent after serving: by constants, learned from the gaps between arrivals "
       "of tasks or between fall and rise of a demand, or none (it stops at once)",
       {"constants", "learned", "none"}},
      {"keep_alive_factor", 1.0, "multiplies the times of keep_alive", {}, 0, 1000},
      {"keep_alive_base", Duration(std::chrono::seconds(30)), "keep-alive after the first use", {}},
      {"keep_alive_bonus", Duration(std::chrono::seconds(15)), "more for every reuse while protected", {}},
      {"keep_alive_limit", Duration(std::chrono::seconds(120)), "keep-alive at most", {}},
      {"serving_headroom",
       std::int64_t{0},
       "replicas of each service beyond what it needs that stay warm and are never lent, as far as the serving pool "
       "holds them",
       {},
       0,
       1'000'000},
      {"place_at_ticks",
       true,
       "services get GPUs at ticks too (false: between ticks only, as in DeepBoot's simulator)",
       {}},
      {"serving_pool_first",
       false,
       "where lending lets replicas use every node, they leave the serving pool only if it has no GPU for them, free "
       "or to take back (as in DeepBoot's simulator where whole nodes are reclaimed)",
       {}},
      {"warm_after_eviction",
       false,
       "a replica evicted at a tick starts again without a delay if it is needed in the next moment (as in DeepBoot's "
       "simulator)",
       {}},
      {"allow_rigid_shrink",
       false,
       "reclaim takes single GPUs of jobs that the policy holds at a fixed size (as DeepBoot's simulator does)",
       {}},
      {"strip",
       false,
       "training leaves every node that hosts a replica, at every decision (as under Lyra, AFS and Optimus in "
       "DeepBoot's "
       "simulator)",
       {}},
  };
  return options;
}

namespace {

EstimatorOptions estimator_options(const Options& options, const PolicyInfo& info) {
  const auto& adapt = options.get<std::string>("adapt_batch");
  return {.oracle = options.get<bool>("oracle"),
          .adapt_batch = adapt == "on" || (adapt == "policy" && info.adapts_batch),
          .linear = options.get<std::string>("speedup") == "linear",
          .fair_share_on_one_node = options.get<std::string>("fair_share") == "one_node"};
}

ServingOptions serving_options(const Options& options, std::uint64_t seed) {
  ServingOptions serving;
  const auto& reclaim = options.get<std::string>("reclaim");
  serving.reclaim = reclaim == "node"          ? Reclaim::node
                    : reclaim == "largest_sum" ? Reclaim::largest_sum
                    : reclaim == "random"      ? Reclaim::random
                    : reclaim == "first_fit"   ? Reclaim::first_fit
                                               : Reclaim::least_loss;
  const auto& keep_alive = options.get<std::string>("keep_alive");
  serving.keep_alive = keep_alive == "none"      ? KeepAlive::none
                       : keep_alive == "learned" ? KeepAlive::learned
                                                 : KeepAlive::constants;
  serving.factor = options.get<double>("keep_alive_factor");
  serving.base = options.get<Duration>("keep_alive_base");
  serving.bonus = options.get<Duration>("keep_alive_bonus");
  serving.limit = options.get<Duration>("keep_alive_limit");
  serving.headroom = static_cast<std::int32_t>(options.get<std::int64_t>("serving_headroom"));
  serving.place_at_ticks = options.get<bool>("place_at_ticks");
  serving.allow_rigid_shrink = options.get<bool>("allow_rigid_shrink");
  serving.strip = options.get<bool>("strip");
  serving.serving_pool_first = options.get<bool>("serving_pool_first");
  serving.warm_after_eviction = options.get<bool>("warm_after_eviction");
  serving.seed = seed;
  return serving;
}

}  // namespace

Result<Scheduler> Registry::make_scheduler(std::string_view name,
                                           std::span<const std::pair<std::string, std::string>> assignments,
                                           ClusterSpec cluster, SchedulerConfig config) const {
  EBB_ASSIGN_OR_RETURN(Made made, make_all(name, assignments, std::move(config)));
  return Scheduler(std::move(cluster), std::move(made.policy), std::move(made.config));
}

Result<void> Registry::replace_policy(Scheduler& scheduler, std::string_view name,
                                      std::span<const std::pair<std::string, std::string>> assignments,
                                      Time now) const {
  EBB_ASSIGN_OR_RETURN(Made made, make_all(name, assignments, scheduler.config()));
  scheduler.replace_policy(std::move(made.policy), made.config, now);
  return {};
}

Result<Registry::Made> Registry::make_all(std::string_view name,
                                          std::span<const std::pair<std::string, std::string>> assignments,
                                          SchedulerConfig config) const {
  EBB_ASSIGN_OR_RETURN(const PolicyInfo* info, find(name));
  EBB_ASSIGN_OR_RETURN(const Options options, parse_options(name, assignments));
  EBB_ASSIGN_OR_RETURN(auto policy, make(name, assignments, config.serving.seed));
  config.estimator = estimator_options(options, *info);
  config.serving = serving_options(options, config.serving.seed);
  return Made{std::move(policy), std::move(config)};
}

Result<Options> Registry::parse_options(std::string_view name,
                                        std::span<const std::pair<std::string, std::string>> assignments) const {
  EBB_ASSIGN_OR_RETURN(const PolicyInfo* info, find(name));
  std::vector<OptionSpec> specs = info->options;
  specs.insert(specs.end(), common_options().begin(), common_options().end());
  return Options::parse(specs, assignments);
}

Result<std::unique_ptr<Policy>> Registry::make(std::string_view name,
                                               std::span<const std::pair<std::string, std::string>> assignments,
                                               std::uint64_t seed) const {
  EBB_ASSIGN_OR_RETURN(const PolicyInfo* info, find(name));
  PolicyArguments arguments;
  EBB_ASSIGN_OR_RETURN(arguments.options, parse_options(name, assignments));
  EBB_ASSIGN_OR_RETURN(arguments.placement, make_placement(arguments.options.get<std::string>("placement")));
  arguments.seed = seed;
  return info->make(arguments);
}

}  // namespace ebb::sched
