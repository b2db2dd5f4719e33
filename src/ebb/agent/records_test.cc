#include "ebb/agent/records.h"

#include "ebb/agent/testing.h"

namespace ebb::agent {
namespace {

TEST(Records, ALaunchComesBackAsItWas) {
  Launch launch;
  launch.worker = {.id = "j1-2-3",
                   .node = 4,
                   .slots = {0, 5},
                   .fence = UINT64_MAX,
                   .command = {"train", "--name", "größe \"x\"\n"},
                   .environment = {"A=b", "C="},
                   .working_directory = "/tmp",
                   .memory_bytes = 1 << 20,
                   .time_limit = 3s,
                   .grace_time = 5s};
  launch.agent = "a1";
  launch.environment = {"A=b"};
  launch.group = {
      .folders = {{GroupKind::memory, "/sys/fs/cgroup/memory/ebb-a1/j1-2-3"}}, .milli_cpus = 1500, .memory_bytes = {}};
  launch.logs = {.segment_bytes = 10, .segments = 3};
  launch.leased = true;
  EXPECT_EQ(launch_from_json(launch_to_json(launch).value()).value(), launch);
  launch.worker.memory_bytes.reset();
  launch.worker.time_limit.reset();
  launch.group = {};
  EXPECT_EQ(launch_from_json(launch_to_json(launch).value()).value(), launch);
  launch.worker.command = {"\xff"};
  EXPECT_EQ(launch_to_json(launch).error().code, ErrorCode::invalid_argument);
}

TEST(Records, AnExitFitsItsReservedSpace) {
  const WorkerExit exit{.cause = WorkerExit::Cause::not_started, .code = 0, .message = std::string(100'000, '\x01')};
  EXPECT_LE(exit_to_json(std::string(64, 'a'), exit).size(), ReservedFile::kSize);
  const WorkerExit bytes{.cause = WorkerExit::Cause::signalled, .code = 11, .message = "\xff"};
  const auto read = exit_from_json(exit_to_json("w", bytes));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->cause, bytes.cause);
  EXPECT_EQ(read->code, 11);
}

TEST(Records, DamagedFilesAreErrors) {
  for (const char* text : {"", "{", "[]", "null", "{\"worker\": 3}", "{\"cause\": 1, \"code\": \"x\"}"}) {
    EXPECT_FALSE(launch_from_json(text)) << text;
    EXPECT_FALSE(exit_from_json(text)) << text;
    EXPECT_FALSE(status_from_json(text)) << text;
    EXPECT_FALSE(stop_from_json(text)) << text;
    EXPECT_FALSE(lease_from_json(text)) << text;
  }
  EXPECT_FALSE(fences_from_json("{\"fence\": 1}"));
  const std::vector<Fence> fences{{.number = 3, .worker = "w"}, {}};
  EXPECT_EQ(fences_from_json(fences_to_json(fences)).value(), fences);
}

}  // namespace
}  // namespace ebb::agent
