#pragma once

/// Internal: separated values with a header line, after RFC 4180: any separator, fields in double quotes with ""
/// inside. One deliberate difference: a quoted field ends on its line, so that a stray quote spoils one row and not the
/// rest of the file. Lines come from base's LineReader; no allocation a row once the buffers have grown.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::trace {

/// Splits one line. `scratch` holds unquoted text and `fields` views of it or of `line`.
/// Errors: a quote that does not end, text after a closing quote.
Result<void> split_fields(std::string_view line, char separator, bool quotes, std::vector<std::string_view>& fields,
                          std::string& scratch);

/// Appends a field to a line of output, in quotes if it needs them.
void append_field(std::string& out, std::string_view value);

class CsvTable {
 public:
  CsvTable(char separator, bool quotes) : separator_(separator), quotes_(quotes) {}

  /// Takes the header. Errors (they name what was found): a column of `required` is missing or appears twice.
  Result<void> read_header(std::string_view line, std::initializer_list<std::string_view> required);
  bool has_header() const { return !columns_.empty(); }

  /// Position of a column. Only after read_header.
  std::optional<std::size_t> find(std::string_view column) const;
  const std::string& column(std::size_t index) const { return columns_[index]; }
  /// The names of all columns, for messages.
  std::string columns_found() const;

  /// Takes a row. Errors: see split_fields; fewer or more fields than the header has.
  Result<void> read_row(std::string_view line);
  /// A field of the row, valid until the next one.
  std::string_view operator[](std::size_t index) const { return fields_[index]; }
  /// Copies a field that is a name (see check_text in fields.h). Errors name the column.
  Result<void> copy_text(std::size_t index, std::string& out, bool may_be_empty) const;

 private:
  char separator_;
  bool quotes_;
  std::vector<std::string> columns_;
  std::vector<std::string_view> fields_;
  std::string scratch_;
};

}  // namespace ebb::trace
