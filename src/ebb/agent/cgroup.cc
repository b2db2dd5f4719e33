#include "ebb/agent/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kPeriodUs = 100'000;
constexpr std::int64_t kMinQuotaUs = 1'000;  // less is refused by the kernel

bool is_v2(GroupKind kind) {
  return kind == GroupKind::unified || kind == GroupKind::tracking;
}

/// "" if it cannot be read.
std::string read_all(const fs::path& path) {
  std::string bytes;
  const auto file = open_file(path, O_RDONLY);
  if (!file) return bytes;
  char chunk[4096];
  ssize_t n = 0;
  while ((n = ::read(file->get(), chunk, sizeof chunk)) > 0) bytes.append(chunk, static_cast<std::size_t>(n));
  return bytes;
}

Result<void> set(const fs::path& path, std::string_view value) {
  // O_CREAT changes nothing for the kernel's files; with it a plain folder can stand for them in a test.
  EBB_ASSIGN_OR_RETURN(const Fd file, open_file(path, O_WRONLY | O_CREAT));
  if (::write(file.get(), value.data(), value.size()) < 0) return os_error("write", path, errno);
  return {};
}

/// The number after `key` and a blank, in a file of such lines.
std::uint64_t value_of(const std::string& lines, std::string_view key) {
  std::size_t at = 0;
  while (at < lines.size()) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string_view line = std::string_view(lines).substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      std::uint64_t value = 0;
      std::from_chars(line.data() + key.size() + 1, line.data() + line.size(), value);
      return value;
    }
    at = end + 1;
  }
  return 0;
}

void add_processes(const fs::path& folder, std::set<pid_t>& pids) {
  const std::string lines = read_all(folder / "cgroup.procs");
  const char* at = lines.data();
  const char* const end = at + lines.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc{} && pid > 0) pids.insert(pid);
    at = std::max(next, at) + 1;
  }
}

/// A worker may make groups below its own; innermost first.
std::vector<fs::path> with_children(const fs::path& folder) {
  std::vector<fs::path> all{folder};
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) all.push_back(it->path());
  }
  std::reverse(all.begin(), all.end());
  return all;
}

Result<void> set_limits(const GroupPlan& plan, const GroupFolder& folder) {
  const fs::path path = folder.path;
  if (plan.milli_cpus) {
    const std::int64_t quota = std::max(kMinQuotaUs, *plan.milli_cpus * kPeriodUs / 1000);
    if (folder.kind == GroupKind::unified) {
      EBB_RETURN_IF_ERROR(set(path / "cpu.max", fmt::format("{} {}", quota, kPeriodUs)));
    } else if (folder.kind == GroupKind::cpu) {
      EBB_RETURN_IF_ERROR(set(path / "cpu.cfs_period_us", std::to_string(kPeriodUs)));
      EBB_RETURN_IF_ERROR(set(path / "cpu.cfs_quota_us", std::to_string(quota)));
    }
  }
  if (plan.memory_bytes) {
    const std::string bytes = std::to_string(*plan.memory_bytes);
    // Swap would only make it slow instead of dead; its files are missing where the kernel does not count it.
    if (folder.kind == GroupKind::unified) {
      EBB_RETURN_IF_ERROR(set(path / "memory.max", bytes));
      static_cast<void>(set(path / "memory.swap.max", "0"));
      static_cast<void>(set(path / "memory.oom.group", "1"));
    } else if (folder.kind == GroupKind::memory) {
      EBB_RETURN_IF_ERROR(set(path / "memory.limit_in_bytes", bytes));
      static_cast<void>(set(path / "memory.memsw.limit_in_bytes", bytes));
    }
  }
  return {};
}

}  // namespace

GroupPlan plan_group(const Isolation& isolation, const std::string& worker, std::optional<std::int64_t> milli_cpus,
                     std::optional<std::int64_t> memory_bytes) {
  GroupPlan plan{.folders = {}, .milli_cpus = milli_cpus, .memory_bytes = memory_bytes};
  for (const GroupFolder& folder : isolation.folders) {
    plan.folders.push_back({.kind = folder.kind, .path = folder.path + "/" + worker});
  }
  return plan;
}

Result<std::vector<Fd>> create_group(const GroupPlan& plan) {
  std::vector<Fd> entries;
  for (const GroupFolder& folder : plan.folders) {
    const fs::path path = folder.path;
    // The agent's folder goes when it has no worker; it may do so now.
    EBB_RETURN_IF_ERROR(make_folder(path.parent_path()));
    if (folder.kind == GroupKind::unified) {
      EBB_RETURN_IF_ERROR(set(path.parent_path() / "cgroup.subtree_control", "+cpu +memory"));
    }
    EBB_RETURN_IF_ERROR(make_folder(path));
    EBB_RETURN_IF_ERROR(set_limits(plan, folder));
    EBB_ASSIGN_OR_RETURN(Fd entry, open_file(path / "cgroup.procs", O_WRONLY | O_CREAT));
    entries.push_back(std::move(entry));
  }
  return entries;
}

void kill_group(const GroupPlan& plan) {
  for (const GroupFolder& folder : plan.folders) {
    if (is_v2(folder.kind) && set(fs::path(folder.path) / "cgroup.kill", "1")) return;
  }
  for (const pid_t pid : group_processes(plan)) ::kill(pid, SIGKILL);
}

std::vector<pid_t> group_processes(const GroupPlan& plan) {
  std::set<pid_t> pids;
  for (const GroupFolder& folder : plan.folders) {
    for (const fs::path& path : with_children(folder.path)) add_processes(path, pids);
  }
  return {pids.begin(), pids.end()};
}

std::uint64_t oom_kills(const GroupPlan& plan) {
  for (const GroupFolder& folder : plan.folders) {
    const fs::path path = folder.path;
    if (folder.kind == GroupKind::unified) return value_of(read_all(path / "memory.events"), "oom_kill");
    if (folder.kind == GroupKind::memory) return value_of(read_all(path / "memory.oom_control"), "oom_kill");
  }
  return 0;
}

bool remove_group(const GroupPlan& plan) {
  bool gone = true;
  for (const GroupFolder& folder : plan.folders) {
    for (const fs::path& path : with_children(folder.path)) {
      if (::rmdir(path.c_str()) != 0 && errno != ENOENT) gone = false;
    }
  }
  return gone;
}

void remove_stale_groups(const Isolation& isolation, const std::vector<std::string>& keep) {
  for (const GroupFolder& parent : isolation.folders) {
    std::error_code error;
    std::vector<fs::path> stale;
    for (fs::directory_iterator it(parent.path, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      const bool wanted = std::find(keep.begin(), keep.end(), it->path().filename().native()) != keep.end();
      if (!wanted && it->is_directory(ignored)) stale.push_back(it->path());
    }
    for (const fs::path& path : stale) {
      static_cast<void>(remove_group({.folders = {{parent.kind, path}}, .milli_cpus = {}, .memory_bytes = {}}));
    }
    // A worker that is about to start makes its group in there.
    if (keep.empty()) ::rmdir(parent.path.c_str());
  }
}

}  // namespace ebb::agent
