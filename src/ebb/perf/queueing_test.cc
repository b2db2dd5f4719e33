#include "ebb/perf/queueing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ebb/base/random.h"

namespace ebb::perf {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Duration times(double x) {
  return duration_from_seconds(x).value();
}

// Erlang's formula for M/D/1 with D = 1 s; its terms alternate, so for small x only.
double erlang(double rate, double x) {
  double sum = 0;
  double factorial = 1;
  for (int k = 0; k <= static_cast<int>(x); ++k) {
    if (k > 0) factorial *= k;
    sum += std::pow(rate * (k - x), k) / factorial * std::exp(-rate * (k - x));
  }
  return (1 - rate) * sum;
}

TEST(MdcWait, OneServerMatchesErlang) {
  for (const double rate : {0.05, 0.3, 0.7, 0.95, 0.999}) {
    for (const double x : {0.0, 0.25, 1.0, 1.5, 3.75, 6.0}) {
      EXPECT_NEAR(mdc_wait_within(rate, seconds(1), 1, times(x)), erlang(rate, x), 1e-11) << rate << " " << x;
    }
  }
}

TEST(MdcWait, OneServerMeanMatchesPollaczekKhinchine) {
  const double rate = 0.9;
  double mean = 0;
  for (double x = 0.005; x < 150; x += 0.01) mean += 0.01 * (1 - mdc_wait_within(rate, seconds(1), 1, times(x)));
  EXPECT_NEAR(mean, rate / (2 * (1 - rate)), 1e-4);
}

// The embedded chain of the numbers waiting, by brute force, and the wait from it.
double by_iteration(double mean, int c, double x) {
  std::vector<double> arrivals;
  double p = std::exp(-mean);
  for (int j = 0; j < 10 * c + 40; p *= mean / ++j) arrivals.push_back(p);
  std::vector<double> waiting(600, 0);
  waiting[0] = 1;
  double change = 1;
  while (change > 1e-14) {
    std::vector<double> next(waiting.size(), 0);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      for (std::size_t j = 0; j < arrivals.size(); ++j) {
        const auto n = static_cast<std::size_t>(std::max(0, static_cast<int>(i + j) - c));
        if (n < next.size()) next[n] += waiting[i] * arrivals[j];
      }
    }
    change = 0;
    for (std::size_t i = 0; i < waiting.size(); ++i) change += std::fabs(next[i] - waiting[i]);
    waiting = next;
  }
  for (std::size_t i = 1; i < waiting.size(); ++i) waiting[i] += waiting[i - 1];
  const int k = static_cast<int>(x) + 1;
  const double left = mean * (k - x);
  double sum = 0;
  p = std::exp(-left);
  for (int j = 0; j < k * c; p *= left / ++j) sum += p * waiting[static_cast<std::size_t>(k * c - 1 - j)];
  return sum;
}

TEST(MdcWait, SeveralServersMatchTheChainByBruteForce) {
  for (const auto& [rho, c] : {std::pair{0.8, 2}, {0.7, 5}, {0.6, 12}}) {
    for (const double x : {0.0, 0.4, 1.0, 2.5}) {
      EXPECT_NEAR(mdc_wait_within(rho * c, seconds(1), c, times(x)), by_iteration(rho * c, c, x), 1e-11)
          << rho << " " << c << " " << x;
    }
  }
}

