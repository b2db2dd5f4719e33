#include "ebb/control/store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "ebb/base/fd.h"

namespace ebb::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDatabase = "journal.db";
constexpr const char* kLock = "lock";
constexpr std::int64_t kApplicationId = 0x6562626a;  // "ebbj": a database of something else is left alone
constexpr int kBusyMs = 10'000;                      // a backup holds its locks for moments only

/// kMigrations[n] makes version n + 1 of version n. Rows carry a checksum: SQLite would not notice a changed byte in
/// their text.
constexpr std::array kMigrations{
    "CREATE TABLE rows (seq INTEGER PRIMARY KEY, json TEXT NOT NULL, checksum INTEGER NOT NULL);"
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;",
};
constexpr auto kVersion = static_cast<std::int64_t>(kMigrations.size());

/// FNV-1a over words of eight bytes. Every step is a bijection of the state, so any change inside one word is noticed.
std::int64_t checksum(std::uint64_t seq, std::string_view text) {
  static_assert(std::endian::native == std::endian::little, "the sums on disk are those of little-endian words");
  std::uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * 0x100000001b3;
    sum ^= sum >> 32;
  };
  add(seq);
  add(text.size());
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t bytes = std::min(text.size(), sizeof word);
    std::memcpy(&word, text.data(), bytes);
    text.remove_prefix(bytes);
    add(word);
  }
  return static_cast<std::int64_t>(sum);
}

bool is_full(int error) {
  return error == ENOSPC || error == EDQUOT;
}

tl::unexpected<Error> system_error(const char* what, const fs::path& path, int error) {
  return fail(is_full(error) ? ErrorCode::resource_exhausted : ErrorCode::unavailable, "cannot {} '{}': {}", what,
              path.string(), std::generic_category().message(error));
}

Result<Fd> open_file(const char* what, const fs::path& path, int flags) {
  Fd file(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file) return system_error(what, path, errno);
  return file;
}

