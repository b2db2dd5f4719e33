// Elastic jobs, services and lending on the command line: bad input is refused with exit code 2 and a message that says
// what to do, odd but good input runs.

#include <gtest/gtest.h>

#include <filesystem>

#include "cli_fixture.h"

namespace ebb {
namespace {

class CliLending : public CliTest {
 protected:
  /// A services file with one service whose requests are `rates`.
  std::string services(const std::string& keys, const std::string& rates) const {
    folder_.write("rates.csv", "start_s,requests_per_s\n" + rates);
    return folder_.write("services.yaml",
                         "version: 1\nservices:\n  - {name: chat, service_time: 100ms, "
                         "target_latency: 1s, start_delay: 10s, requests: rates.csv" +
                             keys + "}\n");
  }
  void expect_bad_services(const std::string& path, const std::vector<std::string>& words) const {
    expect_refused({"sim", "run", "--trace", trace_, "--cluster", "2x4", "--services", path}, words);
  }
  void expect_bad_row(const std::string& header, const std::string& row, const std::vector<std::string>& words) const {
    const std::string path = folder_.write("bad.csv", "job,submit_s,run_s,gpus," + header + "\n" + row + "\n");
    std::vector<std::string> args = {"sim", "run", "--trace", path, "--cluster", cluster_};
    expect_refused(args, words);
  }

