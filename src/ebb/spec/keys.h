#pragma once

/// Internal: the keys of a YAML map as a table, from which it is read, written as JSON and described as JSON Schema.

#include <fmt/ranges.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/text.h"
#include "ebb/spec/characters.h"
#include "ebb/spec/yaml.h"

namespace ebb::spec {

/// One key of a map that is read into a T.
template <typename T>
struct Key {
  std::string_view name;
  std::string help;    ///< a sentence
  std::string schema;  ///< of its value: members of a JSON object, without the braces
  bool needed = false;
  std::function<Result<void>(const YAML::Node&, T&)> read;
  std::function<std::string(const T&)> write;  ///< its JSON value; "" to leave it out
};
template <typename T>
using Keys = std::vector<Key<T>>;

template <typename T>
std::vector<std::string_view> names_of(const Keys<T>& keys) {
  std::vector<std::string_view> names;
  for (const Key<T>& key : keys) names.push_back(key.name);
  return names;
}

/// Reads the keys that a map has, in the order of the table; the map's own keys are checked already.
template <typename T>
Result<void> read_keys(const YamlFile& file, const YAML::Node& map, std::string_view what, const Keys<T>& keys,
                       T& into) {
  for (const Key<T>& key : keys) {
    const YAML::Node node = map[std::string(key.name)];
    if (node) {
      EBB_RETURN_IF_ERROR(key.read(node, into));
    } else if (key.needed) {
      return file.at(map, fmt::format("{} lacks '{}': {}", what, key.name, key.help));
    }
  }
  return {};
}

template <typename T>
std::string write_keys(const Keys<T>& keys, const T& from) {
  std::string out;
  for (const Key<T>& key : keys) {
    if (const std::string value = key.write(from); !value.empty()) {
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", json_string(key.name), value);
    }
  }
  return "{" + out + "}";
}

/// Members of the schema of such a map; `separator` stands between keys.
template <typename T>
std::string schema_of(const Keys<T>& keys, std::string_view separator) {
  std::string needed;
  std::string properties;
  for (const Key<T>& key : keys) {
    if (key.needed) needed += fmt::format("{}{}", needed.empty() ? "" : ", ", json_string(key.name));
    properties += fmt::format("{}{}: {{{}, \"description\": {}}}", properties.empty() ? "" : separator,
                              json_string(key.name), key.schema, json_string(key.help));
  }
  const std::string required = needed.empty() ? "" : fmt::format("\"required\": [{}], ", needed);
  return fmt::format("\"type\": \"object\", \"additionalProperties\": false, {}\"properties\": {{{}}}", required,
                     properties);
}

}  // namespace ebb::spec