Result<void> sync(const fs::path& path) {
  EBB_ASSIGN_OR_RETURN(const Fd file, open_file("sync", path, O_RDONLY));
  if (::fsync(file.get()) != 0) return system_error("sync", path, errno);
  return {};
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Renames a finished file and makes that durable. Errors: already_exists, without having replaced anything.
Result<void> publish(const fs::path& from, const fs::path& to) {
  EBB_RETURN_IF_ERROR(sync(from));
  int error = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  if (error == EINVAL || error == ENOSYS) {  // a file system without it
    std::error_code ignored;
    error = fs::exists(to, ignored) ? EEXIST : ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  }
  if (error == EEXIST) return fail(ErrorCode::already_exists, "'{}' exists already; it was left alone", to.string());
  if (error != 0) return system_error("write", to, error);
  return sync(folder_of(to));
}

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

/// A connection, with SQLite's errors as Errors.
class Database {
 public:
  static Result<Database> open(const fs::path& path, int flags) {
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    Database database(path, raw);
    if (raw == nullptr) return fail(ErrorCode::resource_exhausted, "cannot open '{}': out of memory", path.string());
    if (code != SQLITE_OK) return database.error("open");
    sqlite3_busy_timeout(raw, kBusyMs);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    return database;
  }

  sqlite3* get() const { return db_.get(); }
  const fs::path& path() const { return path_; }

  /// Of the call that failed last.
  tl::unexpected<Error> error(const char* what) const {
    const int code = sqlite3_extended_errcode(get());
    const int system = system_errno();
    const std::string file = path_.string();
    switch (code & 0xff) {
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        return fail(ErrorCode::internal, "cannot {} '{}': it is damaged ({}); restore a backup", what, file,
                    sqlite3_errmsg(get()));
      case SQLITE_FULL:
        return full(what);
      case SQLITE_NOMEM:
        return fail(ErrorCode::resource_exhausted, "cannot {} '{}': out of memory", what, file);
      case SQLITE_TOOBIG:
        return fail(ErrorCode::invalid_argument, "cannot {} '{}': a row is too long", what, file);
      case SQLITE_IOERR:
      case SQLITE_CANTOPEN:
        if (is_full(system)) return full(what);
        return fail(ErrorCode::unavailable, "cannot {} '{}': {} ({}, SQLite code {})", what, file,
                    sqlite3_errmsg(get()), system != 0 ? std::generic_category().message(system) : "no reason given",
                    code);
      case SQLITE_READONLY:
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
      case SQLITE_PERM:
      case SQLITE_PROTOCOL:
        return fail(ErrorCode::unavailable, "cannot {} '{}': {}", what, file, sqlite3_errmsg(get()));
      default:
        return fail(ErrorCode::internal, "cannot {} '{}': {} (SQLite code {})", what, file, sqlite3_errmsg(get()),
                    code);
    }
  }

  Result<Statement> prepare(const char* what, std::string_view sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(get(), sql.data(), static_cast<int>(sql.size()), 0, &statement, nullptr) != SQLITE_OK) {
      return error(what);
    }
    return Statement(statement);
  }

  Result<void> exec(const char* what, const std::string& sql) const {
    if (sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return error(what);
    return {};
  }

  Result<std::int64_t> number(const char* what, std::string_view sql) const {
    EBB_ASSIGN_OR_RETURN(const Statement statement, prepare(what, sql));
    if (sqlite3_step(statement.get()) != SQLITE_ROW) return error(what);
    return sqlite3_column_int64(statement.get(), 0);
  }

 private:
  Database(fs::path path, sqlite3* db) : path_(std::move(path)), db_(db) {}

  tl::unexpected<Error> full(const char* what) const {
    return fail(ErrorCode::resource_exhausted, "cannot {} '{}': the disk is full; make space on it", what,
                path_.string());
  }

  /// Why the system refused; 0 if nobody knows. SQLite's own note of it is often overwritten by its rollback: then the
  /// log (which commits write) and the database know.
  int system_errno() const {
    int error = sqlite3_system_errno(get());
    for (const int which : {SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER}) {
      sqlite3_file* file = nullptr;
      if (error == 0 && sqlite3_file_control(get(), "main", which, &file) == SQLITE_OK && file != nullptr &&
          file->pMethods != nullptr) {
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
      }
    }
    return error;
  }

  fs::path path_;
  std::unique_ptr<sqlite3, CloseDatabase> db_;
};

std::string_view text_of(sqlite3_stmt* statement, int column) {
  const unsigned char* text = sqlite3_column_text(statement, column);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
}

Result<void> bind_text(const Database& database, sqlite3_stmt* statement, int parameter, std::string_view text) {
  if (sqlite3_bind_text64(statement, parameter, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8) != SQLITE_OK) {
    return database.error("write");
  }
  return {};
}

/// The schema version; 0 for a new database. Errors: failed_precondition for one that this ebb cannot use.
Result<std::int64_t> check_version(const Database& database) {
  EBB_ASSIGN_OR_RETURN(const std::int64_t application, database.number("read", "PRAGMA application_id"));
  EBB_ASSIGN_OR_RETURN(const std::int64_t version, database.number("read", "PRAGMA user_version"));
  if (application != kApplicationId) {
    EBB_ASSIGN_OR_RETURN(const std::int64_t tables, database.number("read", "SELECT count(*) FROM sqlite_schema"));
    if (application == 0 && version == 0 && tables == 0) return 0;
    return fail(ErrorCode::failed_precondition, "'{}' is no journal of ebb", database.path().string());
  }
  if (version > kVersion) {
    return fail(ErrorCode::failed_precondition,
                "'{}' has version {}, written by a later ebb; this ebb knows versions up to {}",
                database.path().string(), version, kVersion);
  }
  return version;
}

Result<void> migrate(const Database& database, std::int64_t version) {
  if (version == kVersion) return {};
  std::string sql = "BEGIN IMMEDIATE;";
  for (std::int64_t step = version; step < kVersion; ++step) sql += kMigrations[static_cast<std::size_t>(step)];
  sql += fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; COMMIT;", kApplicationId, kVersion);
  return database.exec("write", sql);
}

/// Rows after `after` in order, numbered without gaps and with the right sums.
Result<std::uint64_t> walk(const Database& database, std::uint64_t after, std::size_t limit,
                           const std::function<Result<void>(const Row&)>& visit) {
  EBB_ASSIGN_OR_RETURN(
      const Statement statement,
      database.prepare("read", "SELECT seq, json, checksum FROM rows WHERE seq > ? ORDER BY seq LIMIT ?"));
  constexpr std::uint64_t kMost = INT64_MAX;
  sqlite3_bind_int64(statement.get(), 1, static_cast<std::int64_t>(std::min(after, kMost)));
  sqlite3_bind_int64(statement.get(), 2, static_cast<std::int64_t>(std::min<std::uint64_t>(limit, kMost)));
  Row row;
  row.seq = after;
  int code = SQLITE_OK;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) {
    const std::int64_t seq = sqlite3_column_int64(statement.get(), 0);
    if (seq != static_cast<std::int64_t>(row.seq + 1)) {
      return fail(ErrorCode::internal, "'{}' is damaged: row {} is missing; restore a backup", database.path().string(),
                  row.seq + 1);
    }
    row.seq = static_cast<std::uint64_t>(seq);
    row.json.assign(text_of(statement.get(), 1));
    if (checksum(row.seq, row.json) != sqlite3_column_int64(statement.get(), 2)) {
      return fail(ErrorCode::internal, "'{}' is damaged: the text of row {} has changed; restore a backup",
                  database.path().string(), row.seq);
    }
    EBB_RETURN_IF_ERROR(visit(row));
  }
  if (code != SQLITE_DONE) return database.error("read");
  return row.seq - after;
}

