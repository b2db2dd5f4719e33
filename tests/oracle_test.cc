// The policies against naive ones: short simulators, written from the rules alone, that look at every job at every
// event. Whole seconds, one GPU type, GPU counting. Every job must start and end at the same second.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>

#include "ebb/base/random.h"
#include "ebb/policies/all.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/cluster.h"

namespace ebb {
namespace {

constexpr long kNever = std::numeric_limits<long>::max();

struct NaiveJob {
  int id = 0;
  long submit = 0;
  long duration = 0;
  int gpus = 0;
  int tenant = 0;
  long estimate = 0;
  long executed = 0;  // in all
  long start = -1;
  long end = -1;
  bool running = false;
  long attained_time = 0;  // tiresias: executed since the first start or last promotion
  long waited = 0;
  int queue = 0;
};

/// The frame of all naive policies: jumps from event to event, hands over all active jobs in order of arrival, and asks
/// which of them hold GPUs from now on.
class Naive {
 public:
  Naive(std::vector<NaiveJob> jobs, int gpus) : jobs_(std::move(jobs)), gpus_(gpus) {}
  virtual ~Naive() = default;

  std::vector<NaiveJob> run() {
    for (long now = next_event(-1); now != kNever; now = next_event(now)) {
      for (NaiveJob& job : jobs_) {
        if (job.submit > last_ && job.submit <= now) continue;  // new
        if (job.submit > now || job.end >= 0) continue;
        pass(job, now - std::max(last_, job.submit));
        if (job.running && job.executed == job.duration) {
          job.running = false;
          job.end = now;
          ended(job);
        }
      }
      for (NaiveJob& job : jobs_) {
        if (job.submit > last_ && job.submit <= now) arrived(job);
      }
      last_ = now;
      now_ = now;
      decide();
      for (NaiveJob& job : jobs_) {
        if (job.running && job.start < 0) job.start = now;
        // A job without work ends in the moment in which it starts, and that is an event again.
      }
    }
    return jobs_;
  }

 protected:
  virtual void pass(NaiveJob& job, long dt) {
    if (job.running) job.executed += dt;
  }
  virtual void arrived(NaiveJob& job) = 0;
  virtual void ended(NaiveJob& job) = 0;
  virtual void decide() = 0;
  virtual long wake() const { return kNever; }

  long next_event(long now) const {
    long next = kNever;
    for (const NaiveJob& job : jobs_) {
      if (job.submit > now) next = std::min(next, job.submit);
      if (job.running) next = std::min(next, now + job.duration - job.executed);
    }
    const long wanted = now >= 0 ? wake() : kNever;
    return wanted > now ? std::min(next, wanted) : next;
  }

  int held() const {
    int held = 0;
    for (const NaiveJob& job : jobs_) held += job.running ? job.gpus : 0;
    return held;
  }

  std::vector<NaiveJob> jobs_;
  int gpus_;
  long last_ = -1;
  long now_ = -1;
};

// Those that wait in one list, in order of arrival; nobody is preempted.
class NaiveQueue : public Naive {
 public:
  using Naive::Naive;

 protected:
  void arrived(NaiveJob& job) override { queue_.push_back(&job); }
  void ended(NaiveJob&) override {}
  bool fits(const NaiveJob& job) const { return held() + job.gpus <= gpus_; }

  std::list<NaiveJob*> queue_;
};

class NaiveFifo final : public NaiveQueue {
 public:
  using NaiveQueue::NaiveQueue;
  void decide() override {
    while (!queue_.empty() && fits(*queue_.front())) {
      queue_.front()->running = true;
      queue_.pop_front();
    }
  }
};

class NaiveEasy final : public NaiveQueue {
 public:
  using NaiveQueue::NaiveQueue;
  void decide() override {
    while (!queue_.empty() && fits(*queue_.front())) take(queue_.begin());
    if (queue_.empty()) return;
    const NaiveJob& head = *queue_.front();
    std::vector<std::pair<long, int>> ends;
    for (const NaiveJob& job : jobs_) {
      if (job.running) ends.emplace_back(std::max(now_, started_[job.id] + job.estimate), job.gpus);
    }
    std::sort(ends.begin(), ends.end());
    int free = gpus_ - held();
    long shadow = kNever;
    for (const auto& [end, gpus] : ends) {
      if (shadow != kNever && end > shadow) break;
      free += gpus;
      if (free >= head.gpus && shadow == kNever) shadow = end;
    }
    int extra = free - head.gpus;
    for (auto at = std::next(queue_.begin()); at != queue_.end();) {
      NaiveJob& job = **at;
      const bool in_time = now_ + job.estimate <= shadow;
      if (fits(job) && (in_time || job.gpus <= extra)) {
        if (!in_time) extra -= job.gpus;
        at = take(at);
      } else {
        ++at;
      }
    }
  }

