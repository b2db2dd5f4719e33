// How workers start and end under one agent.

#include "ebb/agent/agent.h"

#include <sys/stat.h>

#include "ebb/agent/testing.h"

namespace ebb::agent {

std::filesystem::path shim_program() {
  return std::filesystem::path(EBB_BINARY).parent_path() / "ebb-shim";
}

namespace {

using Cause = WorkerExit::Cause;

TEST_F(AgentTest, TellsExitCodesAndSignalsApart) {
  open();
  EXPECT_EQ(run(shell("ok", "exit 0")), (WorkerExit{Cause::exited, 0, ""}));
  EXPECT_TRUE(statuses_->exit_of("ok").ok());
  EXPECT_EQ(run(shell("three", "exit 3")), (WorkerExit{Cause::exited, 3, ""}));
  EXPECT_EQ(run(shell("segv", "kill -SEGV $$")), (WorkerExit{Cause::signalled, SIGSEGV, ""}));
  EXPECT_EQ(run(shell("kill", "kill -KILL $$")), (WorkerExit{Cause::signalled, SIGKILL, ""}));
  // As a shell puts it: still an exit code.
  EXPECT_EQ(run(shell("code", "exit 137")), (WorkerExit{Cause::exited, 137, ""}));
}

TEST_F(AgentTest, SaysTheProcessAndListsTheWorker) {
  Agent& agent = open();
  agent.start(shell("w", "echo $$ > pid; exec sleep 3600"));
  EXPECT_EQ(statuses_->pid_of("w"), pid_said("pid"));
  const auto all = agent.list();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, "w");
  EXPECT_EQ(all[0].pid, pid_said("pid"));
  EXPECT_FALSE(all[0].exit);
}

TEST_F(AgentTest, SaysWhyACommandCannotRun) {
  open();
  WorkerSpec spec = shell("missing", "");
  spec.command = {"no-such-program", "1"};
  WorkerExit exit = run(spec);
  EXPECT_EQ(exit.cause, Cause::not_started);
  EXPECT_NE(exit.message.find("'no-such-program' was not found in PATH"), std::string::npos) << exit.message;

  spec = shell("denied", "");
  std::ofstream(root_ / "file") << "#!/bin/sh\n";
  spec.command = {(root_ / "file").string()};
  exit = run(spec);
  EXPECT_EQ(exit.cause, Cause::not_started);
  EXPECT_NE(exit.message.find("may not be executed"), std::string::npos) << exit.message;

  spec = shell("folder", "exit 0");
  spec.working_directory = (root_ / "nowhere").string();
  exit = run(spec);
  EXPECT_EQ(exit.cause, Cause::not_started);
  EXPECT_NE(exit.message.find("nowhere"), std::string::npos) << exit.message;

  spec = shell("empty", "");
  spec.command.clear();
  EXPECT_EQ(run(spec).cause, Cause::not_started);

  spec = shell("bytes", "exit 0");
  spec.environment.push_back("NAME=\xff\xfe");
  EXPECT_EQ(run(spec).cause, Cause::not_started);
}

TEST_F(AgentTest, RefusesIdsThatAreNoFileNames) {
  open();
  for (const char* id : {"../escape", "", "a/b", "A", ".", "j1_0"}) {
    const WorkerExit exit = run(shell(id, "exit 0"));
    EXPECT_EQ(exit.cause, Cause::not_started) << id;
  }
  EXPECT_EQ(run(shell(std::string(65, 'a'), "exit 0")).cause, Cause::not_started);
  EXPECT_EQ(run(shell(std::string(64, 'a'), "exit 0")).cause, Cause::exited);
  EXPECT_FALSE(std::filesystem::exists(root_ / "escape"));
  EXPECT_EQ(agent_->read_log("../agent", "stdout", 0, 10).error().code, ErrorCode::not_found);
  EXPECT_EQ(agent_->read_log(std::string(64, 'a'), "../spec", 0, 10).error().code, ErrorCode::not_found);
}

TEST_F(AgentTest, EndsAWorkerAtItsTimeLimit) {
  open();
  WorkerSpec spec = shell("w", kIdle);
  spec.time_limit = 50ms;
  EXPECT_EQ(run(spec).cause, Cause::timed_out);
}

TEST_F(AgentTest, StopsWithSigterm) {
  Agent& agent = open();
  agent.start(shell("w", "trap 'echo saved; exit 9' TERM; echo ready > state; while true; do sleep 0.01; done"));
  ASSERT_TRUE(eventually([&] { return said("state") == "ready\n"; }));
  agent.stop("w", 3600s);
  const WorkerExit exit = statuses_->exit_of("w");
  EXPECT_EQ(exit.cause, Cause::stopped);
  EXPECT_EQ(exit.code, 9);
  EXPECT_EQ(agent.read_log("w", "stdout", 0, 100).value(), "saved\n");
}

TEST_F(AgentTest, KillsWhatIgnoresSigterm) {
  Agent& agent = open();
  agent.start(shell("w", "trap '' TERM; echo ready > state; while true; do sleep 3600; done"));
  ASSERT_TRUE(eventually([&] { return said("state") == "ready\n"; }));
  agent.stop("w", 50ms);
  const WorkerExit exit = statuses_->exit_of("w");
  EXPECT_EQ(exit.cause, Cause::stopped);
  EXPECT_NE(exit.message.find("signal 9"), std::string::npos) << exit.message;
}

TEST_F(AgentTest, ASecondStopMayShortenTheGrace) {
  Agent& agent = open();
  agent.start(shell("w", "trap '' TERM; echo ready > state; while true; do sleep 3600; done"));
  ASSERT_TRUE(eventually([&] { return said("state") == "ready\n"; }));
  agent.stop("w", 3600s);
  agent.stop("w", Duration{0});
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::stopped);
}

