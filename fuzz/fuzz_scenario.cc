/// Fuzzes scenarios, clusters and durations. The first byte chooses which.

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/check.h"
#include "ebb/base/units.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
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
    default:
      if (const auto scenario = ebb::spec::parse_scenario("folder/f.yaml", std::string(text))) {
        EBB_CHECK(!scenario->faults.mtbf || *scenario->faults.mtbf > ebb::Duration::zero());
      }
  }
  return 0;
}
