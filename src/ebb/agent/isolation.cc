// find_isolation(): where on this machine an agent may make control groups.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>

#include "ebb/agent/cgroup.h"
#include "ebb/base/files.h"

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

/// The group that an agent moves itself into, where it is alone in its own: v2 gives controllers only to the children
/// of a group without processes.
constexpr const char* kHostGroup = "ebb-host";

struct Hierarchy {
  fs::path mount;
  std::string root;  // what of the hierarchy is mounted there
  bool v2 = false;
  std::vector<std::string> controllers;  // v1
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool contains(const std::vector<std::string>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// "31 23 0:26 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu": proc_pid_mountinfo(5). Blanks in paths
// are written as \040; groups below such a mount are not used.
std::vector<Hierarchy> hierarchies(const std::string& mountinfo) {
  std::vector<Hierarchy> found;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(std::string_view(line).substr(0, dash), ' ');
    const auto right = split(std::string_view(line).substr(dash + 3), ' ');
    if (left.size() < 6 || right.size() < 3 || (right[0] != "cgroup" && right[0] != "cgroup2")) continue;
    found.push_back({.mount = left[4], .root = left[3], .v2 = right[0] == "cgroup2", .controllers = {}});
    if (right[0] == "cgroup") found.back().controllers = split(right[2], ',');
  }
  return found;
}

/// The agent's own group in a hierarchy, as a folder; the mount point if it cannot be seen from here.
fs::path own_folder(const Hierarchy& hierarchy, const std::string& own_groups) {
  std::istringstream lines(own_groups);
  for (std::string line; std::getline(lines, line);) {
    // "4:memory:/some/group"; v2 is "0::/some/group"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto names = split(std::string_view(line).substr(first + 1, second - first - 1), ',');
    const bool this_one = hierarchy.v2 ? names.empty() && line.starts_with("0:")
                                       : std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                                           return contains(hierarchy.controllers, name);
                                         });
    if (!this_one) continue;
    std::string path = line.substr(second + 1);
    if (hierarchy.root != "/" && path.starts_with(hierarchy.root)) path.erase(0, hierarchy.root.size());
    while (path.starts_with('/')) path.erase(0, 1);
    const fs::path folder = path.empty() ? hierarchy.mount : hierarchy.mount / path;
    std::error_code ignored;
    if (!path.starts_with("..") && fs::is_directory(folder, ignored)) return folder;
  }
  return hierarchy.mount;
}

/// Makes `name` in the first of the folders that lets it; "" if none does.
std::string make_group(const std::vector<fs::path>& parents, const std::string& name, std::string& why) {
  for (const fs::path& parent : parents) {
    const fs::path path = parent / name;
    if (auto made = make_folder(path); !made) {
      why = made.error().message;
    } else if (::access(path.c_str(), W_OK) != 0 || (::access((path / "cgroup.procs").c_str(), F_OK) == 0 &&
                                                     ::access((path / "cgroup.procs").c_str(), W_OK) != 0)) {
      why = fmt::format("'{}' may not be written", path.string());
    } else {
      return path;
    }
  }
  return "";
}

std::string text_of(const fs::path& path) {
  auto text = read_file(path, 1 << 20);
  return text ? std::move(*text) : std::string();
}

bool write_text(const fs::path& path, std::string_view text) {
  const auto file = open_file(path, O_WRONLY);
  return file && ::write(file->get(), text.data(), text.size()) >= 0;
}

bool has_controllers(const std::string& text) {
  auto names = split(text, ' ');
  for (std::string& name : names) std::erase(name, '\n');
  return contains(names, "cpu") && contains(names, "memory");
}

/// Gives the children of `own` the controllers, if that is possible. Returns why not.
std::string enable_controllers(const fs::path& own) {
  if (!has_controllers(text_of(own / "cgroup.controllers"))) {
    return fmt::format("cgroup v2 does not give cpu and memory to '{}'", own.string());
  }
  const fs::path control = own / "cgroup.subtree_control";
  if (has_controllers(text_of(control))) return "";
  if (write_text(control, "+cpu +memory")) return "";
  if (errno == EBUSY) {
    const std::string self = fmt::format("{}\n", ::getpid());
    if (text_of(own / "cgroup.procs") == self && make_folder(own / kHostGroup) &&
        write_text(own / kHostGroup / "cgroup.procs", self) && write_text(control, "+cpu +memory")) {
      return "";
    }
  }
  return fmt::format(
      "cgroup v2 is not delegated at '{}' (start ebb in a group of its own, for example with `systemd-run --user "
      "--scope "
      "-p Delegate=yes`)",
      own.string());
}

}  // namespace

GroupSystem GroupSystem::read() {
  return {.mountinfo = text_of("/proc/self/mountinfo"), .own_groups = text_of("/proc/self/cgroup")};
}

Isolation find_isolation(const std::string& name, const GroupSystem& system) {
  Isolation found;
  std::string why = "no cgroup file system is mounted";
  const auto all = hierarchies(system.mountinfo);
  for (const Hierarchy& hierarchy : all) {
    if (!hierarchy.v2) continue;
    fs::path own = own_folder(hierarchy, system.own_groups);
    if (own.filename() == kHostGroup) own = own.parent_path();
    why = enable_controllers(own);
    if (why.empty()) {
      if (std::string path = make_group({own}, name, why); !path.empty()) {
        found.folders = {{GroupKind::unified, std::move(path)}};
        found.cpu = found.memory = true;
        found.how = "cgroup v2";
        return found;
      }
    } else if (std::string path = make_group({own, hierarchy.mount}, name, why); !path.empty()) {
      found.folders.push_back({GroupKind::tracking, std::move(path)});
    }
  }
  for (const auto& [controller, kind] : {std::pair("cpu", GroupKind::cpu), std::pair("memory", GroupKind::memory)}) {
    bool& enforced = kind == GroupKind::cpu ? found.cpu : found.memory;
    for (const Hierarchy& hierarchy : all) {
      if (enforced || hierarchy.v2 || !contains(hierarchy.controllers, controller)) continue;
      // Hierarchies that share a mount (cpu,cpuacct) are found under either name; cpu and memory never do.
      std::string path = make_group({own_folder(hierarchy, system.own_groups), hierarchy.mount}, name, why);
      if (path.empty()) continue;
      found.folders.push_back({kind, std::move(path)});
      enforced = true;
    }
  }
  found.how = found.cpu || found.memory ? "cgroup v1" : "none";
  if (!found.enforced()) {
    found.reason = fmt::format("{} not enforced: {}",
                               found.cpu      ? "memory is"
                               : found.memory ? "CPU time is"
                                              : "CPU time and memory are",
                               why);
  }
  return found;
}

}  // namespace ebb::agent
