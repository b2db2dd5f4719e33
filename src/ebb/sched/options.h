#pragma once

/// Options of policies: typed, validated, documented. A policy declares its OptionSpecs; `--set key=value` pairs become
/// an Options object in which every declared option has a value of its type and range.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"

namespace ebb::sched {

using OptionValue = std::variant<bool, std::int64_t, double, Duration, std::string, std::vector<double>>;

struct OptionSpec {
  std::string name;
  OptionValue default_value;         ///< also fixes the type
  std::string doc;                   ///< one sentence, with the unit
  std::vector<std::string> choices;  ///< for strings: what is allowed
  double minimum = -1e18;            ///< for numbers, and every number of a list
  double maximum = 1e18;
};

/// "bool", "integer", "number", "duration", "choice" or "list of numbers".
std::string_view type_name(const OptionSpec& spec);
/// A value as --set would write it.
std::string format_option(const OptionValue& value);

class Options {
 public:
  /// Errors: invalid_argument naming the option, what it takes and, for an unknown name, the known ones.
  static Result<Options> parse(std::span<const OptionSpec> specs,
                               std::span<const std::pair<std::string, std::string>> assignments);

  /// The value of a declared option, as the type of its default.
  template <typename T>
  const T& get(std::string_view name) const {
    return std::get<T>(values_.find(name)->second);
  }

  const std::map<std::string, OptionValue, std::less<>>& values() const { return values_; }

 private:
  std::map<std::string, OptionValue, std::less<>> values_;
};

}  // namespace ebb::sched
