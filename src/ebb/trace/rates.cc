#include "ebb/trace/rates.h"

#include <charconv>

#include "ebb/base/files.h"
#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"

namespace ebb::trace {
namespace {

Result<double> parse_rate(std::string_view text) {
  text = trim(text);
  if (text.empty()) return fail(ErrorCode::invalid_argument, "is empty; a number of requests a second is needed");
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::invalid_argument, "{} is not a number", shown(text));
  }
  if (!(rate >= 0 && rate <= kMaxRequestsPerSecond)) {
    return fail(ErrorCode::invalid_argument, "{} is outside 0 to {:.0f} requests a second", shown(text),
                kMaxRequestsPerSecond);
  }
  return rate + 0.0;  // -0 is 0
}

/// Lines go in, points come out.
class Reading {
 public:
  Result<void> line(std::string_view text) {
    if (trim(text).empty()) return {};
    if (table_.has_header()) return row(text);
    if (text.starts_with('#')) return {};
    EBB_RETURN_IF_ERROR(table_.read_header(text, {"start_s", "requests_per_s"}));
    start_s_ = *table_.find("start_s");
    requests_per_s_ = *table_.find("requests_per_s");
    return {};
  }

  std::vector<RatePoint> points;

 private:
  Result<void> row(std::string_view text) {
    if (points.size() == kMaxRatePoints) {
      return fail(ErrorCode::resource_exhausted, "more than {} rows; write fewer changes", kMaxRatePoints);
    }
    EBB_RETURN_IF_ERROR(table_.read_row(text));
    EBB_ASSIGN_OR_RETURN(const Duration start, in_column("start_s", parse_seconds(table_[start_s_])));
    EBB_ASSIGN_OR_RETURN(const double rate, in_column("requests_per_s", parse_rate(table_[requests_per_s_])));
    if (!points.empty() && Time(start) <= points.back().at) {
      return fail(ErrorCode::invalid_argument, "column 'start_s': {} is not after {}, the start of the row before",
                  shown(trim(table_[start_s_])), format_seconds(points.back().at));
    }
    points.push_back({Time(start), rate});
    return {};
  }

  CsvTable table_{',', true};
  std::size_t start_s_ = 0;
  std::size_t requests_per_s_ = 0;
};

Result<std::vector<RatePoint>> read(LineReader lines) {
  Reading reading;
  std::string_view text;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, lines.next(text));
    if (!more) break;
    if (auto ok = reading.line(text); !ok) {
      return fail(ok.error().code, "{}:{}: {}", lines.name(), lines.line_number(), ok.error().message);
    }
  }
  if (reading.points.empty()) {
    return fail(ErrorCode::invalid_argument,
                "{}: the file has no request rates; it needs the header start_s,requests_per_s and a row",
                lines.name());
  }
  return std::move(reading.points);
}

}  // namespace

Result<std::vector<RatePoint>> read_rates(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  return read(std::move(lines));
}

Result<std::vector<RatePoint>> read_rates_text(std::string name, std::string text) {
  return read(LineReader::from_text(std::move(name), std::move(text)));
}

}  // namespace ebb::trace
