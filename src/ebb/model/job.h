#pragma once

/// A job as its owner describes it: a training job of fixed, moldable or elastic size, or a single inference task.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/model/cluster.h"
#include "ebb/model/training.h"

namespace ebb {

/// Number of a job in order of submission, from 0; never reused.
using JobId = std::uint32_t;

/// Priorities are within +-kMaxPriority.
inline constexpr int kMaxPriority = 1'000'000;

enum class JobKind : std::uint8_t {
  training,
  inference,  ///< a task that holds one replica of the service `application` for `run_time`
};

/// Which numbers of GPUs a training job can run on.
enum class Sizing : std::uint8_t {
  rigid,     ///< `gpus`, all or none
  moldable,  ///< any legal size at each start, none other while it runs
  elastic,   ///< any legal size at any time
};
const char* to_string(Sizing sizing);

/// What is asked for when a job is submitted.
struct JobSpec {
  std::string name;    ///< the owner's name of it; unique within a trace
  std::string tenant;  ///< who pays; "" = nobody in particular
  JobKind kind = JobKind::training;
  GpuCount gpus = 0;  ///< asked for, at least 1; the gang size of a rigid job
  Sizing sizing = Sizing::rigid;
  GpuCount min_gpus = 0;  ///< moldable and elastic: legal sizes are min, min + step, ... up to max
  GpuCount max_gpus = 0;
  GpuCount gpu_step = 1;
  Time submit{};                           ///< submission
  int priority = 0;                        ///< higher first under every policy (drf: within the tenant)
  std::string gpu_type;                    ///< run only on this type; "" = any (a gang never mixes types)
  std::string pool;                        ///< run only in this pool; "" = see ebb::sched::Capacity
  std::optional<Duration> requested_time;  ///< what the owner asked for (a time limit), if known
  Duration run_time{};                     ///< true run time on `gpus`: known in a simulation only ("oracle")
  std::string application;   ///< what it trains (a profile of perf), or the service of a task; "" = unknown
  BatchSize batch_size = 0;  ///< global batch asked for; 0 = not said
  BatchLimits batch;         ///< batch sizes that it may be changed to

  /// The global batch size asked for, or else the application's own.
  BatchSize batch_asked() const { return batch_size > 0 ? batch_size : batch.initial; }
  GpuCount smallest() const { return sizing == Sizing::rigid ? gpus : min_gpus; }
  GpuCount largest() const { return sizing == Sizing::rigid ? gpus : max_gpus; }
  /// The largest legal size that is at most `n`; 0 if there is none.
  GpuCount legal_size(GpuCount n) const;

  bool operator==(const JobSpec&) const = default;
};

/// GPUs held on one node.
struct NodeShare {
  NodeId node = 0;
  GpuCount gpus = 0;

  bool operator==(const NodeShare&) const = default;
};

/// The GPUs of a job, one entry a node. Rigid placements list nodes in order; elastic ones may list them in the order
/// in which ranks are assigned, which some time models tell apart.
using Allocation = std::vector<NodeShare>;

/// Sum over the nodes.
GpuCount gpus_in(const Allocation& allocation);

}  // namespace ebb
