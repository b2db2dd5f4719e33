#pragma once

/// Folds the journal at start, and holds what the core decides against what the journal says it decided.

#include <deque>
#include <string>

#include "ebb/control/controller.h"
#include "ebb/control/ledger.h"
#include "ebb/control/store.h"

namespace ebb::control {

/// Feeds rows to a ledger, in the turns in which they were written, and compares what follows from them byte by byte.
class Replayer {
 public:
  /// `ledger` is begun, and outlives it.
  explicit Replayer(Ledger& ledger) : ledger_(ledger) {}

  /// The next row. Errors: internal, for what is no row, or not what the ledger decides.
  Result<void> take(const Row& row);
  /// Of the last row.
  Time last() const { return last_; }
  /// After the last row. Errors: internal, if rows are missing.
  Result<void> complete() const;

 private:
  Result<void> differs(const Row& row) const;

  Ledger& ledger_;
  Time last_{};
  std::deque<std::string> expected_;  // what is left of a step
};

struct Recovered {
  Ledger ledger;
  Time last{};  ///< of the last row
};

/// An empty journal is begun. Errors: see Controller::open(). Rows that are missing at the end, because the controller
/// died between two appends, come to be with the next step.
Result<Recovered> recover(Store& store, const ClusterSettings& settings, const sched::Registry& registry);

}  // namespace ebb::control
