// What becomes of one worker: the agent's thread only.

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>

#include "ebb/agent/agent_impl.h"
#include "ebb/agent/launcher.h"
#include "ebb/agent/processes.h"
#include "ebb/base/files.h"

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookAgain = 10ms;    // a shim is about to write its process id
constexpr Duration kKillAgain = 50ms;    // killed processes take a moment
constexpr Duration kPollFolder = 200ms;  // where the system watches no more folders
constexpr int kRemoveGroupTries = 40;
constexpr std::size_t kLogTail = 512;

WorkerExit not_started(std::string why) {
  return {.cause = WorkerExit::Cause::not_started, .code = 0, .message = std::move(why)};
}

bool has_nul(const std::vector<std::string>& strings) {
  return std::any_of(strings.begin(), strings.end(),
                     [](const std::string& s) { return s.find('\0') != std::string::npos; });
}

/// Entries of `environment`, but for those that `more` sets, then `more`.
std::vector<std::string> merge(const std::vector<std::string>& environment, const std::vector<std::string>& more) {
  std::set<std::string> names;
  for (const std::string& entry : more) names.insert(entry.substr(0, entry.find('=')));
  std::vector<std::string> merged;
  for (const std::string& entry : environment) {
    if (!names.contains(entry.substr(0, entry.find('=')))) merged.push_back(entry);
  }
  merged.insert(merged.end(), more.begin(), more.end());
  return merged;
}

std::vector<std::string> marks(const std::string& agent, const WorkerId& worker) {
  return {"EBB_AGENT_ID=" + agent, "EBB_WORKER_ID=" + worker};
}

}  // namespace

