#include "ebb/sim/lending_workload.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ebb/base/check.h"
#include "ebb/base/random.h"
#include "ebb/perf/queueing.h"
#include "ebb/trace/transform.h"

namespace ebb::sim {
namespace {

constexpr Duration kNoiseStep = std::chrono::minutes(5);
constexpr double kGoldenFraction = 0.6180339887498949;

Time at_position(const std::vector<JobSpec>& jobs, double position) {
  const auto below = std::min(static_cast<std::size_t>(position), jobs.size() - 1);
  const Time from = jobs[below].submit;
  if (below + 1 == jobs.size()) return from;
  const double gap = static_cast<double>((jobs[below + 1].submit - from).count());
  return from + Duration(static_cast<std::int64_t>(gap * (position - static_cast<double>(below))));
}

std::vector<JobSpec> draw_jobs(const std::vector<JobSpec>& jobs, double load, std::uint64_t seed) {
  const auto count = std::max<std::int64_t>(std::llround(load * static_cast<double>(jobs.size())), 1);
  Random random(seed, "lending.jobs");
  std::vector<JobSpec> drawn;
  drawn.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    JobSpec job = jobs[random.below(jobs.size())];
    const Time submit = at_position(jobs, random.uniform() * static_cast<double>(jobs.size() - 1));
    job.name = fmt::format("{}+{}", job.name, i);
    job.submit = Time(kWarmUp) + (submit - jobs.front().submit);
    drawn.push_back(std::move(job));
  }
  trace::sort_by_submission(drawn);
  return drawn;
}

/// One service's steps from `start` in its period on, until `end`.
std::vector<RatePoint> unroll(const std::vector<DemandPlan::Step>& steps, Duration period, Duration start,
                              Duration end) {
  std::vector<RatePoint> points;
  const auto add = [&](Duration at, double rate) {
    if (!points.empty() && points.back().requests_per_s == rate) return;
    points.push_back({Time(at), rate});
  };
  std::size_t i = steps.size();
  while (i > 1 && steps[i - 1].at > start) --i;
  --i;                     // the step at `start`
  Duration zero = -start;  // when the present period began
  for (Duration at{}; at < end;) {
    add(at, steps[i].requests_per_s);
    if (++i == steps.size()) {
      i = 0;
      zero += period;
    }
    at = zero + steps[i].at;
  }
  return points;
}

std::vector<RatePoint> with_noise(const std::vector<RatePoint>& points, Duration end, double noise, double most,
                                  Random& random) {
  std::vector<RatePoint> noisy;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Time until = i + 1 < points.size() ? points[i + 1].at : Time(end);
    for (Time at = points[i].at; at < until; at += kNoiseStep) {
      const double factor = std::exp(noise * random.normal() - noise * noise / 2);
      noisy.push_back({at, std::min(points[i].requests_per_s * factor, most)});
    }
  }
  return noisy;
}

}  // namespace

Result<Halves> halves_of(const ClusterSpec& cluster) {
  if (cluster.nodes.size() < 2) {
    return fail(ErrorCode::invalid_argument,
                "lending needs at least 2 nodes, one that trains and one that serves; the cluster has {}",
                cluster.nodes.size());
  }
  Halves halves;
  for (const NodeSpec& node : cluster.nodes)
    (node.pool == kServingPool ? halves.serving : halves.training) += node.gpus;
  if (halves.serving == 0) {
    return fail(ErrorCode::invalid_argument,
                "the cluster names pools but none is called 'serving': its GPUs are what is lent (for example "
                "--cluster 8x4@training+8x4@serving)");
  }
  if (halves.training == 0) {
    return fail(ErrorCode::invalid_argument, "all nodes are in the pool 'serving': without lending no job could train");
  }
  return halves;
}

std::int32_t most_replicas(const ClusterSpec& cluster, GpuCount gpus) {
  std::int32_t replicas = 0;
  for (const NodeSpec& node : cluster.nodes) replicas += node.pool == kServingPool ? node.gpus / gpus : 0;
  return replicas;
}

