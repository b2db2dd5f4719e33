#include "ebb/agent/log_file.h"

#include "ebb/agent/testing.h"

namespace ebb::agent {
namespace {

class LogFileTest : public AgentTest {};

std::string numbers(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += fmt::format("{:07}\n", i);
  return text;
}

TEST_F(LogFileTest, OffsetsKeepTheirMeaningOverRotation) {
  LogWriter log(root_, "stdout", {.segment_bytes = 100, .segments = 3});
  const std::string all = numbers(0, 100);  // 800 bytes
  for (std::size_t at = 0; at < all.size(); at += 13) log.write(std::string_view(all).substr(at, 13));
  const auto range = log_range(root_, "stdout");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 500U);
  EXPECT_EQ(range->end, 800U);
  EXPECT_EQ(read_log(root_, "stdout", 500, 1000).value(), all.substr(500));
  EXPECT_EQ(read_log(root_, "stdout", 555, 90).value(), all.substr(555, 90));
  EXPECT_EQ(read_log(root_, "stdout", 600, 100).value(), all.substr(600, 100));
  EXPECT_EQ(read_log(root_, "stdout", 800, 100).value(), "");
  EXPECT_EQ(read_log(root_, "stdout", 5000, 100).value(), "");
  const auto gone = read_log(root_, "stdout", 499, 10);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::not_found);
  EXPECT_NE(gone.error().message.find("from byte 500 on"), std::string::npos) << gone.error().message;
}

TEST_F(LogFileTest, AnEmptyStreamIsNoError) {
  EXPECT_EQ(read_log(root_, "stderr", 0, 10).value(), "");
  EXPECT_EQ(log_range(root_, "stderr")->end, 0U);
  EXPECT_EQ(read_log(root_ / "nowhere", "stderr", 0, 10).error().code, ErrorCode::not_found);
}

TEST_F(LogFileTest, SegmentsOfAnotherStreamAreNotItsOwn) {
  LogWriter(root_, "stdout", {}).write("out");
  LogWriter(root_, "stderr", {}).write("error");
  std::ofstream(root_ / "stdout.x.log") << "?";
  std::ofstream(root_ / "stdout.log") << "?";
  EXPECT_EQ(read_log(root_, "stdout", 0, 100).value(), "out");
  EXPECT_EQ(read_log(root_, "stderr", 0, 100).value(), "error");
}

TEST_F(LogFileTest, SaysHowMuchAFullDiskTook) {
  const auto folder = root_ / "log";
  LogWriter log(folder, "stdout", {});
  log.write("lost");  // there is no folder yet
  ASSERT_TRUE(make_folder(folder));
  log.write("kept");
  EXPECT_EQ(read_log(folder, "stdout", 0, 100).value(), "\n[ebb: 4 bytes lost: No such file or directory]\nkept");
}

TEST_F(LogFileTest, AWorkerMayWriteMoreThanIsKept) {
  options_.logs = {.segment_bytes = 1000, .segments = 2};
  Agent& agent = open();
  EXPECT_TRUE(
      run(shell("w", "i=0; while [ $i -lt 1000 ]; do printf '%07d\\n' $i; i=$((i+1)); done; exec >&2; echo end")).ok());
  const auto range = agent.log_range("w", "stdout");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 6000U);
  EXPECT_EQ(range->end, 8000U);
  EXPECT_EQ(agent.read_log("w", "stdout", 6000, 10000).value(), numbers(750, 1000));
  EXPECT_EQ(agent.read_log("w", "stderr", 0, 10000).value(), "end\n");
}

}  // namespace
}  // namespace ebb::agent
