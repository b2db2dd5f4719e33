#include "ebb/sim/scenario_options.h"

namespace ebb::sim {

Result<SimOptions> options_of(const spec::Scenario& scenario) {
  SimOptions options;
  options.policy = scenario.policy.value_or(options.policy);
  options.set = scenario.options;
  options.round = scenario.round;
  if (scenario.resize_cost) {
    EBB_ASSIGN_OR_RETURN(options.resize_cost, perf::ResizeCost::parse(*scenario.resize_cost));
  }
  options.lending = scenario.lending.value_or(options.lending);
  if (scenario.profiles) {
    options.profiles_name = *scenario.profiles;
    EBB_ASSIGN_OR_RETURN(auto profiles, perf::ProfileSet::read(options.profiles_name));
    options.profiles = std::make_shared<const perf::ProfileSet>(std::move(profiles));
  }
  options.target_extra = scenario.target_extra.value_or(options.target_extra);
  options.time = scenario.time.value_or(options.time);
  options.seed = scenario.seed.value_or(options.seed);
  options.faults = scenario.faults;
  return options;
}

}  // namespace ebb::sim
