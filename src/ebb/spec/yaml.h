#pragma once

/// Internal: YAML files that people write, read into values with errors that name file, line and column.
///
/// YamlFile is one file: its root is a map with `version: 1`, and the values are read key by key. read_yaml() runs such
/// a reading and turns what yaml-cpp throws into an error; nodes are touched only inside it.

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"

namespace ebb::spec {

/// Larger files are refused.
inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;

/// A value as messages show it: quoted, cut, without control characters.
std::string shown(std::string_view text);

class YamlFile {
 public:
  /// `name`: the file, for messages. `what`: what it is, for messages ("the scenario").
  YamlFile(std::string name, std::string what) : name_(std::move(name)), what_(std::move(what)) {}

  /// The map of a text, with no keys but these, and a `version` that this ebb knows.
  Result<YAML::Node> root(const std::string& text, std::span<const std::string_view> keys) const;

  tl::unexpected<Error> at(const YAML::Mark& mark, std::string_view message) const;
  tl::unexpected<Error> at(const YAML::Node& node, std::string_view message) const { return at(node.Mark(), message); }

  /// A map of known keys, each at most once. Keys are few: no index is needed.
  Result<void> check_keys(const YAML::Node& map, std::span<const std::string_view> known, std::string_view what) const;

  /// A value that is not empty.
  Result<std::string> text(const YAML::Node& node, std::string_view key) const;
  Result<Duration> duration(const YAML::Node& node, std::string_view key, bool may_be_zero) const;
  /// A path, resolved against the folder of the file.
  Result<std::string> path(const YAML::Node& node, std::string_view key) const;

  template <typename Integer>
  Result<Integer> integer(const YAML::Node& node, std::string_view key, Integer min, Integer max) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, key));
    Integer number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < min || number > max) {
      return at(node, fmt::format("'{}': {} is not a whole number from {} to {}", key, shown(value), min, max));
    }
    return number;
  }

  /// The value that is written there by its name.
  template <typename Enum, std::size_t N>
  Result<Enum> one_of(const YAML::Node& node, std::string_view key, const std::array<Enum, N>& known) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, key));
    std::string names;
    for (const Enum candidate : known) {
      if (value == to_string(candidate)) return candidate;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(candidate));
    }
    return at(node, fmt::format("'{}': {} is none of {}", key, shown(value), names));
  }

  /// Entries of a free map, names unique and not empty: take(name, value) for each.
  template <typename Take>
  Result<void> each_entry(const YAML::Node& map, std::string_view key, Take take) const {
    if (!map.IsMap()) return at(map, fmt::format("'{}' must be a map of names and values", key));
    std::vector<std::string> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar() || entry.first.Scalar().empty()) {
        return at(entry.first, fmt::format("'{}': a name must be a plain word", key));
      }
      const std::string& name = entry.first.Scalar();
      seen.push_back(name);
      EBB_RETURN_IF_ERROR(take(name, entry.second));
    }
    std::sort(seen.begin(), seen.end());
    if (const auto twice = std::adjacent_find(seen.begin(), seen.end()); twice != seen.end()) {
      return at(map, fmt::format("'{}': {} appears twice", key, shown(*twice)));
    }
    return {};
  }

 private:
  Result<void> check_version(const YAML::Node& root) const;

  std::string name_;
  std::string what_;
};

/// What `read()` (a Result) gives, or its YAML exception as an error. Errors: a text that is too large.
template <typename Read>
auto read_yaml(const std::string& name, const std::string& text, Read read, std::size_t max_bytes = kMaxYamlBytes)
    -> decltype(read()) {
  if (text.size() > max_bytes) {
    return fail(ErrorCode::resource_exhausted, "'{}' is larger than {} bytes", name, max_bytes);
  }
  try {
    return read();
  } catch (const YAML::Exception& e) {
    if (e.mark.is_null()) return fail(ErrorCode::invalid_argument, "{}: not valid YAML: {}", name, e.msg);
    return fail(ErrorCode::invalid_argument, "{}:{}:{}: not valid YAML: {}", name, e.mark.line + 1, e.mark.column + 1,
                e.msg);
  }
}

}  // namespace ebb::spec
