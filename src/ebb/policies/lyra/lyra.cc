#include "ebb/policies/lyra/lyra.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "ebb/sched/knapsack.h"
#include "ebb/sched/sizes.h"

namespace ebb::policies {
namespace {

using namespace sched;

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Candidate {
  std::size_t job = 0;  // its place in the view
  SizeRange sizes;
  double remaining_s = 0;  // on its least size
};

/// The candidates compete for what is left, by a knapsack for each set of groups: units of candidate k are worth
/// `value(k, units)`; 0 or kNever is not taken.
template <typename Value>
void share_out(GpuBudget& budget, const std::vector<Candidate>& candidates, const std::vector<GroupMask>& groups,
               const std::vector<GpuCount>& most, const Value& value) {
  std::vector<bool> done(candidates.size());
  for (std::size_t first = 0; first < candidates.size(); ++first) {
    if (done[first]) continue;
    const GpuCount capacity = budget.left_in(groups[first]);
    std::vector<std::size_t> members;
    std::vector<KnapsackGroup> items;
    for (std::size_t k = first; k < candidates.size(); ++k) {
      if (groups[k] != groups[first]) continue;
      done[k] = true;
      members.push_back(k);
      KnapsackGroup& item = items.emplace_back();
      for (GpuCount units = 1; units <= std::min(most[k], capacity); ++units) {
        item.value.push_back(value(candidates[k], units));
      }
    }
    const std::vector<int> units = solve_group_knapsack(items, capacity);
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (units[m] > 0) budget.take(candidates[members[m]].job, units[m]);
    }
  }
}

class Lyra final : public Policy {
 public:
  explicit Lyra(bool reference) : reference_(reference) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Lyra>(*this); }
  bool resizes() const override { return true; }
  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}

  void decide(Turn& turn) override {
    decided_ = turn.now();
    const State& state = turn.state();
    const PlanView view = plan_view(state, turn.now());
    GpuBudget budget(state, view);
    std::vector<Candidate> candidates = by_remaining_time(turn, view);
    std::vector<std::size_t> order;
    for (const Candidate& candidate : candidates) order.push_back(candidate.job);
    if (reference_) {
      give_all(view, state, candidates, budget);
    } else {
      give_least(candidates, budget);
      give_more(turn, view, candidates, budget);
    }
    commit_plan(turn, place_sizes(state, view, budget, order, Fill::packed));
  }

  Reason explain(const State& state, JobId job, Time) const override { return why_without_gpus(state, job, decided_); }

 private:
  // The running ones first, unless as the reference: they keep their least size.
  std::vector<Candidate> by_remaining_time(Turn& turn, const PlanView& view) const {
    const State& state = turn.state();
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < view.jobs.size(); ++i) {
      const JobId id = view.jobs[i];
      const JobSpec& spec = state.job(id).spec;
      const GpuCount cap = reference_ ? spec.legal_size(spec.gpus) : most_fed_gpus(state, id, turn.estimator());
      Candidate& candidate = candidates.emplace_back();
      candidate.job = i;
      candidate.sizes = sizes_of(state.job(id), cap);
      candidate.remaining_s = turn.estimator().remaining_s(state, id, reference_ ? 1 : candidate.sizes.least);
    }
    const auto rank = [&](const Candidate& c) {
      const JobState& job = state.job(view.jobs[c.job]);
      if (reference_) return std::tuple(false, 0, c.remaining_s, c.job);
      return std::tuple(job.phase != JobPhase::running, -job.spec.priority, c.remaining_s, c.job);
    };
    std::sort(candidates.begin(), candidates.end(),
              [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    return candidates;
  }

  // Only the candidates that could get more than their least size are left.
  static void give_least(std::vector<Candidate>& candidates, GpuBudget& budget) {
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return !budget.take(candidate.job, candidate.sizes.least) || candidate.sizes.fixed();
    });
  }

  static void give_more(Turn& turn, const PlanView& view, const std::vector<Candidate>& candidates, GpuBudget& budget) {
    std::vector<GroupMask> groups;
    std::vector<GpuCount> most;
    for (const Candidate& candidate : candidates) {
      groups.push_back(budget.groups(candidate.job));
      most.push_back(candidate.sizes.most - candidate.sizes.least);
    }
    share_out(budget, candidates, groups, most, [&](const Candidate& candidate, GpuCount units) {
      if (units % candidate.sizes.step != 0) return kNever;
      const double left_s =
          turn.estimator().remaining_s(turn.state(), view.jobs[candidate.job], candidate.sizes.least + units);
      return left_s < candidate.remaining_s ? candidate.remaining_s - left_s : kNever;
    });
  }

  // No least size: everything goes by the knapsack. A job that may use several types competes on one of them, chosen so
  // that what is asked for spreads over them.
  static void give_all(const PlanView& view, const State& state, const std::vector<Candidate>& candidates,
                       GpuBudget& budget) {
    GpuBudget asked(state, view);
    std::vector<GroupMask> groups;
    std::vector<GpuCount> most;
    for (const Candidate& candidate : candidates) {
      if (!asked.take(candidate.job, candidate.sizes.most)) {
        asked.take(candidate.job, std::min(candidate.sizes.most, asked.left_in(asked.groups(candidate.job))));
      }
      groups.push_back(asked.groups(candidate.job));
      most.push_back(candidate.sizes.most);
    }
    share_out(budget, candidates, groups, most, [](const Candidate& candidate, GpuCount units) {
      const SizeRange& sizes = candidate.sizes;
      if (units < sizes.least || (units - sizes.least) % sizes.step != 0) return kNever;
      return sizes.most == 1 ? candidate.remaining_s : candidate.remaining_s * units / (units + 1);
    });
  }

  bool reference_;
  Time decided_{Duration(-1)};
};

}  // namespace

void register_lyra(Registry& registry) {
  registry.add({
      .name = "lyra",
      .summary = "Elastic: the least size to the shortest jobs first, the rest by a knapsack over the time it saves.",
      .source = "Li et al., EuroSys 2023 (Lyra, earlier Aryl)",
      .oracle = Oracle::no,
      .preemptive = true,
      .options = {{"value",
                   std::string("lyra"),
                   "what is shared out, and by which value: GPUs beyond the least sizes by the time that they save "
                   "(lyra), or all GPUs by remaining time x n / (n + 1) as in DeepBoot's simulator (aryl)",
                   {"lyra", "aryl"}}},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        return std::make_unique<Lyra>(arguments.options.get<std::string>("value") == "aryl");
      },
  });
}

}  // namespace ebb::policies
