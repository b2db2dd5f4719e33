#include "ebb/sim/settings.h"

#include <algorithm>

#include "ebb/sim/resolve.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/transform.h"

namespace ebb::sim {
namespace {

std::string values_text(const sched::Options& options) {
  std::string text;
  for (const auto& [name, value] : options.values()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, sched::format_option(value));
  }
  return text;
}

std::string faults_text(const spec::Faults& faults) {
  std::string text;
  for (const spec::NodeOutage& outage : faults.outages) {
    text += fmt::format("{}node {} {} at {} s {}", text.empty() ? "" : "; ", outage.node,
                        outage.drain ? "drains" : "fails", format_seconds(outage.at),
                        outage.lasts ? fmt::format("for {} s", format_seconds(*outage.lasts)) : "for good");
  }
  if (faults.mtbf) {
    text += fmt::format("{}every node fails at random, mtbf {} s, mttr {} s", text.empty() ? "" : "; ",
                        format_seconds(*faults.mtbf), format_seconds(faults.mttr));
  }
  if (text.empty()) return "none";
  return text + (faults.checkpoint_interval
                     ? fmt::format("; jobs keep what they did up to their last checkpoint, every {} s",
                                   format_seconds(*faults.checkpoint_interval))
                     : "; a job that fails starts again from nothing");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_of(const ClusterSpec& cluster, const Workload& workload,
                                                             const SimOptions& options,
                                                             const sched::Options& policy_values,
                                                             const sched::Options& sim_values) {
  const trace::WorkloadInfo info = trace::info(workload);
  const auto load = trace::offered_load(info, cluster.total_gpus());
  std::vector<std::pair<std::string, std::string>> settings;
  settings.emplace_back("trace", options.trace_name.empty() ? "not named" : options.trace_name);
  settings.emplace_back("jobs", fmt::format("{}, {:.1f} GPU-hours, submitted over {}{}", info.jobs, info.gpu_hours,
                                            format_human(info.last_submit - info.first_submit),
                                            workload.time_zero.empty() ? "" : ", time 0 = " + workload.time_zero));
  settings.emplace_back("cluster", fmt::format("{} ({} GPUs)", spec::format_cluster(cluster), cluster.total_gpus()));
  settings.emplace_back("offered load", load
                                            ? fmt::format("{:.1f} % of all GPUs while jobs were submitted", 100 * *load)
                                            : "not defined: all jobs were submitted at once");
  settings.emplace_back("policy", options.policy);
  settings.emplace_back("policy options", values_text(policy_values));
  settings.emplace_back("decisions",
                        options.round ? fmt::format("every {} s", format_seconds(*options.round)) : "at every event");
  settings.emplace_back("resize cost", options.resize_cost.kind == perf::ResizeClass::fixed
                                           ? format_seconds(options.resize_cost.fixed) + " s"
                                           : options.resize_cost.to_string() + ", by application");
  if (options.lending != Lending::none || !workload.services.empty()) {
    settings.emplace_back("lending", to_string(options.lending));
  }
  if (has_tasks(workload)) settings.emplace_back("target extra latency", format_seconds(options.target_extra) + " s");
  if (!options.profiles_name.empty()) settings.emplace_back("profiles", options.profiles_name);
  settings.emplace_back("simulator options", values_text(sim_values));
  settings.emplace_back("time", spec::to_string(options.time));
  settings.emplace_back("faults", faults_text(options.faults));
  settings.emplace_back("seed", fmt::format("{}", options.seed));
  return settings;
}

}  // namespace ebb::sim
