#pragma once

/// The journal on disk: rows in one order, each durable before anybody acts on it. One SQLite database in WAL mode
/// with full synchronisation; an append is one transaction, so a crash leaves whole appends only. A lock file keeps a
/// second controller out. Every row has a checksum; reading checks it, and that no number is missing.
///
/// An append that failed may still be there after a crash right behind it (the disk had it, and failed to say so).
/// While the process lives, it is not.
///
/// One thread at a time may use a Store.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::control {

struct Row {
  std::uint64_t seq = 0;  ///< from 1, without gaps; given by append()
  std::string json;       ///< one object on one line, without its line end
};

class Store {
 public:
  /// Opens or creates the database (mode 0600) of a data folder; a new one has mode 0700. Errors: failed_precondition
  /// if another process has it open, a later ebb wrote it, or others may write into the folder; unavailable
  /// (read-only) and resource_exhausted (disk full) with path and reason; internal if the database is damaged.
  static Result<Store> open(const std::filesystem::path& folder);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Appends rows in one durable transaction and numbers them. All or none. Errors: unavailable, resource_exhausted
  /// (disk full); the store may be used on, and the same rows appended again later.
  Result<void> append(std::span<Row> rows);

  std::uint64_t last_seq() const;

  /// Calls `visit` for rows after `after` in order, at most `limit` of them, until it returns an error. Errors: that
  /// one; internal if a row is missing or has changed; unavailable.
  Result<void> read(std::uint64_t after, std::size_t limit, const std::function<Result<void>(const Row&)>& visit) const;

  /// Values beside the journal that are no part of the fold: the id of the cluster, hashes of tokens.
  Result<void> set(const std::string& key, const std::string& value);
  /// "" if it was never set.
  Result<std::string> get(const std::string& key) const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A consistent, checked copy of a store, also of one in use, as one new file (mode 0600), complete or absent. Errors:
/// already_exists; not_found; internal if the store is damaged; those of open().
Result<void> backup(const std::filesystem::path& folder, const std::filesystem::path& file);
/// Makes a data folder of a backup. Errors: already_exists if the folder has a database; internal if the file is
/// damaged; those of open().
Result<void> restore(const std::filesystem::path& file, const std::filesystem::path& folder);
/// Checks every page, every row's checksum and that rows are numbered without gaps, also of a store in use; the number
/// of rows. Errors: not_found; internal, saying what is damaged.
Result<std::uint64_t> verify(const std::filesystem::path& folder);

}  // namespace ebb::control
