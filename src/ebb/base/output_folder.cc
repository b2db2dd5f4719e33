#include "ebb/base/output_folder.h"

#include <unistd.h>

#include <system_error>

namespace ebb {

namespace fs = std::filesystem;

Result<OutputFolder> OutputFolder::create(const fs::path& given, bool force) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(given, error), error);
  if (error) return fail(ErrorCode::unavailable, "cannot use output folder '{}': {}", given.string(), error.message());
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error)) {
      return fail(ErrorCode::invalid_argument, "output folder '{}' is a file; give a folder", given.string());
    }
    const bool empty = fs::is_empty(path, error);
    if (error)
      return fail(ErrorCode::unavailable, "cannot read output folder '{}': {}", given.string(), error.message());
    if (!empty && !force) {
      return fail(ErrorCode::already_exists,
                  "output folder '{}' is not empty; give another one, or --force to replace files of the same names",
                  given.string());
    }
    if (::access(path.c_str(), W_OK) != 0) {
      return fail(ErrorCode::unavailable, "cannot write output folder '{}': {}", given.string(),
                  std::generic_category().message(errno));
    }
  }
  fs::path staging = path;
  staging += fmt::format(".partial-{}", ::getpid());
  fs::create_directories(staging, error);
  if (error) {
    return fail(ErrorCode::unavailable, "cannot make output folder '{}': {}", given.string(), error.message());
  }
  return OutputFolder(path, staging);
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : path_(std::move(other.path_)), staging_(std::exchange(other.staging_, {})) {}

OutputFolder& OutputFolder::operator=(OutputFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(staging_, other.staging_);
  return *this;
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
}

Result<void> OutputFolder::commit() {
  std::error_code error;
  if (!fs::exists(path_, error)) {
    fs::rename(staging_, path_, error);
  } else {
    for (const auto& entry : fs::directory_iterator(staging_)) {
      fs::rename(entry.path(), path_ / entry.path().filename(), error);
      if (error) break;
    }
    if (!error) fs::remove_all(staging_, error);
  }
  if (error) {
    return fail(ErrorCode::unavailable, "cannot write output folder '{}': {}", path_.string(), error.message());
  }
  staging_.clear();
  return {};
}

}  // namespace ebb
