#include "ebb/policies/drf/drf.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ebb/sched/queue_key.h"
#include "ebb/sched/room.h"

namespace ebb::policies {
namespace {

using namespace sched;

using TenantId = std::uint32_t;

class Drf final : public Policy {
 public:
  explicit Drf(std::shared_ptr<const Placement> placement) : placement_(std::move(placement)) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Drf>(*this); }

  void on_queued(const State& state, JobId job, Queued, Time) override {
    const TenantId id = tenant_of(state, job);
    Tenant& tenant = tenants_[id];
    tenant.queues[state.job(job).job_class].insert(queue_key(state, job));
    if (++tenant.waiting == 1) order_.insert({tenant.share, id});
  }

  void on_released(const State& state, JobId job, Time) override {
    const auto held = type_held_.find(job);
    if (held == type_held_.end()) return;
    change_share(state, tenant_of(state, job), held->second, -state.job(job).spec.gpus);
    type_held_.erase(held);
  }

  void decide(Turn& turn) override {
    const State& state = turn.state();
    // Room only shrinks within a decision, so what did not fit once is passed for good.
    closed_.assign(state.capacity().class_count(), false);
    std::set<TenantId> passed;
    for (auto next = order_.begin(); next != order_.end() && !turn.error();) {
      const TenantId id = next->second;
      if (passed.contains(id) || !start_one(turn, id)) {
        passed.insert(id);
        ++next;
      } else {
        next = order_.begin();
      }
    }
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = reason_for(state, job, ReasonCode::no_capacity);
    if (reason.available >= reason.needed) reason.code = ReasonCode::fragmented;
    return reason;
  }

 private:
  struct Tenant {
    double share = 0;            // dominant share: the largest over GPU types of held / total
    std::vector<GpuCount> held;  // by GPU type
    std::map<ClassId, std::set<QueueKey>> queues;
    std::size_t waiting = 0;
  };

  TenantId tenant_of(const State& state, JobId job) {
    const auto [entry, inserted] =
        tenant_ids_.try_emplace(state.job(job).spec.tenant, static_cast<TenantId>(tenants_.size()));
    if (inserted) tenants_.emplace_back().held.resize(state.capacity().type_count());
    return entry->second;
  }

  void change_share(const State& state, TenantId id, std::size_t type, GpuCount gpus) {
    Tenant& tenant = tenants_[id];
    const bool waits = order_.erase({tenant.share, id}) > 0;
    tenant.held[type] += gpus;
    tenant.share = 0;
    for (std::size_t t = 0; t < tenant.held.size(); ++t) {
      tenant.share = std::max(tenant.share, static_cast<double>(tenant.held[t]) / state.capacity().type_gpus(t));
    }
    if (waits) order_.insert({tenant.share, id});
  }

  // Starts the tenant's first job that fits.
  bool start_one(Turn& turn, TenantId id) {
    const State& state = turn.state();
    Tenant& tenant = tenants_[id];
    while (true) {
      auto best = tenant.queues.end();
      for (auto queue = tenant.queues.begin(); queue != tenant.queues.end(); ++queue) {
        if (closed_[queue->first]) continue;
        if (best == tenant.queues.end() || *queue->second.begin() < *best->second.begin()) best = queue;
      }
      if (best == tenant.queues.end()) return false;
      auto place = find_place(state, *placement_, state.capacity().job_class(best->first));
      if (!place) {
        closed_[best->first] = true;
        continue;
      }
      const JobId job = best->second.begin()->job;
      const Capacity& capacity = state.capacity();
      const std::size_t type = capacity.type_of_group(capacity.free().group_of(place->front().node));
      turn.start(job, std::move(*place));
      best->second.erase(best->second.begin());
      if (best->second.empty()) tenant.queues.erase(best);
      if (--tenant.waiting == 0) order_.erase({tenant.share, id});
      type_held_[job] = type;
      change_share(state, id, type, state.job(job).spec.gpus);
      return true;
    }
  }

  std::shared_ptr<const Placement> placement_;
  std::map<std::string, TenantId, std::less<>> tenant_ids_;
  std::vector<Tenant> tenants_;
  std::set<std::pair<double, TenantId>> order_;  // tenants with waiting jobs, least dominant share first
  std::map<JobId, std::size_t> type_held_;       // GPU type of every job that holds GPUs
  std::vector<bool> closed_;                     // by class, within one decision
};

}  // namespace

void register_drf(Registry& registry) {
  registry.add({
      .name = "drf",
      .summary =
          "Dominant resource fairness without preemption: next is the first job that fits of the tenant with the "
          "least dominant share.",
      .source = "Ghodsi et al., NSDI 2011; resources here are the GPU types",
      .oracle = Oracle::no,
      .preemptive = false,
      .options = {},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<Drf>(arguments.placement);
      },
  });
}

}  // namespace ebb::policies