Agent::Impl::Worker* Agent::Impl::find(const WorkerId& id) {
  const std::lock_guard lock(mutex_);
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

std::string Agent::Impl::objection(const WorkerSpec& spec) const {
  if (!is_valid_worker_id(spec.id)) return fmt::format("'{}' is no worker id (a-z, 0-9 and -, at most 64)", spec.id);
  if (spec.command.empty() || spec.command.front().empty()) return "its command is empty";
  if (has_nul(spec.command) || has_nul(spec.environment) || has_nul({spec.working_directory})) {
    return "its command, environment or working directory has a byte 0";
  }
  if (spec.contract && !contract_) return "it speaks the worker contract, and this agent does not";
  std::set<std::int32_t> seen;
  for (const std::int32_t slot : spec.slots) {
    if (slot < 0 || slot >= options_.slots.count || !seen.insert(slot).second) {
      return fmt::format("slot {} is named twice or is none of the {} of this node", slot, options_.slots.count);
    }
    // The same worker may come again: an agent that went down between fence and folder has not started it.
    const Fence& fence = fences_[static_cast<std::size_t>(slot)];
    if (spec.fence < fence.number || (spec.fence == fence.number && spec.id != fence.worker)) {
      return fmt::format("fence {} of slot {} is not above {}, that of {}", spec.fence, slot, fence.number,
                         fence.worker.empty() ? "nobody" : fence.worker);
    }
  }
  return "";
}

Launch Agent::Impl::make_launch(const WorkerSpec& spec) const {
  const auto slots = static_cast<std::int64_t>(spec.slots.size());
  const SlotSet& all = options_.slots;
  std::optional<std::int64_t> milli_cpus;
  std::optional<std::int64_t> memory = spec.memory_bytes;
  if (all.gpus.empty() && slots > 0) {
    if (all.milli_cpus_per_slot > 0) milli_cpus = slots * all.milli_cpus_per_slot;
    if (!memory && all.memory_bytes_per_slot) memory = slots * *all.memory_bytes_per_slot;
  }
  std::vector<std::string> own = marks(id_, spec.id);
  for (std::string& entry : device_environment(all, spec.slots)) own.push_back(std::move(entry));
  if (spec.contract) {
    own.push_back("EBB_WORKER_SOCKET=" + contract_address());
    own.push_back("EBB_WORKER_SECRET=" + contract_->secret_of(spec.id));
  }
  return {.worker = spec,
          .agent = id_,
          .environment = merge(spec.environment, own),
          .group = plan_group(isolation_, spec.id, milli_cpus, memory),
          .logs = options_.logs,
          .leased = options_.lease.has_value()};
}

void Agent::Impl::admit(const WorkerSpec& spec) {
  Worker* known = find(spec.id);
  if (known == nullptr) {  // forgotten since start() was called
    const std::lock_guard lock(mutex_);
    known = &workers_.try_emplace(spec.id, options_.folder / "workers" / spec.id, spec.id).first->second;
  }
  Worker& worker = *known;
  if (worker.admitted) {
    if (worker.status.exit || worker.status.pid != 0) outbox_.push_back(worker.status);
    return;
  }
  worker.admitted = true;
  if (is_valid_worker_id(spec.id)) {
    if (auto ended = WorkerFolder(options_.folder / "ended" / spec.id).exit()) {
      outbox_.push_back({.id = spec.id, .pid = 0, .exit = std::move(ended)});
      const std::lock_guard lock(mutex_);
      workers_.erase(spec.id);
      return;
    }
  }
  if (const std::string why = objection(spec); !why.empty()) {
    finish(worker, not_started(why));
    return;
  }
  for (const std::int32_t slot : spec.slots) {
    fences_[static_cast<std::size_t>(slot)] = {.number = spec.fence, .worker = spec.id};
  }
  admitted_.push_back(spec);
}

void Agent::Impl::launch_admitted() {
  if (admitted_.empty()) return;
  std::vector<WorkerSpec> specs;
  specs.swap(admitted_);
  const auto fenced = write_durably(options_.folder / "fences.json", fences_to_json(fences_));
  std::vector<Worker*> prepared;
  for (const WorkerSpec& spec : specs) {
    Worker& worker = *find(spec.id);
    const Launch launch = make_launch(spec);
    if (const auto ready = fenced ? worker.folder.prepare(launch) : fenced; !ready) {
      withdraw(worker, ready.error().message);
      continue;
    }
    worker.on_disk = true;
    worker.group = launch.group;
    prepared.push_back(&worker);
  }
  const auto synced = sync_folder(options_.folder / "workers");
  for (Worker* const worker : prepared) {
    if (!synced) {
      withdraw(*worker, synced.error().message);
      continue;
    }
    watch_folder(*worker);
    launch(*worker);
  }
}

void Agent::Impl::launch(Worker& worker) {
  worker.launched = true;
  const auto pid = launch_shim(options_.shim, worker.folder);
  if (!pid) {
    refuse(worker, pid.error().message);
    return;
  }
  // Nobody else reaps it, so the number is its own.
  watch_process(worker.status.id, open_process(*pid), true);
}

void Agent::Impl::stop(const WorkerId& id, Duration grace) {
  Worker* const worker = find(id);
  if (worker == nullptr || worker->status.exit || !worker->on_disk) return;
  if (auto written = worker->folder.write_stop(grace); !written) {
    complain(fmt::format("worker {}: {}; it gets the grace time of its job", id, written.error().message));
  }
  // A shim that has not said its number yet looks for the file afterwards.
  signal_process(worker->folder.holder(), SIGTERM);
}

void Agent::Impl::forget(const WorkerId& id) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->status.exit) return;
  if (worker->on_disk) {
    const WorkerFolder& folder = worker->folder;
    if (!folder.exit()) {
      if (auto written = folder.write_exit(id, *worker->status.exit); !written) {
        complain(fmt::format("worker {} is kept: {}", id, written.error().message));
        return;
      }
    }
    // One rename makes the tombstone; if the machine goes down before it is durable, the worker is there as before.
    if (::rename(folder.path().c_str(), (options_.folder / "ended" / id).c_str()) != 0) {
      complain(os_error("move", folder.path(), errno).value().message);
      return;
    }
    const WorkerFolder tomb(options_.folder / "ended" / id);
    for (const char* const name : {"spec.json", "status.json", "stop.json", "launched", "lock"}) {
      ::unlink(tomb.file(name).c_str());
    }
    std::error_code ignored;
    if (fs::is_empty(tomb.file("shim.log"), ignored)) ::unlink(tomb.file("shim.log").c_str());
  }
  retry_at_.erase(id);
  const std::lock_guard lock(mutex_);
  workers_.erase(id);
}

