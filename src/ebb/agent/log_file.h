#pragma once

/// One output stream of a worker on disk, with a bound on its size.
///
/// A stream is a sequence of bytes; an offset is a place in it and never changes its meaning. It lies in segments
/// "<stream>.<offset of its first byte>.log". When a segment reaches its size the next one is begun; when there are too
/// many the oldest goes. What cannot be written (full disk) is left out of the sequence, and a line says how much.
///
/// The writer is owned by one thread; readers may run beside it, in other processes too.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ebb/agent/disk.h"
#include "ebb/base/result.h"

namespace ebb::agent {

struct LogLimits {
  std::uint64_t segment_bytes = std::uint64_t{16} << 20;
  std::uint32_t segments = 4;  ///< of each stream, at least 2
  bool operator==(const LogLimits&) const = default;
};

class LogWriter {
 public:
  LogWriter(std::filesystem::path folder, std::string stream, LogLimits limits);
  void write(std::string_view bytes);

 private:
  bool write_some(std::string_view& bytes);
  bool begin_segment();

  std::filesystem::path folder_;
  std::string stream_;
  LogLimits limits_;
  Fd segment_;
  std::uint64_t segment_size_ = 0;
  std::uint64_t end_ = 0;   // offset of the next byte
  std::uint64_t lost_ = 0;  // bytes not written since the last that was
  int error_ = 0;           // why
};

/// What is kept of a stream: from `begin` (0 until rotation) up to `end`.
struct LogRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// {0, 0} if there is nothing. Errors: not_found if the folder is not there.
Result<LogRange> log_range(const std::filesystem::path& folder, std::string_view stream);
/// At most `max_bytes` (and 16 MiB) from `offset`; "" at the end. Errors: not_found if the folder is not there, or if
/// the bytes at `offset` went by rotation: the message says from where on there are some.
Result<std::string> read_log(const std::filesystem::path& folder, std::string_view stream, std::uint64_t offset,
                             std::size_t max_bytes);

}  // namespace ebb::agent
