#include "ebb/base/text.h"

#include <fmt/format.h>

#include "ebb/base/units.h"

namespace ebb {

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      safe += fmt::format("\\x{:02x}", c);
    } else if (c == 0xc2 && next >= 0x80 && next <= 0x9f) {
      safe += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

std::string human_seconds(double seconds) {
  const auto duration = duration_from_seconds(seconds);
  return duration ? format_human(*duration) : fmt::format("{:.0f} s", seconds);
}

std::string with_commas(std::uint64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace ebb
