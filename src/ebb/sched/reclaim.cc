#include "ebb/sched/reclaim.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "ebb/base/check.h"
#include "ebb/sched/plan.h"

namespace ebb::sched {
namespace {

// Adds up in the order of NumPy, on which the rounding depends: up to 7 terms in turn, up to 128 as eight running sums
// that are combined as a tree, more in halves.
double numpy_sum(std::span<const double> terms) {
  const std::size_t n = terms.size();
  if (n > 128) {
    const std::size_t half = n / 2 - n / 2 % 8;
    return numpy_sum(terms.first(half)) + numpy_sum(terms.subspan(half));
  }
  const std::size_t in_eights = n - n % 8;
  double sum = 0;
  if (in_eights > 0) {
    std::array<double, 8> r{};
    for (std::size_t i = 0; i < in_eights; ++i) r[i % 8] += terms[i];
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  }
  for (std::size_t i = in_eights; i < n; ++i) sum += terms[i];
  return sum;
}

}  // namespace

namespace {

// GPU-seconds that a gang did since it was started: what it has not saved, for all that is known here.
double work_at_stake(const JobState& job, Time now) {
  return to_seconds(std::max(now - job.productive_at, Duration(0))) * job.gpus;
}

}  // namespace

GpuFinder::GpuFinder(Turn& turn, Random& random) : turn_(turn), random_(random) {
  const State& state = turn.state();
  const Capacity& capacity = state.capacity();
  const ServingOptions& options = turn.serving();
  nodes_.resize(capacity.spec().nodes.size());
  for (NodeId n = 0; n < nodes_.size(); ++n) {
    nodes_[n].free = capacity.available(n);
    if (!capacity.usable(n) || !capacity.may_serve(n)) continue;
    (options.serving_pool_first && !capacity.in_serving_pool(n) ? elsewhere_ : order_).push_back(n);
  }
  std::vector<std::pair<GpuNanoseconds, JobId>> by_service;
  for (const JobId id : state.holding()) {
    const JobState& job = state.job(id);
    if (job.phase == JobPhase::running) by_service.emplace_back(job.gpu_time_until(turn.now()), id);
  }
  std::sort(by_service.begin(), by_service.end());
  jobs_.reserve(by_service.size());
  for (const auto& [service, id] : by_service) {
    const JobState& job = state.job(id);
    Job& entry = jobs_.emplace_back();
    entry.id = id;
    entry.allocation = job.allocation;
    entry.shrinkable = job.spec.sizing == Sizing::elastic && (turn.policy_resizes() || options.allow_rigid_shrink);
  }
  const bool whole_gangs = !turn.policy_resizes() && !options.allow_rigid_shrink;
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    jobs_[j].value = whole_gangs ? work_at_stake(state.job(jobs_[j].id), turn.now())
                                 : turn.estimator().speedup(state, jobs_[j].id, jobs_[j].allocation);
    for (const NodeShare& share : jobs_[j].allocation) {
      nodes_[share.node].training += share.gpus;
      nodes_[share.node].jobs.push_back(j);
    }
  }
  for (const ReplicaId id : state.live_replicas()) {
    const ReplicaState& replica = state.replica(id);
    if (replica.phase(turn.now()) == ReplicaPhase::sleep) nodes_[replica.place.node].sleepers.push_back(id);
  }
  if (options.reclaim == Reclaim::least_loss || options.reclaim == Reclaim::largest_sum) {
    for (std::vector<NodeId>* nodes : {&order_, &elsewhere_}) {
      std::sort(nodes->begin(), nodes->end(), [&](NodeId a, NodeId b) {
        return nodes_[a].training != nodes_[b].training ? nodes_[a].training < nodes_[b].training : a < b;
      });
    }
  }
}

GpuCount GpuFinder::asleep(const Node& node) const {
  GpuCount gpus = 0;
  for (const ReplicaId id : node.sleepers) gpus += turn_.state().replica(id).place.gpus;
  return gpus;
}

void GpuFinder::take(NodeId n, GpuCount gpus) {
  EBB_CHECK(nodes_[n].free >= gpus);
  nodes_[n].free -= gpus;
}

