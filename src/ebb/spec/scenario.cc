#include "ebb/spec/scenario.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "ebb/base/files.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/nearest.h"

namespace ebb::spec {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostShown = 60;
constexpr std::array kTimeModels{TimeModel::fractional, TimeModel::seconds, TimeModel::polled};
constexpr std::array kLendings{Lending::none, Lending::pooled, Lending::partitioned};

std::string shown(std::string_view text) {
  std::string out(text.substr(0, kMostShown));
  std::replace_if(out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return fmt::format("'{}{}'", out, text.size() > kMostShown ? "..." : "");
}

/// Hears a document and does nothing.
class Ignore : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::Load reads one document and ignores what follows; YAML::LoadAll (0.7) never returns on a text like ",a".
bool has_more_than_a_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignore ignore;
  return parser.HandleNextDocument(ignore) && static_cast<bool>(parser);
}

/// Reads values and reports errors with their place in the file.
class Parser {
 public:
  explicit Parser(std::string name) : name_(std::move(name)) {}

  Result<Scenario> parse(const std::string& text) {
    if (has_more_than_a_document(text)) {
      return fail(ErrorCode::invalid_argument, "{}: something follows the first YAML document; a scenario is one",
                  name_);
    }
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) {
      return fail(ErrorCode::invalid_argument, "{}: the scenario is empty; it needs at least 'version: 1'", name_);
    }
    constexpr std::array<std::string_view, 18> kKeys{
        "version",  "description",  "trace",  "format",  "procs_per_gpu", "services",
        "profiles", "cluster",      "policy", "options", "round",         "resize_cost",
        "lending",  "target_extra", "time",   "seed",    "faults",        "expect"};
    EBB_RETURN_IF_ERROR(check_keys(root, kKeys, "the scenario"));
    EBB_RETURN_IF_ERROR(read_version(root));
    Scenario scenario;
    EBB_RETURN_IF_ERROR(read_setup(root, scenario));
    EBB_RETURN_IF_ERROR(read_run(root, scenario));
    if (const YAML::Node faults = root["faults"]) EBB_RETURN_IF_ERROR(read_faults(faults, scenario));
    return scenario;
  }

 private:
  tl::unexpected<Error> at(const YAML::Mark& mark, std::string_view message) const {
    if (mark.is_null()) return fail(ErrorCode::invalid_argument, "{}: {}", name_, message);
    return fail(ErrorCode::invalid_argument, "{}:{}:{}: {}", name_, mark.line + 1, mark.column + 1, message);
  }
  tl::unexpected<Error> at(const YAML::Node& node, std::string_view message) const { return at(node.Mark(), message); }

