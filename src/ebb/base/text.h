#pragma once

/// Text for people: safe on a terminal, and figures as they are read.

#include <cstdint>
#include <string>
#include <string_view>

namespace ebb {

/// The text with control characters (C0 but for line feed and tab, DEL, and the C1 range in UTF-8) written as \\xNN, so
/// that a name in a trace cannot move the cursor or change the colours of a terminal.
std::string printable(std::string_view text);
/// A string of JSON, quoted. The text must be UTF-8.
std::string json_string(std::string_view text);
/// The text up to its first line end.
std::string first_line(const std::string& text);
/// A figure in seconds; see format_human(). Beyond what a Duration holds: whole seconds.
std::string human_seconds(double seconds);
/// "1,234,567".
std::string with_commas(std::uint64_t number);

}  // namespace ebb
