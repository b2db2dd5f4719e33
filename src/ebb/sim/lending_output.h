#pragma once

/// The study of lending_study.h as JSON, tables and words. docs/reference/lending.md specifies every key.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/sim/lending_study.h"

namespace ebb::sim {

/// Version of lending.json.
inline constexpr int kLendingVersion = 1;

/// What lending.json holds and --json prints.
nlohmann::ordered_json lending_json(const LendingStudy& study);

/// The result in words, the headline's sentence first.
std::vector<std::string> lending_sentences(const LendingStudy& study);

/// One row a cell: load, column, and of each figure mean and interval.
Result<void> write_lending_cells(const std::filesystem::path& path, const LendingStudy& study);
/// One row a run.
Result<void> write_lending_runs(const std::filesystem::path& path, const LendingStudy& study);

/// "57 %": the serving mean of a column, as headings have it; with "(as measured)" or "(power 2)" for the column of a
/// given power.
std::string column_name(const LendingColumn& column);

}  // namespace ebb::sim
