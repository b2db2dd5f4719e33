#include "ebb/base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "ebb/base/text.h"

namespace ebb {
namespace {

struct Log {
  Log() : logger("ebb", std::make_shared<spdlog::sinks::stderr_sink_mt>()) { set(LogFormat::text, LogLevel::info); }

  void set(LogFormat the_format, LogLevel least) {
    format = the_format;
    logger.set_pattern(the_format == LogFormat::text ? "%Y-%m-%dT%H:%M:%S.%eZ %l %v"
                                                     : R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})",
                       spdlog::pattern_time_type::utc);
    logger.set_level(level(least));
  }

  static spdlog::level::level_enum level(LogLevel level) {
    switch (level) {
      case LogLevel::debug:
        return spdlog::level::debug;
      case LogLevel::info:
        return spdlog::level::info;
      case LogLevel::warning:
        return spdlog::level::warn;
      case LogLevel::error:
        return spdlog::level::err;
    }
    return spdlog::level::err;
  }

  spdlog::logger logger;
  std::atomic<LogFormat> format = LogFormat::text;
};

Log& the_log() {
  static Log log;
  return log;
}

std::string value_text(const LogField& field) {
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          return json_string(printable(value));
        } else {
          return fmt::format("{}", value);
        }
      },
      field.value);
}

}  // namespace

std::optional<LogLevel> log_level_from(std::string_view name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "warning") return LogLevel::warning;
  if (name == "error") return LogLevel::error;
  return std::nullopt;
}

std::optional<LogFormat> log_format_from(std::string_view name) {
  if (name == "text") return LogFormat::text;
  if (name == "json") return LogFormat::json;
  return std::nullopt;
}

void set_log(LogFormat format, LogLevel least) {
  the_log().set(format, least);
}

LogFormat log_format() {
  return the_log().format;
}

bool logs(LogLevel level) {
  return the_log().logger.should_log(Log::level(level));
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!logs(level)) return;
  std::string line;
  if (log_format() == LogFormat::text) {
    line = printable(std::string(message));
    for (const LogField& field : fields) line += fmt::format(" {}={}", field.key, value_text(field));
  } else {
    line = "\"message\":" + json_string(printable(std::string(message)));
    for (const LogField& field : fields) line += fmt::format(",\"{}\":{}", field.key, value_text(field));
  }
  the_log().logger.log(Log::level(level), "{}", line);
}

}  // namespace ebb
