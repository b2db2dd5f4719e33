// All Philly jobs of September and October 2017 on 160 x 8 GPUs under every policy and placement: CPU seconds each.

#include <fmt/format.h>

#include "bench_support.h"
#include "ebb/policies/all.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/workload.h"

int main() {
  using namespace ebb;
  const auto registry = policies::all();
  const ClusterSpec cluster = spec::parse_cluster("160x8").value();
  const double start = bench::cpu_seconds();
  const auto read = trace::read_workload(bench::data_folder() + "/traces/philly/philly_2017-09_10.csv", {});
  if (!read) {
    fmt::print(stderr, "{}\n", read.error().message);
    return 2;
  }
  fmt::print("reading {} jobs: {:.3f} CPU-s\n", read->workload.jobs.size(), bench::cpu_seconds() - start);
  fmt::print("{:<10} {:<12} {:>8} {:>9} {:>12} {:>12} {:>12}\n", "policy", "placement", "CPU-s", "events", "mean JCT s",
             "mean pend s", "preemptions");
  for (const char* placement : {"count", "best_fit", "consolidate", "spread"}) {
    for (const auto& info : registry.policies()) {
      sim::SimOptions options;
      options.policy = info.name;
      options.set = {{"placement", placement}};
      const double before = bench::cpu_seconds();
      const auto result = sim::simulate(cluster, read->workload, options, registry);
      const double cpu = bench::cpu_seconds() - before;
      if (!result) {
        fmt::print(stderr, "{}\n", result.error().message);
        return 1;
      }
      const sim::Summary& s = result->summary;
      fmt::print("{:<10} {:<12} {:>8.3f} {:>9} {:>12.1f} {:>12.1f} {:>12}\n", info.name, placement, cpu, result->events,
                 s.training.avg_s, s.queue.avg_s, s.preemptions);
    }
  }
  return 0;
}
