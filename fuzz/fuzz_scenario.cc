/// Fuzzes scenarios, services files, clusters and durations. The first byte chooses which.

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/base/units.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/scenario.h"
#include "ebb/spec/services.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 5) {
    case 0:
      if (const auto cluster = ebb::spec::parse_cluster(text)) {
        // Large clusters are slow to compare and teach nothing.
        if (cluster->nodes.size() > 1000) return 0;
        EBB_CHECK(ebb::spec::parse_cluster(ebb::spec::format_cluster(*cluster)).value() == *cluster);
      }
      break;
    case 1:
      if (const auto duration = ebb::parse_duration(text)) {
        EBB_CHECK(*duration >= ebb::Duration::zero() && *duration <= ebb::kMaxDuration);
      }
      break;
    case 4:
      if (const auto services = ebb::spec::parse_services("folder/f.yaml", std::string(text))) {
        EBB_CHECK(!services->empty());
        for (const ebb::spec::ServiceEntry& service : *services) {
          EBB_CHECK(service.spec.gpus >= 1 && service.spec.target_latency >= service.spec.service_time);
          EBB_CHECK(service.spec.percentile >= 0.5 && service.spec.percentile < 1);
        }
      }
      break;
    default:
      if (const auto scenario = ebb::spec::parse_scenario("folder/f.yaml", std::string(text))) {
        EBB_CHECK(!scenario->faults.mtbf || *scenario->faults.mtbf > ebb::Duration::zero());
      }
  }
  return 0;
}
