#include "ebb/control/fork.h"

#include <algorithm>
#include <array>

#include "ebb/sched/forecast.h"

namespace ebb::control {

Fork::Fork(const Ledger& ledger, Time now)
    : registry_(ledger.registry()),
      scheduler_(ledger.scheduler()),
      policy_(ledger.policy().policy),
      epoch_(ledger.beginning().epoch),
      now_(std::max(now, ledger.scheduler().state().latest())) {
  for (const JobEntry& job : ledger.jobs()) names_.push_back(job.request->name);
}

Result<void> Fork::set_policy(const wire::PolicyView& policy) {
  policy_ = policy.name;
  return registry_.replace_policy(scheduler_, policy.name, policy.options, now_);
}

Result<void> Fork::submit(const JobRequest& request) {
  const auto id = static_cast<JobId>(scheduler_.state().jobs().size());
  names_.resize(id);  // jobs that the core has not heard of are not in the fork
  names_.push_back(request.name);
  const std::array<Event, 1> events{JobSubmitted{id, spec_of(request, now_)}};
  sched::StepResult result;
  return scheduler_.step(events, now_, result);
}

Result<wire::Outlook> Fork::outlook() const {
  EBB_ASSIGN_OR_RETURN(const sched::Forecast forecast, sched::forecast(scheduler_, now_, sched::Until::the_end));
  wire::Outlook outlook;
  outlook.policy = policy_;
  const sched::State& state = scheduler_.state();
  Duration waits{};
  Duration jcts{};
  std::size_t waiting = 0;
  std::size_t ending = 0;
  Time last{};
  const auto utc = [&](Time t) { return t + Duration(epoch_); };
  for (JobId id = state.first_active(); id < state.jobs().size(); ++id) {
    const sched::JobState& job = state.job(id);
    if (!job.active() || !job.training() || job.phase == sched::JobPhase::held) continue;
    wire::Outlook::Job& view = outlook.jobs.emplace_back();
    view.id = id;
    view.name = names_[id];
    if (const auto start = forecast.starts.find(id); start != forecast.starts.end()) {
      view.start = utc(start->second);
      waits += start->second - job.spec.submit;
      ++waiting;
    }
    if (const auto end = forecast.ends.find(id); end != forecast.ends.end()) {
      view.end = utc(end->second);
      jcts += end->second - job.spec.submit;
      last = std::max(last, end->second);
      ++ending;
    }
  }
  if (waiting > 0) outlook.mean_wait = waits / static_cast<std::int64_t>(waiting);
  if (ending > 0) outlook.mean_jct = jcts / static_cast<std::int64_t>(ending);
  if (ending > 0 && ending == outlook.jobs.size()) outlook.all_done = utc(last);
  return outlook;
}

}  // namespace ebb::control
