#include "ebb/base/units.h"

#include <charconv>
#include <cmath>

namespace ebb {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

struct Unit {
  std::string_view suffix;
  double seconds;
};
// Longer suffixes first, so that "ms" is not read as "m".
constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6},  {"ms", 1e-3},  {"s", 1.0},
                           {"m", 60.0},  {"h", 3600.0}, {"d", 86400.0}};

}  // namespace

double to_seconds(Duration d) {
  return static_cast<double>(d.count()) / static_cast<double>(kNanosPerSecond);
}

Result<Duration> duration_from_seconds(double seconds) {
  if (!std::isfinite(seconds))
    return fail(ErrorCode::invalid_argument, "'{}' is not a finite number of seconds", seconds);
  if (seconds < 0) return fail(ErrorCode::invalid_argument, "{} s is negative", seconds);
  if (seconds > to_seconds(kMaxDuration)) {
    return fail(ErrorCode::invalid_argument, "{} s is more than 100 years", seconds);
  }
  // Whole and fractional part apart: keeps every nanosecond of a large time stamp that a double can hold.
  const double whole = std::floor(seconds);
  const auto fraction = static_cast<std::int64_t>(std::llround((seconds - whole) * 1e9));
  return Duration(static_cast<std::int64_t>(whole) * kNanosPerSecond + fraction);
}

Result<Duration> parse_duration(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument,
                "'{}' is not a duration: give a number with unit ns, us, ms, s, m, h or d (none means seconds), for "
                "example 30s, 1.5h or 2m30s",
                text);
  };
  std::string_view rest = text;
  if (rest.empty()) return bad();
  double total = 0;
  while (!rest.empty()) {
    double number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || !std::isfinite(number) || number < 0 || rest.front() == '-') return bad();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    double unit = 0;
    for (const Unit& candidate : kUnits) {
      if (rest.substr(0, candidate.suffix.size()) == candidate.suffix) {
        unit = candidate.seconds;
        rest.remove_prefix(candidate.suffix.size());
        break;
      }
    }
    if (unit == 0) {
      if (!rest.empty()) return bad();
      unit = 1;
    }
    total += number * unit;
  }
  auto duration = duration_from_seconds(total);
  if (!duration) return bad();
  return duration;
}

std::string format_seconds(Duration d) {
  const std::int64_t count = d.count();
  const std::uint64_t magnitude = count < 0 ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  const std::uint64_t whole = magnitude / kNanosPerSecond;
  const std::uint64_t nanos = magnitude % kNanosPerSecond;
  std::string text = fmt::format("{}{}", count < 0 ? "-" : "", whole);
  if (nanos != 0) {
    text += fmt::format(".{:09}", nanos);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

std::string format_human(Duration d) {
  const double seconds = to_seconds(d);
  if (seconds < 0) return "-" + format_human(-d);
  if (d == Duration::zero()) return "0 s";
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 120) return fmt::format("{}m {:02}s", minutes, static_cast<std::int64_t>(seconds) % 60);
  if (minutes < 48 * 60) return fmt::format("{}h {:02}m", minutes / 60, minutes % 60);
  return fmt::format("{}d {:02}h", minutes / (24 * 60), minutes / 60 % 24);
}

}  // namespace ebb
