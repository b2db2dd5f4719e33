#pragma once

/// Control groups: what makes a slot an enforced share, and finds and kills the processes of a worker for sure.
///
/// find_isolation() looks once, at the start of an agent, for places where it may make groups: below its own group
/// where possible, so that limits set from outside stay in force.
///   - cgroup v2 with the cpu and memory controllers (cpu.max, memory.max, cgroup.kill);
///   - else v1: cpu (cpu.cfs_quota_us) and memory (memory.limit_in_bytes); beside them v2 without controllers, if it is
///     there, for cgroup.kill.
/// plan_group() says what one worker gets; the plan is kept on disk with the worker, so that a later agent, in another
/// group itself, finds the worker's groups again.
///
/// Functions without state; any thread.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/agent/disk.h"
#include "ebb/base/result.h"

namespace ebb::agent {

enum class GroupKind : std::uint8_t {
  unified,   ///< v2 with controllers
  tracking,  ///< v2 without: knows the processes, limits nothing
  cpu,       ///< v1
  memory,    ///< v1
};

struct GroupFolder {
  GroupKind kind = GroupKind::tracking;
  std::string path;
  bool operator==(const GroupFolder&) const = default;
};

/// What can be enforced on this machine, and where.
struct Isolation {
  std::vector<GroupFolder> folders;  ///< of the agent; those of workers are below
  bool cpu = false;
  bool memory = false;
  std::string how;     ///< "cgroup v2", "cgroup v1" or "none"
  std::string reason;  ///< why cpu or memory are not enforced, for an operator; "" if both are
  bool enforced() const { return cpu && memory; }
};

/// What the kernel says of its hierarchies; read from /proc unless a test says it.
struct GroupSystem {
  std::string mountinfo;   ///< /proc/self/mountinfo
  std::string own_groups;  ///< /proc/self/cgroup
  static GroupSystem read();
};

/// `name`: of the agent's groups, unique to its data folder.
Isolation find_isolation(const std::string& name, const GroupSystem& system);

/// The groups of one worker. No folders: it has none.
struct GroupPlan {
  std::vector<GroupFolder> folders;
  std::optional<std::int64_t> milli_cpus;
  std::optional<std::int64_t> memory_bytes;
  bool operator==(const GroupPlan&) const = default;
};
GroupPlan plan_group(const Isolation& isolation, const std::string& worker, std::optional<std::int64_t> milli_cpus,
                     std::optional<std::int64_t> memory_bytes);

/// Makes the groups and sets their limits; cgroup.procs of each, open for writing: a process that writes "0" is in it.
Result<std::vector<Fd>> create_group(const GroupPlan& plan);
/// SIGKILL to all in it, once; repeat until group_processes() is empty.
void kill_group(const GroupPlan& plan);
std::vector<pid_t> group_processes(const GroupPlan& plan);
/// How many of its processes the kernel killed at the memory limit.
std::uint64_t oom_kills(const GroupPlan& plan);
/// False if some of it is still there; repeat then.
bool remove_group(const GroupPlan& plan);

/// Removes the groups of workers that are not in `keep`, as far as they are empty, then the agent's own if it has none.
void remove_stale_groups(const Isolation& isolation, const std::vector<std::string>& keep);

}  // namespace ebb::agent
