#include "ebb/sim/demand_shape.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ebb/base/random.h"
#include "ebb/perf/queueing.h"

namespace ebb::sim {
namespace {

constexpr Duration kDay = std::chrono::hours(24);
/// Powers beyond these change nothing that a whole number of replicas could show.
constexpr double kLeastPower = 1e-4;
constexpr double kMostPower = 1e4;

}  // namespace

Result<DemandShape> make_shape(std::string name, const std::vector<RatePoint>& points) {
  DemandShape shape;
  shape.name = std::move(name);
  for (const RatePoint& point : points) {
    const Duration at = point.at.time_since_epoch();
    if (shape.points.empty() && at > Duration(0)) shape.points.push_back({Duration(0), 0});
    shape.points.push_back({at, point.requests_per_s});
    shape.peak = std::max(shape.peak, point.requests_per_s);
  }
  if (shape.peak <= 0) {
    return fail(ErrorCode::invalid_argument, "{}: no value is above 0; a shape of demand has a peak", shape.name);
  }
  const Duration last = shape.points.back().at;
  const Duration lasts = shape.points.size() > 1 ? last - shape.points[shape.points.size() - 2].at : kDay;
  shape.period = std::max((last + lasts + kDay - Duration(1)) / kDay * kDay, kDay);
  return shape;
}

DemandShape built_in_shape(std::uint64_t seed) {
  DemandShape shape;
  shape.name = "built-in day";
  shape.period = kDay;
  Random random(seed, "lending.shape");
  for (int h = 0; h < 24; ++h) {
    const double turn = 2 * std::numbers::pi / 24;
    const double mean = 1 - 0.62 * std::cos(turn * (h - 3.5)) - 0.12 * std::cos(2 * turn * (h - 2));
    const double value = std::round(100 * mean * (0.94 + 0.12 * random.uniform()));
    shape.points.push_back({std::chrono::hours(h), value});
    shape.peak = std::max(shape.peak, value);
  }
  return shape;
}

double mean_share(const DemandShape& shape, double power) {
  double sum = 0;
  for (std::size_t i = 0; i < shape.points.size(); ++i) {
    const Duration end = i + 1 < shape.points.size() ? shape.points[i + 1].at : shape.period;
    sum += to_seconds(end - shape.points[i].at) * std::pow(shape.points[i].value / shape.peak, power);
  }
  return kPeakShare * sum / to_seconds(shape.period);
}

double mean_share(const std::vector<WeightedShape>& shapes, double power) {
  double mean = 0;
  for (const WeightedShape& one : shapes) mean += one.weight * mean_share(one.shape, power);
  return mean;
}

Result<double> power_for_mean(const std::vector<WeightedShape>& shapes, double mean) {
  const double most = mean_share(shapes, kLeastPower);
  const double least = mean_share(shapes, kMostPower);
  if (!(mean >= least && mean <= most)) {
    return fail(
        ErrorCode::invalid_argument,
        "a serving mean of {:.4g} % cannot be reached: with its peak at {:.0f} % of the serving GPUs this shape "
        "of demand has means from {:.1f} % to {:.1f} %",
        100 * mean, 100 * kPeakShare, 100 * least, 100 * most);
  }
  double low = std::log(kLeastPower);  // mean too large
  double high = std::log(kMostPower);
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (mean_share(shapes, std::exp(middle)) > mean ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

double most_rate(const ServiceSpec& spec, std::int32_t replicas) {
  if (replicas <= 0) return 0;
  const auto stands = [&](double rate) {
    return perf::mdc_wait_within(rate, spec.service_time, replicas, spec.target_latency - spec.service_time) >=
           spec.percentile;
  };
  double low = 0;
  double high = replicas / to_seconds(spec.service_time);  // at which the queue grows without end
  while (high - low > 1e-6 * high) {
    const double middle = (low + high) / 2;
    (stands(middle) ? low : high) = middle;
  }
  return low;
}

double rate_for_replicas(const ServiceSpec& spec, std::int32_t replicas) {
  if (replicas <= 0) return 0;
  return (most_rate(spec, replicas - 1) + most_rate(spec, replicas)) / 2;
}

}  // namespace ebb::sim
