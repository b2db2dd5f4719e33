#include "ebb/policies/fifo/fifo.h"

#include <set>

#include "ebb/sched/queue_key.h"
#include "ebb/sched/room.h"

namespace ebb::policies {
namespace {

using namespace sched;

class Fifo final : public Policy {
 public:
  explicit Fifo(std::shared_ptr<const Placement> placement) : placement_(std::move(placement)) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Fifo>(*this); }

  void on_queued(const State& state, JobId job, Queued, Time) override { queue_.insert(queue_key(state, job)); }

  void on_withdrawn(const State& state, JobId job, Time) override { queue_.erase(queue_key(state, job)); }

  void decide(Turn& turn) override {
    while (!queue_.empty()) {
      const JobId head = queue_.begin()->job;
      auto place = find_place(turn.state(), *placement_, turn.state().class_of(head));
      if (!place) return;
      turn.start(head, std::move(*place));
      queue_.erase(queue_.begin());
    }
  }

  Reason explain(const State& state, JobId job, Time) const override {
    const JobId head = queue_.begin()->job;
    Reason reason = reason_for(state, job, ReasonCode::behind_head);
    if (job != head) {
      reason.other = head;
    } else {
      reason.code = reason.available >= reason.needed ? ReasonCode::fragmented : ReasonCode::no_capacity;
    }
    return reason;
  }

 private:
  std::shared_ptr<const Placement> placement_;
  std::set<QueueKey> queue_;
};

}  // namespace

void register_fifo(Registry& registry) {
  registry.add({
      .name = "fifo",
      .summary = "First come, first served: the head of the queue blocks all behind it until it fits.",
      .source = "the reference FIFO of the Tiresias simulator (Gu et al., NSDI 2019)",
      .oracle = Oracle::no,
      .preemptive = false,
      .options = {},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<Fifo>(arguments.placement);
      },
  });
}

}  // namespace ebb::policies
