#pragma once

/// Internal: characters of texts that come from outside and are passed on as JSON.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb::spec {

/// Number of characters; nullopt if the text is not UTF-8.
std::optional<std::size_t> utf8_characters(std::string_view text);
/// Has a C0 or C1 control character or DEL. The text must be UTF-8.
bool has_control_character(std::string_view text);

/// Errors: invalid_argument with file, line and column of a control character. YAML has them only as escapes, and
/// yaml-cpp takes the byte 4 for the end of the text.
Result<void> check_characters(const std::string& name, std::string_view text);

/// JSON escapes a character above U+FFFF as two surrogates; YAML has one escape for it, and yaml-cpp refuses the two.
/// Gives the text (JSON) with such pairs as YAML's escapes.
std::string join_surrogates(std::string_view text);

}  // namespace ebb::spec
