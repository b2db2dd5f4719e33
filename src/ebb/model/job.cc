#include "ebb/model/job.h"

#include <algorithm>

namespace ebb {

const char* to_string(Sizing sizing) {
  switch (sizing) {
    case Sizing::rigid:
      return "rigid";
    case Sizing::moldable:
      return "moldable";
    case Sizing::elastic:
      return "elastic";
  }
  return "unknown";
}

GpuCount JobSpec::legal_size(GpuCount n) const {
  const GpuCount least = smallest();
  if (n < least) return 0;
  const GpuCount most = std::min(n, largest());
  return sizing == Sizing::rigid ? gpus : least + (most - least) / gpu_step * gpu_step;
}

GpuCount gpus_in(const Allocation& allocation) {
  GpuCount total = 0;
  for (const NodeShare& share : allocation) total += share.gpus;
  return total;
}

}  // namespace ebb
