#pragma once

/// Pollux's search: which GPUs every job shall have, by a genetic search that maximises the power mean of the jobs'
/// speed-ups. A pure function of a Problem; search_text.h writes problems and answers as text.
///
/// A genome holds one row a job: the few (node, GPUs) that it has. Rows are never changed, only replaced, and shared by
/// genomes. A row's value is looked up when it is made, so a genome costs a sum and one pass over its rows, which
/// checks the nodes and cuts what does not fit (repair):
///   1. parents by tournament, one-point crossover over the jobs
///   2. mutation: a few rows go back to the present, a few lose GPUs; one job is raised to a random size on nodes
///      where the others then make room
///   3. repair: the raised job first, then jobs in order; a row keeps what its nodes have left, cut to a legal size; at
///      most one job of several nodes on a node (avoid_interference)
///   4. free GPUs are offered to random jobs; of each few the one that gains most takes them
///   5. the best of parents and children live on
///
/// Source: Qiao et al., OSDI 2021, section 4.3, and what its artifact adds.

#include <cstdint>
#include <vector>

#include "ebb/sched/plan.h"

namespace ebb::policies::pollux {

struct SearchNode {
  NodeId id = 0;
  GpuCount gpus = 0;  ///< what may be planned
  sched::GroupId group = 0;
  bool taken = false;  ///< a job of several nodes that is not planned is on it
};

/// Speed-ups on one node and on several, at some sizes; between them it is linear.
struct SpeedPoint {
  GpuCount gpus = 0;
  double one_node = 0;
  double several = 0;
};

struct SearchJob {
  JobId id = 0;
  GpuCount smallest = 1;  ///< legal sizes: smallest, smallest + step, ... up to largest
  GpuCount step = 1;
  GpuCount largest = 1;
  bool fixed = false;  ///< keeps `present` or loses all of it
  std::uint32_t max_nodes = 16;
  double weight = 1;
  double factor = 1;                      ///< of the speed-up, if the job's GPUs change
  std::vector<sched::GroupMask> options;  ///< of which it may use one
  std::vector<SpeedPoint> speed;          ///< rising sizes
  Allocation present;
};

/// One row a job; nodes are indices into Problem::nodes.
using Genome = std::vector<Allocation>;

struct Problem {
  std::uint64_t plan = 0;
  std::uint64_t seed = 1;
  double fairness = -1;  ///< exponent of the mean
  double scale = 1;      ///< of speed-ups
  std::uint32_t population = 1;
  std::uint32_t generations = 1;
  bool avoid_interference = true;
  std::vector<SearchNode> nodes;
  std::vector<SearchJob> jobs;      ///< an earlier one wins where two want the same
  std::vector<Genome> inheritance;  ///< good genomes of the search before; rows need not be legal any more
};

struct Found {
  std::vector<Genome> genomes;  ///< the best first, all of them legal
  std::uint64_t evaluations = 0;
};

Found search(const Problem& problem);

/// The power mean that search() maximises. Rows are taken as they are.
double objective(const Problem& problem, const Genome& genome);

}  // namespace ebb::policies::pollux
