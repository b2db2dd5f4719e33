#pragma once

/// Internal: the tables of a profile: comma-separated, a header line, numbers. Columns are found by name, in any order;
/// others are left alone. Messages name file, line, column and value.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::perf {

/// A file read already, from a folder or out of the program.
struct TableFile {
  std::string name;  ///< as messages show it
  std::string text;
};

/// One row, valid while it is visited. Columns are counted as in the list given to read_table().
class TableRow {
 public:
  TableRow(std::string_view file, std::size_t line, std::span<const std::string_view> columns,
           std::span<const std::string_view> values)
      : file_(file), line_(line), columns_(columns), values_(values) {}

  std::size_t line() const { return line_; }
  std::string_view text(std::size_t column) const { return values_[column]; }
  /// Errors: empty, not a number, not finite, outside the limits.
  Result<double> number(std::size_t column, double min, double max) const;
  Result<std::int64_t> integer(std::size_t column, std::int64_t min, std::int64_t max) const;
  /// "file:line: column 'c': 'value' <problem>"
  tl::unexpected<Error> bad(std::size_t column, std::string_view problem) const;

 private:
  std::string_view file_;
  std::size_t line_;
  std::span<const std::string_view> columns_;
  std::span<const std::string_view> values_;
};

/// Calls `visit` with each row. Empty lines are skipped. Errors: no header, a column missing or there twice, a row with
/// another number of fields than the header, no row at all, and those of `visit`.
Result<void> read_table(const TableFile& file, std::initializer_list<std::string_view> columns,
                        const std::function<Result<void>(const TableRow&)>& visit);

}  // namespace ebb::perf
