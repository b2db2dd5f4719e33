#include "ebb/agent/cgroup.h"

#include "ebb/agent/testing.h"

namespace ebb::agent {
namespace {

using Cause = WorkerExit::Cause;

class CgroupTest : public AgentTest {
 protected:
  std::string text_of(const std::string& path) const {
    auto text = read_file(path);
    if (!text) return "";
    while (text->ends_with('\n')) text->pop_back();
    return *text;
  }
  std::string folder_of_kind(const GroupPlan& plan, GroupKind kind) const {
    for (const GroupFolder& folder : plan.folders) {
      if (folder.kind == kind) return folder.path;
    }
    return "";
  }
  /// Of a running worker: what its CPU group says of its quota, in thousandths of a CPU.
  static std::int64_t milli_cpus(const GroupPlan& plan) {
    for (const GroupFolder& folder : plan.folders) {
      if (folder.kind == GroupKind::cpu) {
        std::int64_t quota = 0;
        std::int64_t period = 1;
        std::ifstream(folder.path + "/cpu.cfs_quota_us") >> quota;
        std::ifstream(folder.path + "/cpu.cfs_period_us") >> period;
        return quota * 1000 / period;
      }
      if (folder.kind == GroupKind::unified) {
        std::int64_t quota = 0;
        std::int64_t period = 1;
        std::ifstream(folder.path + "/cpu.max") >> quota >> period;
        return quota * 1000 / period;
      }
    }
    return 0;
  }
};

TEST_F(CgroupTest, ASlotIsAnEnforcedShareOfCpu) {
  options_.slots.milli_cpus_per_slot = 100;
  Agent& agent = open();
  if (!agent.isolation().cpu) GTEST_SKIP() << agent.isolation().reason;
  WorkerSpec spec = shell("w", "while true; do :; done");
  spec.slots = {1, 2};
  spec.fence = 1;
  agent.start(spec);
  ASSERT_NE(statuses_->pid_of("w"), 0);
  const GroupPlan plan = folder_of("w").launch().value().group;
  EXPECT_EQ(milli_cpus(plan), 200);
  const std::string folder = folder_of_kind(plan, GroupKind::cpu) + folder_of_kind(plan, GroupKind::unified);
  // It wants more than it gets: the kernel holds it back.
  EXPECT_TRUE(eventually([&] {
    const std::string stat = text_of(folder + "/cpu.stat");
    const std::size_t at = stat.find("nr_throttled ");
    return at != std::string::npos && std::atoi(stat.c_str() + at + 13) > 0;
  }));
  agent.stop("w", 3600s);
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::stopped);
  for (const GroupFolder& group : plan.folders) EXPECT_FALSE(std::filesystem::exists(group.path)) << group.path;
  agent_.reset();
  for (const GroupFolder& group : plan.folders) {
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(group.path).parent_path())) << group.path;
  }
}

TEST_F(CgroupTest, AWorkerAboveItsMemoryIsToldFromAKilledOne) {
  Agent& agent = open();
  if (!agent.isolation().memory) GTEST_SKIP() << agent.isolation().reason;
  WorkerSpec spec = shell("command", "exec tail /dev/zero");  // keeps all it reads: there is no line
  spec.memory_bytes = 32 << 20;
  EXPECT_EQ(run(spec).cause, Cause::out_of_memory);
  spec = shell("child", "tail /dev/zero; exit $?");
  spec.memory_bytes = 32 << 20;
  EXPECT_EQ(run(spec).cause, Cause::out_of_memory);
  spec = shell("killed", "kill -9 $$");
  spec.memory_bytes = 32 << 20;
  EXPECT_EQ(run(spec), (WorkerExit{Cause::signalled, SIGKILL, ""}));
  // One that lives with the loss of a child decides itself how it ends.
  spec = shell("survivor", "tail /dev/zero; exit 0");
  spec.memory_bytes = 32 << 20;
  EXPECT_TRUE(run(spec).ok());
}

TEST_F(CgroupTest, ASlotHasItsShareOfMemory) {
  options_.slots.memory_bytes_per_slot = 16 << 20;
  Agent& agent = open();
  if (!agent.isolation().memory) GTEST_SKIP() << agent.isolation().reason;
  WorkerSpec spec = shell("w", "exec tail /dev/zero");
  spec.slots = {0, 3};
  spec.fence = 1;
  const WorkerExit exit = run(spec);
  EXPECT_EQ(exit.cause, Cause::out_of_memory);
  EXPECT_NE(exit.message.find("33554432 bytes"), std::string::npos) << exit.message;
}