/// Every page and every row, as of one moment; the number of rows.
Result<std::uint64_t> verify_database(const Database& database) {
  EBB_ASSIGN_OR_RETURN(const std::int64_t version, check_version(database));
  if (version == 0) return fail(ErrorCode::internal, "'{}' holds no journal", database.path().string());
  EBB_RETURN_IF_ERROR(database.exec("read", "BEGIN"));
  {
    EBB_ASSIGN_OR_RETURN(const Statement check, database.prepare("read", "PRAGMA integrity_check(1)"));
    if (sqlite3_step(check.get()) != SQLITE_ROW) return database.error("read");
    if (const std::string_view found = text_of(check.get(), 0); found != "ok") {
      return fail(ErrorCode::internal, "'{}' is damaged: {}; restore a backup", database.path().string(), found);
    }
  }
  EBB_ASSIGN_OR_RETURN(const std::uint64_t rows,
                       walk(database, 0, SIZE_MAX, [](const Row&) { return Result<void>(); }));
  EBB_RETURN_IF_ERROR(database.exec("read", "COMMIT"));
  return rows;
}

Result<Database> open_to_read(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return fail(ErrorCode::not_found, "there is no journal '{}'", path.string());
  return Database::open(path, SQLITE_OPEN_READONLY);
}

/// Copies a database as of one moment, also one in use, into a new single file beside `to`, checks the copy and
/// publishes it as `to`.
Result<void> copy_database(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::exists(to, ignored)) {
    return fail(ErrorCode::already_exists, "'{}' exists already; it was left alone", to.string());
  }
  EBB_ASSIGN_OR_RETURN(const Database source, open_to_read(from));
  EBB_RETURN_IF_ERROR(check_version(source));

  struct Temporary {
    fs::path path;
    void remove() const {
      std::error_code unimportant;
      for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path.string() + suffix, unimportant);
    }
    ~Temporary() { remove(); }
  } const temporary{to.string() + fmt::format(".tmp{}", ::getpid())};
  temporary.remove();
  EBB_RETURN_IF_ERROR(open_file("write", temporary.path, O_RDWR | O_CREAT | O_EXCL));
  {
    EBB_ASSIGN_OR_RETURN(const Database target, Database::open(temporary.path, SQLITE_OPEN_READWRITE));
    // Synchronised once, at the end.
    EBB_RETURN_IF_ERROR(target.exec("write", "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF"));
    sqlite3_backup* pages = sqlite3_backup_init(target.get(), "main", source.get(), "main");
    if (pages == nullptr) return target.error("write");
    // All pages in one step: in several, an append in between would begin it anew.
    sqlite3_backup_step(pages, -1);
    // Finishing hands the error of the step to the target.
    if (sqlite3_backup_finish(pages) != SQLITE_OK) return target.error("copy into");
    EBB_RETURN_IF_ERROR(target.exec("write", "PRAGMA journal_mode = DELETE"));
    EBB_RETURN_IF_ERROR(verify_database(target));
  }
  return publish(temporary.path, to);
}

