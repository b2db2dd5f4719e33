#pragma once

/// What /metrics says, in the text format of Prometheus: latencies and counts as they happen, and what the cluster
/// looks like when it is asked. docs/reference/metrics.md lists every name. Thread-safe.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebb/base/units.h"

namespace ebb::control {

/// The cluster at one moment; counters count from its beginning.
struct ClusterGauges {
  std::map<std::string, double> jobs;                ///< by status, all statuses
  std::map<std::string, double> nodes;               ///< by state
  double gpus = 0;                                   ///< of all nodes
  double gpus_held = 0;                              ///< by jobs and replicas
  std::map<std::string, double> gpu_seconds;         ///< by what the GPUs did
  std::map<std::string, double> tenant_gpu_seconds;  ///< held by training jobs
  double journal_rows = 0;
  bool journal_writable = true;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Of the scheduler core, without writing.
  void observe_step(Duration took);
  /// One durable append to the journal.
  void observe_append(Duration took, std::size_t rows);
  void count_failed_append();
  /// From the decision to take GPUs back until they were free.
  void observe_reclaim(Duration took);
  /// Of the first forecast of a job's start: positive if it started later.
  void observe_forecast(Duration error);
  void observe_request(const std::string& method, int status, Duration took);

  std::string text(const ClusterGauges& gauges);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::control
