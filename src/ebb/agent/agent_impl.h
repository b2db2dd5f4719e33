#pragma once

/// Inside of Agent: its state and its thread. agent.cc has what callers and the thread's loop do; agent_workers.cc has
/// what becomes of one worker.
///
/// The thread does all work on files and processes. Others only add to `workers_` and `commands_`, and read statuses,
/// under the mutex; so the thread takes the mutex to look a worker up or to change what list() shows, and not while it
/// waits for the disk.

#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ebb/agent/agent.h"
#include "ebb/agent/contract_server.h"
#include "ebb/agent/disk.h"
#include "ebb/agent/worker_folder.h"

namespace ebb::agent {

class Agent::Impl {
 public:
  Impl(AgentOptions options, Sink sink, ReportSink reports);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  friend class Agent;

  // --- agent.cc

  struct StartCommand {
    WorkerSpec spec;
  };
  struct StopCommand {
    WorkerId worker;
    Duration grace{};
  };
  struct ForgetCommand {
    WorkerId worker;
  };
  using Command = std::variant<StartCommand, StopCommand, ForgetCommand>;

  struct Worker {
    Worker(std::filesystem::path path, const WorkerId& id) : folder(std::move(path)) { status.id = id; }
    WorkerFolder folder;
    WorkerStatus status;    ///< under the mutex
    bool admitted = false;  ///< its start was looked at
    bool on_disk = false;   ///< its folder is there, with a spec
    bool launched = false;  ///< a shim, by this agent
    GroupPlan group;
    int watch = -1;         ///< of its folder
    std::vector<Fd> dying;  ///< processes that were killed after its shim was lost
    int cleared = 0;        ///< how often they were
  };

  /// A process that is waited for.
  struct Watched {
    Fd process;
    WorkerId worker;
    bool is_child = false;
  };

  Result<void> open();
  Result<void> take_folder();
  Result<void> serve_contract();
  /// Of the socket on which workers speak the contract.
  std::string contract_address() const { return "@ebb-" + id_; }
  Result<void> read_fences();
  Result<void> adopt_workers();
  void push(Command command);
  void wake();
  void run();
  void wait();
  bool take_commands();
  void on_folder_events();
  void on_process_end(std::uint64_t token);
  void renew_if_due();
  void flush();
  Result<void> write_lease();
  std::filesystem::path log_folder(const WorkerId& worker) const;

  // --- agent_workers.cc

  Worker* find(const WorkerId& id);
  /// Checks and remembers; launch_admitted() does the rest for all that came together, with fewer waits for the disk.
  void admit(const WorkerSpec& spec);
  void launch_admitted();
  /// Why it cannot be started; "" if it can.
  std::string objection(const WorkerSpec& spec) const;
  Launch make_launch(const WorkerSpec& spec) const;
  void launch(Worker& worker);
  void stop(const WorkerId& id, Duration grace);
  void forget(const WorkerId& id);
  /// Looks at the worker's files and does what follows from them.
  void settle(Worker& worker);
  void watch_folder(Worker& worker);
  void watch_process(const WorkerId& worker, Fd process, bool is_child);
  /// It never ran and shall not any more.
  void refuse(Worker& worker, const std::string& why);
  void withdraw(Worker& worker, const std::string& why);
  void clear(Worker& worker);
  void finish(Worker& worker, WorkerExit exit);
  void again(const Worker& worker, Duration delay) { retry_at_[worker.status.id] = boot_clock() + delay; }

  const AgentOptions options_;
  const Sink sink_;
  const ReportSink reports_;
  std::string id_;
  Isolation isolation_;
  Fd folder_lock_;
  Fd epoll_;
  Fd wake_;
  Fd folder_events_;  // inotify

  mutable std::mutex mutex_;
  std::map<WorkerId, Worker> workers_;  // added to by anyone, taken from by the thread, under the mutex
  std::vector<Command> commands_;       // under the mutex
  bool stopping_ = false;               // under the mutex
  std::mutex lease_mutex_;

  // The thread's own.
  std::vector<Fence> fences_;  // by slot
  std::vector<WorkerSpec> admitted_;
  std::vector<WorkerStatus> outbox_;
  std::unordered_map<std::uint64_t, Watched> processes_;
  std::map<WorkerId, std::uint64_t> watched_workers_;  // with a process in `processes_`
  std::uint64_t next_token_ = 16;                      // smaller ones are the agent's own descriptors
  std::unordered_map<int, WorkerId> folders_;          // by inotify watch
  std::map<WorkerId, Duration> retry_at_;
  std::atomic<Duration> renew_at_ = Duration{};  // also written by renew_lease()
  std::thread thread_;
  std::unique_ptr<ContractServer> contract_;
};

/// For an operator, where there is no worker to say it of.
void complain(const std::string& message);

}  // namespace ebb::agent
