#include "ebb/policies/pollux/search_values.h"

#include <algorithm>
#include <cmath>

namespace ebb::policies::pollux {
namespace {

/// Keeps the mean of a job without GPUs away from 0.
constexpr double kFloor = 1e-3;
/// Where the change factor is 0, GPUs count for so little: enough to prefer them to idle ones.
constexpr double kTieBreak = 1e-9;

}  // namespace

SpeedPoint speed_at(const std::vector<SpeedPoint>& points, GpuCount gpus) {
  if (points.empty()) return {gpus, 0, 0};
  const auto next =
      std::lower_bound(points.begin(), points.end(), gpus, [](const SpeedPoint& p, GpuCount g) { return p.gpus < g; });
  if (next == points.end()) return points.back();
  if (next == points.begin() || next->gpus == gpus) return *next;
  const SpeedPoint& before = *std::prev(next);
  const double share = static_cast<double>(gpus - before.gpus) / (next->gpus - before.gpus);
  return {gpus, before.one_node + share * (next->one_node - before.one_node),
          before.several + share * (next->several - before.several)};
}

Values::Values(const Problem& problem) : fairness_(problem.fairness), scale_(problem.scale) {
  for (const SearchJob& job : problem.jobs) {
    weights_ += job.weight;
    present_.push_back(job.present);
    sort_by_node(present_.back());
    const GpuCount held = gpus_in(job.present);
    const auto speedup = [&](GpuCount gpus, bool several) {
      if (gpus == 0) return 0.0;
      const SpeedPoint point = speed_at(job.speed, gpus);
      return several ? point.several : point.one_node;
    };
    kept_.push_back(term(job, speedup(held, job.present.size() > 1), 1));
    std::vector<double>& table = tables_.emplace_back(2 * static_cast<std::size_t>(std::max(job.largest, held)) + 2);
    for (GpuCount gpus = 0; gpus <= job.largest; ++gpus) {
      if (gpus != 0 && (gpus < job.smallest || (gpus - job.smallest) % job.step != 0)) continue;
      for (const bool several : {false, true}) {
        table[2 * static_cast<std::size_t>(gpus) + (several ? 1 : 0)] = term(job, speedup(gpus, several), job.factor);
      }
    }
  }
}

double Values::term(const SearchJob& job, double speedup, double factor) const {
  const double value = speedup * scale_ * (factor + kTieBreak) + kFloor;
  if (fairness_ == -1) return job.weight / value;
  if (fairness_ == 0) return -job.weight * std::log(value);
  return job.weight * std::pow(value, fairness_) * (fairness_ < 0 ? 1 : -1);
}

double Values::mean(double sum) const {
  if (weights_ <= 0) return 0;
  if (fairness_ == 0) return std::exp(-sum / weights_);
  return std::pow(std::abs(sum) / weights_, 1 / fairness_);
}

}  // namespace ebb::policies::pollux
