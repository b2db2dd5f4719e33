#pragma once

/// Policies by name. Each policy folder gives one register_<system>() that adds its PolicyInfo; policies/all.cc calls
/// them: the only list.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/sched/options.h"
#include "ebb/sched/policy.h"
#include "ebb/sched/scheduler.h"

namespace ebb::sched {

/// What every policy is made from: its options, and the placement that the common option `placement` names.
struct PolicyArguments {
  Options options;
  std::shared_ptr<const Placement> placement;
  std::uint64_t seed = 1;  ///< of the run: for whatever a policy draws
};

/// Whether a policy looks at true run times, which only a simulation knows.
enum class Oracle : std::uint8_t {
  no,
  without_requested_time,  ///< for jobs whose owner gave no time
  yes,
};

struct PolicyInfo {
  std::string name;
  std::string summary;  ///< one sentence
  std::string source;   ///< paper or system
  Oracle oracle = Oracle::no;
  bool preemptive = false;
  bool draws = false;         ///< its decisions depend on PolicyArguments::seed
  bool adapts_batch = false;  ///< jobs choose their batch size by goodput unless the option adapt_batch says otherwise
  std::vector<OptionSpec> options;
  /// Errors: invalid_argument for options that are valid alone but not together.
  std::function<Result<std::unique_ptr<Policy>>(const PolicyArguments&)> make;
};

class Registry {
 public:
  void add(PolicyInfo info);
  const std::vector<PolicyInfo>& policies() const { return policies_; }

  /// Errors: not_found listing the known names.
  Result<const PolicyInfo*> find(std::string_view name) const;

  /// The values of all options of a policy, its own and the common ones. Errors: as make().
  Result<Options> parse_options(std::string_view name,
                                std::span<const std::pair<std::string, std::string>> assignments) const;

  /// `seed`: see PolicyArguments. Errors: not_found for the name; invalid_argument for an option.
  Result<std::unique_ptr<Policy>> make(std::string_view name,
                                       std::span<const std::pair<std::string, std::string>> assignments,
                                       std::uint64_t seed = 1) const;

  /// A scheduler with that policy. `config`: what does not come from options (quantum, lending, profiles, seed in
  /// config.serving); estimator and serving are filled from the common options. Errors: those of make().
  Result<Scheduler> make_scheduler(std::string_view name,
                                   std::span<const std::pair<std::string, std::string>> assignments,
                                   ClusterSpec cluster, SchedulerConfig config) const;

  /// Lets that policy decide from now on (Scheduler::replace_policy). Errors: those of make(); the scheduler is
  /// unchanged.
  Result<void> replace_policy(Scheduler& scheduler, std::string_view name,
                              std::span<const std::pair<std::string, std::string>> assignments, Time now) const;

  /// Options that every policy takes beside its own.
  static std::span<const OptionSpec> common_options();

 private:
  struct Made {
    std::unique_ptr<Policy> policy;
    SchedulerConfig config;
  };
  Result<Made> make_all(std::string_view name, std::span<const std::pair<std::string, std::string>> assignments,
                        SchedulerConfig config) const;

  std::vector<PolicyInfo> policies_;
};

}  // namespace ebb::sched
