#include "ebb/perf/profile_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/base/embedded.h"
#include "ebb/base/files.h"

namespace ebb::embedded {
extern const std::span<const EmbeddedFile> profile_files;
}

namespace ebb::perf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConstants = "constants.csv";
constexpr std::string_view kPlacements = "placements.csv";
/// DeepBoot's traces keep what was measured under this name; their placements.csv has copies of it for nodes of 8 GPUs.
constexpr std::string_view kOriginalPlacements = "origin_placements.csv";
constexpr std::string_view kScalability = "scalability.csv";

/// The application and the name of a file of the program, "bert/placements.csv".
std::pair<std::string_view, std::string_view> split_name(const EmbeddedFile& file) {
  const std::size_t slash = file.name.find('/');
  EBB_CHECK(slash != std::string_view::npos);
  return {file.name.substr(0, slash), file.name.substr(slash + 1)};
}

TableFile table_of(const EmbeddedFile& file) {
  return {"built-in " + std::string(file.name), std::string(file.bytes)};
}

/// Batch of "validation-<batch>.csv"; nullopt for another name.
Result<std::optional<BatchSize>> validation_batch(std::string_view folder, std::string_view file) {
  constexpr std::string_view kPrefix = "validation-";
  constexpr std::string_view kSuffix = ".csv";
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) return std::nullopt;
  const std::string_view number = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
  BatchSize batch = 0;
  const char* end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, batch);
  if (error != std::errc() || stop != end || batch < 1) {
    return fail(ErrorCode::invalid_argument, "{}: the name of '{}' holds no batch size, as in validation-128.csv",
                folder, file);
  }
  return batch;
}

/// Puts a file where it belongs, by its name; other files are left alone. `load` gives its text.
template <typename Load>
Result<void> add_file(ProfileFiles& files, std::string_view name, Load load) {
  if (name == kOriginalPlacements || (name == kPlacements && !files.placements)) {
    EBB_ASSIGN_OR_RETURN(files.placements, load());
  } else if (name == kScalability) {
    EBB_ASSIGN_OR_RETURN(files.scalability, load());
  } else if (name == kConstants) {
    EBB_ASSIGN_OR_RETURN(files.constants, load());
  } else {
    EBB_ASSIGN_OR_RETURN(const std::optional<BatchSize> batch, validation_batch(files.folder, name));
    if (!batch) return {};
    EBB_ASSIGN_OR_RETURN(TableFile file, load());
    files.validation.emplace_back(*batch, std::move(file));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> list_folder(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::not_found, "{}: no such folder", folder.string());
  }
  if (error == std::errc::not_a_directory) {
    return fail(ErrorCode::invalid_argument, "{}: not a folder; profiles are folders of tables", folder.string());
  }
  if (error) return fail(ErrorCode::unavailable, "{}: {}", folder.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

Result<ProfileFiles> load_profile_files(const fs::path& folder) {
  EBB_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(folder));
  ProfileFiles files;
  fs::path named = fs::absolute(folder).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  files.name = named.filename().string();
  files.folder = folder.string();
  for (const std::string& name : names) {
    const auto load = [&]() -> Result<TableFile> {
      EBB_ASSIGN_OR_RETURN(std::string text, read_file(folder / name));
      return TableFile{(folder / name).string(), std::move(text)};
    };
    EBB_RETURN_IF_ERROR(add_file(files, name, load));
  }
  if (!files.constants) {
    const EmbeddedFile* own = find_embedded(embedded::profile_files, files.name + "/" + std::string(kConstants));
    if (own != nullptr) files.constants = table_of(*own);
  }
  return files;
}

std::vector<ProfileFiles> built_in_profile_files() {
  std::vector<ProfileFiles> all;
  for (const EmbeddedFile& file : embedded::profile_files) {
    const auto [application, name] = split_name(file);
    if (all.empty() || all.back().name != application) {
      all.push_back({});
      all.back().name = application;
      all.back().folder = "built-in " + std::string(application);
    }
    const auto added = add_file(all.back(), name, [&]() -> Result<TableFile> { return table_of(file); });
    EBB_CHECK(added.has_value());
  }
  return all;
}

}  // namespace ebb::perf
