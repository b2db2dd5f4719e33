#pragma once

/// How much of the serving GPUs a service needs over the day, from the shape of its requests alone.
///
/// A shape x(t) is a step function that repeats after whole days. Scaled with a power g it becomes the share
///   s(t) = 0.95 (x(t) / peak)^g
/// of the GPUs that the service may use: the peak is always 95 %, and g sets how deep the valleys are (1: as measured).
/// The mean over the period falls as g grows, so for a mean that lies within reach there is one g; bisection finds it.
///
/// Replicas come from shares by rounding to the nearest whole number, and request rates from replicas the other way
/// round than the simulator goes: a rate in the middle of those for which perf::mdc_replicas gives that number.
///
/// Pure functions; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/service.h"

namespace ebb::sim {

/// Share of the serving GPUs that is needed at the peak.
inline constexpr double kPeakShare = 0.95;

struct ShapePoint {
  Duration at{};  ///< from the start of the period
  double value = 0;

  bool operator==(const ShapePoint&) const = default;
};

struct DemandShape {
  std::string name;                ///< for people: the file, or "built-in day"
  Duration period{};               ///< whole days, then it comes again
  std::vector<ShapePoint> points;  ///< the first at 0, times rising
  double peak = 0;                 ///< largest value, above 0
};

/// From a table of values over time (trace/rates.h); the value is 0 before the first point. The last point lasts as
/// long as the one before it (a single one: a day), and the period is the next whole number of days.
/// Errors: invalid_argument without a value above 0.
Result<DemandShape> make_shape(std::string name, const std::vector<RatePoint>& points);

/// ebb's own day, hourly: with h the hour from 0 to 23 and u uniform in [0, 1) from the stream "lending.shape",
///   x(h) = 100 (1 - 0.62 cos(2 pi (h - 3.5) / 24) - 0.12 cos(4 pi (h - 2) / 24)) (0.94 + 0.12 u),
/// rounded to whole numbers: low at night, high from late morning to evening, uneven from hour to hour as real days
/// are.
DemandShape built_in_shape(std::uint64_t seed = 1);

/// Mean of s(t) over the period, 0..0.95. `power` >= 0.
double mean_share(const DemandShape& shape, double power);

/// A shape and its part of the serving GPUs; the parts of all services add up to 1.
struct WeightedShape {
  DemandShape shape;
  double weight = 1;
};

/// Mean over all services together.
double mean_share(const std::vector<WeightedShape>& shapes, double power);
/// The power with which that mean is `mean`. Errors: invalid_argument with the means that can be reached.
Result<double> power_for_mean(const std::vector<WeightedShape>& shapes, double mean);

/// A request rate for which `spec` needs exactly `replicas` (>= 0): the middle between the largest rate that
/// `replicas` - 1 stand and the largest that `replicas` stand.
double rate_for_replicas(const ServiceSpec& spec, std::int32_t replicas);
/// The largest rate (to a relative 1e-6) that so many replicas stand within the target.
double most_rate(const ServiceSpec& spec, std::int32_t replicas);

}  // namespace ebb::sim
