#pragma once

/// Text from outside on its way to a terminal.

#include <string>
#include <string_view>

namespace ebb {

/// The text with control characters (C0 but for line feed and tab, DEL, and the C1 range in UTF-8) written as \\xNN, so
/// that a name in a trace cannot move the cursor or change the colours of a terminal.
std::string printable(std::string_view text);

}  // namespace ebb