 private:
  std::list<NaiveJob*>::iterator take(std::list<NaiveJob*>::iterator at) {
    (*at)->running = true;
    started_[(*at)->id] = now_;
    return queue_.erase(at);
  }

  std::map<int, long> started_;
};

class NaiveDrf final : public NaiveQueue {
 public:
  using NaiveQueue::NaiveQueue;
  void decide() override {
    while (true) {
      std::map<int, int> share;
      for (const NaiveJob& job : jobs_) share[job.tenant] += job.running ? job.gpus : 0;
      auto best = queue_.end();
      for (auto at = queue_.begin(); at != queue_.end(); ++at) {
        if (!fits(**at)) continue;
        if (best == queue_.end() || share[(*at)->tenant] < share[(*best)->tenant] ||
            (share[(*at)->tenant] == share[(*best)->tenant] && seen((*at)->tenant) < seen((*best)->tenant))) {
          best = at;
        }
      }
      if (best == queue_.end()) return;
      (*best)->running = true;
      queue_.erase(best);
    }
  }

 private:
  // Equal shares: the tenant that came first.
  int seen(int tenant) const {
    for (const NaiveJob& job : jobs_) {
      if (job.tenant == tenant) return job.id;
    }
    return 0;
  }
};

class NaiveShortest final : public Naive {
 public:
  NaiveShortest(std::vector<NaiveJob> jobs, int gpus, bool times_gpus)
      : Naive(std::move(jobs), gpus), times_gpus_(times_gpus) {}

 protected:
  void arrived(NaiveJob& job) override { list_.push_back(&job); }
  void ended(NaiveJob& job) override { list_.erase(std::find(list_.begin(), list_.end(), &job)); }
  void decide() override {
    list_.sort([&](const NaiveJob* a, const NaiveJob* b) { return key(*a) < key(*b); });  // std::list sorts stably
    int free = gpus_;
    for (NaiveJob* job : list_) {
      job->running = job->gpus <= free;
      if (job->running) free -= job->gpus;
    }
  }

 private:
  long key(const NaiveJob& job) const { return (job.duration - job.executed) * (times_gpus_ ? job.gpus : 1); }

  std::list<NaiveJob*> list_;
  bool times_gpus_;
};

class NaiveTiresias final : public Naive {
 public:
  NaiveTiresias(std::vector<NaiveJob> jobs, int gpus, std::vector<double> limits, double knob)
      : Naive(std::move(jobs), gpus), limits_(std::move(limits)), knob_(knob), queues_(limits_.size() + 1) {}

 protected:
  void pass(NaiveJob& job, long dt) override {
    if (job.running) {
      job.executed += dt;
      job.attained_time += dt;
    } else if (job.attained_time > 0) {
      job.waited += dt;
    }
  }
  void arrived(NaiveJob& job) override { queues_[0].push_back(&job); }
  void ended(NaiveJob& job) override {
    auto& queue = queues_[static_cast<std::size_t>(job.queue)];
    queue.erase(std::find(queue.begin(), queue.end(), &job));
  }

  bool last(const NaiveJob& job) const { return static_cast<std::size_t>(job.queue) == limits_.size(); }
  double limit(const NaiveJob& job) const { return limits_[static_cast<std::size_t>(job.queue)]; }
  long patience(const NaiveJob& job) const { return static_cast<long>(knob_ * static_cast<double>(job.attained_time)); }

  void move(NaiveJob& job, int queue) {
    ended(job);
    job.queue = queue;
    queues_[static_cast<std::size_t>(queue)].push_back(&job);
  }

  void decide() override {
    for (NaiveJob& job : jobs_) {
      if (job.submit > now_ || job.end >= 0) continue;
      if (job.running && !last(job) && static_cast<double>(job.attained_time * job.gpus) >= limit(job)) {
        move(job, job.queue + 1);
      } else if (!job.running && knob_ > 0 && job.queue > 0 && job.attained_time > 0 && job.waited >= patience(job)) {
        job.attained_time = 0;
        job.waited = 0;
        move(job, 0);
      }
    }
    int free = gpus_;
    for (auto& queue : queues_) {
      for (NaiveJob* job : queue) {
        job->running = job->gpus <= free;
        if (job->running) free -= job->gpus;
      }
    }
    for (auto& queue : queues_) {
      std::list<NaiveJob*> waiting;
      for (auto at = queue.begin(); at != queue.end();) {
        if ((*at)->running) {
          ++at;
        } else {
          waiting.push_back(*at);
          at = queue.erase(at);
        }
      }
      queue.splice(queue.end(), waiting);
    }
  }

