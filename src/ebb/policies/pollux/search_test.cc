#include "ebb/policies/pollux/search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "ebb/base/random.h"
#include "ebb/policies/pollux/search_text.h"

namespace ebb::policies::pollux {
namespace {

Problem cluster(std::size_t nodes, GpuCount gpus) {
  Problem problem;
  for (NodeId n = 0; n < nodes; ++n) problem.nodes.push_back({n, gpus, 0, false});
  problem.scale = 1.0 / gpus;
  problem.population = 20;
  problem.generations = 30;
  return problem;
}

// An elastic job whose speed-up is its GPUs; on several nodes `spread` of that.
SearchJob elastic(JobId id, GpuCount largest, double spread = 1) {
  SearchJob job;
  job.id = id;
  job.largest = largest;
  job.options = {1};
  job.speed = {{1, 1, spread}, {64, 64, 64 * spread}};
  return job;
}

SearchJob gang(JobId id, GpuCount gpus) {
  SearchJob job = elastic(id, gpus);
  job.smallest = gpus;
  return job;
}

GpuCount gpus_of(const Problem& problem, std::size_t job) {
  return gpus_in(search(problem).genomes.at(0).at(job));
}

Allocation random_row(Random& random, const Problem& problem, GpuCount most) {
  Allocation row;
  for (NodeId n = 0; n < problem.nodes.size(); ++n) {
    if (random.below(3) == 0)
      row.push_back({n, 1 + static_cast<GpuCount>(random.below(static_cast<std::uint64_t>(most)))});
  }
  return row;
}

Problem random_problem(std::uint64_t seed) {
  Random random(seed, "problem");
  const auto below = [&](int n) { return static_cast<GpuCount>(random.below(static_cast<std::uint64_t>(n))); };
  Problem problem;
  problem.seed = seed;
  problem.population = static_cast<std::uint32_t>(2 + below(8));
  problem.generations = static_cast<std::uint32_t>(below(12));
  problem.fairness = below(4) - 2;
  problem.avoid_interference = below(3) != 0;
  const int nodes = 1 + below(8);
  for (int n = 0; n < nodes; ++n) {
    problem.nodes.push_back(
        {static_cast<NodeId>(3 * n), 1 + below(8), static_cast<sched::GroupId>(below(3)), below(9) == 0});
  }
  std::vector<GpuCount> left;
  std::vector<bool> crowded;
  for (const SearchNode& node : problem.nodes) {
    left.push_back(node.gpus);
    crowded.push_back(node.taken);
  }
  const int jobs = 1 + below(12);
  for (int j = 0; j < jobs; ++j) {
    SearchJob job = elastic(static_cast<JobId>(5 * j), 1, random.uniform());
    job.smallest = 1 + below(4);
    job.step = 1 + below(3);
    job.largest = job.smallest + below(5) * job.step;
    job.max_nodes = static_cast<std::uint32_t>(1 + below(4));
    job.factor = random.uniform();
    job.options = below(2) == 0 ? std::vector<sched::GroupMask>{1, 6} : std::vector<sched::GroupMask>{7};
    if (below(2) == 0) {
      // It runs on the first node that has room.
      for (NodeId n = 0; n < problem.nodes.size() && job.present.empty(); ++n) {
        if (left[n] < job.smallest) continue;
        job.present = {{n, job.smallest}};
        left[n] -= job.smallest;
      }
      job.fixed = !job.present.empty() && below(2) == 0;
    }
    problem.jobs.push_back(std::move(job));
  }
  for (int g = below(4); g > 0; --g) {
    Genome& genome = problem.inheritance.emplace_back();
    for (int j = 0; j < jobs; ++j) genome.push_back(random_row(random, problem, 9));
  }
  return problem;
}

// The invariants of a genome: what is broken, or nothing.
std::string broken(const Problem& problem, const Genome& genome) {
  std::vector<GpuCount> used(problem.nodes.size());
  std::vector<int> spanning(problem.nodes.size());
  for (std::size_t n = 0; n < problem.nodes.size(); ++n) spanning[n] = problem.nodes[n].taken ? 1 : 0;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const SearchJob& job = problem.jobs[j];
    sched::GroupMask groups = 0;
    std::set<NodeId> nodes;
    for (const NodeShare& share : genome[j]) {
      used[share.node] += share.gpus;
      spanning[share.node] += genome[j].size() > 1 ? 1 : 0;
      groups |= sched::GroupMask{1} << problem.nodes[share.node].group;
      if (share.gpus < 1 || !nodes.insert(share.node).second) return "share";
    }
    const GpuCount gpus = gpus_in(genome[j]);
    if (gpus == 0 || genome[j] == job.present) continue;
    if (job.fixed) return "fixed";
    if (gpus < job.smallest || gpus > job.largest || (gpus - job.smallest) % job.step != 0) return "size";
    if (nodes.size() > job.max_nodes) return "nodes of a job";
    if (std::none_of(job.options.begin(), job.options.end(), [&](auto option) { return (groups & ~option) == 0; })) {
      return "option";
    }
  }
  for (std::size_t n = 0; n < problem.nodes.size(); ++n) {
    if (used[n] > problem.nodes[n].gpus) return "capacity";
    if (problem.avoid_interference && spanning[n] > 1) return "interference";
  }
  return "";
}

RC_GTEST_PROP(PolluxSearch, WhatItFindsIsLegalAndNotWorseThanThePresent, ()) {
  const Problem problem = random_problem(*rc::gen::arbitrary<std::uint64_t>());
  const Found found = search(problem);
  RC_ASSERT(!found.genomes.empty());
  for (const Genome& genome : found.genomes) RC_ASSERT(broken(problem, genome) == "");
  Genome present;
  for (const SearchJob& job : problem.jobs) present.push_back(job.present);
  if (broken(problem, present).empty()) {
    RC_ASSERT(objective(problem, found.genomes[0]) >= objective(problem, present) * (1 - 1e-9));
  }
  for (const Genome& genome : found.genomes) {
    RC_ASSERT(objective(problem, found.genomes[0]) >= objective(problem, genome) * (1 - 1e-9));
  }
}

RC_GTEST_PROP(PolluxSearch, TheTextOfAProblemGivesTheSameAnswer, ()) {
  Problem problem = random_problem(*rc::gen::arbitrary<std::uint64_t>());
  const std::string inheritance = write_answer(problem, problem.inheritance);
  const std::string text = write_problem(problem, inheritance);
  const auto read = read_problem(text);
  RC_ASSERT(read.has_value());
  RC_ASSERT(read->inheritance == problem.inheritance);
  RC_ASSERT(write_problem(*read, inheritance) == text);
  RC_ASSERT(write_answer(*read, search(*read).genomes) == write_answer(*read, search(*read).genomes));
}

TEST(PolluxSearch, ASingleJobGetsAllThatItCanUse) {
  Problem problem = cluster(4, 4);
  problem.jobs = {elastic(0, 16)};
  EXPECT_EQ(gpus_of(problem, 0), 16);
  problem.jobs = {elastic(0, 6)};
  EXPECT_EQ(gpus_of(problem, 0), 6);
}

TEST(PolluxSearch, AJobThatIsSlowOnSeveralNodesStaysOnOne) {
  Problem problem = cluster(4, 4);
  problem.jobs = {elastic(0, 8, 0.4)};
  const Genome best = search(problem).genomes[0];
  ASSERT_EQ(best[0].size(), 1U);
  EXPECT_EQ(best[0][0].gpus, 4);
}

TEST(PolluxSearch, TheExponentSaysHowFair) {
  Problem problem = cluster(1, 8);
  problem.jobs = {elastic(0, 8), elastic(1, 8)};
  problem.jobs[1].speed = {{1, 0.5, 0.5}, {64, 32, 32}};
  problem.fairness = 1;
  EXPECT_EQ(gpus_of(problem, 0), 8);  // the sum is largest if the fast one has all
  problem.fairness = -1;
  // 1 / (g / 8) + 1 / ((8 - g) / 16) is least at g = 8 / (1 + sqrt 2) = 3.3
  EXPECT_EQ(gpus_of(problem, 0), 3);
  EXPECT_EQ(gpus_of(problem, 1), 5);
  problem.fairness = 0;
  EXPECT_EQ(gpus_of(problem, 0), 4);
}

TEST(PolluxSearch, AWeightDecidesWhoHasTheOnlyGpu) {
  for (const std::size_t heavy : {0, 1}) {
    Problem problem = cluster(1, 1);
    problem.jobs = {elastic(0, 1), elastic(1, 1)};
    problem.jobs[heavy].weight = 100;
    EXPECT_EQ(gpus_of(problem, heavy), 1) << heavy;
  }
}

TEST(PolluxSearch, AChangeMustBeWorthItsFactor) {
  Problem problem = cluster(1, 8);
  problem.jobs = {elastic(0, 8)};
  problem.jobs[0].present = {{0, 4}};
  problem.jobs[0].factor = 0.45;  // of 8 GPUs is less than 4
  EXPECT_EQ(gpus_of(problem, 0), 4);
  problem.jobs[0].factor = 0.55;
  EXPECT_EQ(gpus_of(problem, 0), 8);
}

TEST(PolluxSearch, AGangGetsRoomOrNothing) {
  Problem problem = cluster(4, 4);
  problem.jobs = {elastic(0, 16), gang(1, 8)};
  problem.jobs[0].present = {{0, 4}, {1, 4}, {2, 4}, {3, 4}};
  const Genome best = search(problem).genomes[0];
  EXPECT_EQ(gpus_in(best[0]), 8);
  EXPECT_EQ(gpus_in(best[1]), 8);
  problem.jobs[1] = gang(1, 17);
  EXPECT_EQ(gpus_of(problem, 1), 0);
}

TEST(PolluxSearch, InterferenceIsAvoidedUnlessAllowed) {
  Problem problem = cluster(2, 4);
  problem.jobs = {gang(0, 5), gang(1, 3)};
  problem.nodes[0].taken = true;
  EXPECT_EQ(gpus_of(problem, 0), 0);
  EXPECT_EQ(gpus_of(problem, 1), 3);
  problem.avoid_interference = false;
  EXPECT_EQ(gpus_of(problem, 0) + gpus_of(problem, 1), 8);
}

TEST(PolluxSearch, AFixedJobKeepsWhatItHas) {
  Problem problem = cluster(2, 4);
  problem.jobs = {gang(0, 4), elastic(1, 8)};
  problem.jobs[0].fixed = true;
  problem.jobs[0].present = {{1, 4}};
  problem.jobs[0].factor = 0;
  const Genome best = search(problem).genomes[0];
  EXPECT_EQ(best[0], (Allocation{{1, 4}}));
  EXPECT_EQ(best[1], (Allocation{{0, 4}}));
}

TEST(PolluxSearch, NobodyLeavesGpusIdleBecauseItIsNew) {
  Problem problem = cluster(1, 2);
  problem.jobs = {elastic(0, 2)};
  problem.jobs[0].factor = 0;
  EXPECT_EQ(gpus_of(problem, 0), 2);
}

TEST(PolluxText, AnythingElseIsNoProblem) {
  Problem problem = cluster(1, 2);
  problem.jobs = {elastic(0, 2)};
  const std::string good = write_problem(problem, "");
  ASSERT_TRUE(read_problem(good));
  for (const std::string& bad : {std::string(), std::string("search"), "x" + good, good + "x\n", good + "genome 0=0\n",
                                 good + "genome 0=0:-1\n", good.substr(0, 20), good + "node 1 x 0 0\n"}) {
    EXPECT_FALSE(read_problem(bad)) << bad;
  }
  EXPECT_FALSE(read_choice(""));
  EXPECT_FALSE(read_choice("genome 0=0:"));
}

TEST(PolluxText, JobsAndNodesThatAreGoneAreLeftOut) {
  Problem problem = cluster(2, 4);
  problem.jobs = {elastic(7, 8)};
  const auto read = read_problem(write_problem(problem, "genome 7=0:1,9:3 8=1:2\ngenome 7=\n"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->inheritance, (std::vector<Genome>{{{{0, 1}}}, {{}}}));
}

}  // namespace
}  // namespace ebb::policies::pollux
