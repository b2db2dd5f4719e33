#include "ebb/perf/profile.h"

#include <algorithm>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/perf/goodput.h"
#include "ebb/perf/profile_files.h"
#include "ebb/perf/profile_tables.h"

namespace ebb::perf {
namespace {

/// Two neighbouring entries of a sorted list, and how far between them a value lies; at an end if it is outside.
struct Between {
  std::size_t low = 0;
  std::size_t high = 0;
  double share = 0;

  double of(double a, double b) const { return a + share * (b - a); }
};

template <typename Key>
Between find_between(std::size_t size, double value, Key key) {
  std::size_t high = 0;
  while (high < size && key(high) < value) ++high;
  if (high == 0) return {};
  if (high == size) return {size - 1, size - 1, 0};
  const double low = key(high - 1);
  return {high - 1, high, (value - low) / (key(high) - low)};
}

Between between_batches(const ProfileTables& tables, double batch) {
  return find_between(tables.validation.size(), batch, [&](std::size_t i) { return tables.validation[i].batch; });
}

std::size_t row_of(const ProfileTables& tables, std::int32_t epoch) {
  return static_cast<std::size_t>(
      std::clamp<std::int32_t>(epoch, 0, static_cast<std::int32_t>(tables.progress.size()) - 1));
}

StepTimes on_curve(const PlacementCurve& curve, BatchSize local) {
  const auto asked = static_cast<double>(local);
  const Between at = find_between(curve.local.size(), asked, [&](std::size_t i) { return curve.local[i]; });
  const bool clamped = asked < curve.local.front() || asked > curve.local.back();
  return {at.of(curve.step_s[at.low], curve.step_s[at.high]), at.of(curve.sync_s[at.low], curve.sync_s[at.high]),
          clamped ? Source::clamped : Source::measured};
}

StepTimes from_fit(const ProfileTables& tables, std::int32_t nodes, GpuCount replicas, BatchSize local) {
  const Goodput model{.params = tables.fitted(), .gradient = {}, .limits = tables.limits};
  const double samples = static_cast<double>(replicas) * static_cast<double>(local);
  // A step with one micro-step more takes longer by the computation of one.
  const double step = samples / model.throughput(nodes, replicas, {local, 0});
  const double two = 2 * samples / model.throughput(nodes, replicas, {local, 1});
  return {step, std::max(0.0, step - (two - step)), Source::fitted};
}

}  // namespace

Result<Profile> Profile::read(const std::filesystem::path& folder) {
  EBB_ASSIGN_OR_RETURN(ProfileFiles files, load_profile_files(folder));
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<const ProfileTables> tables, read_profile_tables(std::move(files)));
  if (!tables) {
    return fail(ErrorCode::invalid_argument, "{}: all step times are 0; this is the placeholder of a profile",
                folder.string());
  }
  return Profile(std::move(tables));
}

const std::string& Profile::name() const {
  return tables_->name;
}

const BatchLimits& Profile::limits() const {
  return tables_->limits;
}

std::int32_t Profile::epochs() const {
  return static_cast<std::int32_t>(tables_->progress.size());
}

const ApplicationCosts& Profile::costs() const {
  return tables_->costs;
}

StepTimes Profile::step_times(std::span<const GpuCount> placement, BatchSize local) const {
  EBB_CHECK(!placement.empty() && local >= 1);
  const ProfileTables& tables = *tables_;
  const auto found = tables.placements.find(canonical_placement(placement));
  if (found != tables.placements.end()) return on_curve(found->second, local);

  GpuCount replicas = 0;
  for (const GpuCount gpus : placement) replicas += gpus;
  const auto nodes = static_cast<std::int32_t>(placement.size());
  if (tables.hull) {
    const BatchSize inside = std::clamp(local, tables.least_local, tables.most_local);
    const auto at = tables.hull->locate({std::min(nodes, tables.most_nodes), replicas, inside});
    if (at) {
      return {at->interpolate(tables.step_s), at->interpolate(tables.sync_s),
              inside == local ? Source::interpolated : Source::clamped};
    }
  }
  return from_fit(tables, nodes, replicas, local);
}

GradientStats Profile::gradient(double batch, std::int32_t epoch) const {
  const Between at = between_batches(*tables_, batch);
  const std::size_t row = row_of(*tables_, epoch);
  const GradientStats& low = tables_->validation[at.low].gradient[row];
  const GradientStats& high = tables_->validation[at.high].gradient[row];
  return {at.of(low.sqr, high.sqr), at.of(low.var, high.var)};
}

double Profile::gain(double batch, std::int32_t epoch) const {
  return gain_of(gradient(batch, epoch), batch, static_cast<double>(tables_->limits.initial));
}

double Profile::progress_after(std::int32_t epochs) const {
  return tables_->progress[row_of(*tables_, epochs - 1)];
}

double Profile::iterations(double batch, std::int32_t epoch) const {
  const Between at = between_batches(*tables_, batch);
  const std::size_t row = row_of(*tables_, epoch);
  return at.of(tables_->validation[at.low].iteration[row], tables_->validation[at.high].iteration[row]);
}

}  // namespace ebb::perf
