#include "ebb/agent/shim.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "ebb/agent/command.h"
#include "ebb/agent/processes.h"
#include "ebb/agent/worker_folder.h"
#include "ebb/base/files.h"

namespace ebb::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kKillAgain = 20ms;     // while processes are being killed: new ones may have come
constexpr Duration kTryAgain = 1s;        // while the exit cannot be written
constexpr Duration kRemoveGroupFor = 2s;  // the kernel takes a moment to forget the dead

void say(const std::string& message) {
  std::fprintf(stderr, "ebb-shim: %s\n", message.c_str());
}

void pause_for(Duration duration) {
  const timespec time{.tv_sec = duration / 1s, .tv_nsec = (duration % 1s).count()};
  ::nanosleep(&time, nullptr);
}

class Shim {
 public:
  explicit Shim(const std::filesystem::path& folder)
      : folder_(folder), lease_file_(folder.parent_path().parent_path() / "lease") {}
  int run();

 private:
  enum class Phase : std::uint8_t { running, ending, killing };

  Result<void> prepare();
  Result<void> start();
  void loop();
  void on_signals();
  void on_time();
  void on_started();
  void reap();
  bool pump(Fd& from, LogWriter& to);
  void end(WorkerExit::Cause cause, Duration grace);
  void kill_all();
  bool group_is_gone() const;
  void arm_timer();
  Duration lease_deadline() const;
  WorkerExit result() const;
  void finish(const WorkerExit& exit);

  WorkerFolder folder_;
  std::filesystem::path lease_file_;
  Fd lock_;
  Launch launch_;
  std::optional<ReservedFile> status_file_;
  std::optional<ReservedFile> exit_file_;
  Fd signals_;
  Fd timer_;
  std::optional<LogWriter> out_log_;
  std::optional<LogWriter> err_log_;
  RunningCommand command_;

  Phase phase_ = Phase::running;
  std::optional<StartFailure> failure_;
  std::optional<int> main_status_;          // of waitpid
  std::optional<WorkerExit::Cause> cause_;  // why ebb ended it
  bool gone_ = false;                       // every process is
  std::optional<Duration> time_limit_;      // deadlines, by the boot clock
  std::optional<Duration> lease_;
  Duration kill_at_{};
};

int Shim::run() {
  auto lock = folder_.lock(true);
  if (!lock) {
    say(lock.error().message);
    return 1;
  }
  lock_ = std::move(*lock);
  if (folder_.exit() || folder_.was_launched()) return 0;  // another shim was first
  auto launch = folder_.launch();
  if (!launch) {
    say(launch.error().message);
    return 1;
  }
  launch_ = std::move(*launch);
  if (folder_.stop()) {
    const WorkerExit exit{.cause = WorkerExit::Cause::stopped, .code = 0, .message = "before it was started"};
    if (auto written = folder_.write_exit(launch_.worker.id, exit); !written) {
      say(written.error().message);
      return 1;
    }
    return 0;
  }
  if (auto prepared = prepare(); !prepared) {
    // The agent reads this from the log and says it, if the disk takes no more.
    say(prepared.error().message);
    const WorkerExit exit{.cause = WorkerExit::Cause::not_started, .code = 0, .message = prepared.error().message};
    static_cast<void>(remove_group(launch_.group));
    return folder_.write_exit(launch_.worker.id, exit) ? 0 : 1;
  }
  if (auto started = start(); !started) {
    finish({.cause = WorkerExit::Cause::not_started, .code = 0, .message = started.error().message});
    return 0;
  }
  loop();
  finish(result());
  return 0;
}

Result<void> Shim::prepare() {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGTERM, SIGCHLD, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&handled, signal);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  signals_ = Fd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  timer_ = Fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!signals_ || !timer_ || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return os_error("prepare", folder_.path(), errno);
  }
  EBB_ASSIGN_OR_RETURN(status_file_, ReservedFile::create(folder_.file("status.json")));
  EBB_ASSIGN_OR_RETURN(exit_file_, ReservedFile::create(folder_.file("exit.json")));
  out_log_.emplace(folder_.path(), "stdout", launch_.logs);
  err_log_.emplace(folder_.path(), "stderr", launch_.logs);
  if (launch_.leased) {
    lease_ = lease_deadline();
    if (*lease_ <= boot_clock()) return fail(ErrorCode::failed_precondition, "the lease of this node has passed");
  }
  return folder_.mark_launched();
}

