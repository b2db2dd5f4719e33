#include "ebb/policies/drf/drf.h"

#include <map>
#include <optional>
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
    const ClassId job_class = state.job(job).job_class;
    tenant.queues[job_class].insert(queue_key(state, job));
    waiting_[job_class].insert({tenant.share, id});
  }

  void on_withdrawn(const State& state, JobId job, Time) override {
    const TenantId id = tenant_of(state, job);
    dequeue(id, tenants_[id].queues.find(state.job(job).job_class), queue_key(state, job));
  }

  void on_released(const State& state, JobId job, Time) override {
    const auto held = type_held_.find(job);
    if (held == type_held_.end()) return;
    change_share(state, tenant_of(state, job), held->second, -state.class_of(job).gpus);
    type_held_.erase(held);
  }

  void adopt(const State& state, JobId job, Time) override {
    const Capacity& capacity = state.capacity();
    const std::size_t type = capacity.type_of_group(capacity.free().group_of(state.job(job).allocation.front().node));
    type_held_[job] = type;
    change_share(state, tenant_of(state, job), type, state.class_of(job).gpus);
  }

  void decide(Turn& turn) override {
    const State& state = turn.state();
    // Room only shrinks within a decision, so a class that did not fit once is closed for good.
    std::set<ClassId> open;
    for (const auto& [job_class, tenants] : waiting_) open.insert(job_class);
    while (!turn.error()) {
      // The tenant with the least share among those that have a job of an open class, and its first such job.
      std::optional<std::pair<double, TenantId>> least;
      for (const ClassId job_class : open) {
        const auto tenants = waiting_.find(job_class);
        if (tenants != waiting_.end() && (!least || *tenants->second.begin() < *least)) {
          least = *tenants->second.begin();
        }
      }
      if (!least) return;
      const auto queue = first_queue(tenants_[least->second], open);
      auto place = find_place(state, *placement_, state.capacity().job_class(queue->first));
      if (place) {
        start(turn, least->second, queue, std::move(*place));
      } else {
        open.erase(queue->first);
      }
    }
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = reason_for(state, job, ReasonCode::no_capacity);
    if (reason.available >= reason.needed) reason.code = ReasonCode::fragmented;
    return reason;
  }

 private:
  using Queues = std::map<ClassId, std::set<QueueKey>>;  // none of them empty
  struct Tenant {
    double share = 0;            // dominant share: the largest over GPU types of held / total
    std::vector<GpuCount> held;  // by GPU type
    Queues queues;
  };

  TenantId tenant_of(const State& state, JobId job) {
    const auto [entry, inserted] =
        tenant_ids_.try_emplace(state.job(job).spec.tenant, static_cast<TenantId>(tenants_.size()));
    if (inserted) tenants_.emplace_back().held.resize(state.capacity().type_count());
    return entry->second;
  }

  void change_share(const State& state, TenantId id, std::size_t type, GpuCount gpus) {
    Tenant& tenant = tenants_[id];
    for (const auto& [job_class, queue] : tenant.queues) waiting_[job_class].erase({tenant.share, id});
    tenant.held[type] += gpus;
    tenant.share = 0;
    for (std::size_t t = 0; t < tenant.held.size(); ++t) {
      tenant.share = std::max(tenant.share, static_cast<double>(tenant.held[t]) / state.capacity().type_gpus(t));
    }
    for (const auto& [job_class, queue] : tenant.queues) waiting_[job_class].insert({tenant.share, id});
  }

  // The queue whose first job is the tenant's first of all open classes.
  static Queues::iterator first_queue(Tenant& tenant, const std::set<ClassId>& open) {
    auto best = tenant.queues.end();
    for (auto queue = tenant.queues.begin(); queue != tenant.queues.end(); ++queue) {
      if (!open.contains(queue->first)) continue;
      if (best == tenant.queues.end() || *queue->second.begin() < *best->second.begin()) best = queue;
    }
    return best;
  }

  void start(Turn& turn, TenantId id, Queues::iterator queue, Allocation place) {
    const State& state = turn.state();
    const QueueKey first = *queue->second.begin();
    const Capacity& capacity = state.capacity();
    const std::size_t type = capacity.type_of_group(capacity.free().group_of(place.front().node));
    turn.start(first.job, std::move(place));
    dequeue(id, queue, first);
    type_held_[first.job] = type;
    change_share(state, id, type, state.class_of(first.job).gpus);
  }

  void dequeue(TenantId id, Queues::iterator queue, const QueueKey& key) {
    queue->second.erase(key);
    if (!queue->second.empty()) return;
    const auto tenants = waiting_.find(queue->first);
    tenants->second.erase({tenants_[id].share, id});
    if (tenants->second.empty()) waiting_.erase(tenants);
    tenants_[id].queues.erase(queue);
  }

  std::shared_ptr<const Placement> placement_;
  std::map<std::string, TenantId, std::less<>> tenant_ids_;
  std::vector<Tenant> tenants_;
  std::map<ClassId, std::set<std::pair<double, TenantId>>> waiting_;  // tenants by share, by class that they wait with
  std::map<JobId, std::size_t> type_held_;                            // GPU type of every job that holds GPUs
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
