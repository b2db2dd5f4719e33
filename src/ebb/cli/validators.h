#pragma once

/// Internal: checks of single values on the command line, where CLI11's own let something through.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace ebb::cli {

/// A whole number that 64 bits hold. CLI11 wraps "-1" round and cuts what is too large.
inline CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc() && end == text.data() + text.size()) return {};
        return "'" + text + "' is not a whole number from 0 to 2^64-1";
      },
      "");
}

/// Not "": an empty value, as of an unset shell variable, would pass for an option that was not given.
inline CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) -> std::string { return text.empty() ? "the value is empty" : ""; }, "");
}

}  // namespace ebb::cli
