#pragma once

/// "Did you mean ...": the known word nearest to a misspelt one.

#include <span>
#include <string_view>

namespace ebb::spec {

/// The known word with the smallest edit distance (insert, delete, replace, swap of neighbours), "" if even that is
/// more than a third of the longer word's letters (but one change is always near enough). Words above 64 bytes are
/// near nothing.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace ebb::spec