  // A map of known keys, each at most once. The spans of keys are short: no index is needed.
  Result<void> check_keys(const YAML::Node& map, std::span<const std::string_view> known, std::string_view what) const {
    if (!map.IsMap()) return at(map, fmt::format("{} must be a map of keys and values", what));
    std::vector<std::string_view> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) return at(entry.first, fmt::format("{}: a key must be a plain word", what));
      const std::string& key = entry.first.Scalar();
      const auto found = std::find(known.begin(), known.end(), key);
      if (found == known.end()) {
        const std::string_view near = nearest(key, known);
        return at(entry.first, near.empty()
                                   ? fmt::format("unknown key {}; {} has: {}", shown(key), what, fmt::join(known, ", "))
                                   : fmt::format("unknown key {}; did you mean '{}'?", shown(key), near));
      }
      if (std::find(seen.begin(), seen.end(), *found) != seen.end()) {
        return at(entry.first, fmt::format("key '{}' appears twice", key));
      }
      seen.push_back(*found);
    }
    return {};
  }

  Result<std::string> text(const YAML::Node& node, std::string_view key) const {
    if (!node.IsScalar() || node.Scalar().empty()) return at(node, fmt::format("'{}' needs a value", key));
    return node.Scalar();
  }

  Result<Duration> duration(const YAML::Node& node, std::string_view key, bool may_be_zero) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, key));
    const auto parsed = value.size() <= kMostShown ? parse_duration(value) : parse_duration("...");
    if (!parsed) return at(node, fmt::format("'{}': {}", key, parsed.error().message));
    if (*parsed == Duration::zero() && !may_be_zero) {
      return at(node, fmt::format("'{}' must be longer than 0", key));
    }
    return *parsed;
  }

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

  // The value whose name is written there.
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

  // Entries of a free map, names unique and not empty.
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

  Result<void> read_version(const YAML::Node& root) const {
    const YAML::Node version = root["version"];
    if (!version) return at(root, "the key 'version' is missing; add 'version: 1'");
    EBB_ASSIGN_OR_RETURN(const std::int64_t number, integer<std::int64_t>(version, "version", 1, INT32_MAX));
    if (number > kVersion) {
      return at(version, fmt::format("the scenario has version {}; this ebb reads up to version {}", number, kVersion));
    }
    return {};
  }

  // What is simulated.
  Result<void> read_setup(const YAML::Node& root, Scenario& scenario) {
    const std::pair<const char*, std::optional<std::string>*> texts[] = {{"description", &scenario.description},
                                                                         {"trace", &scenario.trace},
                                                                         {"services", &scenario.services},
                                                                         {"profiles", &scenario.profiles},
                                                                         {"format", &scenario.format},
                                                                         {"cluster", &scenario.cluster},
                                                                         {"policy", &scenario.policy}};
    for (const auto& [key, out] : texts) {
      if (const YAML::Node node = root[key]) {
        EBB_ASSIGN_OR_RETURN(*out, text(node, key));
      }
    }
    const std::filesystem::path folder = std::filesystem::path(name_).parent_path();
    for (std::optional<std::string>* path : {&scenario.trace, &scenario.services, &scenario.profiles}) {
      if (*path) *path = (folder / **path).lexically_normal().string();
    }
    if (scenario.cluster) {
      auto cluster = parse_cluster(*scenario.cluster);
      if (!cluster) return at(root["cluster"], cluster.error().message);
      cluster_nodes_ = cluster->nodes.size();
    }
    if (const YAML::Node node = root["procs_per_gpu"]) {
      EBB_ASSIGN_OR_RETURN(scenario.procs_per_gpu, integer<int>(node, "procs_per_gpu", 1, 1'000'000));
    }
    return {};
  }

  // How it is simulated, and what should come out.
  Result<void> read_run(const YAML::Node& root, Scenario& scenario) const {
    if (const YAML::Node node = root["options"]) {
      EBB_RETURN_IF_ERROR(each_entry(node, "options", [&](const std::string& name, const YAML::Node& value) {
        auto read = text(value, name);
        if (read) scenario.options.emplace_back(name, *read);
        return read.map([](const std::string&) {});
      }));
    }
    if (const YAML::Node node = root["round"]) {
      EBB_ASSIGN_OR_RETURN(scenario.round, duration(node, "round", false));
    }
    if (const YAML::Node node = root["resize_cost"]) {
      EBB_ASSIGN_OR_RETURN(scenario.resize_cost, read_resize_cost(node));
    }
    if (const YAML::Node node = root["lending"]) {
      EBB_ASSIGN_OR_RETURN(scenario.lending, one_of(node, "lending", kLendings));
    }
    if (const YAML::Node node = root["target_extra"]) {
      EBB_ASSIGN_OR_RETURN(scenario.target_extra, duration(node, "target_extra", true));
    }
    if (const YAML::Node node = root["time"]) {
      EBB_ASSIGN_OR_RETURN(scenario.time, one_of(node, "time", kTimeModels));
    }
    if (const YAML::Node node = root["seed"]) {
      EBB_ASSIGN_OR_RETURN(scenario.seed, integer<std::uint64_t>(node, "seed", 0, UINT64_MAX));
    }
    if (const YAML::Node node = root["expect"]) {
      EBB_RETURN_IF_ERROR(each_entry(node, "expect", [&](const std::string& name, const YAML::Node& value) {
        return read_expectation(name, value, scenario);
      }));
    }
    return {};
  }

  // Kept as text: what it costs is the business of whoever knows the applications.
  Result<std::string> read_resize_cost(const YAML::Node& node) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, "resize_cost"));
    constexpr std::array<std::string_view, 3> kClasses{"restart", "afe", "stop-free"};
    if (std::find(kClasses.begin(), kClasses.end(), value) != kClasses.end()) return value;
    if (auto fixed = duration(node, "resize_cost", true); !fixed) {
      return at(node, fmt::format("'resize_cost': {} is none of {}, nor a duration such as 30s", shown(value),
                                  fmt::join(kClasses, ", ")));
    }
    return value;
  }

  Result<void> read_expectation(const std::string& name, const YAML::Node& node, Scenario& scenario) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, name));
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(number)) {
      return at(node, fmt::format("'expect': {}: {} is not a number", shown(name), shown(value)));
    }
    scenario.expect.emplace_back(name, number);
    return {};
  }

  Result<void> read_faults(const YAML::Node& node, Scenario& scenario) const {
    constexpr std::array<std::string_view, 4> kKeys{"outages", "mtbf", "mttr", "checkpoint_interval"};
    EBB_RETURN_IF_ERROR(check_keys(node, kKeys, "'faults'"));
    Faults& faults = scenario.faults;
    if (const YAML::Node outages = node["outages"]) {
      if (!outages.IsSequence()) return at(outages, "'outages' must be a list of {at, node, lasts, kind}");
      for (const YAML::Node& outage : outages) {
        EBB_ASSIGN_OR_RETURN(faults.outages.emplace_back(), read_outage(outage));
      }
    }
    const YAML::Node mtbf = node["mtbf"];
    const YAML::Node mttr = node["mttr"];
    if (mtbf && !mttr) return at(mtbf, "'mtbf' needs 'mttr' beside it: how long a repair takes");
    if (mttr && !mtbf) return at(mttr, "'mttr' has no effect without 'mtbf'");
    if (mtbf) {
      EBB_ASSIGN_OR_RETURN(faults.mtbf, duration(mtbf, "mtbf", false));
      if (*faults.mtbf < std::chrono::seconds(1)) return at(mtbf, "'mtbf' must be at least 1s");
      EBB_ASSIGN_OR_RETURN(faults.mttr, duration(mttr, "mttr", true));
    }
    if (const YAML::Node interval = node["checkpoint_interval"]) {
      EBB_ASSIGN_OR_RETURN(faults.checkpoint_interval, duration(interval, "checkpoint_interval", false));
    }
    return {};
  }

  Result<NodeOutage> read_outage(const YAML::Node& node) const {
    constexpr std::array<std::string_view, 4> kKeys{"at", "node", "lasts", "kind"};
    EBB_RETURN_IF_ERROR(check_keys(node, kKeys, "an outage"));
    for (const char* key : {"at", "node"}) {
      if (!node[key]) return at(node, fmt::format("the outage lacks '{}'", key));
    }
    NodeOutage outage;
    EBB_ASSIGN_OR_RETURN(const Duration since_zero, duration(node["at"], "at", true));
    outage.at = Time(since_zero);
    EBB_ASSIGN_OR_RETURN(outage.node, read_node(node["node"]));
    if (const YAML::Node lasts = node["lasts"]) {
      EBB_ASSIGN_OR_RETURN(outage.lasts, duration(lasts, "lasts", false));
    }
    if (const YAML::Node kind = node["kind"]) {
      EBB_ASSIGN_OR_RETURN(const std::string value, text(kind, "kind"));
      if (value != "fail" && value != "drain") {
        return at(kind, fmt::format("'kind': {} is neither fail nor drain", shown(value)));
      }
      outage.drain = value == "drain";
    }
    return outage;
  }

  // "3" or "node-0003".
  Result<std::uint32_t> read_node(const YAML::Node& node) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, "node"));
    std::string_view digits = value;
    if (digits.starts_with("node-")) digits.remove_prefix(5);
    std::uint32_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return at(node, fmt::format("'node': {} is neither a node's index nor its name (node-0003)", shown(value)));
    }
    const std::size_t nodes = cluster_nodes_.value_or(static_cast<std::size_t>(kMaxNodes));
    if (index >= nodes) {
      return at(node, fmt::format("'node': there is no node {}; the cluster's nodes are 0 to {}", index, nodes - 1));
    }
    return index;
  }

  std::string name_;
  std::optional<std::size_t> cluster_nodes_;
};

}  // namespace

