#include "ebb/control/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "ebb/base/files.h"
#include "ebb/base/random.h"
#include "ebb/base/test_folder.h"

namespace ebb::control {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// The text of row `seq` in all of these tests: several pages long now and then.
std::string text_of_row(std::uint64_t seq) {
  return fmt::format(R"({{"seq":{},"filler":"{}"}})", seq, std::string(seq % 50 == 0 ? 9'000 : 100 + seq % 97, 'x'));
}

std::vector<Row> next_rows(const Store& store, std::size_t count) {
  std::vector<Row> rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i].json = text_of_row(store.last_seq() + 1 + i);
  return rows;
}

Result<void> append(Store& store, std::size_t count) {
  std::vector<Row> rows = next_rows(store, count);
  return store.append(rows);
}

// Reads everything: rows 1, 2, ... with their text; how many.
std::uint64_t expect_whole(const Store& store) {
  std::uint64_t seen = 0;
  const auto read = store.read(0, SIZE_MAX, [&](const Row& row) {
    EXPECT_EQ(row.seq, ++seen);
    EXPECT_EQ(row.json, text_of_row(row.seq));
    return Result<void>();
  });
  EXPECT_TRUE(read) << read.error().message;
  EXPECT_EQ(seen, store.last_seq());
  return seen;
}

// In a process of its own: status as of waitpid.
template <typename Body>
pid_t in_child(Body body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  body();
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class Stores : public ::testing::Test {
 protected:
  Store open() const { return std::move(Store::open(folder_)).value(); }
  fs::path database() const { return folder_ / "journal.db"; }

  void sql(const std::string& text) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(database().c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  TestFolder scratch_;
  fs::path root_ = scratch_.path();
  fs::path folder_ = root_ / "data";
};

TEST_F(Stores, NumbersRowsAndKeepsThem) {
  {
    Store store = open();
    EXPECT_EQ(store.last_seq(), 0U);
    std::vector<Row> rows = next_rows(store, 3);
    ASSERT_TRUE(store.append(rows));
    EXPECT_EQ(rows[0].seq, 1U);
    EXPECT_EQ(rows[2].seq, 3U);
    ASSERT_TRUE(append(store, 200));
    ASSERT_TRUE(store.append({}));
    EXPECT_EQ(store.last_seq(), 203U);
    Store moved = std::move(store);
    EXPECT_EQ(expect_whole(moved), 203U);
  }
  Store store = open();
  EXPECT_EQ(expect_whole(store), 203U);
  ASSERT_TRUE(append(store, 1));
  EXPECT_EQ(expect_whole(store), 204U);
  EXPECT_EQ(verify(folder_).value(), 204U);
}

TEST_F(Stores, ReadsAPart) {
  Store store = open();
  ASSERT_TRUE(append(store, 10));
  std::vector<std::uint64_t> seen;
  const auto note = [&](const Row& row) -> Result<void> {
    seen.push_back(row.seq);
    if (row.seq == 9) return fail(ErrorCode::cancelled, "enough");
    return {};
  };
  ASSERT_TRUE(store.read(4, 3, note));
  EXPECT_THAT(seen, testing::ElementsAre(5, 6, 7));
  ASSERT_TRUE(store.read(10, 3, note));
  ASSERT_TRUE(store.read(UINT64_MAX, 3, note));
  ASSERT_TRUE(store.read(2, 0, note));
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(store.read(7, 100, note).error().code, ErrorCode::cancelled);
  EXPECT_EQ(seen.back(), 9U);
  ASSERT_TRUE(append(store, 1)) << "an interrupted reading must hold nothing";
}

TEST_F(Stores, KeepsValuesBesideTheJournal) {
  {
    Store store = open();
    EXPECT_EQ(store.get("cluster"), "");
    ASSERT_TRUE(store.set("cluster", "a"));
    ASSERT_TRUE(store.set("cluster", std::string("b\0c", 3)));
    ASSERT_TRUE(store.set("other", ""));
  }
  EXPECT_EQ(open().get("cluster"), std::string("b\0c", 3));
  EXPECT_EQ(open().last_seq(), 0U);
}

TEST_F(Stores, IsForItsOwnerOnly) {
  const mode_t before = ::umask(0);
  Store store = open();
  ASSERT_TRUE(append(store, 1));
  ::umask(before);
  EXPECT_EQ(mode_of(folder_), 0700U);
  for (const char* name : {"journal.db", "journal.db-wal", "journal.db-shm", "lock"}) {
    EXPECT_EQ(mode_of(folder_ / name), 0600U) << name;
  }
}

TEST_F(Stores, RefusesAFolderThatOthersWriteInto) {
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::all);
  const auto store = Store::open(folder_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::failed_precondition);
  EXPECT_THAT(store.error().message, HasSubstr("chmod 700"));
}

TEST_F(Stores, KeepsASecondControllerOut) {
  std::optional<Store> store = open();
  const auto refused = [this] {
    const auto second = Store::open(folder_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::failed_precondition);
    EXPECT_THAT(second.error().message, HasSubstr("another controller"));
  };
  refused();
  EXPECT_EQ(wait_for(in_child(refused)), 0);
  store.reset();
  EXPECT_TRUE(Store::open(folder_));
}

TEST_F(Stores, RefusesWhatALaterOrAnotherProgramWrote) {
  open();
  sql("PRAGMA user_version = 999");
  for (const auto& error :
       {Store::open(folder_).error(), verify(folder_).error(), backup(folder_, root_ / "b").error()}) {
    EXPECT_EQ(error.code, ErrorCode::failed_precondition);
    EXPECT_THAT(error.message, AllOf(HasSubstr("999"), HasSubstr("later ebb")));
  }
  fs::remove(database());
  sql("CREATE TABLE mine (x)");
  EXPECT_THAT(Store::open(folder_).error().message, HasSubstr("no journal of ebb"));
}

TEST_F(Stores, BringsAnEmptyDatabaseUpToDate) {
  // What a crash within the very first opening leaves.
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  sql("PRAGMA journal_mode = WAL");
  Store store = open();
  ASSERT_TRUE(append(store, 1));
  EXPECT_EQ(verify(folder_).value(), 1U);
}

TEST_F(Stores, RefusesALogWithoutItsDatabase) {
  {
    Store store = open();
    ASSERT_TRUE(append(store, 3));
    fs::copy_file(folder_ / "journal.db-wal", root_ / "wal");
    ASSERT_TRUE(backup(folder_, root_ / "backup"));
  }
  fs::rename(root_ / "wal", folder_ / "journal.db-wal");
  fs::remove(database());
  EXPECT_THAT(Store::open(folder_).error().message, AllOf(HasSubstr("journal.db-wal"), HasSubstr("missing")));
  EXPECT_EQ(restore(root_ / "backup", folder_).error().code, ErrorCode::already_exists);
  EXPECT_EQ(verify(folder_).error().code, ErrorCode::not_found);
}

// A power cut: the database as it is in mid-use, with the end of its log cut off or changed.
TEST_F(Stores, OpensWithWholeAppendsAfterATornTail) {
  constexpr std::uint64_t kPerAppend = 3;
  Store store = open();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(append(store, kPerAppend));
  const std::string pages = read_file(database()).value();
  const std::string log = read_file(folder_ / "journal.db-wal").value();
  ASSERT_GT(log.size(), 100'000U);
  Random random(1, "torn");
  std::set<std::uint64_t> lengths;
  for (int round = 0; round < 60; ++round) {
    std::string torn = log;
    const std::size_t tail = torn.size() - 1 - random.below(round < 30 ? 20'000 : torn.size());
    if (round % 2 == 0) {
      torn.resize(tail);
    } else {
      torn[tail] = static_cast<char>(torn[tail] ^ (1 << random.below(8)));
    }
    const fs::path folder = root_ / fmt::format("torn-{}", round);
    fs::create_directory(folder);
    fs::permissions(folder, fs::perms::owner_all);
    ASSERT_TRUE(write_file_atomically(folder / "journal.db", pages));
    ASSERT_TRUE(write_file_atomically(folder / "journal.db-wal", torn));
    auto opened = Store::open(folder);
    ASSERT_TRUE(opened) << opened.error().message;
    const std::uint64_t rows = expect_whole(*opened);
    EXPECT_EQ(rows % kPerAppend, 0U) << "torn at byte " << tail;
    ASSERT_TRUE(append(*opened, 1));
    EXPECT_EQ(verify(folder).value(), rows + 1);
    lengths.insert(rows);
  }
  EXPECT_GT(lengths.size(), 10U) << "the cuts must hit many appends";
}

// Reads numbers that a child writes into a pipe.
std::uint64_t last_number(int fd, std::uint64_t until) {
  std::uint64_t last = 0;
  std::uint64_t number = 0;
  while (last < until && ::read(fd, &number, sizeof number) == sizeof number) last = number;
  return last;
}

TEST_F(Stores, HasEveryAcknowledgedRowAfterKill9) {
  Random random(2, "kill");
  std::uint64_t rows = 0;
  for (int round = 0; round < 12; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = in_child([&] {
      Store store = open();
      for (;;) {
        if (!append(store, 1 + store.last_seq() % 4)) ::_exit(3);
        const std::uint64_t acknowledged = store.last_seq();
        if (::write(ends[1], &acknowledged, sizeof acknowledged) != sizeof acknowledged) ::_exit(4);
      }
    });
    ::close(ends[1]);
    last_number(ends[0], rows + 1 + random.below(60));
    ::kill(child, SIGKILL);
    EXPECT_EQ(WTERMSIG(wait_for(child)), SIGKILL);
    // What it still wrote before it died.
    const std::uint64_t acknowledged = last_number(ends[0], UINT64_MAX);
    ::close(ends[0]);
    const Store store = open();
    EXPECT_GE(expect_whole(store), acknowledged);
    EXPECT_GT(store.last_seq(), rows);
    rows = store.last_seq();
  }
  EXPECT_EQ(verify(folder_).value(), rows);
}

// A file system of its own, seen by this process only.
class SmallDisk {
 public:
  SmallDisk(const fs::path& at, const char* options) : at_(at) {
    fs::create_directory(at);
    mounted_ = ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("tmpfs", at.c_str(), "tmpfs", 0, options) == 0;
    if (!mounted_) reason_ = std::strerror(errno);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }

  bool mounted() const { return mounted_; }
  const std::string& reason() const { return reason_; }
  bool set_read_only(bool on) const {
    return ::mount(nullptr, at_.c_str(), nullptr, MS_REMOUNT | (on ? MS_RDONLY : 0), nullptr) == 0;
  }
  // Leaves no free block.
  void fill() const {
    const int fd = ::open((at_ / "filler").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::string block(4096, 'f');
    while (::write(fd, block.data(), block.size()) > 0) {
    }
    ::close(fd);
  }
  void make_space() const { fs::remove(at_ / "filler"); }

 private:
  fs::path at_;
  bool mounted_ = false;
  std::string reason_;
};

#define MOUNT_OR_SKIP(disk) \
  if (!(disk).mounted()) GTEST_SKIP() << "no permission to mount a tmpfs: " << (disk).reason()

TEST_F(Stores, LosesNothingOnAFullDiskAndGoesOn) {
  const SmallDisk disk(root_ / "disk", "size=4m,mode=700");
  MOUNT_OR_SKIP(disk);
  folder_ = root_ / "disk" / "data";
  std::optional<Store> store = open();
  ASSERT_TRUE(append(*store, 100));
  for (int round = 0; round < 3; ++round) {
    disk.fill();
    // What the log has still room for is accepted.
    Result<void> written;
    for (int i = 0; i < 10'000 && (written = append(*store, 7)); ++i) {
    }
    ASSERT_FALSE(written);
    const std::uint64_t accepted = store->last_seq();
    const auto log = fs::file_size(folder_ / "journal.db-wal");
    for (int i = 0; i < 20; ++i) {
      std::vector<Row> rows = next_rows(*store, 100);
      const auto refused = store->append(rows);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
      EXPECT_THAT(refused.error().message, AllOf(HasSubstr("journal.db"), HasSubstr("the disk is full")));
      EXPECT_EQ(rows[0].seq, 0U);
    }
    EXPECT_EQ(store->set("key", std::string(100'000, 'v')).error().code, ErrorCode::resource_exhausted);
    EXPECT_LE(fs::file_size(folder_ / "journal.db-wal"), log + 4096) << "refused appends must not grow the log";
    EXPECT_EQ(expect_whole(*store), accepted) << "reading goes on";
    const auto copy = backup(folder_, root_ / "disk" / "backup");
    ASSERT_FALSE(copy);
    EXPECT_EQ(copy.error().code, ErrorCode::resource_exhausted) << copy.error().message;
    EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "disk"), fs::directory_iterator()), 2) << "data, filler";
    if (round == 1) {
      // A restart on the full disk: it opens with all, or says why not.
      store.reset();
      disk.fill();
      auto again = Store::open(folder_);
      if (!again) {
        EXPECT_EQ(again.error().code, ErrorCode::resource_exhausted) << again.error().message;
      }
      again = fail(ErrorCode::cancelled, "closed");
      disk.make_space();
      store = open();
      EXPECT_EQ(expect_whole(*store), accepted);
    }
    disk.make_space();
    ASSERT_TRUE(append(*store, 100));
    EXPECT_EQ(expect_whole(*store), accepted + 100);
  }
  const std::uint64_t rows = store->last_seq();
  store.reset();
  EXPECT_EQ(verify(folder_).value(), rows);
}

TEST_F(Stores, SaysThatADiskIsReadOnly) {
  const SmallDisk disk(root_ / "disk", "size=4m,mode=700");
  MOUNT_OR_SKIP(disk);
  folder_ = root_ / "disk" / "data";
  {
    Store store = open();
    ASSERT_TRUE(append(store, 5));
  }
  ASSERT_TRUE(disk.set_read_only(true));
  for (const auto& error : {Store::open(folder_).error(), Store::open(root_ / "disk" / "new").error(),
                            restore(root_ / "b", root_ / "disk" / "new").error()}) {
    EXPECT_EQ(error.code, ErrorCode::unavailable);
    EXPECT_THAT(error.message, AllOf(HasSubstr("disk/"), HasSubstr("Read-only file system")));
  }
  ASSERT_TRUE(disk.set_read_only(false));
  Store store = open();
  EXPECT_EQ(expect_whole(store), 5U);
  ASSERT_TRUE(append(store, 5));
}

// A write that fails for another reason than a full disk: here, a limit on the size of files.
TEST_F(Stores, GoesOnAfterAnInputOutputError) {
  Store store = open();
  ASSERT_TRUE(append(store, 10));
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = fs::file_size(folder_ / "journal.db-wal") + 6'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = append(store, 100);
  const auto again = append(store, 100);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(refused);
  ASSERT_FALSE(again);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("File too large"));
  EXPECT_EQ(expect_whole(store), 10U);
  ASSERT_TRUE(append(store, 100));
  EXPECT_EQ(expect_whole(store), 110U);
}

TEST_F(Stores, BacksUpInUseAndRestores) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = in_child([&] {
    Store store = open();
    if (!store.set("cluster", "c1")) ::_exit(3);
    for (;;) {
      if (!append(store, 5)) ::_exit(3);
      const std::uint64_t acknowledged = store.last_seq();
      if (::write(ends[1], &acknowledged, sizeof acknowledged) != sizeof acknowledged) ::_exit(4);
    }
  });
  ::close(ends[1]);
  std::uint64_t before = 0;
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t acknowledged = last_number(ends[0], before + 1);
    const fs::path file = root_ / fmt::format("backups-{}", round) / "b.db";
    fs::create_directory(file.parent_path());
    const auto done = backup(folder_, file);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
    EXPECT_EQ(mode_of(file), 0600U);
    const fs::path folder = root_ / fmt::format("restored-{}", round);
    const auto restored = restore(file, folder);
    ASSERT_TRUE(restored) << restored.error().message;
    const Store store = std::move(Store::open(folder)).value();
    EXPECT_EQ(store.get("cluster"), "c1");
    before = expect_whole(store);
    EXPECT_EQ(before % 5, 0U);
    EXPECT_GE(before, acknowledged);
    EXPECT_TRUE(verify(folder_)) << "also of one in use";
  }
  ::kill(child, SIGKILL);
  EXPECT_EQ(WTERMSIG(wait_for(child)), SIGKILL);
  ::close(ends[0]);
}

TEST_F(Stores, NeverReplacesByABackupOrARestore) {
  {
    Store store = open();
    ASSERT_TRUE(append(store, 5));
  }
  ASSERT_TRUE(backup(folder_, root_ / "b"));
  EXPECT_EQ(backup(folder_, root_ / "b").error().code, ErrorCode::already_exists);
  EXPECT_EQ(restore(root_ / "b", folder_).error().code, ErrorCode::already_exists);
  EXPECT_EQ(backup(root_ / "none", root_ / "c").error().code, ErrorCode::not_found);
  EXPECT_EQ(restore(root_ / "none", root_ / "new").error().code, ErrorCode::not_found);
  EXPECT_EQ(backup(folder_, root_ / "none" / "c").error().code, ErrorCode::unavailable);
  EXPECT_EQ(verify(folder_).value(), 5U);
}

void flip(const fs::path& file, std::size_t at) {
  std::string bytes = read_file(file).value();
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  ASSERT_TRUE(write_file_atomically(file, bytes));
}

TEST_F(Stores, FindsAFlippedByte) {
  {
    Store store = open();
    ASSERT_TRUE(append(store, 300));
  }
  const std::string good = read_file(database()).value();
  const std::size_t in_text = good.find(R"("seq":123,)") + 8;  // 123 -> another digit: still JSON
  ASSERT_LT(in_text, good.size());
  for (const std::size_t at : {in_text, std::size_t{0}, std::size_t{4096}, std::size_t{3 * 4096 + 3}}) {
    ASSERT_TRUE(write_file_atomically(database(), good));
    ASSERT_TRUE(verify(folder_));
    flip(database(), at);
    const auto found = verify(folder_);
    ASSERT_FALSE(found) << "byte " << at;
    EXPECT_EQ(found.error().code, ErrorCode::internal);
    EXPECT_THAT(found.error().message, HasSubstr("damaged")) << "byte " << at;
    EXPECT_FALSE(backup(folder_, root_ / "b")) << "a backup of it would be no better";
    EXPECT_FALSE(fs::exists(root_ / "b"));
  }
  ASSERT_TRUE(write_file_atomically(database(), good));
  flip(database(), in_text);
  const Store store = open();
  const auto read = store.read(0, SIZE_MAX, [](const Row&) { return Result<void>(); });
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, AllOf(HasSubstr("row 123"), HasSubstr("restore a backup")));
}

TEST_F(Stores, FindsAMissingRow) {
  {
    Store store = open();
    ASSERT_TRUE(append(store, 10));
  }
  sql("DELETE FROM rows WHERE seq = 4");
  EXPECT_THAT(verify(folder_).error().message, HasSubstr("row 4 is missing"));
  ASSERT_TRUE(write_file_atomically(root_ / "text", "no database"));
  EXPECT_EQ(restore(root_ / "text", root_ / "new").error().code, ErrorCode::internal);
}

}  // namespace
}  // namespace ebb::control