// Sleeping replicas of the node go, oldest first, until `gpus` are free or none is left.
void GpuFinder::evict(NodeId n, GpuCount gpus) {
  Node& node = nodes_[n];
  while (node.free < gpus && !node.sleepers.empty()) {
    evicted_.push_back(node.sleepers.front());
    node.free += turn_.state().replica(node.sleepers.front()).place.gpus;
    node.sleepers.erase(node.sleepers.begin());
  }
}

std::optional<NodeId> GpuFinder::find(GpuCount gpus) {
  std::optional<NodeId> found = search(gpus);
  if (!found && !elsewhere_.empty()) {
    std::swap(order_, elsewhere_);
    found = search(gpus);
    std::swap(order_, elsewhere_);
  }
  if (!found) return std::nullopt;
  take(*found, gpus);
  // Lyra's servers are lent as a whole: no training beside a replica.
  if (turn_.serving().strip) clear_training(*found);
  return found;
}

std::optional<NodeId> GpuFinder::search(GpuCount gpus) {
  const Reclaim reclaim = turn_.serving().reclaim;
  std::optional<NodeId> found;
  if (reclaim == Reclaim::random) {
    found = at_random(gpus);
  } else if (reclaim == Reclaim::first_fit) {
    found = first_fit(gpus);
  } else {
    for (const bool with_sleepers : {false, true}) {
      for (const NodeId n : order_) {
        if (nodes_[n].free + (with_sleepers ? asleep(nodes_[n]) : 0) < gpus) continue;
        evict(n, gpus);
        found = n;
        break;
      }
      if (found) break;
    }
    if (!found) {
      found = reclaim == Reclaim::node                       ? whole_node(gpus)
              : reclaim == Reclaim::largest_sum && gpus == 1 ? with_largest_sum()
                                                             : with_least_loss(gpus);
    }
  }
  return found;
}

// The next smaller legal size of the job, taken from `node` first and then from where it has least; or nothing of it.
GpuFinder::Step GpuFinder::reduce(const Job& job, std::size_t index, NodeId node) {
  const JobSpec& spec = turn_.state().job(job.id).spec;
  Step step;
  step.job = index;
  const GpuCount size = gpus_in(job.allocation);
  const GpuCount smaller = job.shrinkable ? spec.legal_size(size - 1) : 0;
  if (smaller > 0) {
    step.rest = job.allocation;
    GpuCount surplus = size - smaller;
    const auto cut = [&](NodeShare& share) {
      const GpuCount gpus = std::min(surplus, share.gpus);
      share.gpus -= gpus;
      surplus -= gpus;
      if (share.node == node) step.freed_here += gpus;
    };
    for (NodeShare& share : step.rest) {
      if (share.node == node) cut(share);
    }
    while (surplus > 0) {
      cut(*std::min_element(step.rest.begin(), step.rest.end(), [](const NodeShare& a, const NodeShare& b) {
        return (a.gpus > 0 ? a.gpus : INT32_MAX) < (b.gpus > 0 ? b.gpus : INT32_MAX);
      }));
    }
    std::erase_if(step.rest, [](const NodeShare& share) { return share.gpus == 0; });
    step.loss = job.value - turn_.estimator().speedup(turn_.state(), job.id, step.rest);
  } else {
    for (const NodeShare& share : job.allocation) step.freed_here += share.node == node ? share.gpus : 0;
    step.loss = job.value;
  }
  return step;
}

// reduce(j, node).loss, without making what remains of the job: that is asked for every job on every node.
double GpuFinder::loss_of(std::size_t j, NodeId node) {
  const Job& job = jobs_[j];
  if (!job.shrinkable) return job.value;
  GpuCount size = 0;
  GpuCount here = 0;
  for (const NodeShare& share : job.allocation) {
    size += share.gpus;
    if (share.node == node) here = share.gpus;
  }
  const GpuCount smaller = turn_.state().job(job.id).spec.legal_size(size - 1);
  if (smaller == 0) return job.value;
  const GpuCount surplus = size - smaller;
  if (surplus > here) return reduce(j, node).loss;
  const auto nodes = static_cast<std::int32_t>(job.allocation.size()) - (surplus == here ? 1 : 0);
  return job.value - turn_.estimator().speedup(turn_.state(), job.id, nodes, smaller);
}