Result<DemandPlan> plan_demand(const ClusterSpec& cluster, const std::vector<StudyService>& services, double power) {
  EBB_ASSIGN_OR_RETURN(const Halves halves, halves_of(cluster));
  DemandPlan plan;
  plan.power = power;
  for (const StudyService& service : services) {
    const DemandShape& shape = service.demand.shape;
    const double room = service.demand.weight * most_replicas(cluster, service.spec.gpus);
    std::map<std::int32_t, double> rates;
    std::vector<DemandPlan::Step>& steps = plan.steps.emplace_back();
    double gpu_seconds = 0;
    std::int32_t most = 0;
    for (std::size_t i = 0; i < shape.points.size(); ++i) {
      const double share = kPeakShare * std::pow(shape.points[i].value / shape.peak, power);
      const auto replicas = static_cast<std::int32_t>(std::lround(share * room));
      const auto [rate, is_new] = rates.try_emplace(replicas, 0);
      if (is_new) rate->second = rate_for_replicas(service.spec, replicas);
      steps.push_back({shape.points[i].at, replicas, rate->second});
      const Duration end = i + 1 < shape.points.size() ? shape.points[i + 1].at : shape.period;
      gpu_seconds += to_seconds(end - shape.points[i].at) * replicas * service.spec.gpus;
      most = std::max(most, replicas);
    }
    if (most == 0) {
      return fail(ErrorCode::invalid_argument,
                  "service '{}' gets {:.1f} % of {} serving GPUs, too little for one replica of {}; use a larger "
                  "cluster or fewer services",
                  service.spec.name, 100 * service.demand.weight, halves.serving, service.spec.gpus);
    }
    plan.mean_share += service.demand.weight * mean_share(shape, power);
    plan.replica_share += gpu_seconds / to_seconds(shape.period) / halves.serving;
  }
  return plan;
}

Workload lending_workload(const ClusterSpec& cluster, const Workload& trace, const std::vector<StudyService>& services,
                          const DemandPlan& plan, const LendingWorkloadOptions& options) {
  EBB_CHECK(!trace.jobs.empty());
  Workload workload;
  workload.jobs = draw_jobs(trace.jobs, options.load, options.seed);
  const Duration end = workload.jobs.back().submit.time_since_epoch() + options.tail;
  const double turn = static_cast<double>(options.seed) * kGoldenFraction;
  const double place = turn - std::floor(turn);
  for (std::size_t s = 0; s < services.size(); ++s) {
    const Duration period = services[s].demand.shape.period;
    const Duration start = options.day_start
                               ? *options.day_start % period
                               : std::chrono::seconds(static_cast<std::int64_t>(place * to_seconds(period)));
    ServiceLoad load{services[s].spec, unroll(plan.steps[s], period, start, end)};
    if (options.request_noise > 0) {
      Random random(options.seed, fmt::format("lending.noise.{}", s));
      const double most = most_rate(load.spec, most_replicas(cluster, load.spec.gpus));
      load.requests = with_noise(load.requests, end, options.request_noise, most, random);
    }
    workload.services.push_back(std::move(load));
  }
  return workload;
}

double idle_gpu_seconds(const ClusterSpec& cluster, const std::vector<ServiceLoad>& services, Time from, Time to) {
  double needed = 0;
  GpuCount serving = 0;
  for (const NodeSpec& node : cluster.nodes) serving += node.pool == kServingPool ? node.gpus : 0;
  for (const ServiceLoad& service : services) {
    const ServiceSpec& spec = service.spec;
    const std::int32_t most = std::max(most_replicas(cluster, spec.gpus), 1);
    std::map<double, std::int32_t> known;
    for (std::size_t i = 0; i < service.requests.size(); ++i) {
      const RatePoint& point = service.requests[i];
      const Time begin = std::max(point.at, from);
      const Time end = std::min(i + 1 < service.requests.size() ? service.requests[i + 1].at : to, to);
      if (end <= begin) continue;
      const auto [replicas, is_new] = known.try_emplace(point.requests_per_s, 0);
      if (is_new) {
        replicas->second =
            perf::mdc_replicas(point.requests_per_s, spec.service_time, spec.target_latency, spec.percentile, most);
      }
      needed += to_seconds(end - begin) * replicas->second * spec.gpus;
    }
  }
  return std::max(to_seconds(to - from) * serving - needed, 0.0);
}

}  // namespace ebb::sim