Result<void> Shim::start() {
  EBB_ASSIGN_OR_RETURN(const std::vector<Fd> groups, create_group(launch_.group));
  EBB_ASSIGN_OR_RETURN(command_, start_command(launch_.worker, launch_.environment, groups));
  if (launch_.worker.time_limit) time_limit_ = boot_clock() + std::min(*launch_.worker.time_limit, kMaxDuration);
  return {};
}

void Shim::loop() {
  while (!gone_) {
    arm_timer();
    std::array<pollfd, 5> fds{};
    const std::array<int, 5> wanted{signals_.get(), timer_.get(), command_.failure.get(), command_.out.get(),
                                    command_.err.get()};
    for (std::size_t i = 0; i < fds.size(); ++i) fds[i] = {.fd = wanted[i], .events = POLLIN, .revents = 0};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
      say(fmt::format("poll: {}", std::strerror(errno)));
      pause_for(kKillAgain);
    }
    if (fds[2].revents != 0) on_started();
    if (fds[3].revents != 0) pump(command_.out, *out_log_);
    if (fds[4].revents != 0) pump(command_.err, *err_log_);
    if (fds[0].revents != 0) on_signals();
    on_time();
  }
  if (command_.failure) on_started();
  while (pump(command_.out, *out_log_)) {
  }
  while (pump(command_.err, *err_log_)) {
  }
}

/// The command runs, or could not be run: the pipe says which.
void Shim::on_started() {
  StartFailure failure;
  const ssize_t n = ::read(command_.failure.get(), &failure, sizeof failure);
  if (n < 0) return;
  command_.failure.reset();
  if (n == sizeof failure) {
    failure_ = failure;
    return;
  }
  if (auto written = status_file_->commit(status_to_json(command_.pid)); !written) say(written.error().message);
}

/// False at the end, and when there is nothing now.
bool Shim::pump(Fd& from, LogWriter& to) {
  if (!from) return false;
  static std::array<char, std::size_t{64} << 10> buffer;
  const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
  if (n > 0) {
    to.write({buffer.data(), static_cast<std::size_t>(n)});
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) from.reset();
  return false;
}

void Shim::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) reap();
    if (info.ssi_signo == SIGTERM) {
      end(WorkerExit::Cause::stopped, folder_.stop().value_or(launch_.worker.grace_time));
    }
  }
}

void Shim::reap() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == command_.pid) main_status_ = status;
  }
  // Orphans come to this process, the subreaper: without children there is nothing left of the worker.
  if (pid < 0 && errno == ECHILD) gone_ = true;
  if (gone_ || !main_status_) return;
  // After its own end, nothing of it stays. After ours, its group has the grace time; what left the group got no
  // SIGTERM.
  if (phase_ == Phase::killing || phase_ == Phase::running || group_is_gone()) kill_all();
}

bool Shim::group_is_gone() const {
  return ::kill(-command_.pid, 0) != 0 && errno == ESRCH;
}

void Shim::on_time() {
  if (gone_) return;
  const Duration now = boot_clock();
  if (phase_ == Phase::killing) {
    if (now >= kill_at_) kill_all();
    reap();
    return;
  }
  if (lease_ && now >= *lease_) {
    lease_ = lease_deadline();  // renewed meanwhile?
    if (now >= *lease_) {
      lease_.reset();
      end(WorkerExit::Cause::fenced, launch_.worker.grace_time);
    }
  }
  if (time_limit_ && now >= *time_limit_) {
    time_limit_.reset();
    end(WorkerExit::Cause::timed_out, launch_.worker.grace_time);
  }
  if (phase_ == Phase::ending && now >= kill_at_) kill_all();
}

