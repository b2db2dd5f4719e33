#include "ebb/agent/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::not_found;
    case EEXIST:
      return ErrorCode::already_exists;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::resource_exhausted;
    default:
      return ErrorCode::unavailable;
  }
}

fs::path with_suffix(const fs::path& path, const char* suffix) {
  fs::path longer = path;
  longer += suffix;
  return longer;
}

Result<void> write_beside(const fs::path& path, std::string_view bytes, bool sync) {
  const fs::path temporary = with_suffix(path, ".tmp");
  auto written = [&]() -> Result<void> {
    EBB_ASSIGN_OR_RETURN(const Fd file, open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC));
    if (auto all = write_all(file.get(), bytes); !all) return os_error("write", path, errno);
    if (sync && ::fsync(file.get()) != 0) return os_error("write", path, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return os_error("write", path, errno);
    return {};
  }();
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  return sync ? sync_folder(path.parent_path()) : Result<void>{};
}

}  // namespace

tl::unexpected<Error> os_error(std::string_view what, const fs::path& path, int error) {
  return fail(code_of(error), "cannot {} '{}': {}", what, path.string(), std::generic_category().message(error));
}

Result<Fd> open_file(const fs::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return os_error("open", path, errno);
  return Fd(fd);
}

Result<void> make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return os_error("make folder", path, errno);
  return {};
}

Result<void> sync_folder(const fs::path& path) {
  EBB_ASSIGN_OR_RETURN(const Fd folder, open_file(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(folder.get()) != 0) return os_error("write", path, errno);
  return {};
}

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("write", "file", errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> write_durably(const fs::path& path, std::string_view bytes) {
  return write_beside(path, bytes, true);
}

Result<void> write_atomically(const fs::path& path, std::string_view bytes) {
  return write_beside(path, bytes, false);
}

Result<ReservedFile> ReservedFile::create(fs::path path) {
  const fs::path reserved = with_suffix(path, ".reserved");
  EBB_ASSIGN_OR_RETURN(Fd folder, open_file(path.parent_path(), O_RDONLY | O_DIRECTORY));
  EBB_ASSIGN_OR_RETURN(Fd file, open_file(reserved, O_WRONLY | O_CREAT | O_TRUNC));
  // Written, not only allocated: file systems differ in whether fallocate keeps its promise.
  if (auto written = write_all(file.get(), std::string(kSize, ' ')); !written) {
    const int error = errno;
    ::unlink(reserved.c_str());
    return os_error("write", reserved, error);
  }
  if (::fsync(file.get()) != 0) return os_error("write", reserved, errno);
  return ReservedFile(std::move(path), std::move(folder), std::move(file));
}

Result<void> ReservedFile::commit(std::string_view bytes) {
  if (bytes.size() > kSize) {
    return fail(ErrorCode::invalid_argument, "'{}': {} bytes, more than {}", path_.string(), bytes.size(), kSize);
  }
  if (!renamed_) {
    std::string padded(bytes);
    padded.resize(kSize, ' ');
    if (::lseek(file_.get(), 0, SEEK_SET) != 0 || !write_all(file_.get(), padded) || ::fsync(file_.get()) != 0 ||
        ::rename(with_suffix(path_, ".reserved").c_str(), path_.c_str()) != 0) {
      return os_error("write", path_, errno);
    }
    renamed_ = true;
  }
  if (::fsync(folder_.get()) != 0) return os_error("write", path_, errno);
  return {};
}

void ReservedFile::discard() {
  ::unlink(with_suffix(path_, ".reserved").c_str());
}

Duration boot_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec);
}

}  // namespace ebb::agent
