#include "ebb/trace/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/trace/journal_testing.h"

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHeader = "{\"type\":\"journal\",\"version\":1}\n";

std::string error_of(const std::string& text) {
  const auto records = read(text);
  return records ? "no error" : records.error().message;
}

TEST(Journal, ElasticJobsAndServicesLookAsDocumented) {
  JobSpec spec;
  spec.name = "a";
  spec.gpus = 2;
  spec.sizing = Sizing::elastic;
  spec.min_gpus = 1;
  spec.max_gpus = 8;
  spec.application = "bert";
  spec.batch_size = 48;
  spec.batch = {12, 384, 6, 12};
  JobSpec task;
  task.name = "t";
  task.gpus = 1;
  task.kind = JobKind::inference;
  task.application = "infer-bert-1";
  const auto lines = [](const std::vector<JournalRecord>& records) {
    return write(records).substr(std::string_view(kHeader).size());
  };
  EXPECT_EQ(lines({{Time(), Event(JobSubmitted{0, spec})}}),
            R"({"t":0,"type":"job_submitted","job":0,"spec":{"name":"a","gpus":2,"submit":0,"run_time":0,)"
            R"("sizing":"elastic","min_gpus":1,"max_gpus":8,"application":"bert","batch_size":48,)"
            R"("batch":{"initial":12,"largest":384,"local_min":6,"local_max":12}}})"
            "\n");
  EXPECT_EQ(lines({{Time(), Event(JobSubmitted{1, task})}}),
            R"({"t":0,"type":"job_submitted","job":1,"spec":{"name":"t","gpus":1,"submit":0,"run_time":0,)"
            R"("kind":"inference","application":"infer-bert-1"}})"
            "\n");
  EXPECT_EQ(lines({{Time(seconds(9)), Event(JobFinished{1, Time(seconds(8))})},
                   {Time(seconds(9)), Event(JobReport{0, seconds(3), 1.5, 2, 0.25, 10.5, 4, {0.25, 1e-7}, {}})},
                   {Time(seconds(9)), Decision(Resize{{{0, {{0, 4}}}, {2, {}}}})},
                   {Time(seconds(9)), Decision(StartReplica{3, 1, {2, 1}, 1, seconds(30)})},
                   {Time(seconds(9)), Decision(Serve{1, 3, {}})}}),
            R"({"t":9000000000,"type":"job_finished","job":1,"at":8000000000})"
            "\n"
            R"({"t":9000000000,"type":"job_report","job":0,"progress":3000000000,"speed":1.5,"epoch":2,)"
            R"("fraction_done":0.25,"steps_done":10.5,"most_gpus":4,)"
            R"("gradient":{"sqr":0.25,"var":1e-07}})"
            "\n"
            R"({"t":9000000000,"type":"resize","targets":[{"job":0,"allocation":[[0,4]]},{"job":2,"allocation":[]}]})"
            "\n"
            R"({"t":9000000000,"type":"start_replica","replica":3,"service":1,"node":2,"gpus":1,"task":1,)"
            R"("keep_alive":30000000000})"
            "\n"
            R"({"t":9000000000,"type":"serve","task":1,"replica":3})"
            "\n");
}

TEST(Journal, LooksAsDocumented) {
  JobSpec spec;
  spec.name = "a \"b\"";
  spec.gpus = 3;
  spec.submit = Time(seconds(1));
  spec.run_time = seconds(60);
  const std::string text = write(
      {
          {Time(seconds(1)), Event(JobSubmitted{0, spec})},
          {Time(seconds(1)), Decision(Start{0, {{0, 2}, {4, 1}}})},
          {Time(seconds(2)), Event(Tick{})},
          {Time(seconds(2)), Waits{1, {ReasonCode::behind_head, 8, 3, 0, Time(seconds(61))}}},
      },
      R"({"policy":"fifo","cluster":"16x4"})");
  EXPECT_EQ(
      text,
      R"({"type":"journal","version":1,"policy":"fifo","cluster":"16x4"})"
      "\n"
      R"({"t":1000000000,"type":"job_submitted","job":0,"spec":{"name":"a \"b\"","gpus":3,"submit":1000000000,"run_time":60000000000}})"
      "\n"
      R"({"t":1000000000,"type":"start","job":0,"allocation":[[0,2],[4,1]]})"
      "\n"
      R"({"t":2000000000,"type":"tick"})"
      "\n"
      R"({"t":2000000000,"type":"job_waits","job":1,"reason":{"code":"behind_head","needed":8,"available":3,"other":0,"expected_start":61000000000}})"
      "\n");
}

