#include "bench_support.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ebb/base/random.h"

namespace ebb::bench {
namespace {

rusage usage() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return u;
}

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

// One draw of the standard normal distribution (Box and Muller).
double normal(Random& random) {
  constexpr double kTau = 6.283185307179586;
  return std::sqrt(random.exponential(2.0)) * std::cos(kTau * random.uniform());
}

}  // namespace

double cpu_seconds() {
  const rusage u = usage();
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

double peak_rss_mb() {
  return static_cast<double>(usage().ru_maxrss) / 1024;
}

Workload poisson_workload(std::size_t jobs, int gpus, double load, std::uint64_t seed) {
  constexpr double kMedian = 600;
  constexpr double kSigma = 1.5;
  constexpr double kMeanGang = 0.70 * 1 + 0.10 * 2 + 0.10 * 4 + 0.08 * 8 + 0.02 * 16;
  const double mean_run = kMedian * std::exp(kSigma * kSigma / 2);
  const double mean_gap = mean_run * kMeanGang / (load * gpus);
  Random random(seed, "poisson");
  Workload workload;
  workload.jobs.reserve(jobs);
  double submit = 0;
  for (std::size_t i = 0; i < jobs; ++i) {
    JobSpec job;
    job.name = fmt::format("j{}", i);
    job.tenant = fmt::format("t{}", random.below(20));
    const double u = random.uniform();
    job.gpus = u < 0.70 ? 1 : u < 0.80 ? 2 : u < 0.90 ? 4 : u < 0.98 ? 8 : 16;
    job.submit = Time(Duration(static_cast<std::int64_t>(submit * 1e9)));
    const double run = std::clamp(kMedian * std::exp(kSigma * normal(random)), 1.0, 1e6);
    job.run_time = Duration(static_cast<std::int64_t>(run * 1e9));
    job.requested_time = Duration(static_cast<std::int64_t>(run * (1 + 2 * random.uniform()) * 1e9));
    submit += random.exponential(mean_gap);
    workload.jobs.push_back(std::move(job));
  }
  return workload;
}

std::string data_folder() {
  const char* folder = std::getenv("EBB_DATA");
  if (folder == nullptr) {
    fmt::print(stderr, "set EBB_DATA to the folder that holds traces/ (docs/benchmarks.md says which)\n");
    std::exit(2);
  }
  return folder;
}

double percentile(std::vector<double> sample, double share) {
  std::sort(sample.begin(), sample.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sample.size())));
  return sample[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace ebb::bench
