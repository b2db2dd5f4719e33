#pragma once

/// Pollux's model of a data-parallel training job: throughput from seven parameters, statistical efficiency from the
/// gradient noise scale, goodput = throughput x efficiency, and the batch size that maximises it.
///
///   computation   Tc = alpha_c + beta_c b                        b = local batch
///   network       Tn = ~0 (1 replica), alpha_r + beta_r max(R - 2, ~0) (one node), alpha_n + beta_n ... (several)
///   step          Ts = (Tc^gamma + Tn^gamma)^(1/gamma)
///   throughput    B / (accumulation Tc + Ts), B = R b (accumulation + 1); samples/s
///   gain          (var + sqr) / (var / s + sqr), s = B / B_initial; efficiency = gain / s
///
/// Times in seconds. Pure functions. Source: Qiao et al., OSDI 2021, and its artifact.

#include <span>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/training.h"

namespace ebb::perf {

/// One measured configuration.
struct Observation {
  std::int32_t nodes = 1;
  GpuCount replicas = 1;
  BatchSize local = 1;
  double step_s = 0;
  double sync_s = 0;
};

struct FitOptions {
  double start_scale = 1;  ///< factor of the start point: the fit is chaotic, and this shows by how much
};

/// Fits the seven parameters (root-mean-square error of log times, with Pollux's penalties and its rules for what was
/// never observed). `observations` not empty, step_s > sync_s. About 100 us; the same result for the same input. The
/// loss is flat: another start gives another extrapolation to placements far from those observed (ADR 0008).
ThroughputParams fit_throughput(std::span<const Observation> observations, const FitOptions& options = {});
/// The loss that fit_throughput() minimises.
double throughput_loss(std::span<const Observation> observations, const ThroughputParams& params);

/// Replicas x atomic x (accumulation + 1).
inline std::int64_t global_batch(GpuCount replicas, const BatchChoice& choice) {
  return std::int64_t{replicas} * choice.atomic * (choice.accumulation + 1);
}

/// The batch of each GPU for a global batch asked for: local = ceil(target / R), accumulation so that it fits (at least
/// 1 micro-step before the last where R = 1 and target > initial), capped at the largest global batch. Every ceil first
/// takes 1e-8 off. `target` >= 1. If no local batch is legal the nearest one is given.
BatchChoice batch_for_target(const BatchLimits& limits, GpuCount replicas, double target);

/// One way to spread a global batch.
struct BatchCandidate {
  BatchChoice choice;    ///< what its goodput is computed from
  BatchSize capped = 0;  ///< the atomic batch to use: cut so that the largest global batch holds
};

/// The legal ones of 50 geometrically spaced global batches (Pollux's `optimize`), by increasing batch, each choice
/// once. They depend on nothing that a job learns: jobs with the same limits may share them. 1 us.
std::vector<BatchCandidate> batch_candidates(const BatchLimits& limits, GpuCount replicas);

struct Best {
  double goodput = 0;  ///< samples/s at the efficiency of the initial batch; 0 if no batch is legal
  BatchChoice batch;
};

struct Goodput {
  ThroughputParams params;
  GradientStats gradient;
  BatchLimits limits;

  double throughput(std::int32_t nodes, GpuCount replicas, const BatchChoice& choice) const;
  double efficiency(double batch) const;
  double operator()(std::int32_t nodes, GpuCount replicas, const BatchChoice& choice) const {
    return throughput(nodes, replicas, choice) * efficiency(static_cast<double>(global_batch(replicas, choice)));
  }
  /// The best of the candidates, which are those of `limits` and `replicas`; the smallest of equals. Rounding up to
  /// whole samples a GPU may pass the largest global batch: as in Pollux the goodput is that of the candidate, and only
  /// the batch is cut. 0.3 us.
  Best best(std::int32_t nodes, GpuCount replicas, std::span<const BatchCandidate> candidates) const;
  Best best(std::int32_t nodes, GpuCount replicas) const {
    return best(nodes, replicas, batch_candidates(limits, replicas));
  }
};

/// gain of a global batch against the initial one.
double gain_of(const GradientStats& gradient, double batch, double initial);

}  // namespace ebb::perf
