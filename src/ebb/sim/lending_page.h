#pragma once

/// lending.html: a study of lending (lending_study.h) as one self-contained page, made of web/lending and the shared
/// parts of web/report. Same rules as the report (report.h): no time of rendering, no bytes from outside but its own,
/// texts are never trusted.

#include <string>

#include "ebb/sim/lending_study.h"

namespace ebb::sim {

struct LendingPageOptions {
  std::string title;
  std::string command;  ///< how the study was made, shown as given
  std::string ebb_version;
};

std::string render_lending(const LendingStudy& study, const LendingPageOptions& options);

}  // namespace ebb::sim