void Agent::Impl::settle(Worker& worker) {
  if (worker.status.exit || !worker.on_disk) return;
  const WorkerId& id = worker.status.id;
  switch (worker.folder.judge()) {
    case WorkerFolder::Standing::ended:
      finish(worker,
             worker.folder.exit().value_or(WorkerExit{.cause = WorkerExit::Cause::lost, .code = 0, .message = ""}));
      return;
    case WorkerFolder::Standing::alive:
      if (!watched_workers_.contains(id)) {
        if (Fd shim = worker.folder.holder()) {
          watch_process(id, std::move(shim), false);
          // A stop that an earlier agent wrote down and did not get to say.
          if (worker.folder.stop()) signal_process(worker.folder.holder(), SIGTERM);
        } else {
          again(worker, kLookAgain);
        }
      }
      if (const auto pid = worker.folder.pid(); pid && worker.status.pid == 0) {
        const std::lock_guard lock(mutex_);
        worker.status.pid = *pid;
        outbox_.push_back(worker.status);
      }
      break;
    case WorkerFolder::Standing::orphaned:
      clear(worker);
      return;
    case WorkerFolder::Standing::prepared:
      if (watched_workers_.contains(id)) break;  // its shim is on its way
      if (worker.launched) {
        refuse(worker, "");
        return;
      }
      // An agent before this one went down between the folder and the shim.
      if (const auto spec = worker.folder.launch(); !spec) {
        refuse(worker, spec.error().message);
        return;
      } else if (const std::string why = objection(spec->worker); !why.empty()) {
        refuse(worker, why);
        return;
      }
      launch(worker);
      break;
    case WorkerFolder::Standing::empty:
      finish(worker, not_started("its folder is gone"));
      return;
  }
  if (worker.watch < 0) again(worker, kPollFolder);
}

void Agent::Impl::watch_folder(Worker& worker) {
  worker.watch = ::inotify_add_watch(folder_events_.get(), worker.folder.path().c_str(), IN_MOVED_TO);
  if (worker.watch >= 0) {
    folders_[worker.watch] = worker.status.id;
  } else {
    again(worker, kPollFolder);
  }
}

void Agent::Impl::watch_process(const WorkerId& worker, Fd process, bool is_child) {
  if (!process) {
    retry_at_[worker] = boot_clock() + kPollFolder;
    return;
  }
  const std::uint64_t token = next_token_++;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = token}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.get(), &event) != 0) {
    retry_at_[worker] = boot_clock() + kPollFolder;
    return;
  }
  processes_.emplace(token, Watched{.process = std::move(process), .worker = worker, .is_child = is_child});
  watched_workers_[worker] = token;
}

/// Under the lock, so that no shim that may still be on its way runs it. `why` empty: the shim's last words.
void Agent::Impl::refuse(Worker& worker, const std::string& why) {
  const auto lock = worker.folder.lock(false);
  if (!lock && lock.error().code == ErrorCode::unavailable) {
    again(worker, kLookAgain);  // somebody runs it after all
    return;
  }
  if (worker.folder.was_launched() || worker.folder.exit()) {
    again(worker, Duration{0});
    return;
  }
  std::string reason = why;
  if (reason.empty()) {
    const auto log = read_file(worker.folder.file("shim.log"), 1 << 20);
    std::string tail = log ? log->substr(log->size() - std::min(log->size(), kLogTail)) : "";
    while (tail.ends_with('\n')) tail.pop_back();
    reason = tail.empty() ? "its shim ended before it ran the command" : tail;
  }
  if (!worker.folder.write_exit(worker.status.id, not_started(reason))) {
    withdraw(worker, reason);  // no space to say so: without a spec it cannot run either
    return;
  }
  finish(worker, not_started(reason));
}

/// Takes the spec away: no agent will launch it.
void Agent::Impl::withdraw(Worker& worker, const std::string& why) {
  std::error_code ignored;
  fs::remove_all(worker.folder.path(), ignored);
  static_cast<void>(sync_folder(options_.folder / "workers"));
  worker.on_disk = false;
  finish(worker, not_started(why));
}

/// Its shim was lost: kills all that is left, then says so.
void Agent::Impl::clear(Worker& worker) {
  kill_group(worker.group);
  for (Fd& process : kill_by_environment(marks(id_, worker.status.id))) worker.dying.push_back(std::move(process));
  std::erase_if(worker.dying, has_ended);
  if (!worker.dying.empty() || !group_processes(worker.group).empty()) {
    again(worker, kKillAgain);
    return;
  }
  if (!remove_group(worker.group) && ++worker.cleared < kRemoveGroupTries) {
    again(worker, kKillAgain);
    return;
  }
  const WorkerExit lost{
      .cause = WorkerExit::Cause::lost, .code = 0, .message = "its shim was killed; what it had started was ended"};
  // What cannot be written now is found out again by the next agent.
  if (auto written = worker.folder.write_exit(worker.status.id, lost); !written) complain(written.error().message);
  finish(worker, lost);
}

void Agent::Impl::finish(Worker& worker, WorkerExit exit) {
  if (worker.watch >= 0) {
    ::inotify_rm_watch(folder_events_.get(), worker.watch);
    folders_.erase(worker.watch);
    worker.watch = -1;
  }
  retry_at_.erase(worker.status.id);
  const std::lock_guard lock(mutex_);
  worker.status.exit = std::move(exit);
  outbox_.push_back(worker.status);
}

}  // namespace ebb::agent
