#include "ebb/base/files.h"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace ebb {
namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10;
constexpr std::size_t kMaxLine = std::size_t{16} << 20;

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::not_found;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::resource_exhausted;
    default:
      return ErrorCode::unavailable;
  }
}

tl::unexpected<Error> system_error(const char* what, const std::filesystem::path& path, int error) {
  return fail(code_of(error), "cannot {} '{}': {}", what, path.string(), std::generic_category().message(error));
}

Result<void> refuse_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::invalid_argument, "'{}' is a folder; give a file", path.string());
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  EBB_RETURN_IF_ERROR(refuse_folder(path));
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return system_error("read", path, errno);
  std::string bytes;
  char chunk[1 << 16];
  while (const std::size_t n = std::fread(chunk, 1, sizeof chunk, file.get())) {
    bytes.append(chunk, n);
    if (bytes.size() > max_bytes) {
      return fail(ErrorCode::resource_exhausted, "'{}' is larger than {} bytes", path.string(), max_bytes);
    }
  }
  if (std::ferror(file.get())) return system_error("read", path, errno);
  return bytes;
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp{}", ::getpid());
  auto written = [&]() -> Result<void> {
    EBB_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::create(temporary));
    writer.write(bytes);
    return writer.close();
  }();
  std::error_code error;
  if (written) {
    std::filesystem::rename(temporary, path, error);
    if (!error) return {};
    written = fail(ErrorCode::unavailable, "cannot write '{}': {}", path.string(), error.message());
  }
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return written;
}

struct LineReader::Gzip {
  gzFile file = nullptr;
  Gzip() = default;
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() {
    if (file != nullptr) gzclose(file);
  }
};

LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::open(const std::filesystem::path& path) {
  EBB_RETURN_IF_ERROR(refuse_folder(path));
  LineReader reader;
  reader.name_ = path.string();
  reader.gzip_ = std::make_unique<Gzip>();
  errno = 0;
  reader.gzip_->file = gzopen(path.c_str(), "rb");
  if (reader.gzip_->file == nullptr) return system_error("read", path, errno != 0 ? errno : ENOMEM);
  gzbuffer(reader.gzip_->file, kChunk);
  return reader;
}

LineReader LineReader::from_text(std::string name, std::string text) {
  LineReader reader;
  reader.name_ = std::move(name);
  reader.buffer_ = std::move(text);
  reader.at_end_ = true;
  return reader;
}

// Appends the next chunk to the buffer; false at the end of the file.
Result<bool> LineReader::fill() {
  if (at_end_) return false;
  buffer_.erase(0, position_);
  position_ = 0;
  if (buffer_.size() > kMaxLine) {
    return fail(ErrorCode::invalid_argument, "{}:{}: the line is longer than {} bytes; is this a text file?", name_,
                line_number_ + 1, kMaxLine);
  }
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  errno = 0;
  const int n = gzread(gzip_->file, buffer_.data() + before, static_cast<unsigned>(kChunk));
  buffer_.resize(before + static_cast<std::size_t>(n > 0 ? n : 0));
  int gz_error = Z_OK;
  const char* message = gzerror(gzip_->file, &gz_error);
  if (n < 0 || gz_error == Z_BUF_ERROR || gz_error == Z_DATA_ERROR) {
    if (gz_error == Z_ERRNO) return system_error("read", name_, errno);
    return fail(ErrorCode::invalid_argument,
                "{}: the gzip stream is damaged or cut off after line {} ({}); fetch the file again", name_,
                line_number_, gz_error == Z_BUF_ERROR ? "unexpected end of file" : message);
  }
  if (n == 0) at_end_ = true;
  return n > 0;
}

Result<bool> LineReader::next(std::string_view& line) {
  std::size_t searched = position_;
  std::size_t newline = 0;
  while ((newline = buffer_.find('\n', searched)) == std::string::npos) {
    const std::size_t pending = buffer_.size() - position_;
    EBB_ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) {
      if (position_ == buffer_.size()) return false;
      newline = buffer_.size();
      break;
    }
    searched = position_ + pending;
  }
  line = std::string_view(buffer_).substr(position_, newline - position_);
  position_ = std::min(newline + 1, buffer_.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_number_ == 0 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  ++line_number_;
  return true;
}

Result<FileWriter> FileWriter::create(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return system_error("write", path, errno);
  FileWriter writer(file, path);
  std::setvbuf(file, nullptr, _IOFBF, kChunk);
  return writer;
}

void FileWriter::write(std::string_view bytes) {
  if (first_error_ != 0) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) first_error_ = errno;
}

Result<void> FileWriter::close() {
  std::FILE* file = file_.release();
  const int flushed = std::fflush(file) == 0 ? 0 : errno;
  const int closed = std::fclose(file) == 0 ? 0 : errno;
  for (const int error : {first_error_, flushed, closed}) {
    if (error != 0) return system_error("write", path_, error);
  }
  return {};
}

}  // namespace ebb
