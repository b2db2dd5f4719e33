#include "ebb/control/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <mutex>

namespace ebb::control {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets kLatency{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3, 10};
const Buckets kForecast{1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600};
const Buckets kReclaim{0.1, 0.3, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double all = 0;
  double resident = 0;
  in >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Sets a counter that is counted elsewhere.
void raise(prometheus::Counter& counter, double value) {
  if (value > counter.Value()) counter.Increment(value - counter.Value());
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::mutex mutex;  // of text()

  prometheus::Histogram& step = BuildHistogram()
                                    .Name("ebb_step_duration_seconds")
                                    .Help("Steps of the scheduler core")
                                    .Register(registry)
                                    .Add({}, kLatency);
  prometheus::Histogram& append = BuildHistogram()
                                      .Name("ebb_journal_append_duration_seconds")
                                      .Help("Durable appends to the journal")
                                      .Register(registry)
                                      .Add({}, kLatency);
  prometheus::Counter& appended_rows = BuildCounter()
                                           .Name("ebb_journal_appended_rows_total")
                                           .Help("Rows appended by this process")
                                           .Register(registry)
                                           .Add({});
  prometheus::Counter& failed_appends =
      BuildCounter().Name("ebb_journal_append_errors_total").Help("Appends that failed").Register(registry).Add({});
  prometheus::Histogram& reclaim = BuildHistogram()
                                       .Name("ebb_reclaim_duration_seconds")
                                       .Help("From the decision to take GPUs back until they were free")
                                       .Register(registry)
                                       .Add({}, kReclaim);
  prometheus::Histogram& forecast_error = BuildHistogram()
                                              .Name("ebb_forecast_error_seconds")
                                              .Help("How far the first forecast of a job's start was off")
                                              .Register(registry)
                                              .Add({}, kForecast);
  prometheus::Counter& forecast_late = BuildCounter()
                                           .Name("ebb_forecast_late_seconds_total")
                                           .Help("By how much jobs started later than forecast")
                                           .Register(registry)
                                           .Add({});
  prometheus::Counter& forecast_early = BuildCounter()
                                            .Name("ebb_forecast_early_seconds_total")
                                            .Help("By how much jobs started earlier than forecast")
                                            .Register(registry)
                                            .Add({});
  prometheus::Family<prometheus::Counter>& requests =
      BuildCounter().Name("ebb_http_requests_total").Help("Requests to the API").Register(registry);
  prometheus::Histogram& request_time = BuildHistogram()
                                            .Name("ebb_http_request_duration_seconds")
                                            .Help("Time to answer a request of the API")
                                            .Register(registry)
                                            .Add({}, kLatency);
  prometheus::Family<prometheus::Gauge>& jobs = BuildGauge().Name("ebb_jobs").Help("Jobs by status").Register(registry);
  prometheus::Family<prometheus::Gauge>& nodes =
      BuildGauge().Name("ebb_nodes").Help("Nodes by state").Register(registry);
  prometheus::Gauge& gpus = BuildGauge().Name("ebb_gpus").Help("GPUs, or CPU slots").Register(registry).Add({});
  prometheus::Gauge& gpus_held =
      BuildGauge().Name("ebb_gpus_held").Help("GPUs that are held or promised").Register(registry).Add({});
  prometheus::Family<prometheus::Counter>& gpu_seconds =
      BuildCounter().Name("ebb_gpu_seconds_total").Help("GPU time by what the GPUs did").Register(registry);
  prometheus::Family<prometheus::Counter>& tenant_gpu_seconds = BuildCounter()
                                                                    .Name("ebb_tenant_gpu_seconds_total")
                                                                    .Help("GPU time under training jobs by tenant")
                                                                    .Register(registry);
  prometheus::Gauge& journal_rows =
      BuildGauge().Name("ebb_journal_rows").Help("Rows of the journal").Register(registry).Add({});
  prometheus::Gauge& journal_writable =
      BuildGauge().Name("ebb_journal_writable").Help("1 while the journal can be written").Register(registry).Add({});
  prometheus::Counter& cpu =
      BuildCounter().Name("process_cpu_seconds_total").Help("CPU time of this process").Register(registry).Add({});
  prometheus::Gauge& memory = BuildGauge()
                                  .Name("process_resident_memory_bytes")
                                  .Help("Resident memory of this process")
                                  .Register(registry)
                                  .Add({});
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::observe_step(Duration took) {
  impl_->step.Observe(seconds(took));
}

void Metrics::observe_append(Duration took, std::size_t rows) {
  impl_->append.Observe(seconds(took));
  impl_->appended_rows.Increment(static_cast<double>(rows));
}

void Metrics::count_failed_append() {
  impl_->failed_appends.Increment();
}

void Metrics::observe_reclaim(Duration took) {
  impl_->reclaim.Observe(seconds(took));
}

void Metrics::observe_forecast(Duration error) {
  impl_->forecast_error.Observe(std::abs(seconds(error)));
  (error > Duration(0) ? impl_->forecast_late : impl_->forecast_early).Increment(std::abs(seconds(error)));
}

void Metrics::observe_request(const std::string& method, int status, Duration took) {
  const bool known = method == "GET" || method == "POST" || method == "PUT" || method == "DELETE";
  impl_->requests.Add({{"method", known ? method : "other"}, {"code", std::to_string(status)}}).Increment();
  impl_->request_time.Observe(seconds(took));
}

std::string Metrics::text(const ClusterGauges& now) {
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [status, count] : now.jobs) impl_->jobs.Add({{"status", status}}).Set(count);
  for (const auto& [state, count] : now.nodes) impl_->nodes.Add({{"state", state}}).Set(count);
  for (const auto& [state, value] : now.gpu_seconds) raise(impl_->gpu_seconds.Add({{"state", state}}), value);
  for (const auto& [tenant, value] : now.tenant_gpu_seconds) {
    raise(impl_->tenant_gpu_seconds.Add({{"tenant", tenant}}), value);
  }
  impl_->gpus.Set(now.gpus);
  impl_->gpus_held.Set(now.gpus_held);
  impl_->journal_rows.Set(now.journal_rows);
  impl_->journal_writable.Set(now.journal_writable ? 1 : 0);
  raise(impl_->cpu, cpu_seconds());
  impl_->memory.Set(resident_bytes());
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace ebb::control
