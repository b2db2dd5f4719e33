#include "ebb/agent/worker_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "ebb/agent/processes.h"
#include "ebb/base/files.h"

namespace ebb::agent {

namespace {

constexpr std::size_t kMaxFile = std::size_t{16} << 20;

bool is_there(const std::filesystem::path& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

pid_t pid_in(const std::filesystem::path& path) {
  const auto text = read_file(path, 64);
  pid_t pid = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), pid);
  return pid;
}

}  // namespace

WorkerFolder::Standing WorkerFolder::judge() const {
  if (is_there(file("exit.json"))) return Standing::ended;
  if (is_locked()) return Standing::alive;
  // A shim writes its exit before it lets the lock go: what is not there now will not come.
  if (is_there(file("exit.json"))) return Standing::ended;
  if (was_launched()) return Standing::orphaned;
  return is_there(file("spec.json")) ? Standing::prepared : Standing::empty;
}

Result<void> WorkerFolder::prepare(const Launch& launch) const {
  EBB_ASSIGN_OR_RETURN(const std::string text, launch_to_json(launch));
  EBB_RETURN_IF_ERROR(make_folder(path_));
  return write_durably(file("spec.json"), text);
}

Result<Launch> WorkerFolder::launch() const {
  EBB_ASSIGN_OR_RETURN(const std::string text, read_file(file("spec.json"), kMaxFile));
  return launch_from_json(text);
}

std::optional<std::int64_t> WorkerFolder::pid() const {
  const auto text = read_file(file("status.json"), kMaxFile);
  if (!text) return std::nullopt;
  const auto pid = status_from_json(*text);
  return pid ? std::optional(*pid) : std::nullopt;
}

std::optional<WorkerExit> WorkerFolder::exit() const {
  const auto text = read_file(file("exit.json"), kMaxFile);
  if (!text) return std::nullopt;
  auto exit = exit_from_json(*text);
  if (exit) return std::move(*exit);
  return WorkerExit{.cause = WorkerExit::Cause::lost, .code = 0, .message = exit.error().message};
}

std::optional<Duration> WorkerFolder::stop() const {
  const auto text = read_file(file("stop.json"), kMaxFile);
  if (!text) return std::nullopt;
  const auto grace = stop_from_json(*text);
  return grace ? *grace : Duration{0};
}

bool WorkerFolder::was_launched() const {
  return is_there(file("launched"));
}

Result<void> WorkerFolder::mark_launched() const {
  return write_durably(file("launched"), "");
}

Result<void> WorkerFolder::write_stop(Duration grace) const {
  return write_durably(file("stop.json"), stop_to_json(grace));
}

Result<void> WorkerFolder::write_exit(const WorkerId& worker, const WorkerExit& exit) const {
  return write_durably(file("exit.json"), exit_to_json(worker, exit));
}

Result<Fd> WorkerFolder::lock(bool wait) const {
  EBB_ASSIGN_OR_RETURN(Fd lock, open_file(file("lock"), O_RDWR | O_CREAT));
  while (::flock(lock.get(), LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
    if (errno != EINTR) return os_error("lock", file("lock"), errno);
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), pid.data(), pid.size(), 0) < 0) {
    return os_error("write", file("lock"), errno);
  }
  return lock;
}

bool WorkerFolder::is_locked() const {
  const auto lock = open_file(file("lock"), O_RDONLY);
  return lock && ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Fd WorkerFolder::holder() const {
  const pid_t pid = pid_in(file("lock"));
  if (pid <= 0 || !is_locked()) return {};
  Fd process = open_process(pid);
  // Still locked, and by the same process: it was alive when it was opened, so it is the one.
  if (!is_locked() || pid_in(file("lock")) != pid) return {};
  return process;
}

}  // namespace ebb::agent