TEST_F(AgentTest, AStopAtOnceIsNotLost) {
  Agent& agent = open();
  for (int i = 0; i < 20; ++i) {
    const WorkerId id = fmt::format("w{}", i);
    agent.start(shell(id, kIdle));
    agent.stop(id, 3600s);
    EXPECT_EQ(statuses_->exit_of(id).cause, Cause::stopped);
  }
}

TEST_F(AgentTest, NothingSurvivesAStop) {
  for (const bool isolate : {true, false}) {
    options_.isolate = isolate;
    Agent& agent = open();
    const WorkerId id = isolate ? "grouped" : "plain";
    // A daemon: in a session of its own, its parent gone, deaf to SIGTERM.
    agent.start(shell(id, "(setsid sh -c \"trap '' TERM; echo \\$\\$ > daemon-" + id +
                              "; while true; do sleep 3600; done\" &) ; exec sleep 3600"));
    const pid_t daemon = pid_said("daemon-" + id);
    EXPECT_TRUE(is_running(daemon));
    agent.stop(id, 3600s);  // the command ends by SIGTERM; for the rest nobody waits an hour
    EXPECT_EQ(statuses_->exit_of(id).cause, Cause::stopped);
    EXPECT_FALSE(is_running(daemon));
  }
}

TEST_F(AgentTest, NothingIsLeftBehindByACommandThatEnds) {
  open();
  WorkerSpec spec =
      shell("w", "setsid sh -c 'echo $$ > daemon; sleep 3600' & while ! [ -s daemon ]; do :; done; exit 5");
  EXPECT_EQ(run(spec), (WorkerExit{Cause::exited, 5, ""}));
  EXPECT_FALSE(is_running(pid_said("daemon")));
}

TEST_F(AgentTest, GivesAnEnvironment) {
  Agent& agent = open();
  WorkerSpec spec = shell("w", "echo $EBB_WORKER_ID $NAME; pwd; cat; exit 0");
  spec.environment.push_back("NAME=value");
  spec.environment.push_back("EBB_WORKER_ID=forged");
  EXPECT_TRUE(run(spec).ok());
  EXPECT_EQ(agent.read_log("w", "stdout", 0, 1000).value(), "w value\n" + root_.string() + "\n");
}

TEST_F(AgentTest, AWorkerInheritsNothing) {
  Agent& agent = open();
  EXPECT_TRUE(run(shell("descriptors", "exec ls /proc/self/fd")).ok());
  EXPECT_EQ(agent.read_log("descriptors", "stdout", 0, 1000).value(), "0\n1\n2\n3\n") << "3 is that of ls";
  EXPECT_TRUE(run(shell("signals", "exec sed -n 's/Sig[BI][lg][kn]://p' /proc/self/status")).ok());
  std::istringstream masks(agent.read_log("signals", "stdout", 0, 1000).value());
  std::uint64_t blocked = 1;
  std::uint64_t ignored = 1;
  masks >> std::hex >> blocked >> ignored;
  EXPECT_EQ(blocked, 0U);
  EXPECT_EQ(ignored & 0x7fffffff, 0U) << "but for 32 and 33, which belong to the C library";
}

