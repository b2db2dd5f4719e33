#pragma once

/// Runs policies' planners (Policy::plan) on a thread of its own, one request after the other. The answer is a pure
/// function of policy and input, so it does not matter when it comes, or that a restarted controller asks again.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ebb/sched/policy.h"

namespace ebb::control {

/// `reign` tells the policies of a cluster apart that were in charge one after the other: each counts its plans from 0.
struct PlanAnswer {
  std::uint64_t reign = 0;
  std::uint64_t plan = 0;
  std::string answer;
};

class Planner {
 public:
  /// `sink` is called on the planner's thread.
  explicit Planner(std::function<void(PlanAnswer)> sink) : sink_(std::move(sink)), thread_([this] { run(); }) {}
  /// Waits for the plan in work; others are dropped.
  ~Planner() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      work_.notify_all();
    }
    thread_.join();
  }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  void ask(std::uint64_t reign, std::uint64_t plan, std::string input, std::unique_ptr<const sched::Policy> policy) {
    const std::lock_guard lock(mutex_);
    questions_.push_back({reign, plan, std::move(input), std::move(policy)});
    work_.notify_all();
  }

 private:
  struct Question {
    std::uint64_t reign = 0;
    std::uint64_t plan = 0;
    std::string input;
    std::unique_ptr<const sched::Policy> policy;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopping_ || !questions_.empty(); });
      if (stopping_) return;
      const Question question = std::move(questions_.front());
      questions_.pop_front();
      lock.unlock();
      sink_({question.reign, question.plan, question.policy->plan(question.input)});
      lock.lock();
    }
  }

  const std::function<void(PlanAnswer)> sink_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Question> questions_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ebb::control
