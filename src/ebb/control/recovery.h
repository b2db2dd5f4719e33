#pragma once

/// Folds the journal at start, and holds what the core decides against what the journal says it decided.

#include "ebb/control/controller.h"
#include "ebb/control/ledger.h"
#include "ebb/control/store.h"

namespace ebb::control {

struct Recovered {
  Ledger ledger;
  Time last{};  ///< of the last row
};

/// An empty journal is begun. Errors: see Controller::open(). Rows that are missing at the end, because the controller
/// died between two appends, come to be with the next step.
Result<Recovered> recover(Store& store, const ClusterSettings& settings, const sched::Registry& registry);

}  // namespace ebb::control
