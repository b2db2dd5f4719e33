#include "ebb/trace/csv.h"

#include <algorithm>

#include "ebb/trace/fields.h"

namespace ebb::trace {

Result<void> split_fields(std::string_view line, char separator, bool quotes, std::vector<std::string_view>& fields,
                          std::string& scratch) {
  fields.clear();
  scratch.clear();
  // Views of the scratch stay valid: it never grows beyond the line.
  if (quotes && line.find('"') != std::string_view::npos) scratch.reserve(line.size());
  std::size_t at = 0;
  while (true) {
    if (quotes && at < line.size() && line[at] == '"') {
      const std::size_t begin = scratch.size();
      std::size_t quote = 0;
      while (true) {
        quote = line.find('"', at + 1);
        if (quote == std::string_view::npos) {
          return fail(ErrorCode::invalid_argument, "field {} begins with a quote that does not end on this line",
                      fields.size() + 1);
        }
        scratch += line.substr(at + 1, quote - at - 1);
        if (quote + 1 >= line.size() || line[quote + 1] != '"') break;
        scratch += '"';
        at = quote + 1;
      }
      at = quote + 1;
      if (at < line.size() && line[at] != separator) {
        return fail(ErrorCode::invalid_argument, "field {} has text after its closing quote", fields.size() + 1);
      }
      fields.push_back(std::string_view(scratch).substr(begin));
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      fields.push_back(line.substr(at, end - at));
      at = end;
    }
    if (at == line.size()) return {};
    ++at;
  }
}

void append_field(std::string& out, std::string_view value) {
  // '#' first would look like a comment where the job's name is the first column.
  if (value.find_first_of(",\"\r\n") == std::string_view::npos && !value.starts_with('#') &&
      !value.starts_with("\xEF\xBB\xBF")) {
    out += value;
    return;
  }
  out += '"';
  for (const char c : value) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

Result<void> CsvTable::read_header(std::string_view line, std::initializer_list<std::string_view> required) {
  EBB_RETURN_IF_ERROR(split_fields(line, separator_, quotes_, fields_, scratch_));
  columns_.clear();
  for (const std::string_view field : fields_) columns_.emplace_back(trim(field));
  std::string missing;
  for (const std::string_view name : required) {
    const auto count = std::count(columns_.begin(), columns_.end(), name);
    if (count == 0) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    if (count > 1) return fail(ErrorCode::invalid_argument, "column '{}' appears {} times in the header", name, count);
  }
  if (!missing.empty()) {
    return fail(ErrorCode::invalid_argument, "the header lacks: {}; it has: {}", missing, columns_found());
  }
  return {};
}

std::optional<std::size_t> CsvTable::find(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

std::string CsvTable::columns_found() const {
  constexpr std::size_t kMost = 30;
  std::string text;
  for (std::size_t i = 0; i < std::min(columns_.size(), kMost); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shown(columns_[i]));
  }
  if (columns_.size() > kMost) text += fmt::format(" and {} more", columns_.size() - kMost);
  return text;
}

Result<void> CsvTable::read_row(std::string_view line) {
  EBB_RETURN_IF_ERROR(split_fields(line, separator_, quotes_, fields_, scratch_));
  if (fields_.size() < columns_.size()) {
    return fail(ErrorCode::invalid_argument, "the row has {} fields, the header {}: column '{}' is missing",
                fields_.size(), columns_.size(), columns_[fields_.size()]);
  }
  if (fields_.size() > columns_.size()) {
    return fail(ErrorCode::invalid_argument, "the row has {} fields, the header {}: is there a '{}' inside a field?",
                fields_.size(), columns_.size(), separator_);
  }
  return {};
}

Result<void> CsvTable::copy_text(std::size_t index, std::string& out, bool may_be_empty) const {
  const std::string_view value = fields_[index];
  if (value.empty() && !may_be_empty) {
    return fail(ErrorCode::invalid_argument, "column '{}' is empty; a name is needed", columns_[index]);
  }
  EBB_RETURN_IF_ERROR(in_column(columns_[index], check_text(value)));
  out = value;
  return {};
}

}  // namespace ebb::trace
