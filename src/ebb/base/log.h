#pragma once

/// What a long-running program tells its operator, on standard error: one line an event, as text or as a JSON object.
/// What happened to jobs is in the journal; the log is about the program: requests, disks, connections. Thread-safe.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ebb {

enum class LogLevel : std::uint8_t { debug, info, warning, error };
enum class LogFormat : std::uint8_t { text, json };
std::optional<LogLevel> log_level_from(std::string_view name);
std::optional<LogFormat> log_format_from(std::string_view name);

struct LogField {
  std::string_view key;  ///< snake_case
  std::variant<std::string, std::int64_t, double, bool> value;
};

/// Of this process; text at level info if it is never called.
void set_log(LogFormat format, LogLevel least);
LogFormat log_format();
bool logs(LogLevel level);

/// `message`: what happened, in words that do not change; what does change is in fields. JSON keys beside theirs:
/// time (UTC), level, message.
void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace ebb
