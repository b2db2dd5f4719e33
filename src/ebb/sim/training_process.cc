#include "ebb/sim/training_process.h"

#include <algorithm>
#include <cmath>

#include "ebb/base/check.h"

namespace ebb::sim {

TrainingProcess::TrainingProcess(const TrainingWorld& world, const perf::Profile& profile, const JobSpec& spec,
                                 JobId id)
    : world_(world), profile_(profile), spec_(spec), id_(id), random_(world.seed, fmt::format("measure-{}", id)) {}

void TrainingProcess::place(const Allocation& allocation) {
  placement_.clear();
  for (const NodeShare& share : allocation) placement_.push_back(share.gpus);
  replicas_ = gpus_in(allocation);
  looked_up_ = 0;
  model_changed_ = true;
  if (replicas_ > 0) choose_batch();
}

double TrainingProcess::rate() const {
  const double gain = perf::gain_of(gradient_, batch(), spec_.batch.initial);
  return gain / times_.with(choice_.accumulation) * (interfered_ ? 1 - world_.interference : 1);
}

// What the job sees of itself in this configuration: a first look is remembered, and the model fitted again.
void TrainingProcess::measure() {
  times_ = profile_.step_times(placement_, choice_.atomic);
  if (looked_up_ != choice_.atomic) {
    looked_up_ = choice_.atomic;
    ++lookups_.count;
    lookups_.clamped += times_.source == perf::Source::clamped ? 1 : 0;
    lookups_.fitted += times_.source == perf::Source::fitted ? 1 : 0;
  }
  const GradientStats now = profile_.gradient(batch(), epoch_);
  if (now != gradient_) {
    gradient_ = now;
    model_changed_ = true;
    news_ = true;
  }
  rate_ = rate();
  most_gpus_ = std::max(most_gpus_, replicas_);
  if (!world_.learn) return;
  const auto nodes = static_cast<std::int32_t>(placement_.size());
  const bool known = std::any_of(observations_.begin(), observations_.end(), [&](const perf::Observation& o) {
    return o.nodes == nodes && o.replicas == replicas_ && o.local == choice_.atomic;
  });
  if (known) return;
  perf::Observation seen{nodes, replicas_, choice_.atomic, times_.step_s, times_.sync_s};
  if (world_.noise > 0) {
    const double factor = std::exp(world_.noise * random_.normal());
    seen.step_s *= factor;
    seen.sync_s *= factor;
  }
  observations_.push_back(seen);
  throughput_ = perf::fit_throughput(observations_, {.start_scale = world_.fit_scale});
  model_changed_ = true;
  news_ = true;
}

void TrainingProcess::choose_batch() {
  if (!model_changed_) return;
  model_changed_ = false;
  const BatchLimits& limits = spec_.batch;
  if (!world_.adapt_batch || profile_.fixed_batch() > 0) {
    const BatchSize target = world_.adapt_batch ? profile_.fixed_batch() : spec_.batch_asked();
    choice_ = perf::batch_for_target(limits, replicas_, target);
  } else if (!throughput_) {
    choice_ = perf::batch_for_target(limits, replicas_, std::max(limits.initial, limits.local_min * replicas_));
  } else {
    const perf::Goodput model{*throughput_, gradient_, limits};
    choice_ = model.best(static_cast<std::int32_t>(placement_.size()), replicas_).batch;
    if (choice_.atomic < 1) choice_ = perf::batch_for_target(limits, replicas_, limits.largest);
  }
  const BatchSize most = limits.largest / (replicas_ * (choice_.accumulation + 1));
  choice_.atomic = std::max(1, std::min(choice_.atomic, most));
}

std::optional<double> TrainingProcess::run(double seconds) {
  if (replicas_ == 0 || done()) return std::nullopt;
  double used = 0;
  while (seconds > used) {
    measure();
    const double end = profile_.progress_after(epoch_ + 1);
    const double left = seconds - used;
    const double asked = spec_.batch_asked();
    const double steps_per_s = batch() / asked / times_.with(choice_.accumulation);
    if (progress_ + rate_ * left < end) {
      progress_ += rate_ * left;
      steps_ += steps_per_s * left;
      used = seconds;
    } else {
      const double exact = (end - progress_) / rate_;
      const double spent = world_.whole_epochs ? std::nearbyint(exact) : std::min(exact, left);
      ++epoch_;
      progress_ = end;
      steps_ += steps_per_s * spent;
      used += spent;
      model_changed_ = true;
      news_ = true;
      if (done()) return used;
    }
    choose_batch();
  }
  return std::nullopt;
}

double TrainingProcess::until_epoch_end() const {
  if (replicas_ == 0 || done()) return std::numeric_limits<double>::infinity();
  const perf::StepTimes times = profile_.step_times(placement_, choice_.atomic);
  const GradientStats gradient = profile_.gradient(batch(), epoch_);
  const double rate = perf::gain_of(gradient, batch(), spec_.batch.initial) / times.with(choice_.accumulation) *
                      (interfered_ ? 1 - world_.interference : 1);
  return std::max((profile_.progress_after(epoch_ + 1) - progress_) / rate, 0.0);
}

void TrainingProcess::keep() {
  kept_epoch_ = epoch_;
  kept_progress_ = progress_;
}

void TrainingProcess::fall_back() {
  epoch_ = kept_epoch_;
  progress_ = kept_progress_;
  model_changed_ = true;
}

void TrainingProcess::lose(double seconds) {
  progress_ = std::max(progress_ - rate_ * seconds, kept_progress_);
  while (epoch_ > 0 && profile_.progress_after(epoch_) > progress_) --epoch_;
  model_changed_ = true;
}

double TrainingProcess::fraction_done() const {
  if (done()) return 1;
  const double begin = epoch_ > 0 ? profile_.progress_after(epoch_) : 0;
  const double end = profile_.progress_after(epoch_ + 1);
  return (epoch_ + (end > begin ? (progress_ - begin) / (end - begin) : 0)) / profile_.epochs();
}

Duration TrainingProcess::progress() const {
  const double share = progress_ / profile_.progress_after(profile_.epochs());
  return Duration(static_cast<std::int64_t>(static_cast<double>(spec_.run_time.count()) * std::min(share, 1.0)));
}

double TrainingProcess::speed() const {
  return rate_ / profile_.progress_after(profile_.epochs()) * to_seconds(spec_.run_time);
}

JobReport TrainingProcess::report() const {
  JobReport report;
  report.job = id_;
  report.progress = progress();
  report.speed = speed();
  report.epoch = epoch_;
  report.fraction_done = fraction_done();
  report.steps_done = steps_;
  report.most_gpus = most_gpus_;
  report.gradient = gradient_;
  report.throughput = throughput_;
  return report;
}

Duration time_alone(const perf::Profile& profile, const JobSpec& spec, GpuCount node_gpus) {
  std::vector<GpuCount> placement;
  for (GpuCount left = spec.gpus; left > 0; left -= placement.back()) placement.push_back(std::min(left, node_gpus));
  const double target = spec.batch_asked();
  const BatchChoice choice = perf::batch_for_target(spec.batch, spec.gpus, target);
  const auto batch = static_cast<double>(perf::global_batch(spec.gpus, choice));
  const double step_s = profile.step_times(placement, choice.atomic).with(choice.accumulation);
  double seconds = 0;
  double before = 0;
  for (std::int32_t epoch = 0; epoch < profile.epochs(); ++epoch) {
    const double after = profile.progress_after(epoch + 1);
    const double gain = perf::gain_of(profile.gradient(batch, epoch), batch, spec.batch.initial);
    seconds += (after - before) / gain * step_s;
    before = after;
  }
  return Duration(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace ebb::sim