const char* to_string(TimeModel model) {
  switch (model) {
    case TimeModel::fractional:
      return "fractional";
    case TimeModel::seconds:
      return "seconds";
    case TimeModel::polled:
      return "polled";
  }
  return "unknown";
}

const char* to_string(Lending lending) {
  switch (lending) {
    case Lending::none:
      return "none";
    case Lending::pooled:
      return "pooled";
    case Lending::partitioned:
      return "partitioned";
  }
  return "unknown";
}

Result<Scenario> parse_scenario(std::string name, const std::string& text) {
  if (text.size() > kMostBytes) {
    return fail(ErrorCode::resource_exhausted, "'{}' is larger than {} bytes", name, kMostBytes);
  }
  try {
    return Parser(name).parse(text);
  } catch (const YAML::Exception& e) {
    if (e.mark.is_null()) return fail(ErrorCode::invalid_argument, "{}: not valid YAML: {}", name, e.msg);
    return fail(ErrorCode::invalid_argument, "{}:{}:{}: not valid YAML: {}", name, e.mark.line + 1, e.mark.column + 1,
                e.msg);
  }
}

Result<Scenario> read_scenario(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(std::string text, read_file(path, kMostBytes));
  return parse_scenario(path.string(), text);
}

}  // namespace ebb::spec