TEST_F(CgroupTest, SaysWhenNothingIsEnforced) {
  options_.isolate = false;
  EXPECT_FALSE(open().isolation().enforced());
  EXPECT_NE(agent_->isolation().reason, "");
  const Isolation none = find_isolation("ebb-test", {.mountinfo = "", .own_groups = ""});
  EXPECT_EQ(none.how, "none");
  EXPECT_EQ(none.reason, "CPU time and memory are not enforced: no cgroup file system is mounted");
}

// A folder stands for the file systems: what ebb would find, make and write on other machines.
class FakeCgroupTest : public CgroupTest {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string mount(const std::string& at, const std::string& type, const std::string& options) const {
    return fmt::format("30 23 0:26 / {} rw,nosuid shared:9 - {} {} rw,{}\n", (root_ / at).string(), type, type,
                       options);
  }
};

TEST_F(FakeCgroupTest, UnifiedWhereItIsDelegated) {
  write("v2/user/ebb.scope/cgroup.controllers", "cpuset cpu io memory pids\n");
  write("v2/user/ebb.scope/cgroup.subtree_control", "");
  const Isolation found = find_isolation(
      "ebb-1", {.mountinfo = mount("v2", "cgroup2", "nsdelegate"), .own_groups = "0::/user/ebb.scope\n"});
  EXPECT_TRUE(found.enforced()) << found.reason;
  EXPECT_EQ(found.how, "cgroup v2");
  const std::string own = (root_ / "v2/user/ebb.scope").string();
  EXPECT_EQ(text_of(own + "/cgroup.subtree_control"), "+cpu +memory");

  const GroupPlan plan = plan_group(found, "w", 1500, 1 << 20);
  ASSERT_TRUE(create_group(plan));
  EXPECT_EQ(text_of(own + "/ebb-1/cgroup.subtree_control"), "+cpu +memory");
  EXPECT_EQ(text_of(own + "/ebb-1/w/cpu.max"), "150000 100000");
  EXPECT_EQ(text_of(own + "/ebb-1/w/memory.max"), "1048576");
  EXPECT_EQ(text_of(own + "/ebb-1/w/memory.swap.max"), "0");
  EXPECT_EQ(text_of(own + "/ebb-1/w/memory.oom.group"), "1");
  kill_group(plan);
  EXPECT_EQ(text_of(own + "/ebb-1/w/cgroup.kill"), "1");
  write("v2/user/ebb.scope/ebb-1/w/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(oom_kills(plan), 2U);
}

TEST_F(FakeCgroupTest, UnifiedWithoutControllersIsNotEnforced) {
  write("v2/cgroup.controllers", "pids\n");
  const Isolation found =
      find_isolation("ebb-1", {.mountinfo = mount("v2", "cgroup2", "nsdelegate"), .own_groups = "0::/\n"});
  EXPECT_FALSE(found.enforced());
  EXPECT_NE(found.reason.find("does not give cpu and memory"), std::string::npos) << found.reason;
  ASSERT_EQ(found.folders.size(), 1U);
  EXPECT_EQ(found.folders[0].kind, GroupKind::tracking);
}

TEST_F(FakeCgroupTest, OldHierarchiesBelowTheOwnGroup) {
  write("cpu/batch/tasks", "");
  write("memory/tasks", "");
  const Isolation found =
      find_isolation("ebb-1", {.mountinfo = mount("cpu", "cgroup", "cpu,cpuacct") + mount("memory", "cgroup", "memory"),
                               .own_groups = "5:memory:/not/seen/from/here\n4:cpu,cpuacct:/batch\n"});
  EXPECT_TRUE(found.enforced()) << found.reason;
  EXPECT_EQ(found.how, "cgroup v1");
  const GroupPlan plan = plan_group(found, "w", 50, 4096);
  ASSERT_TRUE(create_group(plan));
  EXPECT_EQ(text_of((root_ / "cpu/batch/ebb-1/w/cpu.cfs_quota_us").string()), "5000");
  EXPECT_EQ(text_of((root_ / "memory/ebb-1/w/memory.limit_in_bytes").string()), "4096");
}

}  // namespace
}  // namespace ebb::agent
