#include "ebb/base/files.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <vector>

namespace ebb {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("ebb_files_test_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path gzip(const std::string& text) {
    const fs::path path = folder_ / "x.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path;
  }

  static Result<std::vector<std::string>> lines_of(const fs::path& path) {
    EBB_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path));
    std::vector<std::string> lines;
    std::string_view line;
    while (true) {
      EBB_ASSIGN_OR_RETURN(const bool more, reader.next(line));
      if (!more) return lines;
      lines.emplace_back(line);
    }
  }

  fs::path folder_;
};

TEST_F(Files, ReadsLinesWithAnyLineEnd) {
  ASSERT_TRUE(write_file_atomically(folder_ / "a", "\xEF\xBB\xBFone\r\ntwo\n\nlast"));
  EXPECT_EQ(lines_of(folder_ / "a").value(), (std::vector<std::string>{"one", "two", "", "last"}));
}

TEST_F(Files, ReadsGzipLikePlainText) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("line {}\n", i);
  const auto lines = lines_of(gzip(text)).value();
  ASSERT_EQ(lines.size(), 100'000U);
  EXPECT_EQ(lines[77'777], "line 77777");
}

TEST_F(Files, NamesATruncatedGzipStream) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("line {}\n", i * 7919);
  const fs::path path = gzip(text);
  fs::resize_file(path, fs::file_size(path) / 2);
  const auto lines = lines_of(path);
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(lines.error().message.find("cut off"), std::string::npos) << lines.error().message;
}

TEST_F(Files, RefusesALineWithoutEnd) {
  ASSERT_TRUE(write_file_atomically(folder_ / "long", std::string(std::size_t{20} << 20, 'x')));
  EXPECT_EQ(lines_of(folder_ / "long").error().code, ErrorCode::invalid_argument);
}

TEST_F(Files, TellsMissingFilesFoldersAndUnwritablePlaces) {
  EXPECT_EQ(read_file(folder_ / "nothing").error().code, ErrorCode::not_found);
  EXPECT_EQ(read_file(folder_).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(lines_of(folder_).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(write_file_atomically(folder_ / "no" / "such", "x"));
}

TEST_F(Files, AFullDiskIsReportedAndLeavesNoFile) {
  if (!fs::exists("/dev/full")) FAIL() << "this test needs /dev/full";
  auto writer = FileWriter::create("/dev/full");
  ASSERT_TRUE(writer);
  writer->write(std::string(1 << 20, 'x'));
  EXPECT_EQ(writer->close().error().code, ErrorCode::resource_exhausted);
}

TEST_F(Files, ReplacesAFileAsAWhole) {
  ASSERT_TRUE(write_file_atomically(folder_ / "a", "old"));
  ASSERT_TRUE(write_file_atomically(folder_ / "a", "new"));
  EXPECT_EQ(read_file(folder_ / "a").value(), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace ebb
