#pragma once

/// A folder that a command fills: there completely at the end, or not at all. Everything is written into a staging
/// folder beside it; commit() moves it into place. A folder that is not committed leaves nothing behind.

#include <filesystem>
#include <string>

#include "ebb/base/result.h"

namespace ebb {

class OutputFolder {
 public:
  /// Makes the staging folder (and missing parents). Errors: already_exists if `path` is there and not empty, unless
  /// `force` (then files of the same names are replaced at commit, others stay); invalid_argument if it is a file;
  /// unavailable if it cannot be written.
  static Result<OutputFolder> create(const std::filesystem::path& path, bool force);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&& other) noexcept;
  ~OutputFolder();

  /// Where to write a file of the folder until commit().
  std::filesystem::path file(const std::string& name) const { return staging_ / name; }
  /// Errors: as create(), for what came into the way meanwhile.
  Result<void> commit();

  /// Removes the staging folders of all OutputFolders of this process: for a program that is told to stop. Any thread.
  static void abandon_all();

 private:
  OutputFolder(std::filesystem::path path, std::filesystem::path staging, bool force)
      : path_(std::move(path)), staging_(std::move(staging)), force_(force) {}
  static Result<void> check_target(const std::filesystem::path& path, bool force);

  std::filesystem::path path_;
  std::filesystem::path staging_;  // empty once committed or moved from
  bool force_ = false;
};

}  // namespace ebb
