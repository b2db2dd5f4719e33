#include "ebb/trace/fields.h"

#include <charconv>
#include <cmath>

#include "ebb/trace/job_columns.h"
#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr std::size_t kShownBytes = 60;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Length of the valid UTF-8 sequence at the start of `text`, 0 if there is none (overlong forms and surrogates too).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

tl::unexpected<Error> bad(std::string_view value, std::string_view what) {
  return fail(ErrorCode::invalid_argument, "{} {}", shown(value), what);
}

// With an exponent, or not a number at all: off the fast path.
Result<Duration> parse_seconds_slowly(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc::result_out_of_range && end == text.data() + text.size()) {
    return bad(text, "is not a time: it is too large or too small");
  }
  if (error != std::errc() || end != text.data() + text.size()) return bad(text, "is not a number of seconds");
  if (!std::isfinite(seconds)) return bad(text, "is not a finite number of seconds");
  if (seconds < 0) return bad(text, "is negative");
  auto duration = duration_from_seconds(seconds);
  if (!duration || *duration > kMaxDuration) return bad(text, "is more than 100 years");
  return duration;
}

// Two digits at `at`, or -1.
int two_digits(std::string_view text, std::size_t at) {
  if (!is_digit(text[at]) || !is_digit(text[at + 1])) return -1;
  return (text[at] - '0') * 10 + (text[at + 1] - '0');
}

}  // namespace

std::string shown(std::string_view value) {
  std::string out = "'";
  while (!value.empty() && out.size() <= kShownBytes) {
    const std::size_t length = utf8_length(value);
    if (length == 0 || is_control(value[0])) {
      out += '?';
      value.remove_prefix(1);
    } else {
      out += value.substr(0, length);
      value.remove_prefix(length);
    }
  }
  out += value.empty() ? "'" : "...'";
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Result<Duration> parse_seconds(std::string_view text) {
  text = trim(text);
  if (text.empty()) return fail(ErrorCode::invalid_argument, "is empty; a number of seconds is needed");
  std::size_t at = 0;
  std::int64_t whole = 0;
  while (at < text.size() && is_digit(text[at])) {
    // 4e9 s is beyond 100 years; stopping there keeps the sum far from an overflow.
    if (whole < 4'000'000'000) whole = whole * 10 + (text[at] - '0');
    ++at;
  }
  const std::size_t whole_digits = at;
  std::int64_t nanos = 0;
  std::size_t fraction_digits = 0;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && is_digit(text[at]); ++at, ++fraction_digits) {
      if (fraction_digits < 9) nanos = nanos * 10 + (text[at] - '0');
      if (fraction_digits == 9 && text[at] >= '5') ++nanos;
    }
    for (std::size_t i = fraction_digits; i < 9; ++i) nanos *= 10;
  }
  if (at != text.size() || whole_digits + fraction_digits == 0) return parse_seconds_slowly(text);
  if (whole > kMaxDuration / std::chrono::seconds(1)) return bad(text, "is more than 100 years");
  const Duration duration(whole * kNanosPerSecond + nanos);
  if (duration > kMaxDuration) return bad(text, "is more than 100 years");
  return duration;
}

Result<std::int64_t> parse_integer(std::string_view text, std::int64_t min, std::int64_t max) {
  text = trim(text);
  if (text.empty()) return fail(ErrorCode::invalid_argument, "is empty; a whole number is needed");
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc() && rest.size() >= 2 && rest[0] == '.' &&
      rest.find_first_not_of('0', 1) == std::string_view::npos) {
    rest = {};
  }
  if (error == std::errc::result_out_of_range && rest.empty()) {
    return fail(ErrorCode::invalid_argument, "{} is outside {} to {}", shown(text), min, max);
  }
  if (error != std::errc() || !rest.empty()) return bad(text, "is not a whole number");
  if (value < min || value > max) {
    return fail(ErrorCode::invalid_argument, "{} is outside {} to {}", shown(text), min, max);
  }
  return value;
}

Result<GpuCount> parse_gpus(std::string_view text) {
  EBB_ASSIGN_OR_RETURN(const std::int64_t value, parse_integer(text, 1, kMaxJobGpus));
  return static_cast<GpuCount>(value);
}

const char* to_name(JobKind kind) {
  return kind == JobKind::training ? "training" : "inference";
}

