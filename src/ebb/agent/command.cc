#include "ebb/agent/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ebb::agent {
namespace {

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

std::string path_of(const std::vector<std::string>& environment) {
  std::string path = kDefaultPath;
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) path = entry.substr(5);
  }
  return path;
}

/// The files that `program` may mean, in the order of PATH.
std::vector<std::string> candidates(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return {program};
  std::vector<std::string> files;
  std::size_t at = 0;
  while (at <= path.size()) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, end - at);
    files.push_back((folder.empty() ? "." : folder) + "/" + program);
    at = end + 1;
  }
  return files;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> all;
  all.reserve(strings.size() + 1);
  for (const std::string& s : strings) all.push_back(const_cast<char*>(s.c_str()));
  all.push_back(nullptr);
  return all;
}

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return os_error("make", "a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

/// All that the child needs, made before the fork.
struct Prepared {
  pid_t parent = 0;
  const char* folder = nullptr;
  char* const* files = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const Fd* groups = nullptr;
  std::size_t group_count = 0;
  int out = -1;
  int err = -1;
  int failure = -1;
};

[[noreturn]] void give_up(const Prepared& p, StartFailure::Stage stage) noexcept {
  const StartFailure failure{.stage = stage, .error = errno};
  // If the parent is not there to read it, there is nobody to tell.
  [[maybe_unused]] const ssize_t n = ::write(p.failure, &failure, sizeof failure);
  ::_exit(127);
}

/// After the fork: only async-signal-safe calls.
[[noreturn]] void become(const Prepared& p) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != p.parent) ::_exit(127);
  ::setsid();
  for (std::size_t i = 0; i < p.group_count; ++i) {
    if (::write(p.groups[i].get(), "0", 1) < 0) give_up(p, StartFailure::Stage::group);
  }
  if (::chdir(p.folder) != 0) give_up(p, StartFailure::Stage::folder);
  if (::dup2(p.out, STDOUT_FILENO) < 0 || ::dup2(p.err, STDERR_FILENO) < 0) {
    give_up(p, StartFailure::Stage::streams);
  }
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  int error = ENOENT;
  for (char* const* file = p.files; *file != nullptr; ++file) {
    ::execve(*file, p.arguments, p.environment);
    // As execvp: one that is there but may not be run is worth more than one that is missing.
    if (errno == EACCES) {
      error = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      break;
    }
  }
  errno = error;
  give_up(p, StartFailure::Stage::program);
}

}  // namespace

Result<RunningCommand> start_command(const WorkerSpec& worker, const std::vector<std::string>& environment,
                                     const std::vector<Fd>& groups) {
  if (worker.command.empty()) return fail(ErrorCode::invalid_argument, "the command is empty");
  EBB_ASSIGN_OR_RETURN(Pipe out, make_pipe());
  EBB_ASSIGN_OR_RETURN(Pipe err, make_pipe());
  EBB_ASSIGN_OR_RETURN(Pipe failure, make_pipe());
  const auto files = candidates(worker.command.front(), path_of(environment));
  const auto file_pointers = pointers(files);
  const auto argument_pointers = pointers(worker.command);
  const auto environment_pointers = pointers(environment);
  const Prepared prepared{.parent = ::getpid(),
                          .folder = worker.working_directory.empty() ? "/" : worker.working_directory.c_str(),
                          .files = file_pointers.data(),
                          .arguments = argument_pointers.data(),
                          .environment = environment_pointers.data(),
                          .groups = groups.data(),
                          .group_count = groups.size(),
                          .out = out.write.get(),
                          .err = err.write.get(),
                          .failure = failure.write.get()};
  const pid_t pid = ::fork();
  if (pid == 0) become(prepared);
  if (pid < 0) return fail(ErrorCode::resource_exhausted, "no process: {}", std::generic_category().message(errno));
  for (const Fd* end : {&out.read, &err.read, &failure.read}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return RunningCommand{
      .pid = pid, .out = std::move(out.read), .err = std::move(err.read), .failure = std::move(failure.read)};
}

std::string describe(const StartFailure& failure, const WorkerSpec& worker,
                     const std::vector<std::string>& environment) {
  const std::string reason = std::generic_category().message(failure.error);
  const std::string& program = worker.command.front();
  switch (failure.stage) {
    case StartFailure::Stage::group:
      return fmt::format("its control group cannot be entered: {}", reason);
    case StartFailure::Stage::folder:
      return fmt::format("working directory '{}': {}", worker.working_directory, reason);
    case StartFailure::Stage::streams:
      return fmt::format("its output cannot be redirected: {}", reason);
    case StartFailure::Stage::program:
      break;
  }
  if (failure.error == ENOENT && program.find('/') == std::string::npos) {
    return fmt::format("program '{}' was not found in PATH ({})", program, path_of(environment));
  }
  if (failure.error == ENOENT) return fmt::format("program '{}' was not found (or its interpreter)", program);
  if (failure.error == EACCES) return fmt::format("program '{}' may not be executed: {}", program, reason);
  return fmt::format("program '{}': {}", program, reason);
}

}  // namespace ebb::agent
