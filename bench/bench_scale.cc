// Cost per event from 1,000 to 1,000,000 jobs: Poisson arrivals at load 0.8. On the default cluster jobs queue; on a
// large one (128x8) hardly any waits.
// usage: bench_scale [POLICY] [LARGEST] [CLUSTER]

#include <fmt/format.h>

#include <cstdlib>

#include "bench_support.h"
#include "ebb/policies/all.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/cluster.h"

int main(int argc, char** argv) {
  using namespace ebb;
  const auto registry = policies::all();
  const ClusterSpec cluster = spec::parse_cluster(argc > 3 ? argv[3] : "8x8").value();
  const std::string policy = argc > 1 ? argv[1] : "backfill";
  const std::size_t largest = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  fmt::print("{:<10} {:>9} {:>9} {:>10} {:>9} {:>12} {:>9}\n", "policy", "jobs", "CPU-s", "events", "us/event",
             "mean pend s", "RSS MB");
  for (std::size_t jobs = 1000; jobs <= largest; jobs *= 10) {
    const Workload workload = bench::poisson_workload(jobs, cluster.total_gpus(), 0.8, 1);
    sim::SimOptions options;
    options.policy = policy;
    const double before = bench::cpu_seconds();
    const auto result = sim::simulate(cluster, workload, options, registry);
    const double cpu = bench::cpu_seconds() - before;
    if (!result) {
      fmt::print(stderr, "{}\n", result.error().message);
      return 2;
    }
    fmt::print("{:<10} {:>9} {:>9.3f} {:>10} {:>9.3f} {:>12.1f} {:>9.0f}\n", policy, jobs, cpu, result->events,
               1e6 * cpu / static_cast<double>(result->events), result->summary.queue.avg_s, bench::peak_rss_mb());
  }
  return 0;
}
