#pragma once

/// The journal of a run (events.jsonl): every event that the scheduler heard and every decision it took, in order, one
/// JSON object a line. docs/reference/journal.md specifies the records. A journal read back gives the same values:
/// times and durations are whole nanoseconds, names the snake_case names of model/event.h.
///
/// First line: {"type":"journal","version":1, ...} with what the caller wants to keep about the run. Then
/// {"t":<ns>,"type":"job_submitted", ...} and so on. `job_waits` records say why a job waits; they are for people and
/// are no input of a replay. Unknown keys are skipped, unknown types are errors.
///
/// What is written must be what a reader takes: times and durations from 0 to kEndOfTime, numbers finite (checked).
///
/// Writing is made for millions of lines: records are formatted into one buffer. Objects are used by one thread at a
/// time.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "ebb/base/files.h"
#include "ebb/base/result.h"
#include "ebb/model/event.h"

namespace ebb::trace {

inline constexpr int kJournalVersion = 1;

/// Why a job waits since `at`.
struct Waits {
  JobId job = 0;
  Reason reason;
  bool operator==(const Waits&) const = default;
};

struct JournalRecord {
  Time at{};
  std::variant<Event, Decision, Waits> what;
  bool operator==(const JournalRecord&) const = default;
};

/// One line of a journal, without its line end.
std::string encode(Time at, const Event& event);
std::string encode(Time at, const Decision& decision);

class JournalWriter {
 public:
  /// Begins a journal. `header_json`: a JSON object as text, whose members follow type and version ("{}" for none).
  /// Errors: invalid_argument if it is not an object or has a member "type" or "version"; those of FileWriter.
  static Result<JournalWriter> create(const std::filesystem::path& path, std::string_view header_json);
  /// Writes to `*sink`, which outlives the writer; complete after close().
  static Result<JournalWriter> to_text(std::string* sink, std::string_view header_json);

  void write(Time at, const Event& event);
  void write(Time at, const Decision& decision);
  void write_waits(Time at, JobId job, const Reason& reason);

  /// Writes what is left. Errors: the first write error (disk full), with the path. Once only; nothing is written
  /// after it.
  Result<void> close();

 private:
  JournalWriter() = default;
  Result<void> begin(std::string_view header_json);
  void flush_if_full();
  void flush();

  std::optional<FileWriter> file_;
  std::string* sink_ = nullptr;
  std::string buffer_;
};

class JournalReader {
 public:
  /// Opens a journal (plain or gzip) and reads its header. Errors: those of LineReader; no journal; a later version.
  static Result<JournalReader> open(const std::filesystem::path& path);
  static Result<JournalReader> from_text(std::string name, std::string text);

  /// The first line, a JSON object.
  const std::string& header() const { return header_; }
  /// Number of the line last read, from 1.
  std::size_t line_number() const { return lines_.line_number(); }

  /// The next record; false at the end. Errors: invalid_argument with file, line and what is wrong there.
  Result<bool> next(JournalRecord& record);

 private:
  explicit JournalReader(LineReader lines) : lines_(std::move(lines)) {}
  static Result<JournalReader> begin(LineReader lines);

  LineReader lines_;
  std::string header_;
};

}  // namespace ebb::trace
