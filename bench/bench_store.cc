// The journal on disk (control/store.h):
//   single     one row an append, durable when it returns, beside a write of as many bytes and an fsync of another file
//              of the same folder: the two in turn (append, fsync, fsync, append), so that both see the same disk
//   batches    100 rows an append, in rows a second
// and what a restart reads: all rows again.
// usage: bench_store [APPENDS [FOLDER]]     FOLDER on the disk to measure; it is made, and removed at the end

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench_support.h"
#include "ebb/control/store.h"

namespace {

using namespace ebb;
using Clock = std::chrono::steady_clock;

constexpr int kBatches = 300;
constexpr std::size_t kBatchRows = 100;
constexpr off_t kSideFileBytes = off_t{4} << 20;  // as large as the log gets, and as it is written again and again

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "bench_store: {}\n", why);
  std::exit(1);
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// About as long as a submission is.
std::string row_text() {
  return fmt::format(R"({{"time_ns":1700000000000000000,"kind":"job_submitted","job":123456,"request":"{}"}})",
                     std::string(220, 'r'));
}

double append_ms(control::Store& store, std::size_t count) {
  std::vector<control::Row> rows(count);
  for (control::Row& row : rows) row.json = row_text();
  const auto start = Clock::now();
  if (const auto written = store.append(rows); !written) die(written.error().message);
  return ms_since(start);
}

class SideFile {
 public:
  explicit SideFile(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT, 0600)) {
    if (fd_ < 0) die("cannot open " + path.string());
    const std::string zeros(static_cast<std::size_t>(kSideFileBytes), '\0');
    if (::pwrite(fd_, zeros.data(), zeros.size(), 0) != kSideFileBytes || ::fsync(fd_) != 0) die("cannot write");
  }
  SideFile(const SideFile&) = delete;
  SideFile& operator=(const SideFile&) = delete;
  ~SideFile() { ::close(fd_); }

  double write_ms() {
    const std::string page(4096, static_cast<char>('a' + at_ / 4096 % 26));
    const auto start = Clock::now();
    if (::pwrite(fd_, page.data(), page.size(), at_) != 4096 || ::fsync(fd_) != 0) die("cannot write");
    const double took = ms_since(start);
    at_ = (at_ + 4096) % kSideFileBytes;
    return took;
  }

 private:
  int fd_;
  off_t at_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int appends = argc > 1 ? std::atoi(argv[1]) : 4'000;
  const std::filesystem::path folder = argc > 2 ? argv[2] : fmt::format("build/bench_store.{}", ::getpid());
  if (std::filesystem::exists(folder)) die(folder.string() + " is there already");
  {
    auto opened = control::Store::open(folder);
    if (!opened) die(opened.error().message);
    control::Store& store = *opened;
    SideFile side(folder / "side");
    // Warm: the log has its size after the first checkpoint.
    for (int i = 0; i < 1'200; ++i) append_ms(store, 1);

    std::vector<double> single;
    std::vector<double> fsyncs;
    for (int i = 0; i < appends; ++i) {
      const bool store_first = i % 2 == 0;
      if (store_first) single.push_back(append_ms(store, 1));
      fsyncs.push_back(side.write_ms());
      if (!store_first) single.push_back(append_ms(store, 1));
    }
    const double fsync_p50 = bench::percentile(fsyncs, 0.5);
    fmt::print("{:<44} {:>9} {:>9} {:>9}\n", fmt::format("{} appends of 1 row, durable", appends), "p50 ms", "p99 ms",
               "p99.9 ms");
    for (const auto& [what, sample] : {std::pair("append", &single), std::pair("write of 4 KiB and fsync", &fsyncs)}) {
      fmt::print("{:<44} {:>9.3f} {:>9.3f} {:>9.3f}\n", what, bench::percentile(*sample, 0.5),
                 bench::percentile(*sample, 0.99), bench::percentile(*sample, 0.999));
    }
    fmt::print("append / p50 of fsync: p50 {:.2f}, p99 {:.2f}\n", bench::percentile(single, 0.5) / fsync_p50,
               bench::percentile(single, 0.99) / fsync_p50);

    std::vector<double> batches;
    const auto start = Clock::now();
    for (int i = 0; i < kBatches; ++i) batches.push_back(append_ms(store, kBatchRows));
    fmt::print("batches of {} rows: {:.0f} rows/s, p50 {:.3f} ms, p99 {:.3f} ms a batch\n", kBatchRows,
               1e3 * kBatches * kBatchRows / ms_since(start), bench::percentile(batches, 0.5),
               bench::percentile(batches, 0.99));
  }
  {
    const auto start = Clock::now();
    auto opened = control::Store::open(folder);
    if (!opened) die(opened.error().message);
    std::size_t bytes = 0;
    const auto read = opened->read(0, SIZE_MAX, [&](const control::Row& row) {
      bytes += row.json.size();
      return Result<void>();
    });
    if (!read) die(read.error().message);
    fmt::print("open and read {} rows ({:.1f} MB): {:.1f} ms\n", opened->last_seq(), 1e-6 * static_cast<double>(bytes),
               ms_since(start));
  }
  std::filesystem::remove_all(folder);
  return 0;
}
