#pragma once

/// What the API shows, made from the ledger.

#include "ebb/control/controller.h"
#include "ebb/control/ledger.h"
#include "ebb/sched/forecast.h"
#include "ebb/wire/api.h"

namespace ebb::control {

wire::JobView view_job(const Ledger& ledger, JobId id, Time now);
wire::JobDetail view_detail(const Ledger& ledger, JobId id, Time now);
std::vector<wire::JobView> view_jobs(const Ledger& ledger, const JobFilter& filter, Time now);
/// But for the forecast.
wire::Explanation view_explanation(const Ledger& ledger, JobId id, Time now);
/// Adds what the forecast says of the job, which waits.
void add_forecast(wire::Explanation& explanation, const sched::Forecast& forecast, std::int64_t epoch);
std::vector<wire::NodeView> view_nodes(const Ledger& ledger);
/// But for what the store knows.
ClusterGauges view_gauges(const Ledger& ledger, Time now);

}  // namespace ebb::control
