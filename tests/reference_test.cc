// The published reference runs of the Tiresias simulator: every job's end time, to the second.

#include <gtest/gtest.h>

#include <map>

#include "ebb/base/files.h"
#include "ebb/policies/all.h"
#include "ebb/sched/state.h"
#include "ebb/sim/scenario_options.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/scenario.h"
#include "ebb/trace/workload.h"

namespace ebb {
namespace {

struct ReferenceRun {
  const char* jobs;
  const char* cluster;
  const char* expected;
  const char* preset;
};

// How GoogleTest names a run.
void PrintTo(const ReferenceRun& run, std::ostream* out) {
  *out << run.expected;
}

struct Expected {
  std::string start;
  std::string end;
  std::string pending;
  int preempted = 0;
};

std::map<std::string, Expected> read_expected(const std::string& path) {
  std::map<std::string, Expected> expected;
  auto reader = LineReader::open(path).value();
  std::string_view line;
  reader.next(line).value();  // job_id,start_time,end_time,jct,pending_time,preempt,resume,promote
  while (reader.next(line).value()) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    expected[fields.at(0)] = {fields.at(1), fields.at(2), fields.at(4), std::stoi(fields.at(5))};
  }
  return expected;
}

class Reference : public ::testing::TestWithParam<ReferenceRun> {};

TEST_P(Reference, EveryJobEndsAtTheSameSecond) {
  const ReferenceRun& run = GetParam();
  const std::string folder = fmt::format("{}/testdata/tiresias/", EBB_SOURCE_DIR);
  const auto workload = trace::read_workload(folder + run.jobs, {}).value().workload;
  const auto expected = read_expected(folder + "expected/" + run.expected);
  const auto preset =
      spec::read_scenario(fmt::format("{}/scenarios/reference/{}.yaml", EBB_SOURCE_DIR, run.preset)).value();
  sim::SimOptions options = sim::options_of(preset).value();
  options.check_invariants = true;
  const auto result = sim::simulate(spec::parse_cluster(run.cluster).value(), workload, options, policies::all());
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->jobs.size(), expected.size());
  std::uint64_t preemptions = 0;
  for (const sim::JobRecord& job : result->jobs) {
    const Expected& want = expected.at(job.name);
    ASSERT_TRUE(job.end) << job.name;
    ASSERT_EQ(format_seconds(*job.end), want.end) << "job " << job.name;
    ASSERT_EQ(format_seconds(*job.start), want.start) << "job " << job.name;
    ASSERT_EQ(format_seconds(job.pending), want.pending) << "job " << job.name;
    preemptions += static_cast<std::uint64_t>(want.preempted);
  }
  EXPECT_EQ(result->summary.preemptions, preemptions);
}

INSTANTIATE_TEST_SUITE_P(
    Tiresias, Reference,
    ::testing::Values(
        ReferenceRun{"philly_2017-10_first1000.csv", "32x8", "first1000_32x8_fifo.csv", "tiresias-fifo"},
        ReferenceRun{"philly_2017-10_first1000.csv", "32x8", "first1000_32x8_dlas-gpu.csv", "tiresias-las"},
        ReferenceRun{"philly_2017-10_first1000.csv", "32x8", "first1000_32x8_dlas-gpu-promote1.csv",
                     "tiresias-las-promote"},
        ReferenceRun{"philly_2017-10_first1000.csv", "32x8", "first1000_32x8_srtf.csv", "tiresias-srtf"},
        ReferenceRun{"philly_2017-10_first1000.csv", "32x8", "first1000_32x8_srsf.csv", "tiresias-srsf"},
        ReferenceRun{"philly_2017-10_first2000.csv", "32x8", "first2000_32x8_dlas-gpu.csv", "tiresias-las"},
        ReferenceRun{"philly_2017-10_first5000.csv", "80x8", "first5000_80x8_dlas-gpu.csv", "tiresias-las"}),
    [](const auto& test) {
      std::string name = test.param.expected;
      name.resize(name.size() - 4);
      std::replace_if(
          name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace ebb
