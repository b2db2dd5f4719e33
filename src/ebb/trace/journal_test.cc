#include "ebb/trace/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace ebb::trace {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kHeader = "{\"type\":\"journal\",\"version\":1}\n";

struct Overloads {
  JournalWriter& writer;
  Time at;
  void operator()(const Event& event) const { writer.write(at, event); }
  void operator()(const Decision& decision) const { writer.write(at, decision); }
  void operator()(const Waits& waits) const { writer.write_waits(at, waits.job, waits.reason); }
};

std::string write(const std::vector<JournalRecord>& records, std::string_view header = "{}") {
  std::string text;
  auto writer = JournalWriter::to_text(&text, header);
  EXPECT_TRUE(writer);
  for (const JournalRecord& record : records) std::visit(Overloads{*writer, record.at}, record.what);
  EXPECT_TRUE(writer->close());
  return text;
}

Result<std::vector<JournalRecord>> read(const std::string& text) {
  EBB_ASSIGN_OR_RETURN(JournalReader reader, JournalReader::from_text("j", text));
  std::vector<JournalRecord> records;
  JournalRecord record;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, reader.next(record));
    if (!more) return records;
    records.push_back(record);
  }
}

std::string error_of(const std::string& text) {
  const auto records = read(text);
  return records ? "no error" : records.error().message;
}

Time any_time() {
  return Time(Duration(*rc::gen::inRange<std::int64_t>(0, kEndOfTime.time_since_epoch().count() + 1)));
}
Duration any_duration() {
  return any_time().time_since_epoch();
}
std::uint32_t any_id() {
  return *rc::gen::arbitrary<std::uint32_t>();
}
GpuCount any_gpus() {
  return *rc::gen::inRange(0, 10'000'001);
}

// Valid UTF-8 of any code points, with those that JSON escapes among them.
std::string any_text() {
  std::string text;
  for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
    text += *rc::gen::element<std::string>("a", "\"", "\\", "\n", std::string(1, '\0'), "\x1f", "\x7f", "é", "\u2028",
                                           "\U0001F600", "\uFFFF", "/", " ");
  }
  return text;
}

Reason any_reason() {
  Reason reason;
  reason.code = static_cast<ReasonCode>(*rc::gen::inRange(0, static_cast<int>(ReasonCode::impossible) + 1));
  reason.needed = any_gpus();
  reason.available = any_gpus();
  if (*rc::gen::arbitrary<bool>()) reason.other = any_id();
  if (*rc::gen::arbitrary<bool>()) reason.expected_start = any_time();
  return reason;
}

JobSpec any_spec() {
  JobSpec spec;
  spec.name = any_text();
  spec.tenant = any_text();
  spec.gpus = any_gpus();
  spec.submit = any_time();
  spec.priority = *rc::gen::inRange(-kMaxPriority, kMaxPriority + 1);
  spec.gpu_type = any_text();
  spec.pool = any_text();
  if (*rc::gen::arbitrary<bool>()) spec.requested_time = any_duration();
  spec.run_time = any_duration();
  return spec;
}

Allocation any_allocation() {
  Allocation allocation;
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) allocation.push_back({any_id(), any_gpus()});
  return allocation;
}

// Record `kind` of all kinds.
constexpr int kKinds = 16;
JournalRecord any_record(int kind) {
  const Time at = any_time();
  switch (kind) {
    case 0:
      return {at, Event(JobSubmitted{any_id(), any_spec()})};
    case 1:
      return {at, Event(JobStarted{any_id(), any_time()})};
    case 2:
      return {at, Event(JobStopped{any_id(), any_duration()})};
    case 3:
      return {at, Event(JobFailed{any_id(), any_duration()})};
    case 4:
      return {at, Event(JobFinished{any_id()})};
    case 5:
      return {at, Event(NodeFailed{any_id()})};
    case 6:
      return {at, Event(NodeRepaired{any_id()})};
    case 7:
      return {at, Event(NodeDrained{any_id()})};
    case 8:
      return {at, Event(NodeUndrained{any_id()})};
    case 9:
      return {at, Event(PlanReady{*rc::gen::arbitrary<std::uint64_t>(), any_text()})};
    case 10:
      return {at, Event(Tick{})};
    case 11:
      return {at, Decision(Start{any_id(), any_allocation()})};
    case 12:
      return {at, Decision(Preempt{any_id()})};
    case 13:
      return {at, Decision(Reject{any_id(), any_reason()})};
    case 14:
      return {at, Decision(PlanRequest{*rc::gen::arbitrary<std::uint64_t>(), any_text()})};
    default:
      return {at, Waits{any_id(), any_reason()}};
  }
}

TEST(Journal, EveryRecordReadsBackTheSame) {
  const bool holds = rc::check([] {
    std::vector<JournalRecord> records;
    for (int kind = 0; kind < kKinds; ++kind) records.push_back(any_record(kind));
    const auto back = read(write(records));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == records);
  });
  EXPECT_TRUE(holds);
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
      writer->write(Time(Duration(i)), Event(JobFinished{i}));
    }
    ASSERT_TRUE(writer->close());
  }
  auto reader = JournalReader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_THAT(reader->header(), HasSubstr(R"("seed":7)"));
  JournalRecord record;
  std::uint32_t count = 0;
  while (reader->next(record).value()) {
    EXPECT_EQ(record, (JournalRecord{Time(Duration(count)), Event(JobFinished{count})}));
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
