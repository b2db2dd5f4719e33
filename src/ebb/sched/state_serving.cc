// The part of the fold that is about services, replicas and inference tasks.

#include <algorithm>

#include "ebb/base/check.h"
#include "ebb/sched/state.h"

namespace ebb::sched {

const char* to_string(ReplicaPhase phase) {
  switch (phase) {
    case ReplicaPhase::starting:
      return "starting";
    case ReplicaPhase::serving:
      return "serving";
    case ReplicaPhase::protect:
      return "protect";
    case ReplicaPhase::sleep:
      return "sleep";
    case ReplicaPhase::stopping:
      return "stopping";
    case ReplicaPhase::gone:
      return "gone";
  }
  return "unknown";
}

std::optional<ServiceId> State::find_service(std::string_view name) const {
  const auto found = service_names_.find(name);
  return found == service_names_.end() ? std::nullopt : std::optional(found->second);
}

Result<void> State::require_replica(ReplicaId replica, const char* what) const {
  if (replica < replicas_.size()) return {};
  return fail(ErrorCode::internal, "{} of replica {}, which was never started", what, replica);
}

Result<void> State::require_rest(ReplicaId id, const char* what) const {
  EBB_RETURN_IF_ERROR(require_replica(id, what));
  if (replicas_[id].rests()) return {};
  return fail(ErrorCode::internal, "{} of replica {} of service '{}', which is {}", what, id,
              services_[replicas_[id].service].spec.name, to_string(replicas_[id].folded));
}

Result<void> State::apply(const ServiceAdded& e, Time) {
  if (e.service != services_.size()) {
    return fail(ErrorCode::internal, "service {} is added, but the next number is {}", e.service, services_.size());
  }
  if (e.spec.gpus < 1 || !service_names_.try_emplace(e.spec.name, e.service).second) {
    return fail(ErrorCode::internal, "service {} ('{}') has {} GPUs a replica, or its name is taken", e.service,
                e.spec.name, e.spec.gpus);
  }
  services_.emplace_back().spec = e.spec;
  return {};
}

Result<void> State::apply(const ServiceDemand& e, Time) {
  if (e.service >= services_.size() || e.replicas < 0) {
    return fail(ErrorCode::internal, "demand of {} replicas for service {}, which is unknown", e.replicas, e.service);
  }
  services_[e.service].demand = e.replicas;
  return {};
}

void State::submit_task(JobId id) {
  const JobSpec& spec = jobs_[id].spec;
  // A task of a service that nobody added brings the service with it.
  if (!find_service(spec.application)) {
    service_names_.emplace(spec.application, static_cast<ServiceId>(services_.size()));
    ServiceState& service = services_.emplace_back();
    service.spec.name = spec.application;
    service.spec.gpus = spec.gpus;
  }
  jobs_[id].service = *find_service(spec.application);
  ++active_tasks_;
  add_waiting_task(id);
}

void State::add_waiting_task(JobId id) {
  waiting_tasks_.insert(id);
  services_[jobs_[id].service].waiting.insert(id);
}

void State::remove_waiting_task(JobId id) {
  waiting_tasks_.erase(id);
  services_[jobs_[id].service].waiting.erase(id);
}

// Its hits do not change while it rests.
void State::begin_rest(ReplicaId id) {
  services_[replicas_[id].service].resting.emplace(-std::int64_t{replicas_[id].hits}, id);
}

void State::end_rest(ReplicaId id) {
  services_[replicas_[id].service].resting.erase({-std::int64_t{replicas_[id].hits}, id});
}

bool State::lacks_replicas() const {
  return !waiting_tasks_.empty() || std::any_of(services_.begin(), services_.end(), [](const ServiceState& service) {
    return service.demand > service.serving;
  });
}

void State::wait_again(JobId id, Time now) {
  JobState& task = jobs_[id];
  if (task.phase == JobPhase::running) {
    task.held += now - task.held_since;
    task.waiting_since = now;
    ++task.failures;
  }
  task.phase = JobPhase::waiting;
  task.replica.reset();
  ++tasks_returned_;
  add_waiting_task(id);
}

// Adds the time since the replica entered its phase to what GPUs did.
void State::add_phase(const ReplicaState& replica, Time now, GpuTimes& times) {
  const auto spent = [&](Time from, Time to) {
    return to <= from ? GpuNanoseconds{0} : static_cast<GpuNanoseconds>((to - from).count()) * replica.place.gpus;
  };
  switch (replica.folded) {
    case ReplicaPhase::starting:
      if (replica.promised == 0) times.starting += spent(replica.since, now);
      break;
    case ReplicaPhase::serving:
      times.serving += spent(replica.since, now);
      break;
    case ReplicaPhase::protect:
    case ReplicaPhase::sleep: {
      const Time until = std::clamp(replica.protect_until, replica.since, std::max(replica.since, now));
      times.protect += spent(replica.since, until);
      times.sleep += spent(until, now);
      break;
    }
    case ReplicaPhase::stopping:
      times.sleep += spent(replica.since, now);
      break;
    case ReplicaPhase::gone:
      break;
  }
}

void State::close_phase(ReplicaState& replica, Time now) {
  add_phase(replica, now, times_);
  replica.since = now;
}

GpuTimes State::gpu_times(Time now) const {
  GpuTimes times = times_;
  for (const ReplicaId id : live_replicas_) add_phase(replicas_[id], now, times);
  times.training = gpu_time_ + static_cast<GpuNanoseconds>(gpus_occupied_) * (now - latest_).count();
  times.lent += static_cast<GpuNanoseconds>(gpus_lent_) * (now - latest_).count();
  for (const JobId id : holding_) times.resizing += jobs_[id].unproductive_until(now);
  return times;
}

Result<void> State::apply(const StartReplica& d, Time now) {
  if (d.replica != replicas_.size() || d.service >= services_.size()) {
    return fail(ErrorCode::internal, "start of replica {} of service {}; the next replica is {}, there are {} services",
                d.replica, d.service, replicas_.size(), services_.size());
  }
  ServiceState& service = services_[d.service];
  EBB_RETURN_IF_ERROR(require_node(d.place.node, "use"));
  if (d.task) {
    EBB_RETURN_IF_ERROR(require_job(*d.task, "replica for a task"));
    const JobState& task = jobs_[*d.task];
    EBB_RETURN_IF_ERROR(
        require_phase(*d.task, "replica for a task",
                      !task.training() && task.phase == JobPhase::waiting && task.service == d.service));
  }
  const bool may_use = capacity_.may_serve(d.place.node);
  if (d.place.gpus != service.spec.gpus || d.place.gpus > capacity_.available(d.place.node) || !may_use) {
    return fail(ErrorCode::internal, "replica {} of service '{}' would take {} GPUs of node {}, which has {} to give{}",
                d.replica, service.spec.name, d.place.gpus, capacity_.spec().nodes[d.place.node].name,
                capacity_.available(d.place.node), may_use ? "" : " (and not to services)");
  }
  ReplicaState& replica = replicas_.emplace_back();
  replica.service = d.service;
  replica.place = d.place;
  replica.keep_alive = d.keep_alive;
  replica.task = d.task;
  replica.warm = d.warm;
  replica.since = now;
  replica.promised = capacity_.take(Holder::replica(d.replica), {d.place});
  if (replica.promised == 0) gpus_serving_ += d.place.gpus;
  live_replicas_.push_back(d.replica);
  service.replicas.push_back(d.replica);
  if (d.task) {
    jobs_[*d.task].phase = JobPhase::starting;
    jobs_[*d.task].replica = d.replica;
    remove_waiting_task(*d.task);
  } else {
    ++service.serving;
  }
  if (replica.promised == 0) launchable_.push_back(Holder::replica(d.replica));
  return {};
}

Result<void> State::apply(const ReplicaReady& e, Time now) {
  EBB_RETURN_IF_ERROR(require_replica(e.replica, "readiness"));
  ReplicaState& replica = replicas_[e.replica];
  if (replica.folded != ReplicaPhase::starting || replica.promised > 0) {
    return fail(ErrorCode::internal, "readiness of replica {}, which is {} and waits for {} GPUs", e.replica,
                to_string(replica.folded), replica.promised);
  }
  close_phase(replica, now);
  std::erase(launchable_, Holder::replica(e.replica));
  replica.folded = ReplicaPhase::serving;
  if (replica.task) begin_task(*replica.task, now);
  return {};
}

void State::begin_task(JobId id, Time now) {
  JobState& task = jobs_[id];
  task.phase = JobPhase::running;
  task.gpus = task.spec.gpus;
  task.held_since = now;
  task.pending += now - task.waiting_since;
  ++task.incarnations;
  if (!task.first_start) task.first_start = now;
}

Result<void> State::apply(const Serve& d, Time now) {
  EBB_RETURN_IF_ERROR(require_rest(d.replica, "use"));
  EBB_RETURN_IF_ERROR(require_job(d.task, "service"));
  ReplicaState& replica = replicas_[d.replica];
  const JobState& task = jobs_[d.task];
  EBB_RETURN_IF_ERROR(require_phase(
      d.task, "service", !task.training() && task.phase == JobPhase::waiting && task.service == replica.service));
  end_rest(d.replica);
  replica.hits = replica.phase(now) == ReplicaPhase::sleep ? 0 : replica.hits + 1;
  close_phase(replica, now);
  replica.folded = ReplicaPhase::serving;
  replica.task = d.task;
  replica.keep_alive = d.keep_alive;
  remove_waiting_task(d.task);
  jobs_[d.task].replica = d.replica;
  begin_task(d.task, now);
  return {};
}

void State::finish_task(JobId id, Time now) {
  JobState& task = jobs_[id];
  task.held += now - task.held_since;
  --active_tasks_;
  ReplicaState& replica = replicas_[*task.replica];
  close_phase(replica, now);
  replica.task.reset();
  replica.folded = ReplicaPhase::protect;
  replica.protect_until = now + replica.keep_alive.value_or(Duration(0));
  begin_rest(*task.replica);
}

Result<void> State::apply(const WakeReplica& d, Time now) {
  EBB_RETURN_IF_ERROR(require_rest(d.replica, "waking"));
  ReplicaState& replica = replicas_[d.replica];
  end_rest(d.replica);
  replica.hits = replica.phase(now) == ReplicaPhase::sleep ? 0 : replica.hits + 1;
  close_phase(replica, now);
  replica.folded = ReplicaPhase::serving;
  ++services_[replica.service].serving;
  return {};
}

Result<void> State::apply(const RestReplica& d, Time now) {
  EBB_RETURN_IF_ERROR(require_replica(d.replica, "rest"));
  ReplicaState& replica = replicas_[d.replica];
  const bool serves = replica.folded == ReplicaPhase::serving && !replica.task;
  if (!(serves || replica.rests()) || d.keep_alive < Duration(0)) {
    return fail(ErrorCode::internal, "rest of replica {}, which is {}{}", d.replica, to_string(replica.folded),
                replica.task ? " a task" : "");
  }
  close_phase(replica, now);
  replica.folded = ReplicaPhase::protect;
  replica.keep_alive = d.keep_alive;
  replica.protect_until = now + d.keep_alive;
  if (serves) {
    begin_rest(d.replica);
    --services_[replica.service].serving;
  }
  return {};
}

Result<void> State::apply(const StopReplica& d, Time now) {
  EBB_RETURN_IF_ERROR(require_rest(d.replica, "stop"));
  ReplicaState& replica = replicas_[d.replica];
  if (replica.phase(now) == ReplicaPhase::protect) {
    return fail(ErrorCode::internal, "stop of replica {} of service '{}', which is protected until {} s", d.replica,
                services_[replica.service].spec.name, format_seconds(replica.protect_until));
  }
  end_rest(d.replica);
  close_phase(replica, now);
  replica.folded = ReplicaPhase::stopping;
  capacity_.begin_release({replica.place});
  return {};
}

Result<void> State::apply(const ReplicaStopped& e, Time now) {
  EBB_RETURN_IF_ERROR(require_replica(e.replica, "end"));
  ReplicaState& replica = replicas_[e.replica];
  if (!replica.alive()) return fail(ErrorCode::internal, "end of replica {}, which is gone", e.replica);
  if (replica.rests()) end_rest(e.replica);
  close_phase(replica, now);
  MetPromises met;
  if (replica.folded == ReplicaPhase::starting) {
    capacity_.cancel(Holder::replica(e.replica), {replica.place}, met);
    std::erase(launchable_, Holder::replica(e.replica));
  } else {
    capacity_.release({replica.place}, replica.folded == ReplicaPhase::stopping, met);
  }
  ServiceState& service = services_[replica.service];
  const bool counted = replica.folded == ReplicaPhase::starting || replica.folded == ReplicaPhase::serving;
  if (counted && !replica.task) --service.serving;
  if (replica.task) wait_again(*replica.task, now);
  replica.task.reset();
  if (replica.promised == 0) gpus_serving_ -= replica.place.gpus;
  replica.promised = 0;
  replica.folded = ReplicaPhase::gone;
  std::erase(service.replicas, e.replica);
  live_replicas_.erase(std::lower_bound(live_replicas_.begin(), live_replicas_.end(), e.replica));
  tell_met(met, now);
  return {};
}

}  // namespace ebb::sched
