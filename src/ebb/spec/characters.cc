#include "ebb/spec/characters.h"

#include <charconv>
#include <cstdint>

namespace ebb::spec {
namespace {

/// Bytes of the character at the start of a text; 0 if it is not UTF-8 (also overlong, surrogates, above U+10FFFF).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : bytes;
}

/// The code unit of a JSON escape (backslash, u, four digits) at the start of a text.
std::optional<std::uint32_t> escaped_unit(std::string_view text) {
  if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
  std::uint32_t unit = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, unit, 16);
  if (error != std::errc() || end != text.data() + 6) return std::nullopt;
  return unit;
}

}  // namespace

std::optional<std::size_t> utf8_characters(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) return std::nullopt;
    text.remove_prefix(bytes);
    ++count;
  }
  return count;
}

bool has_control_character(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    // C1 is C2 80 to C2 9F.
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
  }
  return false;
}

Result<void> check_characters(const std::string& name, std::string_view text) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      return fail(ErrorCode::invalid_argument,
                  "{}:{}:{}: control character 0x{:02x}; in a double-quoted text write it as \"\\x{:02x}\"", name, line,
                  column, static_cast<unsigned>(c), static_cast<unsigned>(c));
    }
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  return {};
}

std::string join_surrogates(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find('\\'), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto high = escaped_unit(text);
    const auto low = high ? escaped_unit(text.substr(6)) : std::nullopt;
    if (low && *high >= 0xd800 && *high < 0xdc00 && *low >= 0xdc00 && *low < 0xe000) {
      out += fmt::format("\\U{:08x}", 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00));
      text.remove_prefix(12);
    } else {
      out += text.substr(0, 2);  // whatever is escaped: a second backslash begins nothing
      text.remove_prefix(std::min<std::size_t>(2, text.size()));
    }
  }
  return out;
}

}  // namespace ebb::spec
