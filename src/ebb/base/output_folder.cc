#include "ebb/base/output_folder.h"

#include <unistd.h>

#include <mutex>
#include <set>
#include <system_error>
#include <utility>

namespace ebb {

namespace fs = std::filesystem;

namespace {

/// Staging folders that exist now, for abandon_all().
struct Stagings {
  std::mutex mutex;
  std::set<fs::path> paths;
};

Stagings& stagings() {
  static Stagings all;
  return all;
}

}  // namespace

Result<void> OutputFolder::check_target(const fs::path& path, bool force) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  if (!fs::is_directory(path, error)) {
    return fail(ErrorCode::invalid_argument, "output folder '{}' is a file; give a folder", path.string());
  }
  const bool empty = fs::is_empty(path, error);
  if (error) return fail(ErrorCode::unavailable, "cannot read output folder '{}': {}", path.string(), error.message());
  if (!empty && !force) {
    return fail(ErrorCode::already_exists,
                "output folder '{}' is not empty; give another one, or --force to replace files of the same names",
                path.string());
  }
  if (::access(path.c_str(), W_OK) != 0) {
    return fail(ErrorCode::unavailable, "cannot write output folder '{}': {}", path.string(),
                std::generic_category().message(errno));
  }
  return {};
}

Result<OutputFolder> OutputFolder::create(const fs::path& given, bool force) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(given, error), error);
  if (error) return fail(ErrorCode::unavailable, "cannot use output folder '{}': {}", given.string(), error.message());
  if (!path.has_filename()) path = path.parent_path();  // "out/" names the folder "out"
  EBB_RETURN_IF_ERROR(check_target(path, force));
  fs::path staging = path;
  staging += fmt::format(".partial-{}", ::getpid());
  const std::lock_guard lock(stagings().mutex);
  fs::create_directories(path.parent_path(), error);
  if (!error) fs::create_directory(staging, error);
  // One that is there already is left from a killed process of the same number; a link in its place is not ours.
  if (!error && fs::is_symlink(staging)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) {
    return fail(ErrorCode::unavailable, "cannot make output folder '{}': {}", given.string(), error.message());
  }
  stagings().paths.insert(staging);
  return OutputFolder(path, staging, force);
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::move(other.path_)), staging_(std::exchange(other.staging_, {})), force_(other.force_) {}

OutputFolder& OutputFolder::operator=(OutputFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(staging_, other.staging_);
  std::swap(force_, other.force_);
  return *this;
}

OutputFolder::~OutputFolder() {
  if (staging_.empty()) return;
  const std::lock_guard lock(stagings().mutex);
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  stagings().paths.erase(staging_);
}

void OutputFolder::abandon_all() {
  const std::lock_guard lock(stagings().mutex);
  std::error_code ignored;
  for (const fs::path& staging : stagings().paths) fs::remove_all(staging, ignored);
  stagings().paths.clear();
}

Result<void> OutputFolder::commit() {
  const std::lock_guard lock(stagings().mutex);
  // Somebody else may have filled it meanwhile.
  EBB_RETURN_IF_ERROR(check_target(path_, force_));
  std::error_code error;
  if (!fs::exists(path_, error)) {
    fs::rename(staging_, path_, error);
  } else {
    fs::directory_iterator entries(staging_, error);
    while (!error && entries != fs::directory_iterator()) {
      fs::rename(entries->path(), path_ / entries->path().filename(), error);
      if (!error) entries.increment(error);
    }
    if (!error) fs::remove_all(staging_, error);
  }
  if (error) {
    return fail(ErrorCode::unavailable, "cannot write output folder '{}': {}", path_.string(), error.message());
  }
  stagings().paths.erase(staging_);
  staging_.clear();
  return {};
}

}  // namespace ebb
