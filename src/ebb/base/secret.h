#pragma once

/// Text that nobody can guess, from the system's random numbers: tokens, ids, keys, and what is kept of them. What has
/// to be the same in every run comes from random.h.

#include <cstddef>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

/// Twice as many hexadecimal digits. Errors: unavailable, if the system has no random numbers.
Result<std::string> random_hex(std::size_t bytes);

/// SHA-256 as 64 hexadecimal digits: enough to recognise a token made by random_hex(32), not to make it.
std::string sha256_hex(std::string_view text);

}  // namespace ebb
