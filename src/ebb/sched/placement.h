#pragma once

/// Where a gang goes: the placement strategies. A strategy chooses nodes among the available GPUs of some groups; it
/// never moves a running job.
///
///   count        any free GPUs, lowest node first (no topology: what simulators call GPU counting)
///   best_fit     the node that the gang fills most tightly; a gang that no single node holds takes the emptiest nodes
///                and puts the rest where it fits most tightly
///   consolidate  as best_fit, but on the least possible number of nodes or not at all: the gang waits until enough
///                GPUs are free together
///   spread       over as many nodes as possible, emptiest first

#include <memory>
#include <optional>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/sched/free_index.h"

namespace ebb::sched {

class Placement {
 public:
  virtual ~Placement() = default;

  /// GPUs for a gang of `gpus` >= 1 in `groups`, in order of node; nullopt if there is no place.
  /// `capacity.least_nodes()` tells `consolidate` how few nodes could hold the gang.
  virtual std::optional<Allocation> place(const FreeIndex& free, const class Capacity& capacity, GroupMask groups,
                                          GpuCount gpus) const = 0;

  /// Whether place() may fail although enough GPUs are free. If not, counting is enough to know that a gang fits.
  virtual bool strict() const { return false; }
};

/// The strategy with that name. Placements hold no state and may be shared.
Result<std::shared_ptr<const Placement>> make_placement(std::string_view name);

/// "count|best_fit|consolidate|spread", for documentation and errors.
std::string_view placement_names();

}  // namespace ebb::sched
