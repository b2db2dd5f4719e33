#pragma once

/// The worker contract as plain values (proto/ebb/v1/worker.proto, docs/reference/worker-contract.md), and its frames:
/// the only file that knows the generated messages is contract.cc.
///
/// Errors of the decoders: invalid_argument, for bytes that are no such message.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/model/worker.h"

namespace ebb::wire {

inline constexpr std::uint32_t kContractVersion = 1;
inline constexpr std::size_t kMaxFrameBytes = std::size_t{4} << 20;

struct Hello {
  std::uint32_t version = kContractVersion;
  WorkerId worker;
  std::string secret;
};
struct Welcome {
  std::uint32_t version = kContractVersion;
};

struct TargetMember {
  WorkerId worker;
  std::string node;
  std::vector<std::int32_t> slots;
  bool joins = false;
  bool operator==(const TargetMember&) const = default;
};
/// The job shall run on these workers; a later revision replaces an earlier one.
struct TargetOrder {
  std::uint64_t revision = 0;  ///< from 1, for each incarnation
  std::vector<TargetMember> members;
  Duration within{};  ///< time to answer
  std::string reason;
  bool operator==(const TargetOrder&) const = default;
};
struct CheckpointOrder {
  Duration within{};
  bool operator==(const CheckpointOrder&) const = default;
};
/// Reports up to this number are on disk.
struct Acknowledged {
  std::uint64_t number = 0;
  bool operator==(const Acknowledged&) const = default;
};
using Order = std::variant<TargetOrder, CheckpointOrder, Acknowledged>;

struct Ready {
  bool operator==(const Ready&) const = default;
};
struct Switched {
  std::uint64_t revision = 0;
  std::uint64_t generation = 0;
  std::vector<WorkerId> members;
  bool operator==(const Switched&) const = default;
};
struct Drained {
  WorkerId worker;
  bool operator==(const Drained&) const = default;
};
struct Refused {
  std::uint64_t revision = 0;
  std::string why;
  bool operator==(const Refused&) const = default;
};
struct Progress {
  std::int64_t step = 0;     ///< optimizer steps committed
  std::int64_t samples = 0;  ///< consumed
  std::optional<double> loss;
  std::map<std::string, Duration> phases;  ///< of one step
  std::optional<double> noise_scale;
  std::string checkpoint;  ///< id of the latest; "" = none
  std::optional<Duration> checkpoint_age;
  bool operator==(const Progress&) const = default;
};
struct Load {
  double requests_per_second = 0;
  std::int64_t queue = 0;
  Duration p99{};
  bool operator==(const Load&) const = default;
};
/// Not said by the worker but by its agent: it is connected, and wants to hear its target again.
struct Connected {
  bool operator==(const Connected&) const = default;
};
using Report = std::variant<Ready, Switched, Drained, Refused, Progress, Load, Connected>;

/// What a worker said. `number` > 0: it is said again after a reconnection, until it is acknowledged.
struct WorkerReport {
  WorkerId worker;
  std::uint64_t number = 0;
  Report report;
  bool operator==(const WorkerReport&) const = default;
};
/// Whether it must not get lost: all but Progress, Load and Connected.
bool is_answer(const Report& report);

/// Frames, with their length in front.
std::string frame(const Hello& hello);
std::string frame(const Welcome& welcome);
std::string frame(const Order& order);
std::string frame(std::uint64_t number, const Report& report);

/// Messages without their length.
Result<std::variant<Welcome, Order>> decode_to_worker(std::string_view message);
Result<std::variant<Hello, WorkerReport>> decode_from_worker(std::string_view message);

/// Cuts a stream of bytes into messages.
class FrameReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole message; nullopt if more bytes are needed. Errors: invalid_argument for a length above the limit:
  /// the connection cannot be read on.
  Result<std::optional<std::string>> next();

 private:
  std::string bytes_;
};

}  // namespace ebb::wire
