#include "ebb/policies/pollux/pollux.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "ebb/policies/pollux/search_text.h"

namespace ebb::policies {
namespace {

using namespace sched;

struct Settings {
  double fairness = -1;
  Duration cost{};
  Duration interval{};
  std::uint32_t population = 0;
  std::uint32_t generations = 0;
  std::uint32_t max_nodes = 0;
  bool avoid_interference = true;
  bool double_at_most = true;
  std::uint64_t seed = 1;
};

/// Jobs of a higher priority count for so much more in the mean.
constexpr double kPriorityWeight = 100;
constexpr std::size_t kPriorityLevels = 6;

// The sizes whose speed-ups are written into a problem: all small ones, then at most an eighth apart.
std::vector<GpuCount> sampled_sizes(const pollux::SearchJob& job) {
  std::vector<GpuCount> sizes;
  for (GpuCount gpus = job.smallest; gpus < job.largest;) {
    sizes.push_back(gpus);
    gpus += (gpus / 8 + job.step - 1) / job.step * job.step + (gpus < 8 ? job.step : 0);
  }
  sizes.push_back(job.largest);
  return sizes;
}

class Pollux final : public Policy {
 public:
  explicit Pollux(Settings settings) : settings_(settings) {}

  std::unique_ptr<Policy> clone() const override { return std::make_unique<Pollux>(*this); }
  bool resizes() const override { return true; }

  void on_queued(const State&, JobId, Queued, Time) override {}
  void on_withdrawn(const State&, JobId, Time) override {}

  void on_plan_ready(const State&, const PlanReady& answer, Time) override {
    if (!asked_ || answer.plan != asked_->plan) return;
    fresh_ = true;
    answer_ = answer.answer;
  }

  /// A tick applies the answer that came, or asks for a plan: at one time at most one. A plan that takes longer than
  /// the interval is waited for.
  void decide(Turn& turn) override {
    const Time now = turn.now();
    if (fresh_) {
      fresh_ = false;
      const bool late = asked_->at != now;
      apply(turn);
      asked_.reset();
      if (late) turn.wake_at(now);  // to ask for the next plan
    } else if (asked_at_ != now && !asked_) {
      ask(turn);
    }
    if (asked_ || turn.state().holding_count() > 0 || candidates_) turn.wake_at(now + settings_.interval);
  }

  Reason explain(const State& state, JobId job, Time) const override {
    Reason reason = reason_for(state, job, ReasonCode::lower_priority);
    if (reason.available >= reason.needed) reason.code = ReasonCode::fragmented;
    return reason;
  }

  std::string plan(const std::string& input) const override {
    const auto problem = pollux::read_problem(input);
    return problem ? pollux::write_answer(*problem, pollux::search(*problem).genomes) : std::string();
  }

 private:
  struct Asked {
    std::uint64_t plan = 0;
    Time at{};
    std::set<JobId> jobs;  // that the plan is about
  };

  void ask(Turn& turn) {
    const State& state = turn.state();
    const PlanView view = plan_view(state, turn.now());
    const pollux::Problem problem = describe(turn, view);
    candidates_ = std::any_of(problem.jobs.begin(), problem.jobs.end(), [](const auto& job) { return !job.fixed; });
    asked_.reset();
    if (!candidates_) return;
    asked_at_ = turn.now();
    asked_ = Asked{problem.plan, turn.now(), {}};
    for (const pollux::SearchJob& job : problem.jobs) asked_->jobs.insert(job.id);
    ++plans_;
    turn.request_plan(problem.plan, pollux::write_problem(problem, answer_));
  }

  pollux::Problem describe(Turn& turn, const PlanView& view) const {
    const State& state = turn.state();
    pollux::Problem problem;
    problem.plan = plans_;
    problem.seed = settings_.seed;
    problem.fairness = settings_.fairness;
    problem.population = settings_.population;
    problem.generations = settings_.generations;
    problem.avoid_interference = settings_.avoid_interference;
    for (NodeId n = 0; n < view.node_gpus.size(); ++n) {
      if (view.node_gpus[n] > 0) {
        problem.nodes.push_back({n, view.node_gpus[n], state.capacity().free().group_of(n), false});
      }
    }
    if (view.jobs.empty() || view.total == 0) return problem;
    problem.scale = static_cast<double>(problem.nodes.size()) / view.total;
    mark_taken(state, view, problem);
    const auto jobs = static_cast<GpuCount>(view.jobs.size());
    turn.estimator().set_fair_share((view.total + jobs - 1) / jobs);
    for (const JobId id : ordered(turn, view)) problem.jobs.push_back(describe(turn, view, problem, id));
    weigh(state, problem);
    return problem;
  }