TEST_F(AgentTest, FilesAreForTheirOwnerOnly) {
  open();
  EXPECT_TRUE(run(shell("w", "echo text; exit 0")).ok());
  struct stat info{};
  for (const char* name : {"spec.json", "exit.json", "stdout.0.log", "lock"}) {
    ASSERT_EQ(::stat(folder_of("w").file(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
  ASSERT_EQ(::stat(folder_of("w").path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(AgentTest, ADoubleStartRunsOnce) {
  Agent& agent = open();
  const WorkerSpec spec = shell("w", "echo run >> runs; exit 4");
  agent.start(spec);
  agent.start(spec);
  EXPECT_EQ(statuses_->exit_of("w").code, 4);
  agent.start(spec);
  ASSERT_TRUE(eventually([&] { return statuses_->exits_of("w") >= 2; }));
  EXPECT_EQ(said("runs"), "run\n");
}

TEST_F(AgentTest, AForgottenWorkerDoesNotRunAgain) {
  Agent& agent = open();
  const WorkerSpec spec = shell("w", "echo run >> runs; echo text; exit 4");
  EXPECT_EQ(run(spec).code, 4);
  agent.forget("w");
  agent.start(spec);
  ASSERT_TRUE(eventually([&] { return statuses_->exits_of("w") == 2; }));
  EXPECT_EQ(statuses_->exit_of("w").code, 4);
  ASSERT_TRUE(eventually([&] { return agent.list().empty(); }));

  Agent& next = open();
  next.start(spec);
  EXPECT_EQ(statuses_->exit_of("w"), (WorkerExit{Cause::exited, 4, ""}));
  EXPECT_EQ(said("runs"), "run\n");
  EXPECT_EQ(next.read_log("w", "stdout", 0, 100).value(), "text\n");
}

TEST_F(AgentTest, AStopOfTheUnknownAndTheForgettingOfTheRunningAreNothing) {
  Agent& agent = open();
  agent.stop("nobody", 1s);
  agent.forget("nobody");
  agent.start(shell("w", kIdle));
  ASSERT_NE(statuses_->pid_of("w"), 0);
  agent.forget("w");
  agent.stop("w", 1s);
  EXPECT_EQ(statuses_->exit_of("w").cause, Cause::stopped);
}

TEST_F(AgentTest, RefusesAnOldFence) {
  open();
  WorkerSpec spec = shell("a", "exit 0");
  spec.slots = {0, 1};
  spec.fence = 7;
  EXPECT_TRUE(run(spec).ok());
  spec.id = "b";
  spec.slots = {1, 2};
  const WorkerExit exit = run(spec);
  EXPECT_EQ(exit.cause, Cause::not_started);
  EXPECT_EQ(exit.message, "fence 7 of slot 1 is not above 7, that of a");
  open();
  spec.id = "c";
  spec.fence = 6;
  EXPECT_EQ(run(spec).cause, Cause::not_started);
  spec.id = "d";
  spec.slots = {2};
  EXPECT_TRUE(run(spec).ok()) << "slot 2 was never held";
  spec.id = "e";
  spec.slots = {0, 1, 2};
  spec.fence = 8;
  EXPECT_TRUE(run(spec).ok());
  spec.id = "f";
  spec.fence = 9;
  spec.slots = {4};
  EXPECT_EQ(run(spec).cause, Cause::not_started) << "there are four slots";
  spec.id = "g";
  spec.slots = {0, 0};
  EXPECT_EQ(run(spec).cause, Cause::not_started);
}

TEST_F(AgentTest, OneAgentAFolder) {
  open();
  const auto second = Agent::open(options_, [](const WorkerStatus&) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::failed_precondition);
}

TEST_F(AgentTest, NeedsItsShim) {
  options_.shim = root_ / "nothing";
  const auto agent = Agent::open(options_, [](const WorkerStatus&) {});
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace ebb::agent
