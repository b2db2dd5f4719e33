#include "ebb/sim/recorder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ebb/perf/queueing.h"

namespace ebb::sim {

using sched::JobPhase;
using sched::JobState;
using sched::State;

namespace {

double gpu_seconds_of(sched::GpuNanoseconds time) {
  return static_cast<double>(time) / 1e9;
}

/// Replicas that are wanted now, by service: for its demand, and one a task.
std::vector<std::int64_t> wanted_replicas(const State& state) {
  std::vector<std::int64_t> wanted;
  for (const sched::ServiceState& service : state.services()) {
    wanted.push_back(service.demand + static_cast<std::int64_t>(service.waiting.size()));
  }
  for (const ReplicaId replica : state.live_replicas()) {
    if (state.replica(replica).task) ++wanted[state.replica(replica).service];
  }
  return wanted;
}

/// Whether so many replicas fit into the GPUs of these nodes, the largest ones placed first.
bool fit(const State& state, std::vector<std::int64_t> wanted, std::vector<GpuCount> nodes) {
  std::vector<ServiceId> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  const auto gpus_of = [&](ServiceId id) { return state.services()[id].spec.gpus; };
  std::sort(order.begin(), order.end(),
            [&](ServiceId a, ServiceId b) { return gpus_of(a) != gpus_of(b) ? gpus_of(a) > gpus_of(b) : a < b; });
  for (const ServiceId id : order) {
    for (GpuCount& left : nodes) {
      const auto here = static_cast<GpuCount>(std::min<std::int64_t>(wanted[id], left / gpus_of(id)));
      left -= here * gpus_of(id);
      wanted[id] -= here;
    }
    if (wanted[id] > 0) return false;
  }
  return true;
}

// When the first job or the first demand of a service comes.
Time start_of(const Workload& workload) {
  std::optional<Time> start;
  if (!workload.jobs.empty()) start = workload.jobs.front().submit;
  for (const ServiceLoad& service : workload.services) {
    if (service.requests.empty()) continue;
    start = std::min(start.value_or(service.requests.front().at), service.requests.front().at);
  }
  return start.value_or(Time());
}

std::size_t training_jobs_of(const Workload& workload) {
  return static_cast<std::size_t>(std::count_if(workload.jobs.begin(), workload.jobs.end(),
                                                [](const JobSpec& job) { return job.kind == JobKind::training; }));
}

// GPUs that training has without lending.
GpuCount own_gpus(const sched::Capacity& capacity) {
  GpuCount gpus = 0;
  for (NodeId n = 0; n < capacity.spec().nodes.size(); ++n) {
    if (!capacity.in_serving_pool(n)) gpus += capacity.spec().nodes[n].gpus;
  }
  return gpus;
}

}  // namespace

Recorder::Recorder(const Workload& workload, Duration target_extra, Duration reclaim_bound)
    : start_(start_of(workload)),
      last_(start_),
      target_extra_(target_extra),
      reclaim_bound_(reclaim_bound),
      history_(training_jobs_of(workload)),
      gpus_in_use_(start_),
      queue_length_(start_),
      gpus_serving_(start_),
      gpus_lent_(start_) {}

Distribution distribution_of(std::vector<double> seconds) {
  Distribution d;
  d.count = seconds.size();
  if (seconds.empty()) return d;
  double sum = 0;
  for (const double s : seconds) sum += s;
  d.avg_s = sum / static_cast<double>(seconds.size());
  std::sort(seconds.begin(), seconds.end());
  const auto rank = [&](double share) {
    const auto n = static_cast<std::size_t>(std::ceil(share * static_cast<double>(seconds.size())));
    return seconds[std::max<std::size_t>(n, 1) - 1];
  };
  d.p50_s = rank(0.50);
  d.p99_s = rank(0.99);
  return d;
}

void Recorder::advance(const State& state, Time now) {
  if (now <= last_) return;
  const double seconds = to_seconds(now - last_);
  for (auto& [id, load] : loads_) {
    if (id >= state.services().size()) continue;
    std::int32_t ready = 0;
    for (const ReplicaId replica : state.services()[id].replicas) {
      const sched::ReplicaState& is = state.replica(replica);
      if (is.folded == sched::ReplicaPhase::serving && !is.task) ++ready;
    }
    if (!load.known || ready != load.ready) {
      load.ready = ready;
      load.known = true;
      load.share = ready > 0 ? perf::mdc_wait_within(load.rate, load.spec.service_time, ready,
                                                     load.spec.target_latency - load.spec.service_time)
                             : 0;
    }
    requests_ += load.rate * seconds;
    requests_in_target_ += load.rate * seconds * load.share;
  }
  if (state.gpus_lent() > 0) {
    const GpuCount net = std::min(state.gpus_lent(), state.gpus_held() - own_gpus(state.capacity()));
    net_lent_ += std::max(net, 0) * seconds;
  }
  active_seconds_ += static_cast<double>(state.active_count()) * seconds;
  if (excess_.now) excess_.seconds += seconds;
  for (Blocked& blocked : blocked_) blocked.time += blocked.now ? now - last_ : Duration(0);
  last_ = now;
}

void Recorder::submitted(JobId job) {
  active_at_submit_.resize(job + 1, active_seconds_);
  active_at_end_.resize(job + 1, 0);
  waited_for_.resize(job + 1, 0);
}

void Recorder::finished(JobId job) {
  active_at_end_[job] = active_seconds_;
}

void Recorder::waits(JobId job, ReasonCode code) {
  waited_for_[job] = static_cast<std::uint8_t>(code) + 1;
  history_.waits(job, code);
}

void Recorder::demand(ServiceId service, const ServiceSpec& spec, double requests_per_s, const ReplicaNeed& need) {
  Load& load = loads_[service];
  load.spec = spec;
  load.rate = requests_per_s;
  load.need = need;
  load.known = false;
}

// A replica that must wait for GPUs which no sleeping replica gives up waits for training.
void Recorder::decided(const State& state, const std::vector<Decision>& decisions, Time now) {
  for (const Decision& decision : decisions) {
    if (const auto* serve = std::get_if<Serve>(&decision)) end_wait(state, serve->task);
    const auto* start = std::get_if<StartReplica>(&decision);
    if (start != nullptr && start->task) end_wait(state, *start->task);
    if (start == nullptr || state.replica(start->replica).promised == 0) continue;
    GpuCount from_sleepers = 0;
    for (const Decision& other : decisions) {
      const auto* stop = std::get_if<StopReplica>(&other);
      if (stop == nullptr || state.replica(stop->replica).place.node != start->place.node) continue;
      from_sleepers += state.replica(stop->replica).place.gpus;
    }
    if (from_sleepers < state.replica(start->replica).promised) reclaiming_[start->replica] = now;
  }
}

void Recorder::replica_launched(ReplicaId replica, Time now) {
  const auto found = reclaiming_.find(replica);
  if (found == reclaiming_.end()) return;
  reclaim_s_.push_back(to_seconds(now - found->second));
  reclaiming_.erase(found);
}

// Looked at only while something lacks a replica: else all of them found a place.
void Recorder::note_excess(const State& state) {
  const bool before = std::exchange(excess_.now, false);
  if (!state.lacks_replicas()) return;
  const sched::Capacity& capacity = state.capacity();
  std::vector<GpuCount> nodes;
  GpuCount all = 0;
  for (NodeId n = 0; n < capacity.spec().nodes.size(); ++n) {
    if (!capacity.may_serve(n) || !capacity.usable(n)) continue;
    nodes.push_back(capacity.spec().nodes[n].gpus);
    all += nodes.back();
  }
  std::vector<std::int64_t> wanted = wanted_replicas(state);
  bool capped = false;
  for (const auto& [id, load] : loads_) {
    wanted[id] += load.need.at_least - load.need.asked;
    capped = capped || load.need.capped;
  }
  std::int64_t needed = 0;
  for (ServiceId id = 0; id < wanted.size(); ++id) needed += wanted[id] * state.services()[id].spec.gpus;
  if (needed <= all && fit(state, std::move(wanted), std::move(nodes))) return;
  excess_.now = true;
  if (needed > excess_.peak) {
    excess_.peak = needed;
    excess_.at_least = capped;
    excess_.capacity = all;
  }
  excess_.waited.resize(state.jobs().size());
  // Those that waited before and were seen need no second look.
  const bool all_anew = !before || excess_.returned != state.tasks_returned();
  const std::set<JobId>& tasks = state.waiting_tasks();
  for (auto task = all_anew ? tasks.begin() : tasks.lower_bound(excess_.next); task != tasks.end(); ++task) {
    excess_.tasks += excess_.waited[*task] ? 0 : 1;
    excess_.waited[*task] = true;
  }
  excess_.next = static_cast<JobId>(state.jobs().size());
  excess_.returned = state.tasks_returned();
}

void Recorder::begin_wait(const State& state, JobId task) {
  const ServiceId service = state.job(task).service;
  blocked_at_wait_[task] = service < blocked_.size() ? blocked_[service].time : Duration(0);
}

void Recorder::end_wait(const State& state, JobId task) {
  const auto found = blocked_at_wait_.find(task);
  if (found == blocked_at_wait_.end()) return;
  const ServiceId service = state.job(task).service;
  late_ += service < blocked_.size() && blocked_[service].time - found->second > reclaim_bound_ ? 1 : 0;
  blocked_at_wait_.erase(found);
}

void Recorder::heard(const State& state, const std::vector<Event>& events, Time now) {
  history_.heard(state, events, now);
  for (const Event& event : events) {
    const auto* submitted = std::get_if<JobSubmitted>(&event);
    if (submitted != nullptr && !state.job(submitted->job).training()) begin_wait(state, submitted->job);
  }
  if (tasks_returned_ == state.tasks_returned()) return;
  tasks_returned_ = state.tasks_returned();
  for (const JobId task : state.waiting_tasks()) {
    if (!blocked_at_wait_.contains(task)) begin_wait(state, task);
  }
}

// Which services wait for GPUs of a node on which training is, and which has enough of them for one more replica but
// for training, free GPUs and replicas that sleep.
void Recorder::note_blocked(const State& state, Time now) {
  blocked_.resize(state.services().size());
  GpuCount most = 0;
  if (state.gpus_occupied() > 0 && state.lacks_replicas()) {
    const sched::Capacity& capacity = state.capacity();
    std::vector<GpuCount> room(capacity.spec().nodes.size());
    std::vector<bool> trains(room.size());
    for (NodeId n = 0; n < room.size(); ++n) room[n] = capacity.spec().nodes[n].gpus;
    for (const JobId id : state.holding()) {
      for (const NodeShare& share : state.job(id).allocation) trains[share.node] = true;
    }
    for (const ReplicaId id : state.live_replicas()) {
      const sched::ReplicaState& replica = state.replica(id);
      const sched::ReplicaPhase phase = replica.phase(now);
      const bool yields = phase == sched::ReplicaPhase::sleep || phase == sched::ReplicaPhase::stopping;
      if (!yields) room[replica.place.node] -= replica.place.gpus;
    }
    for (NodeId n = 0; n < room.size(); ++n) {
      if (trains[n] && capacity.may_serve(n) && capacity.usable(n)) most = std::max(most, room[n]);
    }
  }
  for (ServiceId id = 0; id < blocked_.size(); ++id) {
    const sched::ServiceState& service = state.services()[id];
    Blocked& blocked = blocked_[id];
    const auto missing = static_cast<std::size_t>(std::max(service.demand - service.serving, 0));
    blocked.now = (missing > 0 || !service.waiting.empty()) && service.spec.gpus <= most;
    while (blocked.lacking.size() > missing) {
      late_ += blocked.time - blocked.lacking.front() > reclaim_bound_ ? 1 : 0;
      blocked.lacking.pop_front();
    }
    while (blocked.lacking.size() < missing) blocked.lacking.push_back(blocked.time);
  }
}

void Recorder::batch_done(const State& state, Time now) {
  note_excess(state);
  note_blocked(state, now);
  gpus_in_use_.set(now, static_cast<double>(state.gpus_occupied()));
  queue_length_.set(now, static_cast<double>(state.waiting_count()));
  gpus_serving_.set(now, static_cast<double>(state.gpus_serving()));
  gpus_lent_.set(now, static_cast<double>(state.gpus_lent()));
}

JobRecord Recorder::record_of(const State& state, JobId id, Time now) const {
  const JobState& job = state.job(id);
  JobRecord record;
  record.name = job.spec.name;
  record.tenant = job.spec.tenant;
  record.kind = job.spec.kind;
  record.gpus = job.spec.gpus;
  record.submit = job.spec.submit;
  record.start = job.first_start;
  record.end = job.end;
  record.pending = job.phase == JobPhase::waiting ? job.pending + (now - job.waiting_since) : job.pending;
  record.restarts = job.restarts();
  record.gpu_seconds =
      job.training() ? gpu_seconds_of(job.gpu_time_until(now)) : to_seconds(job.held_until(now)) * job.spec.gpus;
  if (job.phase == JobPhase::rejected) {
    record.reason = to_string(ReasonCode::impossible);
  } else if (!job.training() && job.phase == JobPhase::waiting) {
    record.reason = to_string(ReasonCode::no_capacity);
  } else if (waited_for_[id] > 0) {
    record.reason = to_string(static_cast<ReasonCode>(waited_for_[id] - 1));
  }
  if (job.training()) record.rho = rho_of(state, id);
  return record;
}

// Finish-time fairness; 0 if the job never completed or has no run time.
double Recorder::rho_of(const State& state, JobId id) const {
  const JobState& job = state.job(id);
  if (!job.end) return 0;
  const double seconds = to_seconds(*job.end - job.spec.submit);
  if (seconds <= 0 || job.spec.run_time <= Duration(0)) return 0;
  const double mean_active = (active_at_end_[id] - active_at_submit_[id]) / seconds;
  const double gpus = state.capacity().total_gpus();
  return seconds / (to_seconds(job.spec.run_time) * std::max(1.0, job.spec.gpus * mean_active / gpus));
}

// Sums over the training jobs, from their records and states.
void Recorder::fill_training(const State& state, SimResult& result) const {
  Summary& summary = result.summary;
  std::vector<double> jct;
  std::vector<double> pending;
  std::map<std::string, double> tenants;
  for (JobId id = 0; id < result.jobs.size(); ++id) {
    const JobRecord& record = result.jobs[id];
    if (record.kind != JobKind::training) continue;
    summary.gpu_seconds += record.gpu_seconds;
    tenants[record.tenant] += record.gpu_seconds;
    summary.restarts += record.restarts;
    summary.preemptions += state.job(id).preemptions;
    summary.max_rho = std::max(summary.max_rho, record.rho);
    if (!record.end) continue;
    jct.push_back(to_seconds(*record.jct()));
    pending.push_back(to_seconds(record.pending));
  }
  summary.training = distribution_of(std::move(jct));
  summary.queue = distribution_of(std::move(pending));
  result.tenant_gpu_seconds.assign(tenants.begin(), tenants.end());
  std::sort(result.tenant_gpu_seconds.begin(), result.tenant_gpu_seconds.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
}

void Recorder::fill_series(Time end, SimResult& result) const {
  const std::pair<const SeriesBuilder*, Series*> all[] = {{&gpus_in_use_, &result.gpus_in_use},
                                                          {&queue_length_, &result.queue_length},
                                                          {&gpus_serving_, &result.gpus_serving},
                                                          {&gpus_lent_, &result.gpus_lent}};
  for (const auto& [builder, series] : all) *series = SeriesBuilder(*builder).finish(end);
}

void Recorder::fill(const State& state, Time now, SimResult& result) const {
  Summary& summary = result.summary;
  std::optional<Time> first_submit;
  std::optional<Time> last_end;
  const auto ended = [&](Time at) { last_end = std::max(last_end.value_or(at), at); };
  result.jobs.reserve(state.jobs().size());
  for (JobId id = 0; id < state.jobs().size(); ++id) {
    const JobState& job = state.job(id);
    result.jobs.push_back(record_of(state, id, now));
    first_submit = std::min(first_submit.value_or(job.spec.submit), job.spec.submit);
    if (job.end) {
      ++summary.jobs_completed;
      ended(*job.end);
    } else if (job.training() && job.phase == JobPhase::waiting && job.incarnations > 0) {
      ended(job.waiting_since);  // never completed: its last run ended when it began to wait for the last time
    }
  }
  summary.jobs_total = result.jobs.size();
  summary.jobs_impossible = summary.jobs_total - summary.jobs_completed;
  fill_training(state, result);
  if (first_submit && last_end) summary.makespan_s = to_seconds(*last_end - *first_submit);
  if (summary.makespan_s > 0) {
    summary.utilisation = summary.gpu_seconds / (state.capacity().total_gpus() * summary.makespan_s);
  }
  // The end of the picture is the last end: what is left after it (jobs that can never run) changes nothing.
  fill_series(std::max(last_end.value_or(now), last_), result);
  history_.fill(state, now, result);
  fill_inference(state, result);
  fill_gpu_times(state, std::max(now, last_), result);
}

void Recorder::fill_inference(const State& state, SimResult& result) const {
  InferenceFigures& inference = result.summary.inference;
  std::vector<double> extra;
  double in_target = 0;
  for (const JobState& task : state.jobs()) {
    if (task.training()) continue;
    ++inference.submitted;
    if (!task.end) continue;
    const Duration waited = *task.end - task.spec.submit - task.spec.run_time;
    extra.push_back(to_seconds(waited));
    if (waited <= target_extra_) ++in_target;
  }
  const Distribution distribution = distribution_of(std::move(extra));
  inference.count = distribution.count;
  inference.avg_extra_s = distribution.avg_s;
  inference.p99_extra_s = distribution.p99_s;
  inference.requests = requests_;
  // Tasks that were never served missed their target.
  const double all = static_cast<double>(distribution.count + state.active_tasks()) + requests_;
  if (all > 0) inference.in_target_share = (in_target + requests_in_target_) / all;
  LoanFigures& loans = result.summary.loans;
  const Distribution reclaims = distribution_of(reclaim_s_);
  loans.count = state.loans();
  loans.reclaims = reclaims.count;
  loans.reclaim_p50_s = reclaims.p50_s;
  loans.reclaim_p99_s = reclaims.p99_s;
  loans.forced = forced_;
  loans.late = late_;
  for (const auto& [task, since] : blocked_at_wait_) {
    const ServiceId service = state.job(task).service;
    loans.late += service < blocked_.size() && blocked_[service].time - since > reclaim_bound_ ? 1 : 0;
  }
  for (const Blocked& blocked : blocked_) {
    for (const Duration since : blocked.lacking) loans.late += blocked.time - since > reclaim_bound_ ? 1 : 0;
  }
  if (loans.late > 0) {
    result.summary.warnings.push_back(
        fmt::format("{} replicas waited longer than reclaim_bound ({} s) while training held GPUs that they could have "
                    "had",
                    loans.late, format_seconds(reclaim_bound_)));
  }
  if (excess_.seconds > 0) {
    result.summary.warnings.push_back(fmt::format(
        "inference needed more than the GPUs that may serve for {:.6g} s: {} {} GPUs where there were {}; {} "
        "tasks waited meanwhile",
        excess_.seconds, excess_.at_least ? "at its peak at least" : "up to", excess_.peak, excess_.capacity,
        excess_.tasks));
  }
  if (forced_ > 0) {
    result.summary.warnings.push_back(
        fmt::format("{} times a job took longer than reclaim_bound to give GPUs back and was killed: it lost what it "
                    "had done since its last checkpoint",
                    forced_));
  }
}

void Recorder::fill_gpu_times(const State& state, Time now, SimResult& result) const {
  const sched::GpuTimes times = state.gpu_times(now);
  GpuSeconds& by_state = result.summary.gpu_seconds_by_state;
  by_state.training = gpu_seconds_of(times.training - times.resizing);
  by_state.resizing = gpu_seconds_of(times.resizing);
  by_state.starting = gpu_seconds_of(times.starting);
  by_state.serving = gpu_seconds_of(times.serving);
  by_state.protect = gpu_seconds_of(times.protect);
  by_state.sleeping = gpu_seconds_of(times.sleep);
  const auto all = static_cast<sched::GpuNanoseconds>((now - start_).count()) * state.capacity().total_gpus();
  by_state.idle = gpu_seconds_of(all - times.training - times.starting - times.serving - times.protect - times.sleep);
  result.summary.loans.gpu_seconds = gpu_seconds_of(times.lent);
  result.summary.loans.net_gpu_seconds = net_lent_;
}

}  // namespace ebb::sim
