#pragma once

/// What a training job's own runtime knows about its speed, as plain values: it reports them (JobReport in event.h),
/// the scheduler and `perf` compute with them.

#include <cstdint>

#include "ebb/base/units.h"

namespace ebb {

/// Samples, of a batch or over all replicas.
using BatchSize = std::int32_t;

/// Which batch sizes a job may train with. All 0: the job does not say, and its batch size is never changed.
struct BatchLimits {
  BatchSize initial = 0;    ///< global batch size that its learning rate was tuned for
  BatchSize largest = 0;    ///< largest global batch size
  BatchSize local_min = 0;  ///< smallest batch of one GPU and micro-step
  BatchSize local_max = 0;  ///< largest that its memory holds

  bool known() const { return initial > 0; }
  bool operator==(const BatchLimits&) const = default;
};

/// How a global batch is spread: replicas x atomic x (accumulation + 1) samples a step.
struct BatchChoice {
  BatchSize atomic = 0;           ///< samples of one GPU and micro-step
  std::int32_t accumulation = 0;  ///< micro-steps before the one that synchronises

  bool operator==(const BatchChoice&) const = default;
};

/// The seven parameters of the throughput model (Qiao et al., OSDI 2021), times in seconds; see perf/goodput.h.
struct ThroughputParams {
  double alpha_c = 0;  ///< gradient computation: alpha_c + beta_c x local batch
  double beta_c = 0;
  double alpha_n = 0;  ///< synchronisation across nodes: alpha_n + beta_n x (replicas - 2)
  double beta_n = 0;
  double alpha_r = 0;  ///< synchronisation within a node
  double beta_r = 0;
  double gamma = 1;  ///< overlap of both, 1..10

  bool operator==(const ThroughputParams&) const = default;
};

/// Gradient statistics at the initial batch size: noise scale = var / sqr.
struct GradientStats {
  double sqr = 0;  ///< squared norm of the true gradient
  double var = 0;  ///< variance of its estimate

  bool operator==(const GradientStats&) const = default;
};

}  // namespace ebb
