#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kPollux = "name,time,application,num_replicas,batch_size\n";
const std::string kPureTrain = "name,time,application,num_replicas,batch_size,duration\n";
const std::string kDeepBoot = "name,time,application,num_replicas,batch_size,duration,num_task\n";

ReadResult read(const std::string& text, ReadOptions options = {}) {
  auto result = read_workload_text("t.csv", text, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : ReadResult();
}

std::string error_of(const std::string& text, ReadOptions options = {}) {
  const auto result = read_workload_text("t.csv", text, options);
  return result ? "no error" : result.error().message;
}

JobSpec training(std::string name, int submit_s, std::string application, GpuCount gpus, BatchSize batch_size) {
  JobSpec job;
  job.name = std::move(name);
  job.submit = Time(seconds(submit_s));
  job.application = std::move(application);
  job.gpus = gpus;
  job.sizing = Sizing::elastic;
  job.min_gpus = 1;
  job.batch_size = batch_size;
  return job;
}

JobSpec task(std::string name, int submit_s, std::string application, int run_s) {
  JobSpec job;
  job.name = std::move(name);
  job.kind = JobKind::inference;
  job.submit = Time(seconds(submit_s));
  job.application = std::move(application);
  job.gpus = 1;
  job.run_time = seconds(run_s);
  return job;
}

TEST(Pollux, ReadsElasticTrainingJobs) {
  const ReadResult result = read(kPollux + "cifar10-0,107,cifar10,6,2048\nncf-2,135,ncf,1,32768\n");
  EXPECT_EQ(result.report.format, Format::pollux);
  EXPECT_THAT(result.workload.jobs,
              ElementsAre(training("cifar10-0", 107, "cifar10", 6, 2048), training("ncf-2", 135, "ncf", 1, 32768)));
  EXPECT_THAT(result.workload.warnings,
              ElementsAre("2 training jobs have no run time: it follows from the application's profile"));
  EXPECT_EQ(result.workload.time_zero, "");
}

TEST(DeepBoot, ReadsTrainingJobsAndTasks) {
  const ReadResult result =
      read(kDeepBoot + "inference-ncf-2,33,infer-ncf-1,1,1,2.0,3271\ncifar10-0,107,cifar10,6,2048,4.0,-1\n");
  EXPECT_EQ(result.report.format, Format::deepboot);
  EXPECT_THAT(result.workload.jobs, ElementsAre(task("inference-ncf-2", 33, "infer-ncf-1", 2),
                                                training("cifar10-0", 107, "cifar10", 6, 2048)));
  EXPECT_THAT(result.workload.warnings, ElementsAre(HasSubstr("1 training job has no run time")));
}

TEST(DeepBoot, IsToldFromPolluxByItsHeader) {
  const ReadResult pure = read(kPureTrain + "cifar10-0,107,cifar10,6,2048,-1.0\n");
  EXPECT_EQ(pure.report.format, Format::deepboot);
  EXPECT_THAT(pure.workload.jobs, ElementsAre(training("cifar10-0", 107, "cifar10", 6, 2048)));
  // A duration that is misspelt is missing, and not a reason to take tasks for training jobs.
  EXPECT_THAT(error_of("name,time,application,num_replicas,batch_size,duraton,num_task\na,1,infer-b-1,1,1,4,5\n"),
              StartsWith("t.csv:1: the header lacks: duration"));
  EXPECT_THAT(
      error_of(kPollux + "a,1,infer-b-1,1,1\n"),
      AllOf(StartsWith("t.csv:2: column 'application': 'infer-b-1' is an inference task"), HasSubstr("deepboot")));
  ReadOptions given;
  given.format = Format::pollux;
  EXPECT_THAT(error_of(kDeepBoot + "a,1,infer-b-1,1,1,4,5\n", given), HasSubstr("is an inference task"));
}

TEST(DeepBoot, AllowsTasksOfNoLength) {
  const ReadResult result = read(kPureTrain + "a,1,infer-b-1,1,1,0\n");
  EXPECT_THAT(result.workload.jobs, ElementsAre(task("a", 1, "infer-b-1", 0)));
  EXPECT_THAT(result.workload.warnings, IsEmpty());
}

TEST(DeepBoot, RefusesBadRows) {
  EXPECT_THAT(error_of(kDeepBoot + "a,1,infer-b-1,1,1,-1,5\n"),
              StartsWith("t.csv:2: column 'duration': '-1' is negative"));
  EXPECT_THAT(error_of(kDeepBoot + "a,1,infer-b-1,0,1,1,5\n"),
              StartsWith("t.csv:2: column 'num_replicas': '0' is outside 1 to"));
  EXPECT_THAT(error_of(kDeepBoot + "a,1,bert,1,0,4,-1\n"), StartsWith("t.csv:2: column 'batch_size': '0' is outside"));
  EXPECT_THAT(error_of(kPollux + "a,1,,1,1\n"), StartsWith("t.csv:2: column 'application' is empty"));
  EXPECT_THAT(error_of(kPollux + "a,x,bert,1,1\n"), StartsWith("t.csv:2: column 'time': 'x' is not a number"));
  EXPECT_THAT(error_of(kPollux + "a,1,bert,1,1\na,2,bert,1,1\n"), HasSubstr("job 'a' appears a second time"));
  ReadOptions skipping;
  skipping.skip_bad_rows = true;
  const ReadResult some = read(kDeepBoot + "a,1,infer-b-1,1,1,-1,5\nb,1,bert,1,8,4,-1\n", skipping);
  EXPECT_EQ(some.report.rows_skipped, 1u);
}

TEST(Pollux, ConvertsToEbbFormatsAndBack) {
  const Workload workload =
      read(kDeepBoot + "t,33.25,infer-ncf-1,1,1,2.5,3271\ncifar10-0,107,cifar10,6,2048,4.0,-1\n").workload;
  for (const Format format : {Format::ebb_csv, Format::ebb_jsonl}) {
    const ReadResult back = read(write_workload_text(workload, format).value());
    EXPECT_EQ(back.report.format, format);
    EXPECT_EQ(back.workload.jobs, workload.jobs);
  }
}

// Sizes of ebb's own formats that do not go together.
TEST(EbbCsv, RefusesSizesThatDoNotGoTogether) {
  const auto error = [](const std::string& columns, const std::string& values) {
    return error_of("job,submit_s,run_s,gpus," + columns + "\na,0,1,4," + values + "\n");
  };
  EXPECT_EQ(error("sizing,min_gpus,max_gpus,gpu_step", "moldable,2,8,2"), "no error");
  EXPECT_EQ(error("sizing,min_gpus,application", "elastic,1,bert"), "no error");
  EXPECT_EQ(error("kind,application", "inference,bert"), "no error");
  EXPECT_EQ(error("kind,sizing,gpu_step,batch_size", ",rigid,1, "), "no error");
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"sizing,min_gpus", "elastic,1"}, "max_gpus is needed where no application is given"},
      {{"sizing,max_gpus", "elastic,8"}, "min_gpus is needed where sizing is elastic"},
      {{"sizing,min_gpus,max_gpus", "elastic,5,3"}, "max_gpus 3 is less than min_gpus 5"},
      {{"sizing,min_gpus,max_gpus,gpu_step", "elastic,2,7,2"}, "max_gpus 7 is not min_gpus 2 and a multiple"},
      {{"sizing,min_gpus,max_gpus,gpu_step", "elastic,1,7,2"}, "gpus 4 is none of the sizes 1, 1 + 2, ... up to 7"},
      {{"sizing,min_gpus,max_gpus", "elastic,1,3"}, "gpus 4 is none of the sizes 1, 1 + 1, ... up to 3"},
      {{"sizing,min_gpus,gpu_step", "elastic,1,0"}, "column 'gpu_step': '0' is outside 1 to"},
      {{"min_gpus", "1"}, "min_gpus, max_gpus and gpu_step need the sizing moldable or elastic"},
      {{"sizing", "huge"}, "column 'sizing': 'huge' is none of rigid, moldable, elastic"},
      {{"kind", "batch"}, "column 'kind': 'batch' is neither training nor inference"},
      {{"kind", "inference"}, "application is needed where kind is inference"},
      {{"kind,application,sizing,min_gpus", "inference,b,elastic,1"}, "sizing is rigid where kind is inference"},
      {{"batch_initial", "4"}, "batch_initial, batch_largest, batch_local_min and batch_local_max are given together"},
      {{"batch_initial,batch_largest,batch_local_min,batch_local_max", "4,3,1,1"}, "batch_largest 3 is less than"},
      {{"batch_initial,batch_largest,batch_local_min,batch_local_max", "4,4,2,1"}, "batch_local_max 1 is less than"},
  };
  for (const auto& [row, message] : cases) {
    EXPECT_THAT(error(row.first, row.second), AllOf(StartsWith("t.csv:2: "), HasSubstr(message))) << row.first;
  }
}

TEST(EbbJsonl, ReadsAndRefusesSizesAsEbbCsvDoes) {
  const auto with = [](const std::string& more) {
    return R"({"job":"a","submit_s":0,"run_s":1,"gpus":4,)" + more + "}\n";
  };
  const Workload workload = read(with(R"("sizing":"elastic","min_gpus":1,"max_gpus":null,"application":7)")).workload;
  EXPECT_EQ(workload.jobs[0].sizing, Sizing::elastic);
  EXPECT_EQ(workload.jobs[0].application, "7");
  EXPECT_THAT(error_of(with(R"("sizing":"elastic")")), StartsWith("t.csv:1: min_gpus is needed"));
  EXPECT_THAT(error_of(with(R"("sizing":"huge")")), StartsWith("t.csv:1: key 'sizing': 'huge' is none of"));
  EXPECT_THAT(error_of(with(R"("batch_size":"7")")), StartsWith("t.csv:1: key 'batch_size': '7' is not a number"));
  EXPECT_THAT(error_of(with(R"("batch_size":1,"batch_size":2)")), HasSubstr("key 'batch_size' appears twice"));
}

}  // namespace
}  // namespace ebb::trace
