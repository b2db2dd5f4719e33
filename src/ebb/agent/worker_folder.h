#pragma once

/// The folder of one worker: who does what with its files so that the command runs at most once, whatever dies when.
///
/// The shim takes `lock`, then looks for `launched` and exit.json and goes away if it finds either; so of several shims
/// only one ever runs the command. judge() tells from the files alone how things stand. Any process.

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "ebb/agent/disk.h"
#include "ebb/agent/records.h"

namespace ebb::agent {

class WorkerFolder {
 public:
  enum class Standing : std::uint8_t {
    empty,     ///< no spec: nothing was ever launched
    prepared,  ///< a spec, and no command ran; a shim may be on its way
    alive,     ///< its shim lives
    ended,     ///< exit.json is there
    orphaned,  ///< it was launched, its shim is gone and has left no exit
  };

  explicit WorkerFolder(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }

  Standing judge() const;

  /// Makes the folder and writes `launch`; durable when the folder above is synced too.
  Result<void> prepare(const Launch& launch) const;
  Result<Launch> launch() const;
  std::optional<std::int64_t> pid() const;
  std::optional<WorkerExit> exit() const;
  std::optional<Duration> stop() const;
  /// "launched": the command may have run.
  bool was_launched() const;
  Result<void> mark_launched() const;

  Result<void> write_stop(Duration grace) const;
  Result<void> write_exit(const WorkerId& worker, const WorkerExit& exit) const;

  /// The lock, with this process's id in it. `wait`: until it is free; else unavailable at once if it is not.
  Result<Fd> lock(bool wait) const;
  bool is_locked() const;
  /// The process that holds the lock; none if nobody does or it has not said so yet.
  Fd holder() const;

  std::filesystem::path file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace ebb::agent
