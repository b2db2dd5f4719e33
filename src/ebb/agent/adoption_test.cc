// What a kill -9 of the agent, the shim, or both leaves behind, and what the next agent makes of it.

#include <sched.h>
#include <sys/mount.h>

#include "ebb/agent/agent.h"
#include "ebb/agent/launcher.h"
#include "ebb/agent/processes.h"
#include "ebb/agent/testing.h"

namespace ebb::agent {
namespace {

using Cause = WorkerExit::Cause;

class AdoptionTest : public AgentTest {
 protected:
  /// As an agent leaves it that goes down right before it launches the shim.
  void prepare(const WorkerSpec& spec) {
    open();  // makes the folder
    agent_.reset();
    ASSERT_TRUE(folder_of(spec.id).prepare(
        {.worker = spec, .agent = "test", .environment = spec.environment, .group = {}, .logs = {}, .leased = false}));
  }
};

TEST_F(AdoptionTest, WorkersOutliveTheAgent) {
  const pid_t child = open_in_child({shell("w", "echo run >> runs; while ! [ -e go ]; do sleep 0.01; done; exit 6"),
                                     shell("stopped", kIdle), shell("over", "echo done > over; exit 2")});
  const auto pid = static_cast<pid_t>(*folder_of("w").pid());
  ASSERT_TRUE(eventually([&] { return folder_of("over").exit().has_value(); }));
  kill_child(child);
  EXPECT_TRUE(is_running(pid));

  Agent& agent = open();
  EXPECT_EQ(statuses_->pid_of("w"), pid);
  EXPECT_EQ(statuses_->exit_of("over"), (WorkerExit{Cause::exited, 2, ""}));
  EXPECT_EQ(agent.list().size(), 3U);
  agent.start(shell("w", "echo another >> runs"));  // late, twice, and other
  agent.stop("stopped", 3600s);
  EXPECT_EQ(statuses_->exit_of("stopped").cause, Cause::stopped);
  std::ofstream(root_ / "go") << "go";
  EXPECT_EQ(statuses_->exit_of("w"), (WorkerExit{Cause::exited, 6, ""}));
  EXPECT_EQ(said("runs"), "run\n");
}

TEST_F(AdoptionTest, AnAgentThatLeavesChangesNothingEither) {
  open().start(shell("w", "while ! [ -e go ]; do sleep 0.01; done; exit 6"));
  const pid_t pid = statuses_->pid_of("w");
  open();
  EXPECT_EQ(statuses_->pid_of("w"), pid);
  std::ofstream(root_ / "go") << "go";
  EXPECT_EQ(statuses_->exit_of("w").code, 6);
}

TEST_F(AdoptionTest, AWorkerWhoseShimIsKilledIsLostAndGone) {
  for (const bool isolate : {true, false}) {
    options_.isolate = isolate;
    Agent& agent = open();
    const WorkerId id = isolate ? "grouped" : "plain";
    agent.start(shell(id, "(setsid sh -c \"trap '' TERM; echo \\$\\$ > daemon-" + id +
                              "; while true; do sleep 3600; done\" &) ; exec sleep 3600"));
    const pid_t pid = statuses_->pid_of(id);
    const pid_t daemon = pid_said("daemon-" + id);
    ASSERT_NE(pid, 0);
    ::kill(shim_of(id), SIGKILL);
    EXPECT_EQ(statuses_->exit_of(id).cause, Cause::lost);
    EXPECT_FALSE(is_running(daemon));
    EXPECT_TRUE(eventually([&] { return !is_running(pid); }));
    EXPECT_EQ(folder_of(id).exit()->cause, Cause::lost);
  }
}

TEST_F(AdoptionTest, AgentAndShimKilledTogether) {
  const pid_t child = open_in_child(
      {shell("w", "echo run >> runs; (setsid sh -c 'echo $$ > daemon; exec sleep 3600' &); exec sleep 3600"),
       shell("other", kIdle)});
  const auto pid = static_cast<pid_t>(*folder_of("w").pid());
  const auto other = static_cast<pid_t>(*folder_of("other").pid());
  const pid_t daemon = pid_said("daemon");
  ::kill(child, SIGSTOP);  // it must not see the shim go
  ::kill(shim_of("w"), SIGKILL);
  kill_child(child);
  EXPECT_TRUE(is_running(daemon));

  Agent& agent = open();
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::lost);
  EXPECT_FALSE(is_running(daemon));
  EXPECT_TRUE(eventually([&] { return !is_running(pid); }));
  EXPECT_TRUE(is_running(other));
  agent.start(shell("w", "echo another >> runs"));
  agent.forget("w");
  agent.start(shell("w", "echo another >> runs"));
  ASSERT_TRUE(eventually([&] { return statuses_->exits_of("w") == 3; }));
  EXPECT_EQ(said("runs"), "run\n");
}

TEST_F(AdoptionTest, AWorkerThatProvablyNeverRanIsLaunched) {
  prepare(shell("w", "echo run >> runs; exit 8"));
  open();
  EXPECT_EQ(statuses_->exit_of("w"), (WorkerExit{Cause::exited, 8, ""}));
  EXPECT_EQ(said("runs"), "run\n");
}

TEST_F(AdoptionTest, ButNotIfItsSlotsWentToAnotherMeanwhile) {
  open();
  WorkerSpec newer = shell("newer", "exit 0");
  newer.slots = {1};
  newer.fence = 5;
  EXPECT_TRUE(run(newer).ok());
  WorkerSpec older = shell("w", "echo run >> runs");
  older.slots = {1};
  older.fence = 4;
  prepare(older);
  open();
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::not_started);
  EXPECT_EQ(said("runs"), "");
}

