#include "ebb/agent/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

/// "" if it cannot be read.
std::string read_proc(const std::string& path) {
  std::string bytes;
  const auto file = open_file(path, O_RDONLY);
  if (!file) return bytes;
  char chunk[16384];
  ssize_t n = 0;
  while ((n = ::read(file->get(), chunk, sizeof chunk)) > 0) bytes.append(chunk, static_cast<std::size_t>(n));
  return bytes;
}

bool has_entry(std::string_view environment, std::string_view entry) {
  for (std::size_t at = environment.find(entry); at != std::string_view::npos; at = environment.find(entry, at + 1)) {
    const std::size_t end = at + entry.size();
    if ((at == 0 || environment[at - 1] == '\0') && (end == environment.size() || environment[end] == '\0'))
      return true;
  }
  return false;
}

bool has_all(pid_t pid, const std::vector<std::string>& entries) {
  const std::string environment = read_proc(fmt::format("/proc/{}/environ", pid));
  return !environment.empty() &&
         std::all_of(entries.begin(), entries.end(), [&](const auto& entry) { return has_entry(environment, entry); });
}

}  // namespace

Fd open_process(pid_t pid) {
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void signal_process(const Fd& process, int signal) {
  if (process) ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

std::vector<pid_t> own_children() {
  const std::string text = read_proc(fmt::format("/proc/self/task/{}/children", ::getpid()));
  std::vector<pid_t> children;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc{} && pid > 0) children.push_back(pid);
    at = std::max(next, at) + 1;
  }
  return children;
}

bool has_ended(const Fd& process) {
  pollfd poll{.fd = process.get(), .events = POLLIN, .revents = 0};
  return !process || ::poll(&poll, 1, 0) != 0;
}

std::vector<Fd> kill_by_environment(const std::vector<std::string>& entries) {
  std::vector<Fd> found;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    pid_t pid = 0;
    const auto [rest, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc{} || rest != name.data() + name.size() || !has_all(pid, entries)) continue;
    // Looked at again once it is held fast: the number may have gone to another process meanwhile.
    Fd process = open_process(pid);
    if (!process || !has_all(pid, entries)) continue;
    signal_process(process, SIGKILL);
    found.push_back(std::move(process));
  }
  return found;
}

}  // namespace ebb::agent
