#include "ebb/spec/services.h"

#include <array>
#include <unordered_set>

#include "ebb/base/files.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/yaml.h"

namespace ebb::spec {
namespace {

constexpr std::size_t kMostNameBytes = 100;

bool is_name(std::string_view text) {
  return text.size() <= kMostNameBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
         });
}

class Parser : private YamlFile {
 public:
  explicit Parser(std::string name) : YamlFile(std::move(name), "the services file") {}

  Result<std::vector<ServiceEntry>> parse(const std::string& text) {
    constexpr std::array<std::string_view, 2> kKeys{"version", "services"};
    EBB_ASSIGN_OR_RETURN(const YAML::Node root, YamlFile::root(text, kKeys));
    const YAML::Node list = root["services"];
    if (!list) return at(root, "the key 'services' is missing: the list of services");
    if (!list.IsSequence() || list.size() == 0) return at(list, "'services' must be a list of at least one service");
    std::vector<ServiceEntry> services;
    std::unordered_set<std::string> names;
    for (const YAML::Node& node : list) {
      EBB_ASSIGN_OR_RETURN(ServiceEntry service, read_service(node));
      if (!names.insert(service.spec.name).second) {
        return at(node["name"], fmt::format("'name': there is a service {} already", shown(service.spec.name)));
      }
      services.push_back(std::move(service));
    }
    return services;
  }

 private:
  Result<ServiceEntry> read_service(const YAML::Node& node) const {
    constexpr std::array<std::string_view, 7> kKeys{"name",       "gpus",        "service_time", "target_latency",
                                                    "percentile", "start_delay", "requests"};
    EBB_RETURN_IF_ERROR(check_keys(node, kKeys, "a service"));
    for (const char* key : {"name", "service_time", "target_latency", "start_delay", "requests"}) {
      if (!node[key]) return at(node, fmt::format("the service lacks '{}'", key));
    }
    ServiceEntry service;
    ServiceSpec& spec = service.spec;
    EBB_ASSIGN_OR_RETURN(spec.name, text(node["name"], "name"));
    if (!is_name(spec.name)) {
      return at(node["name"], fmt::format("'name': {} is not a name of at most {} letters, digits, '.', '_' and '-'",
                                          shown(spec.name), kMostNameBytes));
    }
    if (const YAML::Node gpus = node["gpus"]) {
      EBB_ASSIGN_OR_RETURN(spec.gpus, integer<GpuCount>(gpus, "gpus", 1, static_cast<GpuCount>(kMaxGpusPerNode)));
    }
    EBB_ASSIGN_OR_RETURN(spec.service_time, duration(node["service_time"], "service_time", false));
    EBB_ASSIGN_OR_RETURN(spec.target_latency, duration(node["target_latency"], "target_latency", false));
    if (spec.target_latency < spec.service_time) {
      return at(
          node["target_latency"],
          fmt::format("'target_latency': no number of replicas meets {}: one request alone takes {} (service_time)",
                      format_human(spec.target_latency), format_human(spec.service_time)));
    }
    EBB_ASSIGN_OR_RETURN(spec.start_delay, duration(node["start_delay"], "start_delay", true));
    if (const YAML::Node percentile = node["percentile"]) {
      EBB_ASSIGN_OR_RETURN(spec.percentile, read_percentile(percentile));
    }
    EBB_ASSIGN_OR_RETURN(service.requests, path(node["requests"], "requests"));
    return service;
  }

  // "99.9" -> 0.999, through the decimal point: a division by 100 would round once more.
  Result<double> read_percentile(const YAML::Node& node) const {
    EBB_ASSIGN_OR_RETURN(const std::string value, text(node, "percentile"));
    const std::string share = value + "e-2";
    double number = 0;
    const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), number);
    // Below the median no target means anything, and a 0.99 there means 99.
    if (error != std::errc() || end != share.data() + share.size() || !(number >= 0.5 && number < 1)) {
      return at(node,
                fmt::format("'percentile': {} is not a number from 50 to below 100, such as 99 or 99.9", shown(value)));
    }
    return number;
  }
};

}  // namespace

Result<std::vector<ServiceEntry>> parse_services(std::string name, const std::string& text) {
  return read_yaml(name, text, [&] { return Parser(name).parse(text); });
}

Result<std::vector<ServiceEntry>> read_services(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(std::string text, read_file(path, kMaxYamlBytes));
  return parse_services(path.string(), text);
}

}  // namespace ebb::spec