void GpuFinder::apply(const Step& step) {
  Job& job = jobs_[step.job];
  for (const NodeShare& share : job.allocation) {
    const auto rest = std::find_if(step.rest.begin(), step.rest.end(),
                                   [&](const NodeShare& other) { return other.node == share.node; });
    const GpuCount freed = share.gpus - (rest == step.rest.end() ? 0 : rest->gpus);
    nodes_[share.node].free += freed;
    nodes_[share.node].training -= freed;
    nodes_[share.node].known.reset();
    if (rest == step.rest.end()) std::erase(nodes_[share.node].jobs, step.job);
  }
  job.allocation = step.rest;
  job.value -= step.loss;
  job.changed = true;
}

GpuFinder::Loss GpuFinder::least_loss(NodeId n, GpuCount missing) {
  const Node& node = nodes_[n];
  if (missing > 1) return {missing, loss_of_all(n, missing), node.jobs.front()};
  std::optional<Loss> least;
  for (const std::size_t j : node.jobs) {
    const double loss = loss_of(j, n);
    if (!least || loss < least->loss) least = Loss{missing, loss, j};
  }
  return *least;
}

// The node where the sum of speed-ups falls least; ties go to the job that comes first, then to the lower node.
std::optional<NodeId> GpuFinder::with_least_loss(GpuCount gpus) {
  std::optional<std::tuple<double, std::size_t, NodeId>> best;
  for (const NodeId n : order_) {
    Node& node = nodes_[n];
    if (node.jobs.empty()) continue;
    const GpuCount missing = gpus - node.free - asleep(node);
    if (missing > node.training) continue;
    if (!node.known || node.known->missing != missing) node.known = least_loss(n, missing);
    const std::tuple here(node.known->loss, node.known->job, n);
    if (!best || here < *best) best = here;
  }
  if (!best) return std::nullopt;
  const NodeId node = std::get<NodeId>(*best);
  evict(node, gpus);
  reduce_until(node, gpus);
  return node;
}

// The first job (by attained service) and its lowest node where the sum of all speed-ups is largest without a GPU.
std::optional<NodeId> GpuFinder::with_largest_sum() {
  const State& state = turn_.state();
  std::vector<std::pair<GpuNanoseconds, JobId>> terms_of;  // jobs that wait are terms too, of 0
  for (JobId id = state.first_active(); id < state.jobs().size(); ++id) {
    const JobState& job = state.job(id);
    if (job.training() && job.active()) terms_of.emplace_back(job.gpu_time_until(turn_.now()), id);
  }
  std::sort(terms_of.begin(), terms_of.end());
  std::vector<double> terms(terms_of.size());
  const auto term = [&](const Job& job) -> double& {
    const std::pair key(state.job(job.id).gpu_time_until(turn_.now()), job.id);
    return terms[static_cast<std::size_t>(std::lower_bound(terms_of.begin(), terms_of.end(), key) - terms_of.begin())];
  };
  for (const Job& job : jobs_) term(job) = job.value;
  std::vector<bool> serves(nodes_.size());
  for (const NodeId n : order_) serves[n] = true;

  std::optional<Step> best;
  NodeId at = 0;
  double largest = 0;
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    Allocation places = jobs_[j].allocation;
    std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
    for (const NodeShare& share : places) {
      if (!serves[share.node]) continue;
      Step step = reduce(j, share.node);
      term(jobs_[j]) = turn_.estimator().speedup(state, jobs_[j].id, step.rest);
      const double sum = numpy_sum(terms);
      term(jobs_[j]) = jobs_[j].value;
      if (best && sum <= largest) continue;
      best = std::move(step);
      at = share.node;
      largest = sum;
    }
  }
  if (!best) return std::nullopt;
  apply(*best);
  Job& reduced = jobs_[best->job];
  reduced.value = turn_.estimator().speedup(state, reduced.id, reduced.allocation);  // without a rounded difference
  return at;
}

// What reduce_until() would cost: the same steps on copies of the jobs there.
double GpuFinder::loss_of_all(NodeId n, GpuCount missing) {
  std::vector<Job> jobs;
  for (const std::size_t j : nodes_[n].jobs) jobs.push_back(jobs_[j]);
  const auto is_here = [&](const NodeShare& share) { return share.node == n; };
  double loss = 0;
  while (missing > 0) {
    std::optional<Step> best;
    for (std::size_t k = 0; k < jobs.size(); ++k) {
      if (std::none_of(jobs[k].allocation.begin(), jobs[k].allocation.end(), is_here)) continue;
      Step step = reduce(jobs[k], k, n);
      if (!best || step.loss < best->loss) best = std::move(step);
    }
    EBB_CHECK(best.has_value());
    loss += best->loss;
    missing -= best->freed_here;
    jobs[best->job].value -= best->loss;
    jobs[best->job].allocation = std::move(best->rest);
  }
  return loss;
}

