#include "ebb/model/cluster.h"

namespace ebb {

GpuCount ClusterSpec::total_gpus() const {
  GpuCount total = 0;
  for (const NodeSpec& node : nodes) total += node.gpus;
  return total;
}

}  // namespace ebb
