#include "ebb/sched/capacity.h"

#include <algorithm>
#include <bit>

#include "ebb/base/check.h"

namespace ebb::sched {
namespace {

std::vector<GroupId> groups_of(const ClusterSpec& spec, std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<GroupId> group_of;
  group_of.reserve(spec.nodes.size());
  for (const NodeSpec& node : spec.nodes) {
    const std::pair<std::string, std::string> name(node.gpu_type, node.pool);
    // Neighbours are nearly always of one group.
    if (!group_of.empty() && names[group_of.back()] == name) {
      group_of.push_back(group_of.back());
      continue;
    }
    const auto found = std::find(names.begin(), names.end(), name);
    group_of.push_back(static_cast<GroupId>(found - names.begin()));
    if (found == names.end()) names.push_back(name);
  }
  return group_of;
}

}  // namespace

Capacity::Capacity(ClusterSpec spec, Lending lending)
    : spec_(std::move(spec)), lending_(lending), free_(groups_of(spec_, group_names_)) {
  std::vector<std::string> types;
  for (const auto& [type, pool] : group_names_) {
    const auto found = std::find(types.begin(), types.end(), type);
    group_type_.push_back(static_cast<std::size_t>(found - types.begin()));
    if (found == types.end()) types.push_back(type);
  }
  type_groups_.resize(types.size());
  for (GroupId g = 0; g < group_names_.size(); ++g) type_groups_[group_type_[g]] |= GroupMask{1} << g;
  for (GroupId g = 0; g < group_names_.size(); ++g) {
    if (group_names_[g].second == kServingPool) lendable_groups_ |= GroupMask{1} << g;
    if (group_names_[g].second == kTrainingPool) training_groups_ |= GroupMask{1} << g;
  }
  if (training_groups_ == 0) training_groups_ = all_groups() & ~lendable_groups_;
  if (training_groups_ == 0) training_groups_ = all_groups();
  serving_groups_ = lendable_groups_ | (lending == Lending::pooled ? training_groups_ : 0);
  if (lendable_groups_ == 0) serving_groups_ = all_groups();
  group_gpus_.resize(group_names_.size());
  type_gpus_.resize(types.size());
  usable_nodes_of_size_.resize(group_names_.size());
  group_usable_.resize(group_names_.size());
  unusable_nodes_ = spec_.nodes.size();

  nodes_.resize(spec_.nodes.size());
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    const GpuCount gpus = spec_.nodes[n].gpus;
    const GroupId group = free_.group_of(n);
    nodes_[n].total = gpus;
    total_gpus_ += gpus;
    group_gpus_[group] += gpus;
    type_gpus_[group_type_[group]] += gpus;
    count_usable(n, true);
    refresh(n);
  }
}

ClassId Capacity::class_of(const JobSpec& job) {
  const auto any_group = [&](auto&& test) { return std::any_of(group_names_.begin(), group_names_.end(), test); };
  const bool has_types = any_group([](const auto& name) { return !name.first.empty(); });
  const bool has_pools = any_group([](const auto& name) { return !name.second.empty(); });
  const bool has_training = any_group([](const auto& name) { return name.second == kTrainingPool; });
  const bool at_home = job.pool.empty() || (has_training && job.pool == kTrainingPool);
  const GroupMask home = training_groups_ | (lending_ != Lending::none ? lendable_groups_ : 0);
  GroupMask eligible = 0;
  for (GroupId g = 0; g < group_names_.size(); ++g) {
    const auto& [group_type, group_pool] = group_names_[g];
    const bool type_fits = !has_types || job.gpu_type.empty() || job.gpu_type == group_type;
    const bool pool_fits = !has_pools || (at_home ? (home >> g & 1) != 0 : job.pool == group_pool);
    if (type_fits && pool_fits) {
      eligible |= GroupMask{1} << g;
    }
  }
  const std::tuple key(job.gpus, job.smallest(), job.largest(), job.gpu_step, eligible);
  const auto at = std::lower_bound(class_index_.begin(), class_index_.end(), key,
                                   [](const auto& entry, const auto& k) { return entry.first < k; });
  if (at != class_index_.end() && at->first == key) return at->second;

  JobClass made;
  made.gpus = job.gpus;
  made.smallest = job.smallest();
  for (const GroupMask type : type_groups_) {
    const GroupMask option = type & eligible;
    if (option == 0) continue;
    GpuCount size = 0;
    for (GroupId g = 0; g < group_gpus_.size(); ++g) {
      if ((option >> g & 1) != 0) size += group_gpus_[g];
    }
    made.options.push_back(option);
    made.largest = std::max(made.largest, size);
  }
  if (job.sizing != Sizing::rigid && made.possible()) {
    made.gpus = std::max(job.legal_size(std::min(job.gpus, made.largest)), made.smallest);
  }
  const auto id = static_cast<ClassId>(classes_.size());
  class_index_.insert(at, {key, id});
  classes_.push_back(std::move(made));
  return id;
}