TEST_F(AdoptionTest, AWorkerThatMayHaveRunIsLost) {
  prepare(shell("w", "echo run >> runs; exit 8"));
  ASSERT_TRUE(folder_of("w").mark_launched());
  open();
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::lost);
  EXPECT_EQ(said("runs"), "");
}

TEST_F(AdoptionTest, AFolderWithoutASpecIsNoWorker) {
  open();
  agent_.reset();
  ASSERT_TRUE(make_folder(folder_of("w").path()));
  std::ofstream(folder_of("w").file("spec.json.tmp")) << "{";
  EXPECT_TRUE(open().list().empty());
  EXPECT_EQ(run(shell("w", "exit 8")).code, 8);
}

TEST_F(AdoptionTest, OfManyShimsOneRunsTheCommand) {
  prepare(shell("w", "echo run >> runs; while ! [ -e go ]; do sleep 0.01; done; exit 8"));
  std::vector<pid_t> shims;
  for (int i = 0; i < 5; ++i) shims.push_back(launch_shim(options_.shim, folder_of("w")).value());
  Agent& agent = open();  // finds one of them, or launches a sixth
  ASSERT_NE(statuses_->pid_of("w"), 0);
  agent.stop("w", 3600s);
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::stopped);
  for (const pid_t shim : shims) ::waitpid(shim, nullptr, 0);
  EXPECT_EQ(said("runs"), "run\n");
}

TEST_F(AdoptionTest, AStopOutlivesTheAgent) {
  const pid_t child = open_in_child({shell("w", kIdle)});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(folder_of("w").write_stop(3600s));  // written, and no more
  open();
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::stopped);
}

TEST_F(AdoptionTest, AStopOutlivesTheAgentBeforeTheLaunchToo) {
  prepare(shell("w", "echo run >> runs"));
  ASSERT_TRUE(folder_of("w").write_stop(3600s));
  open();
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::stopped);
  EXPECT_EQ(said("runs"), "");
}

TEST_F(AdoptionTest, AWorkerWithoutRenewalIsFenced) {
  options_.lease = 200ms;
  options_.renews_lease = false;
  open();
  EXPECT_EQ(run(shell("w", kIdle)).cause, Cause::fenced);
  EXPECT_EQ(run(shell("late", kIdle)).cause, Cause::not_started) << "the lease has passed";
  ASSERT_TRUE(agent_->renew_lease());
  EXPECT_EQ(run(shell("renewed", "exit 0")).cause, Cause::exited);
}

TEST_F(AdoptionTest, RenewalKeepsAWorkerWhileTheAgentLives) {
  options_.lease = 300ms;
  const pid_t child = open_in_child({shell("w", kIdle)});
  const auto pid = static_cast<pid_t>(*folder_of("w").pid());
  const Duration started = boot_clock();
  EXPECT_TRUE(eventually([&] { return boot_clock() > started + 900ms || !is_running(pid); }));
  EXPECT_TRUE(is_running(pid));
  kill_child(child);
  EXPECT_TRUE(eventually([&] { return folder_of("w").exit().has_value(); }));
  EXPECT_EQ(folder_of("w").exit()->cause, Cause::fenced);
  EXPECT_FALSE(is_running(pid));
  open();
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::fenced);
}

TEST_F(AdoptionTest, AFullDiskLosesLogsAndNotTheExit) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a small file system";
  // Of this thread, and of those it makes.
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    GTEST_SKIP() << "this machine gives no mount namespace";
  }
  ASSERT_TRUE(make_folder(options_.folder));
  ASSERT_EQ(::mount("tmpfs", options_.folder.c_str(), "tmpfs", 0, "size=256k"), 0);
  Agent& agent = open();
  agent.start(
      shell("w", "head -c 1000000 /dev/zero; echo x > written; while ! [ -e go ]; do sleep 0.01; done; exit 7"));
  ASSERT_TRUE(eventually([&] { return !said("written").empty(); }));
  std::ofstream(root_ / "go") << "go";
  EXPECT_EQ(statuses_->exit_of("w"), (WorkerExit{Cause::exited, 7, ""}));
  const auto range = agent.log_range("w", "stdout");
  ASSERT_TRUE(range);
  EXPECT_GT(range->end, 0U);
  EXPECT_LT(range->end, 256U << 10);
  // Nothing new can be written down, so nothing new starts; and it does not start later either.
  EXPECT_EQ(run(shell("next", "echo run >> runs")).cause, Cause::not_started);
  agent.forget("w");  // needs no space
  ASSERT_TRUE(eventually([&] { return agent.list().size() == 1; }));
  std::filesystem::remove(options_.folder / "ended" / "w" / "stdout.0.log");
  open();
  EXPECT_EQ(said("runs"), "");
  EXPECT_EQ(run(shell("again", "exit 1")).code, 1) << "service resumes when space returns";
  agent_.reset();
  EXPECT_TRUE(eventually([&] { return ::umount(options_.folder.c_str()) == 0; })) << "its shims have yet to leave";
}

}  // namespace
}  // namespace ebb::agent
