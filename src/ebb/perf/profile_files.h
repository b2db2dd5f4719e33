#pragma once

/// Internal: which files make a profile, read from a folder or taken out of the program.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/training.h"
#include "ebb/perf/table.h"

namespace ebb::perf {

/// The files of one profile; absent ones are empty.
struct ProfileFiles {
  std::string name;    ///< of the application
  std::string folder;  ///< as messages show it
  std::optional<TableFile> placements;
  std::optional<TableFile> scalability;
  std::optional<TableFile> constants;
  std::vector<std::pair<BatchSize, TableFile>> validation;

  /// Whether it looks like a profile at all.
  bool any() const { return placements || !validation.empty(); }
};

/// The names in a folder, sorted. Errors: not_found, invalid_argument if it is no folder, unavailable.
Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder);

/// Errors: those of list_folder() and read_file(); invalid_argument for a validation file whose name holds no batch
/// size.
Result<ProfileFiles> load_profile_files(const std::filesystem::path& folder);

/// By name.
std::vector<ProfileFiles> built_in_profile_files();

}  // namespace ebb::perf
