#pragma once

/// Internal: the values in the fields of a trace. Messages are predicates about the value ("'x' is not a number"); the
/// caller puts file, line and column in front.

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/model/job.h"

namespace ebb::trace {

/// The value as messages show it: quoted, at most 60 bytes, without control characters or broken UTF-8.
std::string shown(std::string_view value);

std::string_view trim(std::string_view text);

/// Decimal seconds, exact to the nanosecond (further digits round half up); an exponent is accepted and then goes
/// through a double. Errors: empty, not a number, not finite, negative, above kMaxDuration.
Result<Duration> parse_seconds(std::string_view text);

/// A whole number ("4", also "4.0") between the limits.
Result<std::int64_t> parse_integer(std::string_view text, std::int64_t min, std::int64_t max);

/// A gang size: 1 to kMaxJobGpus.
Result<GpuCount> parse_gpus(std::string_view text);

/// "training" or "inference".
Result<JobKind> parse_kind(std::string_view text);
const char* to_name(JobKind kind);
/// "rigid", "moldable" or "elastic".
Result<Sizing> parse_sizing(std::string_view text);

/// "2017-10-01 00:02:01", with ' ' or 'T' between date and time and an optional fraction of a second, taken without a
/// time zone; as time since 1970. Years 1980 to 2069, so that a trace spans less than kMaxDuration.
Result<Time> parse_timestamp(std::string_view text);
std::string format_timestamp(Time time, char separator);

/// A name: valid UTF-8 without control characters, at most kMaxTextBytes.
Result<void> check_text(std::string_view text);

/// All limits of a row on a job made elsewhere; the message names the job.
Result<void> check_job(const JobSpec& job);

/// Puts the column in front of an error's message.
template <typename T>
Result<T> in_column(std::string_view column, Result<T> result) {
  if (!result) result.error().message = fmt::format("column '{}': {}", column, result.error().message);
  return result;
}

}  // namespace ebb::trace
