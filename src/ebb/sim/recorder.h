#pragma once

/// Turns what happened in a run into a SimResult.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ebb/model/event.h"
#include "ebb/model/workload.h"
#include "ebb/sched/state.h"
#include "ebb/sim/history.h"
#include "ebb/sim/result.h"
#include "ebb/sim/series.h"

namespace ebb::sim {

/// Replicas that a service needs to meet its target.
struct ReplicaNeed {
  std::int32_t asked = 0;  ///< of the scheduler
  /// Of those that are needed. More than `asked` where the need passes what is asked for: then it is a lower bound.
  std::int64_t at_least = 0;
  bool capped = false;
};

class Recorder {
 public:
  /// Of a run of `workload`, which begins with its first job or the first demand of a service.
  /// `reclaim_bound`: so long training may keep GPUs that a service needs.
  Recorder(const Workload& workload, Duration target_extra, Duration reclaim_bound);

  /// Before the events of a batch are folded: everything was as `state` shows it until `now`.
  void advance(const sched::State& state, Time now);
  void submitted(JobId job);
  void finished(JobId job);
  void waits(JobId job, ReasonCode code);
  /// What a step heard, after it was folded.
  void heard(const sched::State& state, const std::vector<Event>& events, Time now);
  /// A service gets so many requests from now on.
  void demand(ServiceId service, const ServiceSpec& spec, double requests_per_s, const ReplicaNeed& need);
  /// What a step decided, after it was folded.
  void decided(const sched::State& state, const std::vector<Decision>& decisions, Time now);
  /// The GPUs of a replica are all free: it loads.
  void replica_launched(ReplicaId replica, Time now);
  /// A job was killed because it gave GPUs back too slowly.
  void forced() { ++forced_; }
  /// After the batch and its consequences.
  void batch_done(const sched::State& state, Time now);

  /// Jobs, series and figures. `last_end`: the latest end of a job, or of the run if none ended.
  void fill(const sched::State& state, Time now, SimResult& result) const;

 private:
  struct Load {
    ServiceSpec spec;
    double rate = 0;
    ReplicaNeed need;
    std::int32_t ready = 0;  // replicas, as of `share`
    double share = 1;        // of requests in target now
    bool known = false;      // share is that of rate and ready
  };

  /// Demand for replicas that the GPUs which may serve cannot hold, even if all of them served.
  struct Excess {
    bool now = false;
    double seconds = 0;        // it lasted so long in all
    std::int64_t peak = 0;     // the most GPUs that were needed
    bool at_least = false;     // `peak` is a lower bound
    GpuCount capacity = 0;     // what there was then
    std::vector<bool> waited;  // by job: a task that waited meanwhile
    std::uint64_t tasks = 0;   // of `waited`
    JobId next = 0;            // tasks from here on were not looked at
    std::uint64_t returned = 0;
  };

  /// Demand of a service that waits although training holds GPUs which it could have.
  struct Blocked {
    bool now = false;
    Duration time{};               // it lasted so long in all
    std::deque<Duration> lacking;  // `time` when each replica that the demand lacks came to be wanted
  };

  void note_excess(const sched::State& state);
  void note_blocked(const sched::State& state, Time now);
  void begin_wait(const sched::State& state, JobId task);
  void end_wait(const sched::State& state, JobId task);
  JobRecord record_of(const sched::State& state, JobId id, Time now) const;
  double rho_of(const sched::State& state, JobId id) const;
  void fill_training(const sched::State& state, SimResult& result) const;
  void fill_series(Time end, SimResult& result) const;
  void fill_inference(const sched::State& state, SimResult& result) const;
  void fill_gpu_times(const sched::State& state, Time now, SimResult& result) const;

  Time start_;
  Time last_;
  Duration target_extra_;
  std::map<ServiceId, Load> loads_;
  double requests_ = 0;  // expected, of all services with a demand
  double requests_in_target_ = 0;
  std::map<ReplicaId, Time> reclaiming_;  // replicas that wait for GPUs of training, since when
  std::vector<double> reclaim_s_;
  std::uint64_t forced_ = 0;
  Duration reclaim_bound_;
  std::vector<Blocked> blocked_;               // by service
  std::map<JobId, Duration> blocked_at_wait_;  // tasks that wait: Blocked::time when they began to
  std::uint64_t tasks_returned_ = 0;           // as of blocked_at_wait_
  std::uint64_t late_ = 0;
  Excess excess_;
  double net_lent_ = 0;  // GPU-seconds of training beyond the GPUs outside the serving pool
  History history_;
  double active_seconds_ = 0;             // integral of the number of active jobs
  std::vector<double> active_at_submit_;  // by job: the integral when it was submitted
  std::vector<double> active_at_end_;
  std::vector<std::uint8_t> waited_for_;  // by job: ReasonCode + 1, 0 = never waited
  SeriesBuilder gpus_in_use_;
  SeriesBuilder queue_length_;
  SeriesBuilder gpus_serving_;
  SeriesBuilder gpus_lent_;
};

/// Mean, median and 99th percentile by nearest rank.
Distribution distribution_of(std::vector<double> seconds);

}  // namespace ebb::sim