  // Nodes with a job of several nodes that is starting, resizing or stopping.
  static void mark_taken(const State& state, const PlanView& view, pollux::Problem& problem) {
    for (const JobId id : state.holding()) {
      const Allocation& allocation = state.job(id).allocation;
      if (allocation.size() < 2 || std::binary_search(view.jobs.begin(), view.jobs.end(), id)) continue;
      for (pollux::SearchNode& node : problem.nodes) {
        const auto on_node = [&](const NodeShare& share) { return share.node == node.id; };
        node.taken = node.taken || std::any_of(allocation.begin(), allocation.end(), on_node);
      }
    }
  }

  // By priority, attained service, submission. Of the waiting jobs as many as could have all GPUs twice.
  static std::vector<JobId> ordered(const Turn& turn, const PlanView& view) {
    const State& state = turn.state();
    std::vector<std::tuple<int, GpuNanoseconds, JobId>> keys;
    for (const JobId id : view.jobs) {
      keys.emplace_back(-state.job(id).spec.priority, state.job(id).gpu_time_until(turn.now()), id);
    }
    std::sort(keys.begin(), keys.end());
    std::vector<JobId> order;
    std::int64_t wanted = 0;
    for (const auto& [priority, attained, id] : keys) {
      const JobState& job = state.job(id);
      if (job.phase == JobPhase::waiting) {
        const GpuCount smallest = job.spec.smallest();
        if (smallest > view.total || wanted >= 2 * std::int64_t{view.total}) continue;
        wanted += smallest;
      }
      order.push_back(id);
    }
    return order;
  }

  pollux::SearchJob describe(Turn& turn, const PlanView& view, const pollux::Problem& problem, JobId id) const {
    const State& state = turn.state();
    const JobState& of = state.job(id);
    Estimator& estimator = turn.estimator();
    pollux::SearchJob job;
    job.id = id;
    job.smallest = of.spec.smallest();
    job.step = of.spec.sizing == Sizing::rigid ? 1 : std::max(of.spec.gpu_step, 1);
    job.largest = std::max(estimator.most_gpus(state, id, settings_.double_at_most), job.smallest);
    if (job.largest > view.total) job.largest = std::max(of.spec.legal_size(view.total), job.smallest);
    if (of.phase == JobPhase::running) {
      job.fixed = of.spec.sizing != Sizing::elastic;
      job.present = to_indices(problem, of.allocation);
      if (job.fixed) job.smallest = job.largest = of.gpus;
    }
    // A gang has no choice, and nobody is kept from the least that it needs.
    job.max_nodes =
        of.spec.sizing == Sizing::rigid
            ? static_cast<std::uint32_t>(problem.nodes.size())
            : std::max(settings_.max_nodes, static_cast<std::uint32_t>(estimator.packed_nodes(job.smallest)));
    const double age = to_seconds(turn.now() - of.spec.submit);
    const double cost = to_seconds(settings_.cost);
    job.factor = age + cost > 0 ? std::max(age - cost * of.restarts(), 0.0) / (age + cost) : 1;
    job.options = state.class_of(id).options;
    std::vector<GpuCount> sizes = sampled_sizes(job);
    if (of.phase == JobPhase::running && of.gpus > job.largest) sizes.push_back(of.gpus);
    for (const GpuCount gpus : sizes) {
      pollux::SpeedPoint point{gpus, 0, 0};
      if (gpus <= estimator.node_gpus()) point.one_node = estimator.speedup(state, id, 1, gpus);
      point.several =
          gpus == 1 ? point.one_node : estimator.speedup(state, id, std::max(2, estimator.packed_nodes(gpus)), gpus);
      if (gpus > estimator.node_gpus()) point.one_node = point.several;
      job.speed.push_back(point);
    }
    return job;
  }

  static Allocation to_indices(const pollux::Problem& problem, Allocation allocation) {
    for (NodeShare& share : allocation) {
      const auto node = std::lower_bound(problem.nodes.begin(), problem.nodes.end(), share.node,
                                         [](const pollux::SearchNode& n, NodeId number) { return n.id < number; });
      share.node = static_cast<NodeId>(node - problem.nodes.begin());
    }
    return allocation;
  }

  static void weigh(const State& state, pollux::Problem& problem) {
    std::set<int> priorities;
    for (const pollux::SearchJob& job : problem.jobs) priorities.insert(state.job(job.id).spec.priority);
    for (pollux::SearchJob& job : problem.jobs) {
      const auto above =
          static_cast<std::size_t>(std::distance(priorities.begin(), priorities.find(state.job(job.id).spec.priority)));
      job.weight = std::pow(kPriorityWeight, static_cast<double>(std::min(above, kPriorityLevels)));
    }
  }

