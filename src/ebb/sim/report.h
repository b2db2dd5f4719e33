#pragma once

/// One self-contained HTML page for one or several simulated runs (policies x loads x seeds): headline figures,
/// distributions, series over time, tenants, definitions, warnings. It opens without a network and holds nothing from
/// outside but its own bytes.
///
/// How: the data go as one JSON object into the template of web/report, together with its style sheet, its script and
/// the chart library, all of them compiled into the program. No time of rendering and no wall time goes in: the same
/// results give the same bytes. docs/reference/report.md describes the parts of the page.
///
/// Names of runs, jobs and tenants come from traces and are never trusted: they stand in JSON with every "<" escaped,
/// and the script shows them as text only. Bytes that are not UTF-8 are replaced by U+FFFD. Thread rule: anywhere.

#include <span>
#include <string>

#include "ebb/base/result.h"
#include "ebb/sim/result.h"

namespace ebb::sim {

struct ReportOptions {
  std::string title;
  std::string command;  ///< how the runs were made, shown as given
  std::string ebb_version;
};

/// The page. Errors: invalid_argument without any result.
Result<std::string> render_report(std::span<const SimResult> results, const ReportOptions& options);

}  // namespace ebb::sim
