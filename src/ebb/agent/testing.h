#pragma once

/// For the tests of this module: an agent on a folder of its own, and what it said. Real processes throughout; tests
/// wait for conditions, with a deadline that only a defect reaches.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ebb/agent/agent.h"
#include "ebb/agent/worker_folder.h"
#include "ebb/base/files.h"
#include "ebb/base/test_folder.h"

namespace ebb::agent {

using namespace std::chrono_literals;

inline constexpr auto kPatience = 60s;

/// For what only files and processes show. True as soon as `condition` holds.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

/// False for a zombie too: it holds nothing any more.
inline bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

/// The Sink: keeps the statuses, and waits for them.
class Statuses {
 public:
  void add(WorkerStatus status) {
    const std::lock_guard lock(mutex_);
    all_[status.id].push_back(std::move(status));
    changed_.notify_all();
  }
  WorkerExit exit_of(const WorkerId& worker) {
    WorkerExit exit{.cause = WorkerExit::Cause::lost, .code = -1, .message = "the test waited in vain"};
    wait(worker, [&](const WorkerStatus& status) {
      if (status.exit) exit = *status.exit;
      return status.exit.has_value();
    });
    return exit;
  }
  pid_t pid_of(const WorkerId& worker) {
    pid_t pid = 0;
    wait(worker, [&](const WorkerStatus& status) {
      pid = static_cast<pid_t>(status.pid);
      return pid != 0 || status.exit.has_value();
    });
    return pid;
  }
  std::size_t exits_of(const WorkerId& worker) {
    const std::lock_guard lock(mutex_);
    std::size_t exits = 0;
    for (const WorkerStatus& status : all_[worker]) exits += status.exit ? 1 : 0;
    return exits;
  }
  /// Until there are `count` statuses of the worker.
  bool wait_for(const WorkerId& worker, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return all_[worker].size() >= count; });
  }

 private:
  void wait(const WorkerId& worker, const std::function<bool(const WorkerStatus&)>& is_it) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] {
      const auto& statuses = all_[worker];
      return std::any_of(statuses.begin(), statuses.end(), is_it);
    });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<WorkerId, std::vector<WorkerStatus>> all_;
};

/// The program ebb-shim of this build (agent_test.cc).
std::filesystem::path shim_program();

class AgentTest : public ::testing::Test {
 public:
  AgentTest() {
    options_.folder = root_ / "agent";
    options_.shim = shim_program();
    options_.slots = {.gpus = {}, .count = 4, .milli_cpus_per_slot = 0, .memory_bytes_per_slot = {}, .note = ""};
  }
  ~AgentTest() override {
    if (agent_ != nullptr) {
      for (const WorkerStatus& status : agent_->list()) agent_->stop(status.id, Duration{0});
      eventually([&] {
        const auto all = agent_->list();
        return std::all_of(all.begin(), all.end(), [](const WorkerStatus& s) { return s.exit.has_value(); });
      });
      agent_.reset();
    }
  }

 protected:
  /// In place of an earlier one; what it said is forgotten.
  Agent& open() {
    agent_.reset();
    statuses_ = std::make_unique<Statuses>();
    auto opened = Agent::open(options_, [statuses = statuses_.get()](WorkerStatus s) { statuses->add(std::move(s)); });
    if (!opened) ADD_FAILURE() << opened.error().message;
    agent_ = std::move(opened.value());
    return *agent_;
  }

  /// An agent in a process of its own, with these workers, all of them running; to be killed.
  pid_t open_in_child(const std::vector<WorkerSpec>& specs) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      auto agent = Agent::open(options_, [](const WorkerStatus&) {});
      if (!agent) ::_exit(1);
      for (const WorkerSpec& spec : specs) agent.value()->start(spec);
      while (true) ::pause();
    }
    for (const WorkerSpec& spec : specs) {
      EXPECT_TRUE(eventually([&] { return folder_of(spec.id).pid().has_value(); })) << spec.id;
    }
    return pid;
  }
  static void kill_child(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  WorkerSpec shell(const WorkerId& id, const std::string& script) const {
    WorkerSpec spec;
    spec.id = id;
    spec.command = {"sh", "-c", script};
    spec.environment = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"};
    spec.working_directory = root_.string();
    spec.grace_time = 5s;
    return spec;
  }
  WorkerExit run(const WorkerSpec& spec) {
    agent_->start(spec);
    return statuses_->exit_of(spec.id);
  }
  WorkerFolder folder_of(const WorkerId& id) const { return WorkerFolder(options_.folder / "workers" / id); }
  pid_t shim_of(const WorkerId& id) const {
    const auto text = read_file(folder_of(id).file("lock"));
    return text ? static_cast<pid_t>(std::atoi(text->c_str())) : 0;
  }
  /// What a worker has written into the file `name` of its working directory; "" before that.
  std::string said(const std::string& name) const {
    const auto text = read_file(root_ / name);
    return text ? *text : "";
  }
  /// A process id that a worker writes into a file.
  pid_t pid_said(const std::string& name) const {
    EXPECT_TRUE(eventually([&] { return said(name).ends_with('\n'); })) << name;
    return static_cast<pid_t>(std::atoi(said(name).c_str()));
  }

  TestFolder scratch_;
  std::filesystem::path root_ = scratch_.path();
  AgentOptions options_;
  std::unique_ptr<Statuses> statuses_;
  std::unique_ptr<Agent> agent_;
};

/// A worker that does nothing until it is ended.
inline constexpr const char* kIdle = "exec sleep 3600";

}  // namespace ebb::agent
