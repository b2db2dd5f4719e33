#pragma once

/// Reports of workers as JSON, for the journal and the API: {"kind": "switched", ...}.

#include <nlohmann/json_fwd.hpp>

#include "ebb/base/result.h"
#include "ebb/wire/contract.h"

namespace ebb::wire {

nlohmann::ordered_json to_json(const Progress& progress);
Result<Progress> progress_from(const nlohmann::ordered_json& json);
nlohmann::ordered_json to_json(const Report& report);
/// Errors: invalid_argument.
Result<Report> report_from(const nlohmann::ordered_json& json);

}  // namespace ebb::wire