// Takes the cheapest steps on the node until `gpus` are free.
void GpuFinder::reduce_until(NodeId n, GpuCount gpus) {
  while (nodes_[n].free < gpus) {
    std::optional<Step> best;
    for (const std::size_t j : nodes_[n].jobs) {
      Step step = reduce(j, n);
      if (!best || step.loss < best->loss) best = std::move(step);
    }
    EBB_CHECK(best.has_value());
    apply(*best);
  }
}

std::optional<NodeId> GpuFinder::whole_node(GpuCount gpus) {
  std::optional<NodeId> best;
  for (const NodeId n : order_) {
    const Node& node = nodes_[n];
    if (node.training == 0 || node.free + asleep(node) + node.training < gpus) continue;
    if (!best || node.training < nodes_[*best].training) best = n;
  }
  if (!best) return std::nullopt;
  clear_training(*best);
  evict(*best, gpus);
  return best;
}

std::optional<NodeId> GpuFinder::at_random(GpuCount gpus) {
  std::uint64_t total = 0;
  const auto takeable = [&](NodeId n) {
    const GpuCount sum = nodes_[n].free + asleep(nodes_[n]) + nodes_[n].training;
    return static_cast<std::uint64_t>(sum >= gpus ? sum : 0);
  };
  for (const NodeId n : order_) total += takeable(n);
  if (total == 0) return std::nullopt;
  std::uint64_t draw = random_.below(total);
  for (const NodeId n : order_) {
    if (draw >= takeable(n)) {
      draw -= takeable(n);
      continue;
    }
    // The GPU drawn is a free one, a sleeper's or a training job's, in the node's proportions.
    const auto free = static_cast<std::uint64_t>(nodes_[n].free);
    const auto asleep_here = static_cast<std::uint64_t>(asleep(nodes_[n]));
    if (draw >= free + asleep_here) take_from_training(n, gpus);
    evict(n, gpus);
    take_from_training(n, gpus);
    return n;
  }
  return std::nullopt;
}

std::optional<NodeId> GpuFinder::first_fit(GpuCount gpus) {
  for (const NodeId n : order_) {
    if (nodes_[n].free + asleep(nodes_[n]) + nodes_[n].training < gpus) continue;
    evict(n, gpus);
    take_from_training(n, gpus);
    return n;
  }
  return std::nullopt;
}

// The last jobs on the node lose GPUs until `gpus` are free.
void GpuFinder::take_from_training(NodeId n, GpuCount gpus) {
  while (nodes_[n].free < gpus && !nodes_[n].jobs.empty()) apply(reduce(nodes_[n].jobs.back(), n));
}

// No training is left on the node: jobs keep what they have elsewhere, if that is a legal size.
void GpuFinder::clear_training(NodeId n) {
  while (!nodes_[n].jobs.empty()) {
    const std::size_t j = nodes_[n].jobs.front();
    const JobSpec& spec = turn_.state().job(jobs_[j].id).spec;
    Step step;
    step.job = j;
    if (jobs_[j].shrinkable) {
      step.rest = jobs_[j].allocation;
      std::erase_if(step.rest, [&](const NodeShare& share) { return share.node == n; });
      cut_to_legal(spec, step.rest);
    }
    apply(step);
  }
}

void GpuFinder::commit() {
  for (const ReplicaId id : evicted_) turn_.stop_replica(id);
  std::vector<Target> targets;
  for (Job& job : jobs_) {
    if (!job.changed) continue;
    if (job.allocation.empty()) {
      turn_.preempt(job.id);
      continue;
    }
    // Ranks are assigned anew, in order of node.
    std::sort(job.allocation.begin(), job.allocation.end(),
              [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
    targets.push_back({job.id, std::move(job.allocation)});
  }
  if (!targets.empty()) turn_.resize(std::move(targets));
}

}  // namespace ebb::sched