Result<JobKind> parse_kind(std::string_view text) {
  for (const JobKind kind : {JobKind::training, JobKind::inference}) {
    if (text == to_name(kind)) return kind;
  }
  return bad(text, "is neither training nor inference");
}

Result<Sizing> parse_sizing(std::string_view text) {
  for (const Sizing sizing : {Sizing::rigid, Sizing::moldable, Sizing::elastic}) {
    if (text == to_string(sizing)) return sizing;
  }
  return bad(text, "is none of rigid, moldable, elastic");
}

Result<Time> parse_timestamp(std::string_view text) {
  text = trim(text);
  const auto malformed = [&] { return bad(text, "is not a time YYYY-MM-DD HH:MM:SS"); };
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
      text[16] != ':') {
    return malformed();
  }
  const int century = two_digits(text, 0);
  const int year_of_century = two_digits(text, 2);
  const int month = two_digits(text, 5);
  const int day = two_digits(text, 8);
  const int hour = two_digits(text, 11);
  const int minute = two_digits(text, 14);
  const int second = two_digits(text, 17);
  if (century < 0 || year_of_century < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0) {
    return malformed();
  }
  std::int64_t nanos = 0;
  if (text.size() > 19) {
    const std::string_view digits = text.substr(20);
    if (text[19] != '.' || digits.empty() || digits.size() > 9) return malformed();
    for (const char c : digits) {
      if (!is_digit(c)) return malformed();
      nanos = nanos * 10 + (c - '0');
    }
    for (std::size_t i = digits.size(); i < 9; ++i) nanos *= 10;
  }
  const int year = century * 100 + year_of_century;
  if (year < 1980 || year > 2069) return bad(text, "has a year outside 1980 to 2069");
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return bad(text, "is not a date and time that exists");
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
  return Time(Duration(seconds * kNanosPerSecond + nanos));
}

std::string format_timestamp(Time time, char separator) {
  const auto since_1970 = time.time_since_epoch();
  const auto days = std::chrono::floor<std::chrono::days>(since_1970);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const std::int64_t in_day = (since_1970 - days).count();
  const std::int64_t seconds = in_day / kNanosPerSecond;
  std::string text = fmt::format("{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), separator,
                                 seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (const std::int64_t nanos = in_day % kNanosPerSecond; nanos != 0) {
    text += fmt::format(".{:09}", nanos);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

Result<void> check_text(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::invalid_argument, "{} is longer than {} bytes", shown(text), kMaxTextBytes);
  }
  for (std::string_view rest = text; !rest.empty();) {
    if (is_control(rest[0])) return bad(text, "contains a control character");
    const std::size_t length = utf8_length(rest);
    if (length == 0) return bad(text, "is not valid UTF-8");
    rest.remove_prefix(length);
  }
  return {};
}

Result<void> check_job(const JobSpec& job) {
  const auto in_job = [&](const char* field, std::string_view what) {
    return fail(ErrorCode::invalid_argument, "job {}: {} {}", shown(job.name), field, what);
  };
  if (job.name.empty()) return fail(ErrorCode::invalid_argument, "a job has no name");
  for (const auto& [field, text] : {std::pair<const char*, const std::string&>{"name", job.name},
                                    {"tenant", job.tenant},
                                    {"gpu_type", job.gpu_type},
                                    {"pool", job.pool},
                                    {"application", job.application}}) {
    if (auto ok = check_text(text); !ok) return in_job(field, ok.error().message);
  }
  if (job.gpus < 1 || job.gpus > kMaxJobGpus) {
    return in_job("gpus", fmt::format("{} is outside 1 to {}", job.gpus, kMaxJobGpus));
  }
  const auto outside = [](Duration d) { return d < Duration::zero() || d > kMaxDuration; };
  if (outside(job.submit.time_since_epoch())) return in_job("submission", "is outside 0 to 100 years");
  if (outside(job.run_time)) return in_job("run time", "is outside 0 to 100 years");
  if (job.requested_time && outside(*job.requested_time)) return in_job("requested time", "is outside 0 to 100 years");
  if (auto ok = check_sizes(job); !ok) {
    return fail(ErrorCode::invalid_argument, "job {}: {}", shown(job.name), ok.error().message);
  }
  return {};
}

}  // namespace ebb::trace