  long wake() const override {
    long next = kNever;
    for (const NaiveJob& job : jobs_) {
      if (job.submit > now_ || job.end >= 0) continue;
      if (job.running && !last(job)) {
        const auto jump =
            static_cast<long>(std::ceil((limit(job) - static_cast<double>(job.attained_time)) / job.gpus));
        if (jump > 0) next = std::min(next, now_ + jump);
      } else if (!job.running && knob_ > 0 && job.queue > 0 && job.attained_time > 0) {
        const long left = patience(job) - job.waited;
        if (left > 0) next = std::min(next, now_ + left);
      }
    }
    return next;
  }

 private:
  std::vector<double> limits_;
  double knob_;
  std::vector<std::list<NaiveJob*>> queues_;
};

struct OracleCase {
  std::vector<NaiveJob> jobs;
  int nodes = 0;
  int gpus_per_node = 0;
};

OracleCase make_case(std::uint64_t seed) {
  Random random(seed, "oracle");
  OracleCase c;
  c.nodes = static_cast<int>(1 + random.below(4));
  c.gpus_per_node = static_cast<int>(1 + random.below(8));
  const auto gpus = static_cast<std::uint64_t>(c.nodes * c.gpus_per_node);
  const auto count = 1 + random.below(60);
  // Few distinct values: many ties.
  const auto spread = 1 + random.below(30);
  long submit = static_cast<long>(random.below(3));
  for (std::uint64_t i = 0; i < count; ++i) {
    NaiveJob job;
    job.id = static_cast<int>(i);
    submit += static_cast<long>(random.below(spread));
    job.submit = submit;
    job.duration = static_cast<long>((1 + random.below(12)) * (1 + random.below(9)));
    job.gpus = static_cast<int>(1 + random.below(std::min<std::uint64_t>(gpus, 1 + random.below(16))));
    job.tenant = static_cast<int>(random.below(4));
    job.estimate = random.below(3) == 0 ? job.duration * static_cast<long>(1 + random.below(3)) / 2 : job.duration;
    c.jobs.push_back(job);
  }
  return c;
}

void compare(std::uint64_t seed, const OracleCase& c, const std::vector<NaiveJob>& expected, const std::string& policy,
             const std::vector<std::pair<std::string, std::string>>& set) {
  Workload workload;
  for (const NaiveJob& job : c.jobs) {
    JobSpec spec;
    spec.name = fmt::format("{}", job.id);
    spec.tenant = fmt::format("{}", job.tenant);
    spec.gpus = job.gpus;
    spec.submit = Time(std::chrono::seconds(job.submit));
    spec.run_time = std::chrono::seconds(job.duration);
    spec.requested_time = std::chrono::seconds(job.estimate);
    workload.jobs.push_back(spec);
  }
  sim::SimOptions options;
  options.check_invariants = true;
  options.policy = policy;
  options.set = set;
  options.time = spec::TimeModel::seconds;
  const auto cluster = spec::parse_cluster(fmt::format("{}x{}", c.nodes, c.gpus_per_node)).value();
  const auto result = sim::simulate(cluster, workload, options, policies::all());
  if (!result) RC_FAIL(fmt::format("seed {}: {}", seed, result.error().message));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto start = std::chrono::seconds(expected[i].start);
    const auto end = std::chrono::seconds(expected[i].end);
    if (result->jobs[i].start->time_since_epoch() != start || result->jobs[i].end->time_since_epoch() != end) {
      RC_FAIL(fmt::format("seed {}: {} job {}: {} to {} s, naively {} to {} s", seed, policy, i,
                          format_seconds(*result->jobs[i].start), format_seconds(*result->jobs[i].end),
                          expected[i].start, expected[i].end));
    }
  }
}

RC_GTEST_PROP(Oracle, EveryPolicyDecidesLikeItsNaiveTwin, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const OracleCase c = make_case(seed);
  const int gpus = c.nodes * c.gpus_per_node;
  compare(seed, c, NaiveFifo(c.jobs, gpus).run(), "fifo", {});
  compare(seed, c, NaiveEasy(c.jobs, gpus).run(), "backfill", {});
  compare(seed, c, NaiveDrf(c.jobs, gpus).run(), "drf", {});
  compare(seed, c, NaiveShortest(c.jobs, gpus, false).run(), "srtf", {});
  compare(seed, c, NaiveShortest(c.jobs, gpus, true).run(), "srsf", {});
  compare(seed, c, NaiveTiresias(c.jobs, gpus, {30, 200}, 0).run(), "tiresias", {{"limits", "30,200"}});
  for (const char* knob : {"0.5", "1", "2.5"}) {
    compare(seed, c, NaiveTiresias(c.jobs, gpus, {20, 60, 300}, std::stod(knob)).run(), "tiresias",
            {{"limits", "20,60,300"}, {"promote", knob}});
  }
}

}  // namespace
}  // namespace ebb
