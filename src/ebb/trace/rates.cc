#include "ebb/trace/rates.h"

#include <charconv>

#include "ebb/base/files.h"
#include "ebb/trace/csv.h"
#include "ebb/trace/fields.h"

namespace ebb::trace {
namespace {

Result<double> parse_rate(std::string_view text, std::string_view unit) {
  text = trim(text);
  if (text.empty()) return fail(ErrorCode::invalid_argument, "is empty; a number{} is needed", unit);
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::invalid_argument, "{} is not a number", shown(text));
  }
  if (!(rate >= 0 && rate <= kMaxRequestsPerSecond)) {
    return fail(ErrorCode::invalid_argument, "{} is outside 0 to {:.0f}{}", shown(text), kMaxRequestsPerSecond,
                unit.starts_with(" of ") ? unit.substr(3) : unit);
  }
  return rate + 0.0;  // -0 is 0
}

/// Lines go in, points come out.
class Reading {
 public:
  explicit Reading(bool shape) : shape_(shape), unit_(shape ? "" : " of requests a second") {}

  Result<void> line(std::string_view text) {
    if (trim(text).empty()) return {};
    if (table_.has_header()) return row(text);
    if (text.starts_with('#')) return {};
    if (shape_) {
      EBB_RETURN_IF_ERROR(table_.read_header(text, {"start_s"}));
    } else {
      EBB_RETURN_IF_ERROR(table_.read_header(text, {"start_s", "requests_per_s"}));
    }
    start_s_ = *table_.find("start_s");
    const auto rate = table_.find("requests_per_s");
    const auto value = shape_ ? table_.find("value") : rate;
    if (!value && !rate) {
      return fail(ErrorCode::invalid_argument, "the header lacks: value; it has: {}", table_.columns_found());
    }
    value_ = value ? *value : *rate;
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
    EBB_ASSIGN_OR_RETURN(const double rate, in_column(table_.column(value_), parse_rate(table_[value_], unit_)));
    if (!points.empty() && Time(start) <= points.back().at) {
      return fail(ErrorCode::invalid_argument, "column 'start_s': {} is not after {}, the start of the row before",
                  shown(trim(table_[start_s_])), format_seconds(points.back().at));
    }
    points.push_back({Time(start), rate});
    return {};
  }

  CsvTable table_{',', true};
  std::size_t start_s_ = 0;
  std::size_t value_ = 0;
  bool shape_;
  std::string_view unit_;
};

Result<std::vector<RatePoint>> read(LineReader lines, bool shape) {
  Reading reading(shape);
  std::string_view text;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, lines.next(text));
    if (!more) break;
    if (auto ok = reading.line(text); !ok) {
      return fail(ok.error().code, "{}:{}: {}", lines.name(), lines.line_number(), ok.error().message);
    }
  }
  if (reading.points.empty()) {
    return fail(ErrorCode::invalid_argument, "{}: the file has no {}; it needs the header start_s,{} and a row",
                lines.name(), shape ? "values" : "request rates", shape ? "value" : "requests_per_s");
  }
  return std::move(reading.points);
}

}  // namespace

Result<std::vector<RatePoint>> read_rates(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  return read(std::move(lines), false);
}

Result<std::vector<RatePoint>> read_rates_text(std::string name, std::string text) {
  return read(LineReader::from_text(std::move(name), std::move(text)), false);
}

Result<std::vector<RatePoint>> read_shape(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  return read(std::move(lines), true);
}

Result<std::vector<RatePoint>> read_shape_text(std::string name, std::string text) {
  return read(LineReader::from_text(std::move(name), std::move(text)), true);
}

}  // namespace ebb::trace