/// Makes the folder, or takes one that nobody else may write into.
Result<void> make_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    fs::create_directories(folder_of(folder), error);
    if (error) return system_error("make the folder", folder_of(folder), error.value());
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error("make the folder", folder, errno);
    EBB_RETURN_IF_ERROR(sync(folder_of(folder)));
  }
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) return system_error("open", folder, errno);
  if (!S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::failed_precondition, "'{}' is not a folder", folder.string());
  }
  if ((status.st_mode & 0022) != 0) {
    return fail(ErrorCode::failed_precondition,
                "others may write into the data folder '{}' (mode {:04o}); use another one, or: chmod 700 '{}'",
                folder.string(), status.st_mode & 07777, folder.string());
  }
  return {};
}

Result<Fd> lock_folder(const fs::path& folder) {
  EBB_RETURN_IF_ERROR(make_folder(folder));
  EBB_ASSIGN_OR_RETURN(Fd lock, open_file("open", folder / kLock, O_RDWR | O_CREAT));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return system_error("lock", folder / kLock, errno);
  return fail(ErrorCode::failed_precondition,
              "another controller has the data folder '{}' open; stop it first, or give another folder",
              folder.string());
}

/// Errors: if what SQLite keeps beside a database is there without it: it would be taken for part of the next one.
Result<void> check_leftovers(const fs::path& database, ErrorCode code) {
  std::error_code ignored;
  if (fs::exists(database, ignored)) return {};
  for (const char* suffix : {"-wal", "-journal"}) {
    const std::string file = database.string() + suffix;
    if (fs::exists(file, ignored)) {
      return fail(code, "'{}' is missing but '{}' is there: put the first back, or move the second away",
                  database.string(), file);
    }
  }
  return {};
}

}  // namespace

struct Store::Impl {
  Impl(Fd locked, Database opened) : lock(std::move(locked)), database(std::move(opened)) {}

  Result<void> prepare() {
    EBB_ASSIGN_OR_RETURN(begin, database.prepare("write", "BEGIN IMMEDIATE"));
    EBB_ASSIGN_OR_RETURN(insert, database.prepare("write", "INSERT INTO rows (seq, json, checksum) VALUES (?, ?, ?)"));
    EBB_ASSIGN_OR_RETURN(commit, database.prepare("write", "COMMIT"));
    EBB_ASSIGN_OR_RETURN(const std::int64_t last, database.number("read", "SELECT coalesce(max(seq), 0) FROM rows"));
    last_seq = static_cast<std::uint64_t>(last);
    return {};
  }

  /// One step of a statement that gives no rows.
  Result<void> run(const Statement& statement) const {
    const int code = sqlite3_step(statement.get());
    Result<void> result;
    if (code != SQLITE_DONE) result = database.error("write");
    sqlite3_reset(statement.get());
    return result;
  }

  Result<void> insert_all(std::span<const Row> rows) const {
    EBB_RETURN_IF_ERROR(run(begin));
    std::uint64_t seq = last_seq;
    for (const Row& row : rows) {
      ++seq;
      sqlite3_bind_int64(insert.get(), 1, static_cast<std::int64_t>(seq));
      EBB_RETURN_IF_ERROR(bind_text(database, insert.get(), 2, row.json));
      sqlite3_bind_int64(insert.get(), 3, checksum(seq, row.json));
      EBB_RETURN_IF_ERROR(run(insert));
    }
    return run(commit);
  }

