#include "ebb/spec/scenario.h"

#include <array>
#include <cmath>

#include "ebb/base/files.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/yaml.h"

namespace ebb::spec {
namespace {

constexpr std::array kTimeModels{TimeModel::fractional, TimeModel::seconds, TimeModel::polled};
constexpr std::array kLendings{Lending::none, Lending::pooled, Lending::partitioned};

class Parser : private YamlFile {
 public:
  explicit Parser(std::string name) : YamlFile(std::move(name), "the scenario") {}

  Result<Scenario> parse(const std::string& text) {
    constexpr std::array<std::string_view, 18> kKeys{
        "version",  "description",  "trace",  "format",  "procs_per_gpu", "services",
        "profiles", "cluster",      "policy", "options", "round",         "resize_cost",
        "lending",  "target_extra", "time",   "seed",    "faults",        "expect"};
    EBB_ASSIGN_OR_RETURN(const YAML::Node root, YamlFile::root(text, kKeys));
    Scenario scenario;
    EBB_RETURN_IF_ERROR(read_setup(root, scenario));
    EBB_RETURN_IF_ERROR(read_run(root, scenario));
    if (const YAML::Node faults = root["faults"]) EBB_RETURN_IF_ERROR(read_faults(faults, scenario));
    return scenario;
  }

 private:
  // What is simulated.
  Result<void> read_setup(const YAML::Node& root, Scenario& scenario) {
    const std::pair<const char*, std::optional<std::string>*> texts[] = {{"description", &scenario.description},
                                                                         {"format", &scenario.format},
                                                                         {"cluster", &scenario.cluster},
                                                                         {"policy", &scenario.policy}};
    for (const auto& [key, out] : texts) {
      if (const YAML::Node node = root[key]) {
        EBB_ASSIGN_OR_RETURN(*out, text(node, key));
      }
    }
    const std::pair<const char*, std::optional<std::string>*> paths[] = {
        {"trace", &scenario.trace}, {"services", &scenario.services}, {"profiles", &scenario.profiles}};
    for (const auto& [key, out] : paths) {
      if (const YAML::Node node = root[key]) {
        EBB_ASSIGN_OR_RETURN(*out, path(node, key));
      }
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

  std::optional<std::size_t> cluster_nodes_;  // where the scenario names its cluster
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

Duration quantum_of(TimeModel model) {
  return model == TimeModel::fractional ? Duration(1) : Duration(std::chrono::seconds(1));
}

Result<Scenario> parse_scenario(std::string name, const std::string& text) {
  return read_yaml(name, text, [&] { return Parser(name).parse(text); });
}

Result<Scenario> read_scenario(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(std::string text, read_file(path, kMaxYamlBytes));
  return parse_scenario(path.string(), text);
}

}  // namespace ebb::spec