// Customers of a simulated queue that waited at most x, with the standard error from the means of batches.
struct Share {
  double mean;
  double error;
};
Share simulated(double rate, int c, double x, std::string_view stream) {
  constexpr int kBatches = 40;
  constexpr int kBatchSize = 20000;
  Random random(7, stream);
  std::vector<double> departures(static_cast<std::size_t>(c), 0);
  double now = 0;
  double sum = 0;
  double squares = 0;
  std::size_t server = 0;
  for (int batch = -1; batch < kBatches; ++batch) {  // the first one warms up
    int within = 0;
    for (int i = 0; i < kBatchSize; ++i) {
      now += random.exponential(1 / rate);
      // With one service time for all they leave in the order in which they came.
      double& departure = departures[server];
      server = (server + 1) % departures.size();
      const double start = std::max(now, departure);
      departure = start + 1;
      within += start - now <= x ? 1 : 0;
    }
    if (batch < 0) continue;
    const double share = static_cast<double>(within) / kBatchSize;
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kBatches;
  return {mean, std::sqrt((squares / kBatches - mean * mean) / (kBatches - 1))};
}

TEST(MdcWait, MatchesASimulatedQueue) {
  for (const auto& [rho, c] : {std::pair{0.9, 1}, {0.85, 3}, {0.95, 10}, {0.93, 40}}) {
    for (const double x : {0.0, 0.3, 1.2}) {
      const Share share = simulated(rho * c, c, x, "queue");
      EXPECT_NEAR(mdc_wait_within(rho * c, seconds(1), c, times(x)), share.mean, 4 * share.error + 1e-4)
          << rho << " " << c << " " << x;
    }
  }
}

TEST(MdcWait, LargeAndNearlySaturated) {
  // In heavy traffic a wait of many services is exponential with rate 2 (1 - rho) c / D.
  const double rho = 0.999;
  const int c = 500;
  const auto tail = [&](double x) { return 1 - mdc_wait_within(rho * c, seconds(1), c, times(x)); };
  EXPECT_NEAR(std::log(tail(2) / tail(3)), 2 * (1 - rho) * c, 2e-3);
  EXPECT_NEAR(tail(30), 0, 1e-12);
  EXPECT_GT(tail(0), 0.85);
  EXPECT_LT(tail(0), 1);
}

TEST(MdcWait, Limits) {
  EXPECT_EQ(mdc_wait_within(0, seconds(1), 1, seconds(0)), 1);
  EXPECT_EQ(mdc_wait_within(4, seconds(1), 4, seconds(100)), 0);
  EXPECT_EQ(mdc_wait_within(5, seconds(1), 4, seconds(100)), 0);
  EXPECT_EQ(mdc_wait_within(1, seconds(1), 2, -seconds(1)), 0);
  EXPECT_NEAR(mdc_wait_within(1e-12, milliseconds(1), 1, seconds(0)), 1, 1e-14);
  EXPECT_EQ(mdc_wait_within(100, milliseconds(1), 1000, seconds(0)), 1);
  EXPECT_NEAR(mdc_wait_within(0.99, Duration(1), 1, kMaxDuration), 1, 1e-12);
}

RC_GTEST_PROP(MdcWait, MonotonousInServersRateAndTime, ()) {
  const int c = *rc::gen::inRange(1, 120);
  const double rate = c * *rc::gen::inRange(1, 1000) / 1000.0;
  const Duration x = milliseconds(*rc::gen::inRange(0, 5000));
  const double within = mdc_wait_within(rate, seconds(1), c, x);
  const double rounding = 1e-12;
  RC_ASSERT(within >= 0 && within <= 1);
  RC_ASSERT(mdc_wait_within(rate, seconds(1), c + 1, x) >= within - rounding);
  RC_ASSERT(mdc_wait_within(rate * 0.99, seconds(1), c, x) >= within - rounding);
  RC_ASSERT(mdc_wait_within(rate, seconds(1), c, x + milliseconds(37)) >= within - rounding);
}

TEST(MdcReplicas, ByHand) {
  EXPECT_EQ(mdc_replicas(0, seconds(1), seconds(2), 0.99, 10), 0);
  // A load of 2: three servers at least, and exactly as many as the wait of 0 s needs.
  EXPECT_EQ(mdc_replicas(2, seconds(1), seconds(1000), 0.99, 10), 3);
  EXPECT_EQ(mdc_replicas(20, seconds(1), seconds(2), 0.99, 10), 10);
  EXPECT_EQ(mdc_replicas(2, seconds(1), seconds(1), 0.99999, 4), 4);
  EXPECT_EQ(mdc_replicas(0.001, seconds(1), seconds(1), 0.99, 10), 1);
}

RC_GTEST_PROP(MdcReplicas, TheLeastThatMeetsTheTarget, ()) {
  const double rate = *rc::gen::inRange(1, 60000) / 1000.0;
  const Duration service = milliseconds(*rc::gen::inRange(1, 1500));
  const Duration wait = service * *rc::gen::inRange(0, 300) / 100;
  const double percentile = *rc::gen::element(0.5, 0.9, 0.99, 0.999);
  const auto enough = [&](int c) { return mdc_wait_within(rate, service, c, wait) >= percentile; };
  const int c = mdc_replicas(rate, service, service + wait, percentile, 1000);
  RC_ASSERT(c >= 1);
  RC_ASSERT(enough(c));
  RC_ASSERT(c == 1 || !enough(c - 1));
  RC_ASSERT(mdc_replicas(rate, service, service + wait, percentile, c) == c);
  if (c > 1) RC_ASSERT(mdc_replicas(rate, service, service + wait, percentile, c - 1) == c - 1);
}

}  // namespace
}  // namespace ebb::perf