void Capacity::refresh(NodeId n) {
  const Node& node = nodes_[n];
  // Free GPUs are those not held; promised ones are held by the job that gives them back until it is gone.
  free_.set_available(n, usable(n) ? node.total - node.held + node.releasing : 0);
}

void Capacity::count_usable(NodeId n, bool usable) {
  const GroupId group = free_.group_of(n);
  auto& sizes = usable_nodes_of_size_[group];
  const auto size = static_cast<std::size_t>(nodes_[n].total);
  if (sizes.size() <= size) sizes.resize(size + 1);
  if (usable) {
    ++sizes[size];
    --unusable_nodes_;
    group_usable_[group] += nodes_[n].total;
  } else {
    --sizes[size];
    ++unusable_nodes_;
    group_usable_[group] -= nodes_[n].total;
  }
}

void Capacity::set_up(NodeId n, bool up) {
  Node& node = nodes_[n];
  if (node.up == up) return;
  node.up = up;
  if (!node.draining) count_usable(n, up);
  refresh(n);
}

void Capacity::set_draining(NodeId n, bool draining) {
  Node& node = nodes_[n];
  if (node.draining == draining) return;
  node.draining = draining;
  if (node.up) count_usable(n, !draining);
  refresh(n);
}

std::size_t Capacity::least_nodes(GroupMask groups, GpuCount gpus) const {
  std::size_t largest = 0;
  for (GroupMask rest = groups; rest != 0; rest &= rest - 1) {
    largest = std::max(largest, usable_nodes_of_size_[static_cast<std::size_t>(std::countr_zero(rest))].size());
  }
  std::size_t nodes = 0;
  for (std::size_t size = largest; size-- > 1 && gpus > 0;) {
    std::size_t count = 0;
    for (GroupMask rest = groups; rest != 0; rest &= rest - 1) {
      const auto& sizes = usable_nodes_of_size_[static_cast<std::size_t>(std::countr_zero(rest))];
      if (size < sizes.size()) count += sizes[size];
    }
    const auto wanted = (static_cast<std::size_t>(gpus) + size - 1) / size;
    const std::size_t used = std::min(count, wanted);
    nodes += used;
    gpus -= static_cast<GpuCount>(std::min(used * size, static_cast<std::size_t>(gpus)));
  }
  return gpus > 0 ? 0 : nodes;
}

GpuCount Capacity::take(Holder holder, const Allocation& allocation) {
  GpuCount promised = 0;
  for (const NodeShare& share : allocation) {
    Node& node = nodes_[share.node];
    const GpuCount now = std::min(share.gpus, node.total - node.held);
    const GpuCount later = share.gpus - now;
    EBB_CHECK(later <= node.releasing);
    node.held += now;
    if (later > 0) {
      node.releasing -= later;
      node.promised += later;
      promises_.push_back({holder, share.node, later});
      promised += later;
    }
    refresh(share.node);
  }
  return promised;
}

void Capacity::begin_release(const Allocation& allocation) {
  for (const NodeShare& share : allocation) {
    nodes_[share.node].releasing += share.gpus;
    refresh(share.node);
  }
}

void Capacity::give_back(NodeId n, GpuCount gpus, bool releasing, MetPromises& met) {
  Node& node = nodes_[n];
  // GPUs that pass to a promise stay held, by their new owner.
  for (auto promise = promises_.begin(); gpus > 0 && node.promised > 0 && promise != promises_.end();) {
    if (promise->node != n) {
      ++promise;
      continue;
    }
    const GpuCount passed = std::min(gpus, promise->gpus);
    gpus -= passed;
    node.promised -= passed;
    // A holder that nobody had told to stop meets a promise that another one's release was meant for.
    if (!releasing) node.releasing += passed;
    met.emplace_back(promise->holder, passed);
    promise->gpus -= passed;
    promise = promise->gpus == 0 ? promises_.erase(promise) : promise + 1;
  }
  node.held -= gpus;
  if (releasing) node.releasing -= gpus;
  EBB_CHECK(node.held >= 0 && node.releasing >= 0 && node.promised >= 0);
  refresh(n);
}

void Capacity::release(const Allocation& allocation, bool releasing, MetPromises& met) {
  for (const NodeShare& share : allocation) give_back(share.node, share.gpus, releasing, met);
}

void Capacity::cancel(Holder holder, const Allocation& allocation, MetPromises& met) {
  Allocation owned = allocation;
  for (auto promise = promises_.begin(); promise != promises_.end();) {
    if (promise->holder != holder) {
      ++promise;
      continue;
    }
    Node& node = nodes_[promise->node];
    node.promised -= promise->gpus;
    node.releasing += promise->gpus;
    for (NodeShare& share : owned) {
      if (share.node == promise->node) share.gpus -= promise->gpus;
    }
    refresh(promise->node);
    promise = promises_.erase(promise);
  }
  release(owned, /*releasing=*/false, met);
}

}  // namespace ebb::sched
