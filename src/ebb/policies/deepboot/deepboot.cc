#include "ebb/policies/deepboot/deepboot.h"

#include <algorithm>
#include <vector>

#include "ebb/policies/deepboot/placing.h"
#include "ebb/policies/deepboot/sizing.h"

namespace ebb::policies {
namespace {

using namespace sched;

class DeepBoot final : public Policy {
 public:
  DeepBoot(const deepboot::SizingOptions& sizing, bool incremental_placement)
      : sizing_(sizing), incremental_placement_(incremental_placement) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<DeepBoot>(*this); }
  bool resizes() const override { return true; }

  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}
  void on_started(const State& state, JobId job, Time now) override { learn_cost(state, job, now); }
  void on_resized(const State& state, JobId job, Time now) override { learn_cost(state, job, now); }

  void decide(Turn& turn) override {
    decided_ = turn.now();
    const State& state = turn.state();
    const PlanView view = plan_view(state, turn.now());
    if (view.jobs.empty()) return;
    std::vector<deepboot::Candidate> candidates =
        deepboot::value_sizes(state, turn.estimator(), view, turn.now(), sizing_, costs_);
    std::vector<std::size_t> order;
    order.reserve(candidates.size());
    for (const deepboot::Candidate& candidate : candidates) order.push_back(candidate.job);
    GpuBudget budget(state, view);
    deepboot::share_out(state, view, candidates, sizing_.exact, budget);
    commit_plan(turn, incremental_placement_ ? deepboot::place_incrementally(state, view, budget, order)
                                             : place_sizes(state, view, budget, order, Fill::packed));
    for (const JobId job : view.jobs) wake_for(turn, job);
  }

  Reason explain(const State& state, JobId job, Time) const override {
    return why_without_gpus(state, job, state.job(job).spec.smallest(), decided_);
  }

 private:
  // What a job that waits is worth grows with its age, most while that is short: drivers without rounds look again when
  // it has doubled, a handful of times.
  void wake_for(Turn& turn, JobId id) const {
    constexpr double kGrown = 32;  // f is then 0.94 of what it will ever be
    const JobState& job = turn.state().job(id);
    if (job.phase != JobPhase::waiting || sizing_.change_penalty_s <= 0) return;
    const double age = to_seconds(turn.now() - job.spec.submit);
    if (age >= kGrown * sizing_.change_penalty_s * (job.restarts() + 1)) return;
    const auto wait = static_cast<std::int64_t>(1e9 * std::max(age, sizing_.change_penalty_s));
    const std::int64_t quantum = turn.quantum().count();
    turn.wake_at(turn.now() + Duration((wait + quantum - 1) / quantum * quantum));
  }

  void learn_cost(const State& state, JobId job, Time now) {
    if (sizing_.expected_cost) costs_.add(job, to_seconds(state.job(job).productive_at - now));
  }

  deepboot::SizingOptions sizing_;
  bool incremental_placement_;
  deepboot::ChangeCosts costs_;
  Time decided_{Duration(-1)};
};

}  // namespace

void register_deepboot(Registry& registry) {
  registry.add({
      .name = "deepboot",
      .summary = "Elastic: all GPUs by a knapsack over speed-ups (ATS-T); lends what serving does not hold.",
      .source = "DeepBoot's simulator (policy dp); goodput as Qiao et al., OSDI 2021 (Pollux)",
      .oracle = Oracle::no,
      .preemptive = true,
      .adapts_batch = true,
      .options =
          {{"solver",
            std::string("exact"),
            "how the knapsack is solved: exactly, or by a fast choice within a bound of the optimum",
            {"exact", "incremental"}},
           {"place",
            std::string("scratch"),
            "where a job is whose number of GPUs changes: placed from scratch (as in DeepBoot's simulator), or on the "
            "nodes that it has, unless others would be fewer",
            {"scratch", "incremental"}},
           {"change_cost",
            std::string("constant"),
            "what a change of GPUs is taken to cost: change_penalty_s, or the mean pause of the job's own changes over "
            "the time to its next one",
            {"constant", "expected"}},
           {"change_penalty_s", 10.0, "seconds; with change_cost=expected only until a change was seen", {}, 0, 1e6},
           {"most_gpus", std::int64_t{64}, "GPUs of one job at most", {}, 1, 1e6}},
      .make = [](const PolicyArguments& arguments) -> Result<std::unique_ptr<Policy>> {
        const Options& options = arguments.options;
        deepboot::SizingOptions sizing;
        sizing.exact = options.get<std::string>("solver") == "exact";
        sizing.expected_cost = options.get<std::string>("change_cost") == "expected";
        sizing.change_penalty_s = options.get<double>("change_penalty_s");
        sizing.most_gpus = static_cast<GpuCount>(options.get<std::int64_t>("most_gpus"));
        return std::make_unique<DeepBoot>(sizing, options.get<std::string>("place") == "incremental");
      },
  });
}

}  // namespace ebb::policies
