#include "ebb/agent/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <system_error>

namespace ebb::agent {
namespace {

struct Actions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  Actions() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  ~Actions() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Result<pid_t> launch_shim(const std::filesystem::path& program, const WorkerFolder& folder) {
  const std::string log = folder.file("shim.log").string();
  Actions actions;
  ::posix_spawn_file_actions_addopen(&actions.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions.files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions.files, STDOUT_FILENO, STDERR_FILENO);
  ::posix_spawn_file_actions_addchdir_np(&actions.files, "/");
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD}) sigaddset(&blocked, signal);
  sigset_t all;
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&actions.attributes, &blocked);
  ::posix_spawnattr_setsigdefault(&actions.attributes, &all);
  ::posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = "ebb-shim";
  std::string path = folder.path().string();
  char* const arguments[] = {name.data(), path.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions.files, &actions.attributes, arguments, environ);
  if (error != 0) {
    return fail(ErrorCode::unavailable, "cannot run '{}': {}", program.string(),
                std::generic_category().message(error));
  }
  return pid;
}

}  // namespace ebb::agent
