#include "ebb/sched/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace ebb::sched {
namespace {

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

class Parser {
 public:
  Parser(const OptionSpec& spec, std::string_view text) : spec_(spec), text_(text) {}

  Result<OptionValue> operator()(bool) const {
    if (text_ == "true" || text_ == "1") return true;
    if (text_ == "false" || text_ == "0") return false;
    return bad("true or false");
  }
  Result<OptionValue> operator()(std::int64_t) const {
    const auto number = parse_number<std::int64_t>(text_);
    if (!number || !in_range(static_cast<double>(*number))) return bad("a whole number" + range());
    return *number;
  }
  Result<OptionValue> operator()(double) const {
    const auto number = parse_number<double>(text_);
    if (!number || !in_range(*number)) return bad("a number" + range());
    return *number;
  }
  Result<OptionValue> operator()(Duration) const {
    const auto duration = parse_duration(text_);
    if (!duration) return bad("a duration such as 30s or 1.5h");
    return *duration;
  }
  Result<OptionValue> operator()(const std::string&) const {
    if (!spec_.choices.empty() && std::find(spec_.choices.begin(), spec_.choices.end(), text_) == spec_.choices.end()) {
      return bad(fmt::format("one of {}", fmt::join(spec_.choices, ", ")));
    }
    return std::string(text_);
  }
  Result<OptionValue> operator()(const std::vector<double>&) const {
    std::vector<double> numbers;
    for (std::string_view rest = text_; !rest.empty();) {
      const auto comma = std::min(rest.find(','), rest.size());
      const auto number = parse_number<double>(rest.substr(0, comma));
      if (!number || !in_range(*number)) return bad("numbers separated by commas" + range());
      numbers.push_back(*number);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return numbers;
  }

 private:
  // Written so that NaN is out of range.
  bool in_range(double number) const { return number >= spec_.minimum && number <= spec_.maximum; }

  std::string range() const {
    std::string text;
    if (spec_.minimum > -1e18) text += fmt::format(", at least {}", spec_.minimum);
    if (spec_.maximum < 1e18) text += fmt::format(", at most {}", spec_.maximum);
    return text;
  }

  tl::unexpected<Error> bad(const std::string& wanted) const {
    return fail(ErrorCode::invalid_argument, "option {}={}: takes {} ({})", spec_.name, text_, wanted, spec_.doc);
  }

  const OptionSpec& spec_;
  std::string_view text_;
};

}  // namespace

std::string_view type_name(const OptionSpec& spec) {
  constexpr std::string_view kNames[] = {"bool", "integer", "number", "duration", "choice", "list of numbers"};
  return kNames[spec.default_value.index()];
}

std::string format_option(const OptionValue& value) {
  struct Format {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(Duration v) const { return format_seconds(v) + "s"; }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const std::vector<double>& v) const { return fmt::format("{}", fmt::join(v, ",")); }
  };
  return std::visit(Format{}, value);
}

Result<Options> Options::parse(std::span<const OptionSpec> specs,
                               std::span<const std::pair<std::string, std::string>> assignments) {
  Options options;
  for (const OptionSpec& spec : specs) options.values_[spec.name] = spec.default_value;
  for (const auto& [name, text] : assignments) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& s) { return s.name == name; });
    if (spec == specs.end()) {
      std::vector<std::string> known;
      for (const OptionSpec& s : specs) known.push_back(s.name);
      return fail(ErrorCode::invalid_argument, "unknown option '{}'; this policy takes {} (see 'ebb policies')", name,
                  fmt::join(known, ", "));
    }
    EBB_ASSIGN_OR_RETURN(options.values_[name], std::visit(Parser(*spec, text), spec->default_value));
  }
  return options;
}

}  // namespace ebb::sched