  const char* cluster_ = "2x4";
};

TEST_F(CliLending, FlagsThatMakeNoSense) {
  const auto expect_bad = [&](const std::vector<std::string>& more, const std::vector<std::string>& words) {
    std::vector<std::string> args = {"sim", "run", "--trace", trace_, "--cluster", "1x4"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, words);
  };
  expect_bad({"--lending", "foo"}, {"--lending", "'foo'", "none, pooled or partitioned"});
  expect_bad({"--lending", ""}, {"--lending", "empty"});
  expect_bad({"--time", "polled"}, {"--time polled", "--round"});
  expect_bad({"--resize-cost", "sometimes"}, {"--resize-cost", "'sometimes'", "restart"});
  expect_bad({"--set", "place_at_ticks=false"}, {"place_at_ticks=false", "--round"});
  expect_bad({"--set", "reclaim=gently"}, {"reclaim=gently", "least_loss, largest_sum, node, random, first_fit"});
  expect_bad({"--set", "keep_alive_base=-3s"}, {"keep_alive_base=-3s", "duration"});
  expect_bad({"--set", "keep_alive_factor=-1"}, {"keep_alive_factor=-1", "at least 0"});
  expect_bad({"--set", "measure_noise=9"}, {"measure_noise=9", "at most 2"});
  expect_bad({"--set", "interference=1"}, {"interference=1", "at most 0.95"});
}

TEST_F(CliLending, ProfilesThatAreMissingOrBroken) {
  const auto expect_bad = [&](const std::string& folder, const std::vector<std::string>& words) {
    expect_refused({"sim", "run", "--trace", trace_, "--cluster", "1x4", "--profiles", folder}, words);
  };
  expect_bad(folder_ / "none", {"--profiles", "none", "no such folder"});
  expect_bad(trace_, {"--profiles", trace_, "not a folder"});
  std::filesystem::create_directories(folder_ / "empty");
  expect_bad(folder_ / "empty", {"--profiles", "empty"});
  std::filesystem::create_directories(folder_ / "profiles");
  std::filesystem::copy(std::string(EBB_SOURCE_DIR) + "/testdata/pollux/profiles/ncf", folder_ / "profiles/ncf",
                        std::filesystem::copy_options::recursive);
  const std::string good = folder_.read("profiles/ncf/placements.csv");
  folder_.write("profiles/ncf/placements.csv", good + "1,32,fast,0\n");
  expect_bad(folder_ / "profiles", {"placements.csv", "fast"});
  folder_.write("profiles/ncf/placements.csv", good.substr(0, good.find('\n') + 1));
  expect_bad(folder_ / "profiles", {"placements.csv"});
}

TEST_F(CliLending, JobsThatNoProfileKnows) {
  expect_bad_row("application", "a,0,0,1,gpt", {"job 'a'", "application 'gpt'", "no run time", "--profiles"});
  expect_bad_row("application,batch_size", "a,0,0,1,cifar10,1000000", {"job 'a'", "1000000", "'cifar10'", "at most"});
  const std::string known =
      folder_.write("known.csv", "job,submit_s,run_s,gpus,application\na,0,60,1,gpt\nb,0,0,1,ncf\n");
  const auto json = run_json({"--trace", known, "--cluster", "1x4"});
  EXPECT_EQ(json["jobs_completed"], 2);
}

TEST_F(CliLending, SizesAndBatchesThatCannotBe) {
  expect_bad_row("sizing,min_gpus,max_gpus", "a,0,10,20,elastic,16,32", {"job 'a' needs", "the cluster has 8"});
  expect_bad_row("sizing,min_gpus,max_gpus", "a,0,10,2,elastic,3,8", {"bad.csv:2", "gpus 2 is none of the sizes"});
  expect_bad_row("sizing,min_gpus,max_gpus", "a,0,10,2,elastic,,8", {"bad.csv:2", "min_gpus is needed"});
  expect_bad_row("sizing,min_gpus,max_gpus", "a,0,10,2,elastic,4,2", {"bad.csv:2", "less than min_gpus"});
  expect_bad_row("sizing,min_gpus", "a,0,10,2,moldable,1", {"bad.csv:2", "max_gpus is needed"});
  expect_bad_row("sizing,min_gpus,max_gpus", "a,0,10,2,stretchy,1,2", {"bad.csv:2", "'sizing'", "stretchy"});
  expect_bad_row("kind", "a,0,10,1,inference", {"bad.csv:2", "application is needed"});
  expect_bad_row("kind", "a,0,10,1,thinking", {"bad.csv:2", "'kind'", "thinking"});
  const std::string batch = "batch_initial,batch_largest,batch_local_min,batch_local_max";
  expect_bad_row(batch, "a,0,10,4,10,30,8,10", {"bad.csv:2", "no number of GPUs fits"});
  expect_bad_row(batch, "a,0,10,4,10,5,1,10", {"bad.csv:2", "batch_largest 5 is less than batch_initial 10"});
  expect_bad_row(batch, "a,0,10,4,10,,,", {"bad.csv:2", "given together"});
  expect_bad_row(batch + ",batch_size", "a,0,10,4,10,60,8,10,70", {"bad.csv:2", "batch_size 70 is more than"});
  cluster_ = "64x8";
  expect_bad_row("sizing,min_gpus,application", "a,0,10,200,elastic,200,bert", {"'a'", "no number of GPUs fits"});
}

TEST_F(CliLending, SkipImpossibleKnowsElasticJobs) {
  const std::string trace = folder_.write(
      "sizes.csv",
      "job,submit_s,run_s,gpus,sizing,min_gpus,max_gpus\na,0,100,16,elastic,2,16\nb,0,10,16,elastic,12,16\n");
  const auto json = run_json({"--trace", trace, "--cluster", "2x4", "--skip-impossible"});
  EXPECT_EQ(json["jobs_completed"], 1);
  EXPECT_EQ(json["training"]["avg_jct_s"], 200.0);  // on 8 of the 16 GPUs that it asked for
}

TEST_F(CliLending, ServicesFiles) {
  expect_bad_services(folder_ / "none.yaml", {"none.yaml", "No such file"});
  expect_bad_services(services("", "0,-1\n"), {"rates.csv:2", "'requests_per_s'", "'-1' is outside 0 to"});
  expect_bad_services(services("", "0,many\n"), {"rates.csv:2", "'many' is not a number"});
  expect_bad_services(services("", "5,1\n5,2\n"), {"rates.csv:3", "'5' is not after 5"});
  expect_bad_services(services("", ""), {"rates.csv", "no request rates"});
  expect_bad_services(services(", gpus: 0", "0,1\n"), {"services.yaml", "'gpus'"});
  expect_bad_services(services(", percentile: 0.99", "0,1\n"), {"services.yaml", "'percentile'", "99"});
  expect_bad_services(services(", colour: red", "0,1\n"), {"services.yaml", "colour"});
  expect_bad_services(services(", gpus: 5", "0,1\n"),
                      {"service 'chat'", "5 GPUs on one node", "the largest node that serves has 4"});
  const std::string slow =
      folder_.write("slow.yaml",
                    "version: 1\nservices:\n  - {name: chat, service_time: 2s, target_latency: 1s, "
                    "start_delay: 10s, requests: rates.csv}\n");
  expect_bad_services(slow, {"slow.yaml", "'target_latency'", "no number of replicas"});
}

TEST_F(CliLending, TasksLargerThanAnyNode) {
  expect_bad_row("kind,application", "a,0,10,5,inference,chat", {"inference task 'a'", "5 GPUs on one node"});
}

TEST_F(CliLending, AServiceWithoutTrafficIsInTarget) {
  for (const char* lending : {"none", "pooled", "partitioned"}) {
    const auto json = run_json(
        {"--trace", trace_, "--cluster", "2x4", "--services", services("", "0,0\n100,0\n"), "--lending", lending});
    EXPECT_EQ(json["jobs_completed"], 3);
    EXPECT_EQ(json["inference"]["in_target_share"], 1.0);
    EXPECT_EQ(json["inference"]["requests"], 0.0);
    EXPECT_EQ(json["gpu_seconds_by_state"]["serving"], 0.0);
    EXPECT_THAT(json["warnings"].dump(), Not(HasSubstr("service")));
  }
}

// 4 GPUs may serve; 60 requests a second of 0.1 s need more than 6 replicas from 100 s to 200 s.
TEST_F(CliLending, DemandAboveCapacityIsSaid) {
  const auto json =
      run_json({"--trace", trace_, "--cluster", "2x4", "--services", services("", "0,1\n100,60\n200,1\n300,0\n")});
  EXPECT_EQ(json["jobs_completed"], 3);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("inference needed more than the GPUs that may serve for 100 s"));
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("where there were 4; 0 tasks waited meanwhile"));
  EXPECT_LT(json["inference"]["in_target_share"].get<double>(), 0.1);
}

TEST_F(CliLending, TasksThatAreNeverServedAreSaid) {
  const std::string trace = folder_.write(
      "tasks.csv", "job,submit_s,run_s,gpus,kind,application\na,10,10,1,inference,other\nb,10,10,1,training,\n");
  const auto json = run_json({"--trace", trace, "--cluster", "2x1", "--services", services("", "0,1\n1000,1\n")});
  EXPECT_EQ(json["jobs_completed"], 1);
  EXPECT_EQ(json["inference"]["count"], 0);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("1 of 2 jobs are inference tasks that were never served"));
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("up to 2 GPUs where there were 1; 1 tasks waited meanwhile"));
  EXPECT_THAT(json["warnings"].dump(), Not(HasSubstr("did not complete")));
}

TEST_F(CliLending, TasksOfNoLengthAreServed) {
  const std::string trace = folder_.write(
      "short.csv", "job,submit_s,run_s,gpus,kind,application\na,0,0,1,inference,x\nb,0,0,1,inference,x\n");
  const auto json = run_json({"--trace", trace, "--cluster", "2x4"});
  EXPECT_EQ(json["inference"]["count"], 2);
  EXPECT_EQ(json["training"]["count"], 0);
}

}  // namespace
}  // namespace ebb