  Fd lock;  // before the database: held until that is closed
  Database database;
  Statement begin;
  Statement insert;
  Statement commit;
  std::uint64_t last_seq = 0;
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const fs::path& folder) {
  EBB_ASSIGN_OR_RETURN(Fd lock, lock_folder(folder));
  const fs::path path = folder / kDatabase;
  EBB_RETURN_IF_ERROR(check_leftovers(path, ErrorCode::internal));
  {
    // Before SQLite has it open: closing any descriptor of a file drops the process's locks on it.
    EBB_ASSIGN_OR_RETURN(const Fd file, open_file("open", path, O_RDWR | O_CREAT));
    if (::fchmod(file.get(), 0600) != 0) return system_error("set the mode of", path, errno);
  }
  EBB_ASSIGN_OR_RETURN(Database database, Database::open(path, SQLITE_OPEN_READWRITE));
  EBB_ASSIGN_OR_RETURN(const std::int64_t version, check_version(database));
  {
    EBB_ASSIGN_OR_RETURN(const Statement mode, database.prepare("open", "PRAGMA journal_mode = WAL"));
    if (sqlite3_step(mode.get()) != SQLITE_ROW) return database.error("open");
    if (text_of(mode.get(), 0) != "wal") {
      return fail(ErrorCode::unavailable, "cannot open '{}': its file system has no shared memory (WAL mode)",
                  path.string());
    }
  }
  // The limit takes back what the WAL grew to while a backup was reading.
  EBB_RETURN_IF_ERROR(database.exec("open", "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864"));
  EBB_RETURN_IF_ERROR(migrate(database, version));
  EBB_RETURN_IF_ERROR(sync(folder));
  auto impl = std::make_unique<Impl>(std::move(lock), std::move(database));
  EBB_RETURN_IF_ERROR(impl->prepare());
  return Store(std::move(impl));
}

Result<void> Store::append(std::span<Row> rows) {
  if (rows.empty()) return {};
  if (auto written = impl_->insert_all(rows); !written) {
    // Some errors have rolled it back already.
    if (sqlite3_get_autocommit(impl_->database.get()) == 0) {
      sqlite3_exec(impl_->database.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    return written;
  }
  for (Row& row : rows) row.seq = ++impl_->last_seq;
  return {};
}

std::uint64_t Store::last_seq() const {
  return impl_->last_seq;
}

Result<void> Store::read(std::uint64_t after, std::size_t limit,
                         const std::function<Result<void>(const Row&)>& visit) const {
  return walk(impl_->database, after, limit, visit).map([](std::uint64_t) {});
}

Result<void> Store::set(const std::string& key, const std::string& value) {
  EBB_ASSIGN_OR_RETURN(const Statement statement,
                       impl_->database.prepare("write", "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"));
  EBB_RETURN_IF_ERROR(bind_text(impl_->database, statement.get(), 1, key));
  EBB_RETURN_IF_ERROR(bind_text(impl_->database, statement.get(), 2, value));
  return impl_->run(statement);
}

Result<std::string> Store::get(const std::string& key) const {
  EBB_ASSIGN_OR_RETURN(const Statement statement,
                       impl_->database.prepare("read", "SELECT value FROM meta WHERE key = ?"));
  EBB_RETURN_IF_ERROR(bind_text(impl_->database, statement.get(), 1, key));
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return std::string();
  if (code != SQLITE_ROW) return impl_->database.error("read");
  return std::string(text_of(statement.get(), 0));
}

Result<void> backup(const fs::path& folder, const fs::path& file) {
  return copy_database(folder / kDatabase, file);
}

Result<void> restore(const fs::path& file, const fs::path& folder) {
  EBB_ASSIGN_OR_RETURN(const Fd lock, lock_folder(folder));
  EBB_RETURN_IF_ERROR(check_leftovers(folder / kDatabase, ErrorCode::already_exists));
  return copy_database(file, folder / kDatabase);
}

Result<std::uint64_t> verify(const fs::path& folder) {
  EBB_ASSIGN_OR_RETURN(const Database database, open_to_read(folder / kDatabase));
  return verify_database(database);
}

}  // namespace ebb::control