/// SIGTERM now, SIGKILL after `grace`. Asked again, the earlier end counts; the first cause stays.
void Shim::end(WorkerExit::Cause cause, Duration grace) {
  const Duration kill_at = boot_clock() + std::clamp<Duration>(grace, Duration{0}, kMaxDuration);
  if (phase_ == Phase::killing || main_status_) return;
  if (phase_ == Phase::ending) {
    kill_at_ = std::min(kill_at_, kill_at);
    return;
  }
  phase_ = Phase::ending;
  cause_ = cause;
  kill_at_ = kill_at;
  // Not yet reaped, so the number is still its own. It has no group before setsid().
  if (::kill(-command_.pid, SIGTERM) != 0) ::kill(command_.pid, SIGTERM);
}

/// Once; on_time() repeats it until all are gone.
void Shim::kill_all() {
  phase_ = Phase::killing;
  kill_at_ = boot_clock() + kKillAgain;
  kill_group(launch_.group);
  // Only own children: nobody else can reap them, so no number is a stranger's. Theirs become ours when they die.
  for (const pid_t child : own_children()) ::kill(child, SIGKILL);
}

void Shim::arm_timer() {
  Duration next = phase_ == Phase::running ? Duration::max() : kill_at_;
  if (phase_ != Phase::killing) next = std::min({next, time_limit_.value_or(next), lease_.value_or(next)});
  itimerspec when{};
  if (next != Duration::max()) {
    const Duration at = std::max<Duration>(next, 1ns);  // 0 would switch it off
    when.it_value = {.tv_sec = at / 1s, .tv_nsec = (at % 1s).count()};
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

/// A lease that cannot be read has passed: whoever granted it will count on that.
Duration Shim::lease_deadline() const {
  const auto text = read_file(lease_file_, ReservedFile::kSize);
  if (!text) return Duration{0};
  return lease_from_json(*text).value_or(Duration{0});
}

WorkerExit Shim::result() const {
  using Cause = WorkerExit::Cause;
  const int status = main_status_.value_or(0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  const std::string by_signal =
      WIFSIGNALED(status) ? fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status))) : "";
  if (failure_) {
    return {
        .cause = Cause::not_started, .code = 0, .message = describe(*failure_, launch_.worker, launch_.environment)};
  }
  if (cause_) return {.cause = *cause_, .code = code, .message = by_signal};
  if (!main_status_) return {.cause = Cause::lost, .code = 0, .message = "its exit status was not seen"};
  const bool success = WIFEXITED(status) && code == 0;
  if (const std::uint64_t kills = success ? 0 : oom_kills(launch_.group); kills > 0) {
    return {.cause = Cause::out_of_memory,
            .code = code,
            .message = fmt::format("the kernel killed {} of its processes at the limit of {} bytes", kills,
                                   launch_.group.memory_bytes.value_or(0))};
  }
  if (WIFSIGNALED(status)) return {.cause = Cause::signalled, .code = WTERMSIG(status), .message = ""};
  return {.cause = Cause::exited, .code = code, .message = ""};
}

void Shim::finish(const WorkerExit& exit) {
  // Whoever reads the exit may take the logs away and count on their space.
  out_log_.reset();
  err_log_.reset();
  const Duration until = boot_clock() + kRemoveGroupFor;
  while (!remove_group(launch_.group) && boot_clock() < until) pause_for(kKillAgain);
  status_file_->discard();
  while (true) {
    const auto written = exit_file_->commit(exit_to_json(launch_.worker.id, exit));
    if (written) return;
    say(written.error().message);
    struct stat info{};
    if (::fstat(lock_.get(), &info) == 0 && info.st_nlink == 0) return;  // the folder was removed: nobody will ask
    pause_for(kTryAgain);
  }
}

}  // namespace

int run_shim(const std::filesystem::path& folder) {
  ::close_range(3, ~0U, 0);
  return Shim(folder).run();
}

}  // namespace ebb::agent
