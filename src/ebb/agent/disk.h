#pragma once

/// What the agent and its shims keep on disk, so that a crash of either, or of the machine, leaves the old bytes or the
/// new ones. Files are 0600, folders 0700; every descriptor is closed on exec. Errors: those of the system, with the
/// path; resource_exhausted if the disk is full.

#include <filesystem>
#include <string>
#include <string_view>

#include "ebb/base/fd.h"
#include "ebb/base/result.h"
#include "ebb/base/units.h"

namespace ebb::agent {

/// "cannot <what> '<path>': <reason>", with the code that fits `error` (an errno).
tl::unexpected<Error> os_error(std::string_view what, const std::filesystem::path& path, int error);

/// Opens with O_CLOEXEC; `flags` as for open(2).
Result<Fd> open_file(const std::filesystem::path& path, int flags);
/// Makes the folder (not its parents) if it is not there.
Result<void> make_folder(const std::filesystem::path& path);
/// Makes what happened to names in the folder durable.
Result<void> sync_folder(const std::filesystem::path& path);
Result<void> write_all(int fd, std::string_view bytes);

/// Temporary file, fsync, rename, fsync of the folder.
Result<void> write_durably(const std::filesystem::path& path, std::string_view bytes);
/// The same without fsync: for what is of no use after the machine went down.
Result<void> write_atomically(const std::filesystem::path& path, std::string_view bytes);

/// A small file that can be written though the disk is full by then: its space is taken when it is made, in
/// "<path>.reserved". commit() pads with blanks, which JSON ignores.
class ReservedFile {
 public:
  static constexpr std::size_t kSize = 4096;

  static Result<ReservedFile> create(std::filesystem::path path);
  /// Durable when it returns. Errors: invalid_argument above kSize bytes; may be tried again after others.
  Result<void> commit(std::string_view bytes);
  /// Gives the space back if there was no commit().
  void discard();

 private:
  ReservedFile(std::filesystem::path path, Fd folder, Fd file)
      : path_(std::move(path)), folder_(std::move(folder)), file_(std::move(file)) {}
  std::filesystem::path path_;
  Fd folder_;  // who sees the file may move its folder before it is synced
  Fd file_;
  bool renamed_ = false;
};

/// Time since the machine started, suspended time included; no clock setting moves it.
Duration boot_clock();

}  // namespace ebb::agent
