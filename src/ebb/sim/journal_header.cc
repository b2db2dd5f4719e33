#include "ebb/sim/journal_header.h"

#include <nlohmann/json.hpp>

#include "ebb/spec/cluster.h"
#include "ebb/version.h"

namespace ebb::sim {

Duration quantum_of(spec::TimeModel time) {
  return time == spec::TimeModel::seconds ? Duration(std::chrono::seconds(1)) : Duration(1);
}

std::string journal_header(const ClusterSpec& cluster, const Workload& workload, const SimOptions& options) {
  nlohmann::ordered_json json;
  json["ebb"] = EBB_VERSION;
  json["driver"] = "sim";
  json["cluster"] = spec::format_cluster(cluster);
  json["policy"] = options.policy;
  json["options"] = nlohmann::ordered_json::array();
  for (const auto& [key, value] : options.set) json["options"].push_back({key, value});
  json["quantum_ns"] = quantum_of(options.time).count();
  json["seed"] = options.seed;
  json["time_zero"] = workload.time_zero;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<ReplaySetup> parse_journal_header(const std::string& header) {
  try {
    const auto json = nlohmann::json::parse(header);
    if (json.value("driver", "") != "sim") {
      return fail(ErrorCode::invalid_argument, "this journal was not written by the simulator");
    }
    ReplaySetup setup;
    EBB_ASSIGN_OR_RETURN(setup.cluster, spec::parse_cluster(json.at("cluster").get<std::string>()));
    setup.policy = json.at("policy").get<std::string>();
    for (const auto& pair : json.at("options")) {
      setup.set.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    }
    setup.quantum = Duration(json.at("quantum_ns").get<std::int64_t>());
    if (setup.quantum < Duration(1)) return fail(ErrorCode::invalid_argument, "quantum_ns must be at least 1");
    return setup;
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "the journal's header is not one of the simulator's: {}", e.what());
  }
}

}  // namespace ebb::sim
