#include "ebb/model/job.h"

namespace ebb {

GpuCount gpus_in(const Allocation& allocation) {
  GpuCount total = 0;
  for (const NodeShare& share : allocation) total += share.gpus;
  return total;
}

}  // namespace ebb
