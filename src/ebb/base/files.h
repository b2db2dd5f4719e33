#pragma once

/// Files as ebb reads and writes them: whole small files, line streams (plain or gzip), and output that is either
/// there completely or not at all.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

/// The whole file. Errors: not_found; unavailable with the system's reason; invalid_argument for a folder;
/// resource_exhausted above `max_bytes`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{1} << 30);

/// Writes to a temporary file beside `path`, then renames it: readers see the old file or the whole new one.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Reads a text file line by line; gzip is recognised by its content. Lines end with LF or CRLF (neither is part of
/// the line); a last line without an end counts; a UTF-8 byte-order mark at the start is dropped.
class LineReader {
 public:
  static Result<LineReader> open(const std::filesystem::path& path);
  /// Reads lines from memory (no gzip); `name` stands for the file in messages.
  static LineReader from_text(std::string name, std::string text);

  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;
  ~LineReader();

  /// The next line, valid until the next call; false at the end. Errors: a damaged or truncated gzip stream, a read
  /// error, a line above 16 MiB.
  Result<bool> next(std::string_view& line);

  /// Number of the line last returned, from 1.
  std::size_t line_number() const { return line_number_; }
  const std::string& name() const { return name_; }

 private:
  LineReader() = default;
  Result<bool> fill();

  struct Gzip;
  std::unique_ptr<Gzip> gzip_;
  std::string name_;
  std::string buffer_;
  std::size_t position_ = 0;
  std::size_t line_number_ = 0;
  bool at_end_ = false;
};

/// A buffered output file; write errors are kept and reported by close().
class FileWriter {
 public:
  static Result<FileWriter> create(const std::filesystem::path& path);
  FileWriter(FileWriter&&) noexcept = default;
  FileWriter& operator=(FileWriter&&) noexcept = default;
  ~FileWriter() = default;

  void write(std::string_view bytes);
  /// Flushes and closes. Errors: unavailable or resource_exhausted with path and the system's reason (disk full).
  Result<void> close();

 private:
  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  FileWriter(std::FILE* file, std::filesystem::path path) : file_(file), path_(std::move(path)) {}

  std::unique_ptr<std::FILE, Closer> file_;
  std::filesystem::path path_;
  int first_error_ = 0;
};

}  // namespace ebb
