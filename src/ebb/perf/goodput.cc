#include "ebb/perf/goodput.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ebb/base/check.h"
#include "ebb/perf/network.h"

namespace ebb::perf {
namespace {

constexpr int kCandidates = 50;
constexpr double kSlack = 1e-8;  // what rounding may add to a whole number before it counts as the next

double round_up(double x) {
  return std::ceil(x - kSlack);
}

// How many samples of one GPU and step: micro-steps so that each fits the memory.
BatchChoice split(double local, BatchSize local_max, bool at_least_two) {
  double accumulation = local > local_max ? round_up(local / local_max) - 1 : 0;
  // One GPU has no gradients of others to estimate the noise from; it compares micro-steps.
  if (at_least_two) accumulation = std::max(accumulation, 1.0);
  const double atomic = round_up(accumulation > 0 ? local / (accumulation + 1) : local);
  return {static_cast<BatchSize>(atomic), static_cast<std::int32_t>(accumulation)};
}

// The most samples of one GPU and micro-step within the largest global batch.
std::int64_t atomic_cap(const BatchLimits& limits, GpuCount replicas, std::int32_t accumulation) {
  return limits.largest / (std::int64_t{replicas} * (accumulation + 1));
}

// Samples/s on one placement; what does not depend on the batch is computed once.
class Speed {
 public:
  Speed(const ThroughputParams& params, std::int32_t nodes, GpuCount replicas)
      : params_(params),
        replicas_(replicas),
        network_(network_time(params, network_of(nodes, replicas), beyond_two(replicas))),
        network_power_(std::pow(network_, params.gamma)),
        mean_weight_(std::exp2(1 / params.gamma - 1)) {}

  double operator()(const BatchChoice& choice) const {
    const double compute = params_.alpha_c + params_.beta_c * choice.atomic;
    const double step = std::exp(std::log(std::pow(compute, params_.gamma) + network_power_) / params_.gamma);
    const double total = choice.accumulation * compute + step;
    return total > 0 ? static_cast<double>(global_batch(replicas_, choice)) / total : 0;
  }

  // Not above the time of a step with its accumulation, and cheap: the synchronised part takes at least the longer of
  // both times, and at least their power mean.
  double floor(const BatchChoice& choice) const {
    const double compute = params_.alpha_c + params_.beta_c * choice.atomic;
    return choice.accumulation * compute + std::max({compute, network_, mean_weight_ * (compute + network_)});
  }

 private:
  const ThroughputParams& params_;
  GpuCount replicas_;
  double network_;
  double network_power_;
  double mean_weight_;
};

}  // namespace

double gain_of(const GradientStats& gradient, double batch, double initial) {
  const double denominator = gradient.var / (batch / initial) + gradient.sqr;
  return denominator > 0 ? (gradient.var + gradient.sqr) / denominator : 1;
}

double Goodput::throughput(std::int32_t nodes, GpuCount replicas, const BatchChoice& choice) const {
  return Speed(params, nodes, replicas)(choice);
}

double Goodput::efficiency(double batch) const {
  return gain_of(gradient, batch, limits.initial) / (batch / limits.initial);
}

std::vector<BatchCandidate> batch_candidates(const BatchLimits& limits, GpuCount replicas) {
  std::vector<BatchCandidate> candidates;
  if (!limits.known() || replicas < 1) return candidates;
  const double smallest = std::max<double>(limits.initial, static_cast<double>(limits.local_min) * replicas);
  if (smallest > limits.largest) return candidates;
  candidates.reserve(kCandidates);
  // 50 multiplications drift by some 1e-14, far below the slack of round_up().
  const double ratio = std::pow(limits.largest / smallest, 1.0 / (kCandidates - 1));
  double batch = smallest;
  BatchChoice last;
  for (int i = 0; i < kCandidates; ++i, batch *= ratio) {
    if (i == kCandidates - 1) batch = limits.largest;
    const double local = batch / replicas;
    const BatchChoice choice =
        split(local, limits.local_max, replicas == 1 && local > static_cast<double>(limits.initial) + kSlack);
    // Small ranges give the same choice many times; only the first could win.
    if (choice == last) continue;
    last = choice;
    if (choice.atomic < limits.local_min || choice.atomic > limits.local_max) continue;
    const auto capped = std::min<std::int64_t>(choice.atomic, atomic_cap(limits, replicas, choice.accumulation));
    if (capped >= limits.local_min) candidates.push_back({choice, static_cast<BatchSize>(capped)});
  }
  return candidates;
}

Best Goodput::best(std::int32_t nodes, GpuCount replicas, std::span<const BatchCandidate> candidates) const {
  Best best;
  if (nodes < 1 || candidates.empty()) return best;
  const Speed speed(params, nodes, replicas);
  // goodput = initial batch x gain / time of a step, and gain = s (var + sqr) / (var + s sqr).
  const bool plain = gradient.var >= 0 && gradient.sqr >= 0 && gradient.var + gradient.sqr > 0;
  const double numerator = limits.initial * (gradient.var + gradient.sqr);
  const auto ceiling = [&](const BatchChoice& choice) {
    const auto whole = static_cast<double>(global_batch(replicas, choice));
    const double below = (gradient.var * limits.initial + gradient.sqr * whole) * speed.floor(choice);
    return plain && below > 0 ? numerator * whole / below : std::numeric_limits<double>::infinity();
  };
  const auto goodput = [&](const BatchCandidate& candidate) {
    return speed(candidate.choice) * efficiency(static_cast<double>(global_batch(replicas, candidate.choice)));
  };
  // Most ceilings are below the goodput of the candidate with the highest one: their powers need not be computed.
  constexpr double kRounding = 1 + 1e-9;
  std::array<double, kCandidates> ceilings;
  EBB_CHECK(candidates.size() <= ceilings.size());
  std::size_t highest = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    ceilings[i] = ceiling(candidates[i].choice) * kRounding;
    if (ceilings[i] > ceilings[highest]) highest = i;
  }
  const double enough = goodput(candidates[highest]);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (ceilings[i] < std::max(enough, best.goodput)) continue;
    const double value = i == highest ? enough : goodput(candidates[i]);
    if (value > best.goodput) best = {value, {candidates[i].capped, candidates[i].choice.accumulation}};
  }
  return best;
}

BatchChoice batch_for_target(const BatchLimits& limits, GpuCount replicas, double target) {
  if (!limits.known()) {
    const double atomic = std::clamp<double>(round_up(target / replicas), 1, std::numeric_limits<BatchSize>::max());
    return {static_cast<BatchSize>(atomic), 0};
  }
  target = std::min<double>(target, limits.largest);
  const double local = std::max(round_up(target / replicas), 1.0);
  BatchChoice choice = split(local, limits.local_max, replicas == 1 && target > limits.initial);
  const auto capped = std::min<std::int64_t>(choice.atomic, atomic_cap(limits, replicas, choice.accumulation));
  choice.atomic = static_cast<BatchSize>(std::clamp<std::int64_t>(capped, limits.local_min, limits.local_max));
  return choice;
}

}  // namespace ebb::perf