  // What of the answer is still possible. Jobs that it is not about stay as they are.
  void apply(Turn& turn) {
    const auto choice = pollux::read_choice(answer_);
    if (!choice) return answer_.clear();
    const State& state = turn.state();
    const PlanView view = plan_view(state, turn.now());
    std::vector<GpuCount> left = view.node_gpus;
    std::map<JobId, Allocation> rows;
    for (const JobId id : view.jobs) {
      Allocation& row = rows[id];
      if (asked_->jobs.contains(id) || state.job(id).phase != JobPhase::running) continue;
      row = state.job(id).allocation;
      for (const NodeShare& share : row) left[share.node] -= share.gpus;
    }
    for (const auto& [id, wanted] : *choice) {
      const auto row = rows.find(id);
      if (row != rows.end() && row->second.empty()) row->second = possible(state, id, wanted, left);
    }
    commit_plan(turn, TrainingPlan(rows.begin(), rows.end()));
  }

  // The row as far as its nodes have GPUs left, which it takes; the list that the job has, if it names the same GPUs.
  static Allocation possible(const State& state, JobId id, Allocation row, std::vector<GpuCount>& left) {
    const JobState& job = state.job(id);
    if (job.phase == JobPhase::running) {
      Allocation present = job.allocation;
      const auto by_node = [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; };
      std::sort(present.begin(), present.end(), by_node);
      std::sort(row.begin(), row.end(), by_node);
      if (job.spec.sizing != Sizing::elastic || present == row) row = job.allocation;
    }
    GroupMask groups = 0;
    std::set<NodeId> seen;
    std::erase_if(row, [&](NodeShare& share) {
      if (share.node >= left.size() || !seen.insert(share.node).second) return true;
      share.gpus = std::min(share.gpus, left[share.node]);
      groups |= GroupMask{1} << state.capacity().free().group_of(share.node);
      return share.gpus < 1;
    });
    const GpuCount gpus = gpus_in(row);
    const auto& options = state.class_of(id).options;
    const bool eligible =
        std::any_of(options.begin(), options.end(), [&](GroupMask option) { return (groups & ~option) == 0; });
    const bool kept = job.spec.sizing == Sizing::elastic || job.phase != JobPhase::running || gpus == job.gpus;
    if (!eligible || !kept || job.spec.legal_size(gpus) == 0) return {};
    for (const NodeShare& share : row) left[share.node] -= share.gpus;
    return row;
  }

  Settings settings_;
  std::uint64_t plans_ = 0;
  std::optional<Asked> asked_;    // the answer that is awaited or was not applied yet
  std::optional<Time> asked_at_;  // of the last plan
  bool candidates_ = false;       // the last plan was about jobs that can change
  bool fresh_ = false;            // the answer was not applied yet
  std::string answer_;            // the last one, from which the next search starts
};

Result<std::unique_ptr<Policy>> make_pollux(const PolicyArguments& arguments) {
  const Options& options = arguments.options;
  Settings settings;
  settings.fairness = options.get<double>("fairness");
  settings.cost = options.get<Duration>("cost");
  settings.interval = options.get<Duration>("interval");
  settings.population = static_cast<std::uint32_t>(options.get<std::int64_t>("population"));
  settings.generations = static_cast<std::uint32_t>(options.get<std::int64_t>("generations"));
  settings.max_nodes = static_cast<std::uint32_t>(options.get<std::int64_t>("max_nodes"));
  settings.avoid_interference = options.get<bool>("avoid_interference");
  settings.double_at_most = options.get<bool>("double_at_most");
  settings.seed = arguments.seed;
  if (settings.interval <= Duration(0)) {
    return fail(ErrorCode::invalid_argument, "option 'interval': {} s is not above 0", to_seconds(settings.interval));
  }
  return std::make_unique<Pollux>(settings);
}

}  // namespace

void register_pollux(Registry& registry) {
  registry.add({
      .name = "pollux",
      .summary = "Sizes and places elastic jobs by a genetic search for the best power mean of their speed-ups.",
      .source = "Qiao et al., Pollux, OSDI 2021",
      .oracle = Oracle::no,
      .preemptive = true,
      .draws = true,
      .adapts_batch = true,
      .options = {{"fairness", -1.0, "exponent of the mean of speed-ups: 1 = their sum, lower = fairer", {}, -10, 1},
                  {"cost", Duration(std::chrono::seconds(30)), "what a change of a job's GPUs is taken to cost", {}},
                  {"interval", Duration(std::chrono::seconds(60)), "plan at least this often while jobs run", {}},
                  {"population", std::int64_t{50}, "allocations that the search keeps", {}, 2, 10000},
                  {"generations", std::int64_t{50}, "how often the search breeds as many new ones", {}, 0, 100000},
                  {"avoid_interference", true, "at most one job that spans nodes on a node", {}},
                  {"max_nodes", std::int64_t{16}, "nodes of a job at most (gangs of fixed size excepted)", {}, 1, 1e6},
                  {"double_at_most", true, "a job gets at most twice the GPUs that it ever measured", {}}},
      .make = make_pollux,
  });
}

}  // namespace ebb::policies
