#include "ebb/perf/table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ebb/base/files.h"
#include "ebb/base/text.h"

namespace ebb::perf {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(trim(line.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

/// For messages: what is in a file need not be text.
std::string shown(std::string_view value) {
  constexpr std::size_t kMost = 60;
  return printable(value.size() > kMost ? std::string(value.substr(0, kMost)) + "..." : std::string(value));
}

template <typename T>
bool parse(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

/// Where each column is in the header line.
Result<std::vector<std::size_t>> find_columns(const TableFile& file, std::span<const std::string_view> header,
                                              std::span<const std::string_view> columns) {
  std::vector<std::size_t> places;
  for (const std::string_view column : columns) {
    const auto found = std::find(header.begin(), header.end(), column);
    if (found == header.end()) {
      return fail(ErrorCode::invalid_argument, "{}:1: column '{}' is missing; the header has: {}", file.name, column,
                  shown(fmt::format("{}", fmt::join(header, ", "))));
    }
    if (std::find(found + 1, header.end(), column) != header.end()) {
      return fail(ErrorCode::invalid_argument, "{}:1: column '{}' is there twice", file.name, column);
    }
    places.push_back(static_cast<std::size_t>(found - header.begin()));
  }
  return places;
}

}  // namespace

tl::unexpected<Error> TableRow::bad(std::size_t column, std::string_view problem) const {
  return fail(ErrorCode::invalid_argument, "{}:{}: column '{}': '{}' {}", file_, line_, columns_[column],
              shown(values_[column]), problem);
}

Result<double> TableRow::number(std::size_t column, double min, double max) const {
  double value = 0;
  if (values_[column].empty()) return bad(column, "is empty; a number is needed");
  if (!parse(values_[column], value)) return bad(column, "is not a number");
  if (!std::isfinite(value)) return bad(column, "is not finite");
  if (value < min || value > max) return bad(column, fmt::format("is outside {:g} to {:g}", min, max));
  return value;
}

Result<std::int64_t> TableRow::integer(std::size_t column, std::int64_t min, std::int64_t max) const {
  std::int64_t value = 0;
  if (values_[column].empty()) return bad(column, "is empty; a whole number is needed");
  if (!parse(values_[column], value)) return bad(column, "is not a whole number");
  if (value < min || value > max) return bad(column, fmt::format("is outside {} to {}", min, max));
  return value;
}

Result<void> read_table(const TableFile& file, std::initializer_list<std::string_view> columns,
                        const std::function<Result<void>(const TableRow&)>& visit) {
  const std::span<const std::string_view> wanted(columns.begin(), columns.size());
  LineReader lines = LineReader::from_text(file.name, file.text);
  std::string_view line;
  std::vector<std::string_view> fields;
  std::vector<std::string_view> values(columns.size());

  EBB_ASSIGN_OR_RETURN(const bool has_header, lines.next(line));
  if (!has_header) {
    return fail(ErrorCode::invalid_argument, "{}: the file is empty; its first line must name the columns {}",
                file.name, fmt::join(wanted, ", "));
  }
  split(line, fields);
  const std::size_t width = fields.size();
  EBB_ASSIGN_OR_RETURN(const std::vector<std::size_t> places, find_columns(file, fields, wanted));

  std::size_t rows = 0;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, lines.next(line));
    if (!more) break;
    if (trim(line).empty()) continue;
    split(line, fields);
    if (fields.size() != width) {
      return fail(ErrorCode::invalid_argument, "{}:{}: the row has {} fields, the header {}", file.name,
                  lines.line_number(), fields.size(), width);
    }
    for (std::size_t i = 0; i < places.size(); ++i) values[i] = fields[places[i]];
    EBB_RETURN_IF_ERROR(visit(TableRow(file.name, lines.line_number(), wanted, values)));
    ++rows;
  }
  if (rows == 0) return fail(ErrorCode::invalid_argument, "{}: there is no row below the header", file.name);
  return {};
}

}  // namespace ebb::perf
