#pragma once

/// Request rates of a service over time: a table with the columns start_s and requests_per_s, one row a change. From
/// start_s on so many requests come a second, until the next row. docs/reference/services.md specifies the file; it may
/// be packed like a trace (workload.h). A shape is the same with a column value instead of requests_per_s, in any unit:
/// only how it goes up and down counts.
///
/// Errors: a message with file, line, column and value; the first bad row ends the reading. Functions are free of
/// shared state: call them from any thread.

#include <filesystem>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/service.h"

namespace ebb::trace {

/// Limits of a file; whatever is beyond is an error.
inline constexpr double kMaxRequestsPerSecond = 1e9;
inline constexpr std::size_t kMaxRatePoints = 10'000'000;

/// At least one point, times strictly rising.
Result<std::vector<RatePoint>> read_rates(const std::filesystem::path& path);
/// The same from memory (not gzipped); `name` stands for the file in messages.
Result<std::vector<RatePoint>> read_rates_text(std::string name, std::string text);

/// A shape: the column "value", or "requests_per_s" if there is no such column.
Result<std::vector<RatePoint>> read_shape(const std::filesystem::path& path);
Result<std::vector<RatePoint>> read_shape_text(std::string name, std::string text);

}  // namespace ebb::trace
