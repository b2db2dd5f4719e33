#include "ebb/sched/forecast.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ebb::sched {
namespace {

constexpr std::size_t kLatest = 1'000;
constexpr std::size_t kEnough = 5;
// What a job takes to give GPUs back. Without it two jobs with equal claims could preempt each other for ever.
constexpr Duration kGivingBack = std::chrono::seconds(1);

std::optional<Duration> median(std::vector<Duration>& times) {
  if (times.size() < kEnough) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// How long jobs run, from first to last use of their GPUs.
class RunTimes {
 public:
  explicit RunTimes(const State& state) {
    std::vector<Duration> all;
    std::unordered_map<std::string, std::vector<Duration>> by_tenant;
    for (auto job = state.jobs().rbegin(); job != state.jobs().rend() && all.size() < kLatest; ++job) {
      if (!job->training() || job->phase != JobPhase::finished) continue;
      all.push_back(job->held);
      by_tenant[job->spec.tenant].push_back(job->held);
    }
    count_ = all.size();
    all_ = median(all);
    for (auto& [tenant, times] : by_tenant) {
      if (const auto time = median(times)) tenants_[tenant] = *time;
    }
  }

  std::size_t count() const { return count_; }
  std::optional<Duration> of(const JobSpec& spec) const {
    if (spec.requested_time) return spec.requested_time;
    const auto tenant = tenants_.find(spec.tenant);
    return tenant != tenants_.end() ? std::optional(tenant->second) : all_;
  }

 private:
  std::size_t count_ = 0;
  std::optional<Duration> all_;
  std::unordered_map<std::string, Duration> tenants_;
};

/// The fork, and when its running jobs are predicted to end.
class RollOut {
 public:
  RollOut(Scheduler fork, Time now) : fork_(std::move(fork)), run_times_(fork_.state()), now_(now) {
    result_.made = now;
    result_.history = run_times_.count();
    const State& state = fork_.state();
    for (JobId id = state.first_active(); id < state.jobs().size(); ++id) {
      const JobState& job = state.job(id);
      if (!job.training() || !job.active()) continue;
      count(job);
      if (job.incarnate()) expect_end(id);
      if (job.phase == JobPhase::stopping) events_.emplace_back(JobStopped{id, job.progress_until(now)});
      if (job.phase == JobPhase::resizing) confirm_resize(id);
      if (job.phase == JobPhase::starting && job.promised == 0) start(id);
      if (job.phase == JobPhase::waiting) waiting_.insert(id);
    }
  }

  Result<Forecast> run(Until until, std::size_t max_steps) {
    for (std::size_t k = 0; k < max_steps; ++k) {
      if (waiting_.empty() && (until == Until::nothing_waits || fork_.state().active_count() == 0)) break;
      EBB_RETURN_IF_ERROR(step());
      if (std::exchange(gives_back_, false)) now_ += kGivingBack;
      if (!events_.empty()) continue;  // what was decided is confirmed
      const bool wakes = step_.next_wake_at && (ends_.empty() || *step_.next_wake_at < ends_.begin()->first);
      if (wakes) {
        now_ = std::max(now_, *step_.next_wake_at);
      } else if (!ends_.empty()) {
        const auto [at, job] = *ends_.begin();
        now_ = std::max(now_, at);
        forget_end(job);
        events_.emplace_back(JobFinished{job, {}});
        result_.ends[job] = now_;
      } else {
        break;  // nothing will happen any more
      }
    }
    return std::move(result_);
  }

 private:
  void count(const JobState& job) {
    if (job.spec.requested_time) {
      ++result_.by_request;
    } else if (run_times_.of(job.spec)) {
      ++result_.by_history;
    } else {
      ++result_.unknown;
    }
  }

  void expect_end(JobId id) {
    const JobState& job = fork_.state().job(id);
    const auto run_time = run_times_.of(job.spec);
    if (!run_time) return;
    const Duration done = job.held_until(now_);
    const Time end = now_ + (*run_time > done ? *run_time - done : done / 10 + std::chrono::seconds(1));
    forget_end(id);
    ends_.insert({end, id});
    end_of_[id] = end;
  }

  void forget_end(JobId id) {
    const auto end = end_of_.find(id);
    if (end == end_of_.end()) return;
    ends_.erase({end->second, id});
    end_of_.erase(end);
  }

  void start(JobId id) {
    events_.emplace_back(JobStarted{id, now_});
    started_.push_back(id);
  }

  void confirm_resize(JobId id) {
    const JobState& job = fork_.state().job(id);
    if (!job.departing.empty()) events_.emplace_back(JobShrunk{id});
    if (job.promised == 0) events_.emplace_back(JobResized{id, now_, job.progress_until(now_)});
  }

  Result<void> step() {
    std::vector<Event> events = std::exchange(events_, {});
    events.emplace_back(Tick{});
    EBB_RETURN_IF_ERROR(fork_.step(events, now_, step_));
    for (const JobId id : std::exchange(started_, {})) expect_end(id);
    for (const Decision& decision : step_.decisions) {
      if (const auto* begun = std::get_if<Start>(&decision)) {
        if (waiting_.erase(begun->job) > 0) result_.starts[begun->job] = now_;
      } else if (const auto* preempt = std::get_if<Preempt>(&decision)) {
        gives_back_ = true;
        forget_end(preempt->job);
        events_.emplace_back(JobStopped{preempt->job, fork_.state().job(preempt->job).progress_until(now_)});
      } else if (const auto* resize = std::get_if<Resize>(&decision)) {
        for (const Target& target : resize->targets) {
          if (fork_.state().job(target.job).departing.empty()) continue;
          gives_back_ = true;
          events_.emplace_back(JobShrunk{target.job});
        }
      } else if (const auto* reject = std::get_if<Reject>(&decision)) {
        waiting_.erase(reject->job);
      }
    }
    for (const Holder& holder : fork_.take_launchable()) {
      if (holder.kind != Holder::Kind::job) continue;
      const JobState& job = fork_.state().job(holder.id);
      if (job.phase == JobPhase::starting) {
        start(holder.id);
      } else if (job.phase == JobPhase::resizing) {
        events_.emplace_back(JobResized{holder.id, now_, job.progress_until(now_)});
      }
    }
    return {};
  }

  Scheduler fork_;
  const RunTimes run_times_;
  Time now_;
  Forecast result_;
  StepResult step_;
  std::vector<Event> events_;
  std::vector<JobId> started_;
  bool gives_back_ = false;  // a job was told to, by the last step
  std::set<JobId> waiting_;
  std::set<std::pair<Time, JobId>> ends_;
  std::unordered_map<JobId, Time> end_of_;
};

}  // namespace

Result<Forecast> forecast(Scheduler fork, Time now, Until until, std::size_t max_steps) {
  fork.take_launchable();  // jobs that are being started or resized are looked at one by one
  now = std::max(now, fork.state().latest());
  return RollOut(std::move(fork), now).run(until, max_steps);
}

}  // namespace ebb::sched
