#include "ebb/perf/goodput.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace ebb::perf {
namespace {

// CIFAR-10 on the testbed of Qiao et al. (OSDI 2021): parameters fitted by the reference's optimiser, statistics of
// epoch index 10 at a global batch of 512, and what the reference's optimize() makes of them.
Goodput cifar10() {
  return {.params = {0.0135603, 0.000699649, 0.0336428, 0.00884105, 0.0164455, 1e-8, 1.133908},
          .gradient = {.sqr = 0.14840219280546516, .var = 2.424385923306376},
          .limits = {.initial = 128, .largest = 4096, .local_min = 32, .local_max = 1024}};
}

TEST(Goodput, BestMatchesTheReference) {
  const Goodput goodput = cifar10();
  struct Case {
    std::int32_t nodes;
    GpuCount replicas;
    double goodput;
    BatchSize atomic;
  };
  for (const Case& c : {Case{1, 1, 1241.33, 128}, Case{1, 4, 3821.32, 142}, Case{2, 8, 4328.09, 185},
                        Case{4, 16, 4697.84, 183}, Case{8, 32, 3902.21, 128}}) {
    const Best best = goodput.best(c.nodes, c.replicas);
    EXPECT_NEAR(best.goodput, c.goodput, 1e-5 * c.goodput);  // the parameters have six digits
    EXPECT_EQ(best.batch, (BatchChoice{c.atomic, 0})) << c.replicas;
  }
}

TEST(Goodput, StepTimesByHand) {
  Goodput goodput{.params = {1, 0.5, 4, 2, 2, 1, 1}, .gradient = {1, 1}, .limits = {4, 64, 1, 8}};
  // Tc = 1 + 0.5 x 4 = 3 and nothing to synchronise.
  EXPECT_NEAR(goodput.throughput(1, 1, {4, 0}), 4 / 3.0, 1e-6);
  // Two replicas on a node: Tn = 2; four: 2 + 1 x 2 = 4; on two nodes 4 + 2 x 2 = 8.
  EXPECT_NEAR(goodput.throughput(1, 2, {4, 0}), 8 / 5.0, 1e-6);
  EXPECT_NEAR(goodput.throughput(1, 4, {4, 0}), 16 / 7.0, 1e-6);
  EXPECT_NEAR(goodput.throughput(2, 4, {4, 0}), 16 / 11.0, 1e-6);
  // Two micro-steps before: twice Tc and three times the samples.
  EXPECT_NEAR(goodput.throughput(2, 4, {4, 2}), 48 / 17.0, 1e-6);
  goodput.params.gamma = 2;
  EXPECT_NEAR(goodput.throughput(1, 4, {4, 0}), 16 / 5.0, 1e-6);  // sqrt(3^2 + 4^2)
}

TEST(Goodput, GainGrowsFromOneToTheNoiseLimit) {
  const GradientStats stats{.sqr = 1, .var = 3};
  EXPECT_DOUBLE_EQ(gain_of(stats, 100, 100), 1);
  EXPECT_DOUBLE_EQ(gain_of(stats, 300, 100), 2);
  EXPECT_NEAR(gain_of(stats, 1e12, 100), 4, 1e-8);
  // Nothing known of the gradients: a larger batch gains nothing.
  EXPECT_DOUBLE_EQ(gain_of({}, 300, 100), 1);
  const Goodput goodput{.params = {}, .gradient = stats, .limits = {100, 1000, 10, 100}};
  EXPECT_DOUBLE_EQ(goodput.efficiency(100), 1);
  EXPECT_DOUBLE_EQ(goodput.efficiency(300), 2 / 3.0);
}

TEST(Goodput, NothingLegalIsZero) {
  Goodput goodput = cifar10();
  EXPECT_EQ(goodput.best(1, 0).goodput, 0);
  EXPECT_EQ(goodput.best(0, 0).batch, BatchChoice{});
  EXPECT_GT(goodput.best(32, 128).goodput, 0);  // 128 x 32 = 4096
  EXPECT_EQ(goodput.best(33, 129).goodput, 0);
  goodput.limits = {};
  EXPECT_EQ(goodput.best(1, 1).goodput, 0);
}

TEST(Goodput, OneGpuAccumulatesBeyondTheInitialBatch) {
  Goodput goodput = cifar10();
  goodput.gradient = {.sqr = 1e-9, .var = 1};  // all noise: the largest batch is the best
  const Best best = goodput.best(1, 1);
  EXPECT_GE(best.batch.accumulation, 1);
  EXPECT_EQ(global_batch(1, best.batch), 4096);
}

TEST(BatchForTarget, SplitsOverReplicasAndMicroSteps) {
  const BatchLimits bert{.initial = 12, .largest = 384, .local_min = 4, .local_max = 12};
  EXPECT_EQ(batch_for_target(bert, 1, 12), (BatchChoice{12, 0}));
  EXPECT_EQ(batch_for_target(bert, 2, 24), (BatchChoice{12, 0}));
  EXPECT_EQ(batch_for_target(bert, 4, 96), (BatchChoice{12, 1}));
  EXPECT_EQ(batch_for_target(bert, 4, 100), (BatchChoice{9, 2}));
  // 384 / 5 = 77 samples in 7 steps of 11 would make 385.
  EXPECT_EQ(batch_for_target(bert, 5, 384), (BatchChoice{10, 6}));
  // One GPU beyond the initial batch: a micro-step at least, where one would do.
  const BatchLimits cifar10{.initial = 128, .largest = 4096, .local_min = 32, .local_max = 1024};
  EXPECT_EQ(batch_for_target(cifar10, 1, 512), (BatchChoice{256, 1}));
  EXPECT_EQ(batch_for_target(cifar10, 1, 128), (BatchChoice{128, 0}));
  EXPECT_EQ(batch_for_target(cifar10, 2, 512), (BatchChoice{256, 0}));
}

TEST(BatchForTarget, RoundingErrorsMakeNoLargerBatch) {
  const BatchLimits limits{.initial = 128, .largest = 4096, .local_min = 32, .local_max = 1024};
  EXPECT_EQ(batch_for_target(limits, 3, 3 * 100 + 1e-9), (BatchChoice{100, 0}));
  EXPECT_EQ(batch_for_target(limits, 3, 3 * 100 + 1e-3), (BatchChoice{101, 0}));
}

TEST(BatchForTarget, NearestWhereNothingIsLegal) {
  const BatchLimits limits{.initial = 128, .largest = 4096, .local_min = 32, .local_max = 1024};
  EXPECT_EQ(batch_for_target(limits, 16, 128), (BatchChoice{32, 0}));
  EXPECT_EQ(batch_for_target(limits, 200, 4096), (BatchChoice{32, 0}));
  EXPECT_EQ(global_batch(1, batch_for_target(limits, 1, 1e18)), 4096);
  // A job that says nothing of its batches.
  EXPECT_EQ(batch_for_target({}, 4, 10), (BatchChoice{3, 0}));
}

BatchLimits any_limits() {
  BatchLimits limits;
  limits.local_min = *rc::gen::inRange(1, 64);
  limits.local_max = limits.local_min * *rc::gen::inRange(2, 32);
  limits.initial = *rc::gen::inRange(limits.local_min, 4 * limits.local_max);
  limits.largest = limits.initial * *rc::gen::inRange(1, 64);
  return limits;
}

double any_exponent(int low, int high) {
  return std::pow(10.0, *rc::gen::inRange(low * 100, high * 100) / 100.0);
}

RC_GTEST_PROP(BatchForTarget, LegalWheneverOneCanBe, ()) {
  const BatchLimits limits = any_limits();
  const GpuCount replicas = *rc::gen::inRange(1, 64);
  const double target = *rc::gen::inRange(1, 2 * limits.largest);
  const BatchChoice choice = batch_for_target(limits, replicas, target);
  RC_ASSERT(choice.accumulation >= 0);
  RC_ASSERT(choice.atomic >= limits.local_min && choice.atomic <= limits.local_max);
  // Below local_min samples a step no choice is legal; otherwise the largest global batch holds.
  if (limits.largest >= std::int64_t{replicas} * (choice.accumulation + 1) * limits.local_min) {
    RC_ASSERT(global_batch(replicas, choice) <= limits.largest);
  }
}

RC_GTEST_PROP(Goodput, BestIsTheBestOfItsCandidates, ()) {
  Goodput goodput;
  goodput.limits = any_limits();
  goodput.params = {any_exponent(-3, 0), any_exponent(-5, -2), any_exponent(-3, 0),    any_exponent(-6, -1),
                    any_exponent(-3, 0), any_exponent(-6, -1), 1 + any_exponent(-2, 0)};
  goodput.gradient = {any_exponent(-4, 1), any_exponent(-2, 3)};
  const GpuCount replicas = *rc::gen::inRange(1, 40);
  const std::int32_t nodes = (replicas + 3) / 4;
  // The rule as it is written, candidate by candidate.
  const BatchLimits& limits = goodput.limits;
  const double low = std::max<double>(limits.initial, limits.local_min * replicas);
  double most = 0;
  for (int i = 0; i < 50 && low <= limits.largest; ++i) {
    const double batch = i == 49 ? limits.largest : low * std::pow(limits.largest / low, i / 49.0);
    const double local = batch / replicas;
    double steps = std::ceil(local / limits.local_max - 1e-8);
    if (replicas == 1 && local > limits.initial + 1e-8) steps = std::max(steps, 2.0);
    const double atomic = std::ceil(local / steps - 1e-8);
    if (atomic < limits.local_min || atomic > limits.local_max) continue;
    if (std::floor(limits.largest / (replicas * steps)) < limits.local_min) continue;
    most = std::max(most, goodput(nodes, replicas, {static_cast<int>(atomic), static_cast<int>(steps) - 1}));
  }
  const Best best = goodput.best(nodes, replicas);
  RC_ASSERT(best.goodput == most);
  if (most == 0) return;
  RC_ASSERT(best.batch.atomic >= limits.local_min && best.batch.atomic <= limits.local_max);
  RC_ASSERT(global_batch(replicas, best.batch) <= limits.largest);
}

}  // namespace
}  // namespace ebb::perf
