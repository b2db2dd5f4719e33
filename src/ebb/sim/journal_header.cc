#include "ebb/sim/journal_header.h"

#include <nlohmann/json.hpp>

#include "ebb/sim/resolve.h"
#include "ebb/spec/cluster.h"
#include "ebb/version.h"

namespace ebb::sim {

std::string journal_header(const ClusterSpec& cluster, const Workload& workload, const SimOptions& options) {
  nlohmann::ordered_json json;
  json["ebb"] = EBB_VERSION;
  json["driver"] = "sim";
  json["cluster"] = spec::format_cluster(cluster_for(cluster, workload, options.lending));
  json["policy"] = options.policy;
  json["options"] = nlohmann::ordered_json::array();
  for (const auto& [key, value] : options.set) json["options"].push_back({key, value});
  json["quantum_ns"] = spec::quantum_of(options.time).count();
  json["seed"] = options.seed;
  if (options.lending != Lending::none) json["lending"] = to_string(options.lending);
  if (names_applications(workload)) {
    json["profiles"] = options.profiles_name;
  }
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
    setup.options.policy = json.at("policy").get<std::string>();
    for (const auto& pair : json.at("options")) {
      setup.options.set.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    }
    const Duration quantum(json.at("quantum_ns").get<std::int64_t>());
    if (quantum < Duration(1)) return fail(ErrorCode::invalid_argument, "quantum_ns must be at least 1");
    setup.options.time = quantum == Duration(1) ? spec::TimeModel::fractional : spec::TimeModel::seconds;
    setup.options.seed = json.at("seed").get<std::uint64_t>();
    EBB_ASSIGN_OR_RETURN(setup.options.lending, parse_lending(json.value("lending", "none")));
    setup.profiles = json.contains("profiles");
    setup.options.profiles_name = json.value("profiles", "");
    if (!setup.options.profiles_name.empty()) {
      EBB_ASSIGN_OR_RETURN(auto read, perf::ProfileSet::read(setup.options.profiles_name));
      setup.options.profiles = std::make_shared<const perf::ProfileSet>(std::move(read));
    }
    return setup;
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "the journal's header is not one of the simulator's: {}", e.what());
  }
}

}  // namespace ebb::sim
