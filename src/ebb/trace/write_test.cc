#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <filesystem>

#include "ebb/trace/transform.h"
#include "ebb/trace/workload.h"

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

JobSpec job(std::string name, GpuCount gpus, Duration submit, Duration run_time) {
  JobSpec spec;
  spec.name = std::move(name);
  spec.gpus = gpus;
  spec.submit = Time(submit);
  spec.run_time = run_time;
  return spec;
}

Workload sample() {
  Workload workload;
  workload.jobs = {job("0", 2, seconds(0), seconds(60)), job("1", 8, seconds(90), Duration(1'500'000'000))};
  workload.jobs[0].tenant = "vision";
  workload.jobs[1].requested_time = seconds(120);
  workload.time_zero = "2017-10-01 00:00:45";
  return workload;
}

// Names of printable characters, some of which need quoting or are not ASCII.
rc::Gen<std::string> any_name(std::size_t least) {
  const auto piece = rc::gen::element<std::string>("a", "B", "7", ",", "\"", "#", " ", "'", "|", "\\", "ß", "日", "+");
  return rc::gen::suchThat(rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                                        [](const std::vector<std::string>& pieces) {
                                          std::string name;
                                          for (const std::string& p : pieces) name += p;
                                          return name;
                                        }),
                           [least](const std::string& name) { return name.size() >= least; });
}

Duration any_duration() {
  const std::int64_t most = *rc::gen::element<std::int64_t>(10, 1'000'000'000'000, kMaxDuration.count() + 1);
  return Duration(*rc::gen::inRange<std::int64_t>(0, most));
}

// Another kind, other sizes, batches; within what goes together.
void make_special(JobSpec& spec) {
  spec.application = *any_name(1);
  if (*rc::gen::inRange(0, 4) == 0) {
    spec.kind = JobKind::inference;
    return;
  }
  spec.sizing = *rc::gen::element(Sizing::rigid, Sizing::moldable, Sizing::elastic);
  if (spec.sizing != Sizing::rigid) {
    spec.gpu_step = *rc::gen::inRange(1, 9);
    spec.min_gpus = *rc::gen::inRange(1, 100);
    const GpuCount steps = *rc::gen::inRange(0, 100);
    spec.gpus = spec.min_gpus + *rc::gen::inRange(0, steps + 1) * spec.gpu_step;
    if (*rc::gen::arbitrary<bool>()) spec.max_gpus = spec.min_gpus + steps * spec.gpu_step;
  }
  const auto any_size = [] { return *rc::gen::inRange(1, INT32_MAX); };
  if (*rc::gen::arbitrary<bool>()) spec.batch_size = any_size();
  if (*rc::gen::arbitrary<bool>()) {
    const auto [initial, largest] = std::minmax({any_size(), any_size()});
    const auto [local_min, local_max] = std::minmax({any_size(), any_size()});
    // The smallest size can be fed.
    spec.batch = {initial, largest, std::min(local_min, std::max(largest / spec.smallest(), 1)), local_max};
    if (largest < spec.smallest()) spec.batch.largest = spec.smallest();
    spec.batch_size = std::min(spec.batch_size, spec.batch.largest);
  }
}

Workload any_workload() {
  Workload workload;
  const int count = *rc::gen::inRange(1, 20);
  for (int i = 0; i < count; ++i) {
    JobSpec spec = job(*any_name(0) + "-" + std::to_string(i), *rc::gen::inRange(1, kMaxJobGpus + 1), any_duration(),
                       any_duration());
    spec.tenant = *any_name(0);
    spec.priority = *rc::gen::inRange(-kMaxPriority, kMaxPriority + 1);
    spec.gpu_type = *any_name(0);
    spec.pool = *any_name(0);
    if (*rc::gen::arbitrary<bool>()) spec.requested_time = any_duration();
    if (*rc::gen::arbitrary<bool>()) make_special(spec);
    workload.jobs.push_back(std::move(spec));
  }
  sort_by_submission(workload.jobs);
  if (*rc::gen::arbitrary<bool>()) workload.time_zero = "2017-10-01 00:02:01";
  return workload;
}

TEST(Write, EbbFormatsReadBackTheSame) {
  const bool holds = rc::check([] {
    const Workload workload = any_workload();
    for (const Format format : {Format::ebb_csv, Format::ebb_jsonl}) {
      const auto text = write_workload_text(workload, format);
      RC_ASSERT(text.has_value());
      const auto back = read_workload_text("t", *text, {});
      RC_ASSERT(back.has_value());
      RC_ASSERT(back->report.format == format);
      RC_ASSERT(back->workload.jobs == workload.jobs);
      RC_ASSERT(back->workload.time_zero == workload.time_zero);
      RC_ASSERT(back->workload.warnings.empty());
    }
  });
  EXPECT_TRUE(holds);
}

TEST(Write, EbbCsvLooksAsDocumented) {
  EXPECT_EQ(write_workload_text(sample(), Format::ebb_csv).value(),
            "# ebb-trace v1\n"
            "# time_zero: 2017-10-01 00:00:45\n"
            "job,submit_s,run_s,gpus,tenant,priority,requested_s,gpu_type,pool\n"
            "0,0,60,2,vision,0,,,\n"
            "1,90,1.5,8,,0,120,,\n");
}

TEST(Write, EbbJsonlLooksAsDocumented) {
  EXPECT_EQ(write_workload_text(sample(), Format::ebb_jsonl).value(),
            "{\"format\":\"ebb-trace\",\"version\":1,\"time_zero\":\"2017-10-01 00:00:45\"}\n"
            "{\"job\":\"0\",\"submit_s\":0,\"run_s\":60,\"gpus\":2,\"tenant\":\"vision\"}\n"
            "{\"job\":\"1\",\"submit_s\":90,\"run_s\":1.5,\"gpus\":8,\"requested_s\":120}\n");
}

TEST(Write, AddsOnlyTheColumnsThatSomeJobNeeds) {
  Workload workload = sample();
  workload.time_zero = "";
  workload.jobs[0].sizing = Sizing::elastic;
  workload.jobs[0].min_gpus = 1;
  workload.jobs[0].application = "bert";
  workload.jobs[0].batch_size = 48;
  workload.jobs[0].batch = {12, 384, 6, 12};
  workload.jobs[1].kind = JobKind::inference;
  workload.jobs[1].application = "infer, 1";
  EXPECT_EQ(write_workload_text(workload, Format::ebb_csv).value(),
            "# ebb-trace v1\n"
            "job,submit_s,run_s,gpus,tenant,priority,requested_s,gpu_type,pool,kind,sizing,min_gpus,application,"
            "batch_size,batch_initial,batch_largest,batch_local_min,batch_local_max\n"
            "0,0,60,2,vision,0,,,,,elastic,1,bert,48,12,384,6,12\n"
            "1,90,1.5,8,,0,120,,,inference,,,\"infer, 1\",,,,,\n");
  EXPECT_EQ(write_workload_text(workload, Format::ebb_jsonl).value(),
            R"({"format":"ebb-trace","version":1})"
            "\n"
            R"({"job":"0","submit_s":0,"run_s":60,"gpus":2,"tenant":"vision","sizing":"elastic","min_gpus":1,)"
            R"("application":"bert","batch_size":48,"batch_initial":12,"batch_largest":384,"batch_local_min":6,)"
            R"("batch_local_max":12})"
            "\n"
            R"({"job":"1","submit_s":90,"run_s":1.5,"gpus":8,"requested_s":120,"kind":"inference",)"
            R"("application":"infer, 1"})"
            "\n");
}

TEST(Write, PhillyKeepsDatesAndTenants) {
  const std::string text = write_workload_text(sample(), Format::philly).value();
  EXPECT_EQ(text,
            "timestamp,duration,num_gpus,gpu_time,cluster\n"
            "2017-10-01 00:00:45,60,2,120,vision\n"
            "2017-10-01 00:02:15,1.5,8,12,\n");
  EXPECT_EQ(read_workload_text("t", text, {})->workload.time_zero, sample().time_zero);
}

TEST(Write, TiresiasKeepsWhatItHasColumnsFor) {
  EXPECT_EQ(write_workload_text(sample(), Format::tiresias).value(),
            "job_id,num_gpu,submit_time,duration\n0,2,0,60\n1,8,90,1.5\n");
}

TEST(Write, SwfReadsBack) {
  Workload workload = sample();
  workload.jobs[1].run_time = seconds(7);
  workload.jobs[1].tenant = "user5";
  const auto back = read_workload_text("t", write_workload_text(workload, Format::swf).value(), {});
  ASSERT_TRUE(back) << back.error().message;
  workload.jobs[0].tenant = "";  // not a number
  EXPECT_EQ(back->workload.jobs, workload.jobs);
  EXPECT_EQ(back->workload.time_zero, workload.time_zero);
}

TEST(Write, SaysWhatAFormatCannotHold) {
  const auto error = [](auto change, Format format) {
    Workload workload = sample();
    workload.jobs[1].run_time = seconds(7);
    change(workload);
    const auto text = write_workload_text(workload, format);
    return text ? "no error" : text.error().message;
  };
  using W = Workload;
  EXPECT_THAT(error([](W& w) { w.jobs[1].priority = 3; }, Format::tiresias),
              HasSubstr("job '1' has priority 3, which the tiresias format cannot hold; write ebb-csv"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].pool = "p"; }, Format::philly), HasSubstr("job '0' has pool 'p'"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].gpu_type = "a100"; }, Format::swf), HasSubstr("GPU type 'a100'"));
  for (const Format format : {Format::tiresias, Format::philly, Format::swf}) {
    EXPECT_THAT(error([](W& w) { w.jobs[0].application = "bert"; }, format), HasSubstr("application 'bert'"));
    EXPECT_THAT(error(
                    [](W& w) {
                      w.jobs[0].kind = JobKind::inference;
                      w.jobs[0].application = "bert";
                    },
                    format),
                HasSubstr("has kind inference"));
    EXPECT_THAT(error(
                    [](W& w) {
                      w.jobs[0].sizing = Sizing::elastic;
                      w.jobs[0].min_gpus = 1;
                      w.jobs[0].max_gpus = 2;
                    },
                    format),
                HasSubstr("has sizing elastic"));
  }
  EXPECT_THAT(error([](W& w) { w.services.emplace_back(); }, Format::ebb_csv), HasSubstr("has services"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].gpu_step = 2; }, Format::ebb_csv),
              HasSubstr("job '0': min_gpus, max_gpus and gpu_step need"));
  EXPECT_THAT(error([](W&) {}, Format::deepboot), HasSubstr("the deepboot format can be read but not written"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].name = "x"; }, Format::swf), HasSubstr("a name that is not a number"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].submit = Time(Duration(1)); }, Format::swf),
              HasSubstr("fractions of a second"));
  EXPECT_THAT(error([](W& w) { w.time_zero = ""; }, Format::philly), HasSubstr("times are relative"));
  EXPECT_THAT(error([](W&) {}, Format::sacct), HasSubstr("can be read but not written"));
  EXPECT_THAT(error([](W& w) { w.jobs.clear(); }, Format::ebb_csv), HasSubstr("no jobs"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].name = "a\nb"; }, Format::ebb_csv), HasSubstr("control character"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].gpus = 0; }, Format::ebb_csv), HasSubstr("gpus 0 is outside"));
  EXPECT_THAT(error([](W& w) { w.jobs[0].submit = Time(Duration(-1)); }, Format::ebb_csv), HasSubstr("submission"));
}

TEST(Write, WritesNothingOnError) {
  const auto path = std::filesystem::temp_directory_path() / "ebb_write_test.csv";
  std::filesystem::remove(path);
  EXPECT_FALSE(write_workload(path, sample(), Format::sacct));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(write_workload(path, sample(), Format::ebb_csv));
  EXPECT_EQ(read_workload(path, {})->workload.jobs, sample().jobs);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ebb::trace
