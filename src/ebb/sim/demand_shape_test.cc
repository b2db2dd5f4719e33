#include "ebb/sim/demand_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/files.h"
#include "ebb/perf/queueing.h"
#include "ebb/trace/rates.h"

namespace ebb::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

Time at(int hour) {
  return Time(hours(hour));
}

DemandShape shape_of(const std::vector<RatePoint>& points) {
  auto shape = make_shape("test", points);
  EXPECT_TRUE(shape.has_value());
  return shape.value_or(DemandShape());
}

TEST(DemandShape, PeriodIsWholeDays) {
  EXPECT_EQ(shape_of({{at(0), 1}}).period, hours(24));
  EXPECT_EQ(shape_of({{at(0), 1}, {at(12), 2}}).period, hours(24));
  // 23 hourly values: the last one stays until midnight.
  std::vector<RatePoint> points;
  for (int h = 0; h < 23; ++h) points.push_back({at(h), 1.0 + h});
  EXPECT_EQ(shape_of(points).period, hours(24));
  EXPECT_EQ(shape_of({{at(0), 1}, {at(24), 2}}).period, hours(48));
  EXPECT_EQ(shape_of({{at(0), 1}, {at(24), 2}, {at(48), 2}, {at(72), 2}}).period, hours(96));
}

TEST(DemandShape, NothingBeforeTheFirstValue) {
  const DemandShape shape = shape_of({{at(6), 4}, {at(12), 2}});
  EXPECT_EQ(shape.points.size(), 3U);
  EXPECT_EQ(shape.points[0], (ShapePoint{hours(0), 0}));
  EXPECT_EQ(shape.peak, 4);
  // 6 h of 0, 6 h of the peak, 12 h of half of it.
  EXPECT_DOUBLE_EQ(mean_share(shape, 1), kPeakShare * (0.25 + 0.5 * 0.5));
  EXPECT_DOUBLE_EQ(mean_share(shape, 2), kPeakShare * (0.25 + 0.5 * 0.25));
}

TEST(DemandShape, AShapeWithoutAPeakIsNone) {
  EXPECT_THAT(make_shape("flat.csv", {{at(0), 0}, {at(5), 0}}).error().message,
              HasSubstr("flat.csv: no value is above"));
  EXPECT_FALSE(make_shape("empty", {}).has_value());
}

TEST(DemandShape, PowersMeetTheirMeans) {
  const std::vector<WeightedShape> shapes = {{built_in_shape(), 1}};
  double last = 1e9;
  for (const double mean : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}) {
    const auto power = power_for_mean(shapes, mean);
    ASSERT_TRUE(power.has_value()) << mean;
    EXPECT_NEAR(mean_share(shapes, *power), mean, 1e-3 * mean);
    EXPECT_LT(*power, last);
    last = *power;
  }
  for (const double mean : {0.01, 0.96}) {
    const auto power = power_for_mean(shapes, mean);
    ASSERT_FALSE(power.has_value()) << mean;
    EXPECT_THAT(power.error().message, HasSubstr("cannot be reached"));
    EXPECT_THAT(power.error().message, HasSubstr("to 95.0 %"));
  }
}

TEST(DemandShape, OnePowerForAllServices) {
  const std::vector<WeightedShape> shapes = {{built_in_shape(1), 0.75}, {shape_of({{at(0), 1}, {at(8), 3}}), 0.25}};
  const auto power = power_for_mean(shapes, 0.5);
  ASSERT_TRUE(power.has_value());
  EXPECT_NEAR(0.75 * mean_share(shapes[0].shape, *power) + 0.25 * mean_share(shapes[1].shape, *power), 0.5, 1e-6);
}

TEST(DemandShape, RatesNeedExactlyTheirReplicas) {
  ServiceSpec spec;
  spec.service_time = milliseconds(200);
  spec.target_latency = milliseconds(600);
  spec.percentile = 0.99;
  EXPECT_EQ(rate_for_replicas(spec, 0), 0);
  double last = 0;
  for (const std::int32_t replicas : {1, 2, 3, 4, 7, 15, 30, 31, 32, 100, 333}) {
    const double rate = rate_for_replicas(spec, replicas);
    EXPECT_GT(rate, last);
    EXPECT_EQ(perf::mdc_replicas(rate, spec.service_time, spec.target_latency, spec.percentile, 1000), replicas);
    last = rate;
  }
  // No slack at all: a request that waits misses its target.
  spec.target_latency = spec.service_time;
  EXPECT_EQ(perf::mdc_replicas(rate_for_replicas(spec, 5), spec.service_time, spec.target_latency, 0.99, 1000), 5);
}

TEST(DemandShape, TheBuiltInDayIsTheCommittedOne) {
  const auto points = trace::read_shape(std::string(EBB_SOURCE_DIR) + "/testdata/lending/day.csv");
  ASSERT_TRUE(points.has_value()) << points.error().message;
  const DemandShape built_in = built_in_shape();
  ASSERT_EQ(points->size(), built_in.points.size());
  for (std::size_t i = 0; i < points->size(); ++i) {
    EXPECT_EQ((*points)[i].at.time_since_epoch(), built_in.points[i].at);
    EXPECT_EQ((*points)[i].requests_per_s, built_in.points[i].value);
  }
  EXPECT_NE(built_in_shape(2).points, built_in.points);
}

}  // namespace
}  // namespace ebb::sim
