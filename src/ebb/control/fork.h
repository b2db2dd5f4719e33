#pragma once

/// A fork of a cluster's scheduler, for questions of the kind "what if": another policy, one more job. What comes of it
/// is a forecast (sched/forecast.h), not a simulation: run times are what owners said or what completed jobs took, and
/// nobody submits anything more.

#include <string>
#include <vector>

#include "ebb/control/ledger.h"
#include "ebb/wire/api.h"

namespace ebb::control {

class Fork {
 public:
  /// Copies what it needs: the ledger may go on.
  Fork(const Ledger& ledger, Time now);

  /// Errors: those of sched::Registry::make().
  Result<void> set_policy(const wire::PolicyView& policy);
  /// The next job number. Errors: internal, if the core refuses it.
  Result<void> submit(const JobRequest& request);
  Result<wire::Outlook> outlook() const;

 private:
  sched::Registry registry_;
  sched::Scheduler scheduler_;
  std::string policy_;
  std::vector<std::string> names_;  // by job
  std::int64_t epoch_;
  Time now_;
};

}  // namespace ebb::control
