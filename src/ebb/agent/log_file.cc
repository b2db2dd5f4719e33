#include "ebb/agent/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <vector>

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxRead = std::size_t{16} << 20;

fs::path segment_path(const fs::path& folder, std::string_view stream, std::uint64_t begin) {
  return folder / fmt::format("{}.{}.log", stream, begin);
}

/// The first offset that a file's name says, if it is a segment of the stream.
std::optional<std::uint64_t> segment_begin(std::string_view name, std::string_view stream) {
  constexpr std::string_view kEnd = ".log";
  if (!name.starts_with(stream) || !name.ends_with(kEnd) || name.size() <= stream.size() + 1 + kEnd.size() ||
      name[stream.size()] != '.') {
    return std::nullopt;
  }
  name.remove_prefix(stream.size() + 1);
  name.remove_suffix(kEnd.size());
  std::uint64_t begin = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), begin);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return begin;
}

/// First offsets of the segments, ascending.
Result<std::vector<std::uint64_t>> segments(const fs::path& folder, std::string_view stream) {
  std::error_code error;
  std::vector<std::uint64_t> begins;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (const auto begin = segment_begin(it->path().filename().native(), stream)) begins.push_back(*begin);
  }
  if (error) return os_error("read folder", folder, error.value());
  std::sort(begins.begin(), begins.end());
  return begins;
}

/// Up to `max_bytes` of the segment that begins at `begin`, appended to `bytes`; false if it is gone.
bool read_segment(const fs::path& path, std::uint64_t from, std::size_t max_bytes, std::string& bytes) {
  const auto file = open_file(path, O_RDONLY);
  if (!file) return false;
  const std::size_t before = bytes.size();
  bytes.resize(before + max_bytes);
  std::size_t got = 0;
  while (got < max_bytes) {
    const ssize_t n =
        ::pread(file->get(), bytes.data() + before + got, max_bytes - got, static_cast<off_t>(from + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(before + got);
  return true;
}

}  // namespace

LogWriter::LogWriter(fs::path folder, std::string stream, LogLimits limits)
    : folder_(std::move(folder)), stream_(std::move(stream)), limits_(limits) {
  limits_.segments = std::max(limits_.segments, 2U);
  limits_.segment_bytes = std::max<std::uint64_t>(limits_.segment_bytes, 1);
}

void LogWriter::write(std::string_view bytes) {
  if (lost_ > 0) {
    const std::string note =
        fmt::format("\n[ebb: {} bytes lost: {}]\n", lost_, std::generic_category().message(error_));
    std::string_view rest = note;
    while (!rest.empty() && write_some(rest)) {
    }
    if (rest.size() == note.size()) {
      lost_ += bytes.size();
      return;
    }
    lost_ = 0;
  }
  while (!bytes.empty()) {
    if (!write_some(bytes)) {
      lost_ += bytes.size();
      return;
    }
  }
}

// Writes a beginning of `bytes` and takes it off; false if not one byte could be written.
bool LogWriter::write_some(std::string_view& bytes) {
  if ((!segment_ || segment_size_ >= limits_.segment_bytes) && !begin_segment()) return false;
  const std::size_t wanted = std::min<std::uint64_t>(bytes.size(), limits_.segment_bytes - segment_size_);
  ssize_t n = 0;
  do {
    n = ::write(segment_.get(), bytes.data(), wanted);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) {
    error_ = n < 0 ? errno : ENOSPC;
    return false;
  }
  segment_size_ += static_cast<std::uint64_t>(n);
  end_ += static_cast<std::uint64_t>(n);
  bytes.remove_prefix(static_cast<std::size_t>(n));
  return true;
}

bool LogWriter::begin_segment() {
  // The oldest goes first: on a full disk that is where the space comes from.
  if (const auto begins = segments(folder_, stream_)) {
    for (std::size_t i = 0; i + limits_.segments <= begins->size(); ++i) {
      ::unlink(segment_path(folder_, stream_, (*begins)[i]).c_str());
    }
  }
  auto file = open_file(segment_path(folder_, stream_, end_), O_WRONLY | O_CREAT | O_APPEND);
  if (!file) {
    error_ = errno;
    return false;
  }
  segment_ = std::move(*file);
  segment_size_ = 0;
  return true;
}

Result<LogRange> log_range(const fs::path& folder, std::string_view stream) {
  EBB_ASSIGN_OR_RETURN(const auto begins, segments(folder, stream));
  if (begins.empty()) return LogRange{};
  struct stat info{};
  const bool there = ::stat(segment_path(folder, stream, begins.back()).c_str(), &info) == 0;
  return LogRange{begins.front(), begins.back() + (there ? static_cast<std::uint64_t>(info.st_size) : 0)};
}

Result<std::string> read_log(const fs::path& folder, std::string_view stream, std::uint64_t offset,
                             std::size_t max_bytes) {
  EBB_ASSIGN_OR_RETURN(const auto begins, segments(folder, stream));
  max_bytes = std::min(max_bytes, kMaxRead);
  std::string bytes;
  if (begins.empty()) return bytes;
  const auto after = std::upper_bound(begins.begin(), begins.end(), offset);
  for (auto it = after == begins.begin() ? after : after - 1; it != begins.end() && bytes.size() < max_bytes; ++it) {
    const std::uint64_t at = offset + bytes.size();
    if (at < *it) {
      if (!bytes.empty()) break;
      return fail(ErrorCode::not_found, "{} from byte {} on is gone by rotation; it is kept from byte {} on", stream,
                  offset, *it);
    }
    if (it + 1 != begins.end() && at >= *(it + 1)) continue;
    const std::uint64_t room = it + 1 == begins.end() ? max_bytes : *(it + 1) - at;
    const std::size_t wanted = std::min<std::uint64_t>(room, max_bytes - bytes.size());
    if (!read_segment(segment_path(folder, stream, *it), at - *it, wanted, bytes)) {
      if (!bytes.empty()) break;
      return fail(ErrorCode::not_found, "{} from byte {} on is gone by rotation", stream, offset);
    }
  }
  return bytes;
}

}  // namespace ebb::agent
