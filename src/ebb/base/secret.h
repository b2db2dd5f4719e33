#pragma once

/// Text that nobody can guess, from the system's random numbers: tokens, ids, keys. What has to be the same in every
/// run comes from random.h.

#include <cstddef>
#include <string>

#include "ebb/base/result.h"

namespace ebb {

/// Twice as many hexadecimal digits. Errors: unavailable, if the system has no random numbers.
Result<std::string> random_hex(std::size_t bytes);

}  // namespace ebb