TEST(Journal, WritesAndReadsFiles) {
  const auto path = std::filesystem::temp_directory_path() / "ebb_journal_test.jsonl";
  std::vector<JournalRecord> records;
  {
    auto writer = JournalWriter::create(path, R"({"seed":7})");
    ASSERT_TRUE(writer) << writer.error().message;
    for (std::uint32_t i = 0; i < 20'000; ++i) {  // more than one buffer
      writer->write(Time(Duration(i)), Event(JobFinished{i, {}}));
    }
    ASSERT_TRUE(writer->close());
  }
  auto reader = JournalReader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_THAT(reader->header(), HasSubstr(R"("seed":7)"));
  JournalRecord record;
  std::uint32_t count = 0;
  while (reader->next(record).value()) {
    EXPECT_EQ(record, (JournalRecord{Time(Duration(count)), Event(JobFinished{count, {}})}));
    ++count;
  }
  EXPECT_EQ(count, 20'000u);
  std::filesystem::remove(path);
}

TEST(Journal, TextThatIsNotUtf8StaysReadable) {
  JobSpec spec;
  spec.name = "a\xff";
  const auto back = read(write({{Time(), Event(JobSubmitted{0, spec})}}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<JobSubmitted>(std::get<Event>(back->at(0).what)).spec.name, "a\uFFFD");
}

TEST(Journal, RefusesBadHeaders) {
  std::string sink;
  for (const char* header : {"", "[]", "{", R"({"type":"x"})", R"({"version":3})"}) {
    EXPECT_FALSE(JournalWriter::to_text(&sink, header)) << header;
  }
  EXPECT_THAT(error_of(""), StartsWith("j:1: this is not a journal"));
  EXPECT_THAT(error_of("{\"job\":\"a\"}\n"), HasSubstr("this is not a journal"));
  EXPECT_THAT(error_of("{\"type\":\"journal\"}\n"), HasSubstr("bad header: lacks key 'version'"));
  EXPECT_THAT(error_of("{\"type\":\"journal\",\"version\":2}\n"), HasSubstr("this is version 2 of the journal"));
}

TEST(Journal, SaysWhatIsWrongWithARecord) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"t\":0,\"ty", "is not JSON (cut off, or not a journal)"},
      {"[]", "is not a JSON object"},
      {R"({"t":0})", "lacks key 'type'"},
      {R"({"type":"tick"})", "lacks key 't'"},
      {R"({"t":0.5,"type":"tick"})", "key 't': the value is not a whole number"},
      {R"({"t":-1,"type":"tick"})", "key 't': the value is not a whole number"},
      {R"({"t":18446744073709551615,"type":"tick"})", "key 't': the value is not a whole number"},
      {R"({"t":0,"type":"nap"})", "key 'type': 'nap' is not a record of a journal"},
      {R"({"t":0,"type":"preempt"})", "lacks key 'job'"},
      {R"({"t":0,"type":"preempt","job":4294967296})", "key 'job': the value is not a whole number"},
      {R"({"t":0,"type":"start","job":1,"allocation":[[1]]})", "an entry is not [node, gpus]"},
      {R"({"t":0,"type":"start","job":1,"allocation":[[1,-1]]})", "key 'allocation': the value is not a whole"},
      {R"({"t":0,"type":"start","job":1,"allocation":7})", "is not a list of [node, gpus]"},
      {R"({"t":0,"type":"reject","job":1,"reason":{"code":"x","needed":1,"available":1}})", "'x' is not a reason"},
      {R"({"t":0,"type":"job_submitted","job":1,"spec":[]})", "is not a JSON object"},
      {R"({"t":0,"type":"job_submitted","job":1,"spec":{"name":1,"gpus":1,"submit":0,"run_time":0}})",
       "key 'name': the value is not a string"},
      {R"({"t":0,"type":"plan_ready","plan":-1,"answer":""})", "key 'plan'"},
      {R"({"t":0,"type":"job_submitted","job":1,"spec":{"name":"","gpus":1,"submit":0,"run_time":0,"gpu_step":0}})",
       "key 'gpu_step': the value is not a whole number from 1"},
      {R"({"t":0,"type":"job_submitted","job":1,"spec":{"name":"","gpus":1,"submit":0,"run_time":0,"kind":"x"}})",
       "key 'kind': 'x' is neither training nor inference"},
      {R"({"t":0,"type":"job_submitted","job":1,"spec":{"name":"","gpus":1,"submit":0,"run_time":0,"sizing":1}})",
       "key 'sizing': the value is not a string"},
      {R"({"t":0,"type":"job_submitted","job":1,"spec":{"name":"","gpus":1,"submit":0,"run_time":0,"batch":[]}})",
       "is not a JSON object"},
      {R"({"t":0,"type":"job_report","job":1,"progress":0,"speed":"1"})", "key 'speed': the value is not a number"},
      {R"({"t":0,"type":"job_report","job":1,"progress":0,"speed":1e999})", "is not JSON"},
      {R"({"t":0,"type":"resize","targets":{}})", "key 'targets': the value is not a list"},
      {R"({"t":0,"type":"resize","targets":[{"job":1}]})", "lacks key 'allocation'"},
      {R"({"t":0,"type":"start_replica","replica":1,"service":1,"node":1})", "lacks key 'gpus'"},
      {R"({"t":0,"type":"service_added","service":1,"spec":{"name":"s"}})", "lacks key 'gpus'"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_THAT(error_of(std::string(kHeader) + "{\"t\":0,\"type\":\"tick\"}\n" + line + "\n"),
                AllOf(StartsWith("j:3: bad record: "), HasSubstr(message)))
        << line;
  }
}

TEST(Journal, SkipsUnknownKeys) {
  const auto back = read(std::string(kHeader) + R"({"t":5,"type":"preempt","job":1,"note":{"why":["x"]}})" + "\n\n");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->at(0), (JournalRecord{Time(Duration(5)), Decision(Preempt{1})}));
}

}  // namespace
}  // namespace ebb::trace
