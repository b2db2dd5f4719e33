#include "ebb/sched/estimator.h"

#include <algorithm>
#include <cmath>

namespace ebb::sched {
namespace {

/// The work of a job of which nothing is known yet, seconds on one GPU: only its order against others matters.
constexpr double kUnknownSeconds = 3600;
/// Lists of batches that are kept, 600 bytes each.
constexpr std::size_t kBatchesKept = 4096;

}  // namespace

Estimator::Estimator(const ClusterSpec& cluster, std::shared_ptr<const perf::ProfileSet> profiles,
                     EstimatorOptions options)
    : profiles_(std::move(profiles)), options_(options) {
  for (const NodeSpec& node : cluster.nodes) node_gpus_ = std::max(node_gpus_, node.gpus);
}

void Estimator::set_fair_share(GpuCount gpus) {
  fair_gpus_ = std::max(gpus, 1);
  fair_nodes_ = options_.fair_share_on_one_node ? 1 : packed_nodes(fair_gpus_);
}

Estimator::Entry& Estimator::entry(const State& state, JobId job) {
  if (entries_.size() <= job) entries_.resize(job + 1);
  Entry& entry = entries_[job];
  if (entry.report != state.job(job).report) {
    entry.packed.clear();
    entry.spread.clear();
    entry.step.clear();
    entry.base_of = {0, 0};
    entry.report = state.job(job).report;
  }
  return entry;
}

const perf::Profile* Estimator::truth(const JobState& job) const {
  return options_.oracle && profiles_ ? profiles_->find(job.spec.application) : nullptr;
}

// GPUs on each of `nodes` nodes: as even to the fullest as a packed gang has them.
std::vector<GpuCount> Estimator::layout(std::int32_t nodes, GpuCount gpus) const {
  std::vector<GpuCount> shares;
  for (std::int32_t n = nodes; n > 0 && gpus > 0; --n) {
    // Every later node keeps at least one.
    const GpuCount share = std::clamp(gpus - (n - 1), 1, node_gpus_);
    shares.push_back(n == 1 ? gpus : share);
    gpus -= shares.back();
  }
  return shares;
}

double Estimator::speedup(const State& state, JobId job, std::int32_t nodes, GpuCount gpus) {
  if (gpus <= 0) return 0;
  const JobState& of = state.job(job);
  const bool known = (of.report && of.report->throughput) || truth(of) != nullptr;
  if (options_.linear || !known) return static_cast<double>(gpus) / fair_gpus_;
  Entry& known_of = entry(state, job);
  if (known_of.base_of != std::pair(fair_nodes_, fair_gpus_)) {
    known_of.base = cached_goodput(known_of, of, fair_nodes_, fair_gpus_);
    known_of.base_of = {fair_nodes_, fair_gpus_};
  }
  return known_of.base > 0 ? cached_goodput(known_of, of, nodes, gpus) / known_of.base
                           : static_cast<double>(gpus) / fair_gpus_;
}

double Estimator::goodput(const State& state, JobId job, std::int32_t nodes, GpuCount gpus) {
  if (gpus <= 0) return 0;
  return cached_goodput(entry(state, job), state.job(job), nodes, gpus);
}

double Estimator::cached_goodput(Entry& entry, const JobState& job, std::int32_t nodes, GpuCount gpus) {
  if (nodes == packed_nodes(gpus)) {
    const auto at = static_cast<std::size_t>(gpus);
    if (entry.packed.size() <= at) entry.packed.resize(at + 1, -1);
    if (entry.packed[at] < 0) entry.packed[at] = compute_goodput(job, nodes, gpus);
    return entry.packed[at];
  }
  const std::uint64_t key = static_cast<std::uint64_t>(nodes) << 32 | static_cast<std::uint32_t>(gpus);
  if (const auto found = entry.spread.find(key); found != entry.spread.end()) return found->second;
  return entry.spread[key] = compute_goodput(job, nodes, gpus);
}

double Estimator::compute_goodput(const JobState& job, std::int32_t nodes, GpuCount gpus) {
  const JobSpec& spec = job.spec;
  if (!spec.batch.known()) return gpus;
  const GradientStats gradient = job.report ? job.report->gradient : GradientStats{};
  if (const perf::Profile* profile = truth(job)) {
    // The true table at the batch asked for, or at the best of a geometric row of batches.
    const std::vector<GpuCount> shares = layout(nodes, gpus);
    const auto at = [&](double target) {
      const BatchChoice choice = perf::batch_for_target(spec.batch, gpus, target);
      if (choice.atomic < spec.batch.local_min || choice.atomic > spec.batch.local_max) return 0.0;
      const auto batch = static_cast<double>(perf::global_batch(gpus, choice));
      const double gain =
          options_.adapt_batch ? perf::gain_of(gradient, batch, spec.batch.initial) : batch / spec.batch.initial;
      return gain * spec.batch.initial / profile->step_times(shares, choice.atomic).with(choice.accumulation);
    };
    if (!options_.adapt_batch) return at(std::max<double>(spec.batch_size, 1));
    constexpr int kCandidates = 20;
    const double least = std::max(spec.batch.initial, spec.batch.local_min * gpus);
    double best = 0;
    for (int i = 0; i < kCandidates; ++i) {
      const double share = static_cast<double>(i) / (kCandidates - 1);
      best = std::max(best, at(std::floor(least * std::pow(std::max(spec.batch.largest / least, 1.0), share))));
    }
    return best;
  }
  if (!job.report || !job.report->throughput) return gpus;
  const perf::Goodput model{*job.report->throughput, gradient, spec.batch};
  if (options_.adapt_batch || spec.batch_size == 0) {
    return model.best(nodes, gpus, batches(spec.batch, gpus)).goodput;
  }
  return model.throughput(nodes, gpus, perf::batch_for_target(spec.batch, gpus, spec.batch_size));
}

// Jobs of one application share them.
const std::vector<perf::BatchCandidate>& Estimator::batches(const BatchLimits& limits, GpuCount gpus) {
  const std::tuple key(limits.initial, limits.largest, limits.local_min, limits.local_max, gpus);
  if (const auto known = batches_.find(key); known != batches_.end()) return known->second;
  if (batches_.size() >= kBatchesKept) batches_.clear();
  return batches_[key] = perf::batch_candidates(limits, gpus);
}

double Estimator::step_s(const State& state, JobId job, GpuCount gpus) {
  auto& cache = entry(state, job).step;
  const auto found = cache.find(gpus);
  return found != cache.end() ? found->second.first
                              : cache.emplace(gpus, compute_step(state.job(job), gpus)).first->second.first;
}

double Estimator::throughput(const State& state, JobId job, GpuCount gpus) {
  step_s(state, job, gpus);
  return entry(state, job).step.at(gpus).second;
}

// Seconds of a step and samples a second on a packed layout.
std::pair<double, double> Estimator::compute_step(const JobState& job, GpuCount gpus) const {
  const JobSpec& spec = job.spec;
  const bool fitted = job.report && job.report->throughput;
  const perf::Profile* profile = truth(job);
  if (!spec.batch.known() || (!fitted && profile == nullptr)) {
    return {1.0 / gpus, gpus};  // linear
  }
  const double target = spec.batch_asked();
  const BatchChoice choice = perf::batch_for_target(spec.batch, gpus, target);
  const auto batch = static_cast<double>(perf::global_batch(gpus, choice));
  if (profile != nullptr) {
    std::vector<GpuCount> shares;
    for (GpuCount left = gpus; left > 0; left -= shares.back()) shares.push_back(std::min(left, node_gpus_));
    const double seconds = profile->step_times(shares, choice.atomic).with(choice.accumulation);
    return {seconds, batch / seconds};
  }
  const perf::Goodput model{*job.report->throughput, job.report->gradient, spec.batch};
  const double samples = model.throughput(packed_nodes(gpus), gpus, choice);
  return {batch / samples, samples};
}

double Estimator::remaining_steps(const State& state, JobId id) {
  const JobState& job = state.job(id);
  const JobSpec& spec = job.spec;
  if (const perf::Profile* profile = truth(job); profile != nullptr && spec.batch.known()) {
    const double target = spec.batch_asked();
    const std::int32_t last = profile->epochs() - 1;
    const std::int32_t epoch = job.report ? job.report->epoch : 0;
    return epoch >= last ? 1 : profile->iterations(target, last) - profile->iterations(target, epoch);
  }
  if (options_.oracle && !spec.batch.known()) {
    return std::max(to_seconds(spec.run_time - job.progress_until(state.latest())), 1e-9) * spec.gpus;
  }
  // By what it did and the share of the whole that this was, as the job itself reports it.
  if (job.report && job.report->fraction_done > 0) {
    const JobReport& report = *job.report;
    double fraction = report.fraction_done;
    if (!report.throughput && report.progress > Duration(0)) {
      // A job without a model reports when its GPUs change; in between it goes on evenly.
      fraction = std::min(fraction * to_seconds(job.progress_until(state.latest())) / to_seconds(report.progress), 1.0);
    }
    return std::max((1 - fraction) / report.fraction_done * report.steps_done, 1.0);
  }
  const double seconds = spec.requested_time ? to_seconds(*spec.requested_time) * spec.gpus : kUnknownSeconds;
  return seconds / step_s(state, id, 1);
}

GpuCount Estimator::most_gpus(const State& state, JobId id, bool double_at_most) const {
  const JobState& job = state.job(id);
  GpuCount most = job.spec.largest();
  if (job.spec.batch.known()) {
    most = std::min(most, std::max(job.spec.batch.largest / std::max(job.spec.batch.local_min, 1), 1));
  }
  if (double_at_most && job.spec.sizing != Sizing::rigid) {
    const GpuCount profiled = job.report ? job.report->most_gpus : 0;
    most = std::min(most, std::max(2 * profiled, job.spec.smallest()));
  }
  return job.spec.legal_size(most);
}

}  // namespace ebb::sched
