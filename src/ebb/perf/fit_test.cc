#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ebb/perf/goodput.h"

namespace ebb::perf {
namespace {

// CIFAR-10 on the testbed of Qiao et al. (OSDI 2021), linear between the batch sizes of its artifact's placements.csv.
const std::vector<Observation> kCifar10 = {
    {1, 1, 128, 0.10311532334277504, 0.0005253355733658137},
    {1, 2, 128, 0.11437786566583734, 0.0010114469062340887},
    {1, 4, 256, 0.20306502119700112, 0.01733823990440369},
    {2, 8, 256, 0.25993246205647785, 0.05978318278503418},
};

Goodput with(const ThroughputParams& params) {
  return {.params = params, .gradient = {0.14840219280546516, 2.424385923306376}, .limits = {128, 4096, 32, 1024}};
}

// What a cluster that follows the model exactly would measure.
Observation measured(const ThroughputParams& params, std::int32_t nodes, GpuCount replicas, BatchSize local) {
  const double compute = params.alpha_c + params.beta_c * local;
  const double step = replicas * local / with(params).throughput(nodes, replicas, {local, 0});
  return {nodes, replicas, local, step, step - compute};
}

TEST(ThroughputLoss, OfTheReferencesFit) {
  const ThroughputParams reference{0.0135603, 0.000699649, 0.0336428, 0.00884105, 0.0164455, 1e-8, 1.133908};
  EXPECT_NEAR(throughput_loss(kCifar10, reference), 0.0550373, 1e-6);
}

TEST(ThroughputLoss, ByHand) {
  const std::vector<Observation> one = {{1, 1, 10, 4, 1}};
  // Tc = 2 and Ts = 2 against 3 and 4; gamma 3; beta / alpha 1/2 and 2.
  const ThroughputParams params{1, 0.1, 2, 1, 1, 2, 3};
  EXPECT_NEAR(throughput_loss(one, params), std::log(3 / 2.0) + std::log(4 / 2.0) + 4e-3 + 1e-2 * 4.25, 1e-9);
}

TEST(Fit, AtLeastAsGoodAsTheReference) {
  const ThroughputParams params = fit_throughput(kCifar10);
  EXPECT_LE(throughput_loss(kCifar10, params), 0.05506);
  // The loss is flat: near what was measured the goodput is the reference's within a few percent (ADR 0008).
  EXPECT_NEAR(with(params).best(1, 1).goodput, 1241.33, 0.003 * 1241.33);
  EXPECT_NEAR(with(params).best(1, 4).goodput, 3821.32, 0.03 * 3821.32);
  EXPECT_NEAR(with(params).best(2, 8).goodput, 4328.09, 0.03 * 4328.09);
}

TEST(Fit, NearlyAsGoodFromOtherStartPoints) {
  for (const double scale : {1 + 1e-9, 1 - 1e-6, 1 + 1e-4, 1 - 1e-3, 1.01, 0.9}) {
    const ThroughputParams params = fit_throughput(kCifar10, {.start_scale = scale});
    EXPECT_LE(throughput_loss(kCifar10, params), 0.056) << scale;
  }
}

TEST(Fit, RepeatsItself) {
  EXPECT_EQ(fit_throughput(kCifar10), fit_throughput(kCifar10));
}

TEST(Fit, FindsAModelThatMadeTheTimes) {
  const ThroughputParams truth{0.05, 0.002, 0.1, 0.01, 0.03, 0.005, 1.5};
  std::vector<Observation> observations;
  for (const BatchSize local : {32, 64, 128}) {
    for (const GpuCount replicas : {1, 2, 4}) observations.push_back(measured(truth, 1, replicas, local));
    for (const GpuCount replicas : {4, 8, 12}) observations.push_back(measured(truth, 2, replicas, local));
  }
  const ThroughputParams params = fit_throughput(observations);
  EXPECT_LE(throughput_loss(observations, params), throughput_loss(observations, truth) + 1e-6);
  for (const Observation& o : observations) {
    const double fitted = o.replicas * o.local / with(params).throughput(o.nodes, o.replicas, {o.local, 0});
    EXPECT_NEAR(fitted, o.step_s, 0.01 * o.step_s);
  }
}

TEST(Fit, WhatWasNeverObservedIsOptimistic) {
  // One GPU, one batch size: half of the time is constant, and the network costs nothing.
  const ThroughputParams one = fit_throughput(std::vector<Observation>{{1, 1, 100, 0.2, 0.001}});
  EXPECT_NEAR(one.alpha_c, 0.199 / 2, 1e-12);
  EXPECT_NEAR(one.beta_c, 0.199 / 2 / 100, 1e-5);
  EXPECT_EQ(one.alpha_r, 1e-8);
  EXPECT_EQ(one.beta_r, 1e-8);
  EXPECT_DOUBLE_EQ(one.alpha_n, 1.1e-8);
  EXPECT_DOUBLE_EQ(one.beta_n, 1.1e-8);
  // Two replicas: no third one whose cost could be told apart; nodes at least 1.1 times a node.
  const ThroughputParams two = fit_throughput(std::vector<Observation>{{1, 1, 100, 0.2, 0.001}, {1, 2, 90, 0.3, 0.1}});
  EXPECT_GT(two.alpha_r, 0.01);
  EXPECT_EQ(two.beta_r, 1e-8);
  EXPECT_EQ(two.alpha_n, 1.1 * two.alpha_r);
  // Only over nodes: within one stays unknown, and nothing is corrected.
  const ThroughputParams across =
      fit_throughput(std::vector<Observation>{{2, 2, 100, 0.3, 0.1}, {3, 6, 100, 0.4, 0.2}});
  EXPECT_EQ(across.alpha_r, 1e-8);
  EXPECT_EQ(across.beta_r, 1e-8);
  EXPECT_GT(across.alpha_n, 1e-3);
}

TEST(Fit, TimesWithoutRoomForComputation) {
  // A runtime that reports all of a step as synchronisation: no logarithm of 0.
  const ThroughputParams params = fit_throughput(std::vector<Observation>{{1, 2, 8, 0.1, 0.1}, {1, 2, 16, 0.1, 0.1}});
  EXPECT_TRUE(std::isfinite(params.alpha_c) && std::isfinite(params.alpha_r));
}

RC_GTEST_PROP(Fit, StaysWithinItsBounds, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(1, 12);
  std::vector<Observation> observations;
  for (std::size_t i = 0; i < size; ++i) {
    Observation o;
    o.replicas = *rc::gen::inRange(1, 17);
    o.nodes = *rc::gen::inRange(1, o.replicas + 1);
    o.local = *rc::gen::inRange(1, 2048);
    o.step_s = *rc::gen::inRange(1, 100000) * 1e-4;
    o.sync_s = o.step_s * *rc::gen::inRange(0, 100) / 100;
    observations.push_back(o);
  }
  const ThroughputParams p = fit_throughput(observations);
  for (const double value : {p.alpha_c, p.beta_c, p.alpha_n, p.beta_n, p.alpha_r, p.beta_r}) {
    RC_ASSERT(value >= 1e-8 && std::isfinite(value));
  }
  RC_ASSERT(p.gamma >= 1 && p.gamma <= 10);
  RC_ASSERT(std::isfinite(throughput_loss(observations, p)));
}

}  // namespace
}  // namespace ebb::perf
