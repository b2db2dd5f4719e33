#pragma once

/// What the programs of bench/ share: CPU seconds, memory, synthetic workloads.

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/model/workload.h"

namespace ebb::bench {

/// CPU seconds (user and system) of this process so far.
double cpu_seconds();
/// Largest resident set of this process so far, in MB.
double peak_rss_mb();

/// Jobs with Poisson arrivals at `load` of a cluster of `gpus` GPUs: gangs of 1, 2, 4, 8, 16 GPUs with the shares
/// 70, 10, 10, 8, 2 %, run times log-normal (median 10 minutes, sigma 1.5), 20 tenants, requested times 1 to 3 times
/// the run time. Seeded.
Workload poisson_workload(std::size_t jobs, int gpus, double load, std::uint64_t seed);

/// The folder with external traces ($EBB_DATA); ends the program with a message if it is not set.
std::string data_folder();

/// The value at a share of the sorted sample (nearest rank).
double percentile(std::vector<double> sample, double share);

}  // namespace ebb::bench
