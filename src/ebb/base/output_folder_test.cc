#include "ebb/base/output_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "ebb/base/files.h"

namespace ebb {
namespace {

namespace fs = std::filesystem;

class OutputFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("ebb_output_folder_test_{}", ::getpid());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(root_), fs::directory_iterator()); }

  fs::path root_;
};

TEST_F(OutputFolders, AppearsOnlyWhenCommitted) {
  {
    auto folder = OutputFolder::create(root_ / "a" / "b", false).value();
    ASSERT_TRUE(write_file_atomically(folder.file("x"), "1"));
    EXPECT_FALSE(fs::exists(root_ / "a" / "b"));
    ASSERT_TRUE(folder.commit());
  }
  EXPECT_EQ(read_file(root_ / "a" / "b" / "x").value(), "1");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFolders, LeavesNothingWithoutCommit) {
  {
    auto folder = OutputFolder::create(root_ / "a", false).value();
    ASSERT_TRUE(write_file_atomically(folder.file("x"), "1"));
  }
  EXPECT_EQ(entries(), 0);
}

TEST_F(OutputFolders, FillsAnEmptyFolderAndRefusesAFullOne) {
  fs::create_directories(root_ / "a");
  {
    auto folder = OutputFolder::create(root_ / "a/", false).value();
    ASSERT_TRUE(write_file_atomically(folder.file("x"), "1"));
    ASSERT_TRUE(folder.commit());
  }
  EXPECT_EQ(OutputFolder::create(root_ / "a", false).error().code, ErrorCode::already_exists);
  ASSERT_TRUE(write_file_atomically(root_ / "a" / "mine", "keep"));
  auto folder = OutputFolder::create(root_ / "a", true).value();
  ASSERT_TRUE(write_file_atomically(folder.file("x"), "2"));
  ASSERT_TRUE(folder.commit());
  EXPECT_EQ(read_file(root_ / "a" / "x").value(), "2");
  EXPECT_EQ(read_file(root_ / "a" / "mine").value(), "keep");
}

TEST_F(OutputFolders, DoesNotFillWhatSomebodyElseFilledMeanwhile) {
  auto first = OutputFolder::create(root_ / "a", false).value();
  fs::create_directories(root_ / "a");
  ASSERT_TRUE(write_file_atomically(root_ / "a" / "theirs", "keep"));
  EXPECT_EQ(first.commit().error().code, ErrorCode::already_exists);
  EXPECT_EQ(read_file(root_ / "a" / "theirs").value(), "keep");
}

TEST_F(OutputFolders, AreAbandonedTogether) {
  auto one = OutputFolder::create(root_ / "a", false).value();
  auto two = OutputFolder::create(root_ / "b/", false).value();
  EXPECT_EQ(entries(), 2);
  OutputFolder::abandon_all();
  EXPECT_EQ(entries(), 0);
}

TEST_F(OutputFolders, RefusesFilesAndPlacesItCannotWrite) {
  ASSERT_TRUE(write_file_atomically(root_ / "f", "x"));
  EXPECT_EQ(OutputFolder::create(root_ / "f", false).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(OutputFolder::create(root_ / "f" / "below", false));
  EXPECT_FALSE(OutputFolder::create("/proc/ebb-cannot-write-here", false));
}

}  // namespace
}  // namespace ebb
