#include "ebb/spec/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "ebb/base/files.h"
#include "ebb/spec/characters.h"

namespace ebb::spec {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const fs::path kSource = EBB_SOURCE_DIR;

std::string error_of(const std::string& text, const fs::path& base = "/base") {
  const auto result = parse_job("j.yaml", text, base);
  return result ? "no error" : result.error().message;
}

JobRequest job(const std::string& more) {
  auto result = parse_job("j.yaml", "version: 1\ncommand: [a]\n" + more, "/base");
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(JobRequest());
}

TEST(JobFile, ReadsEveryKey) {
  const auto result = parse_job("j.yaml", R"(
version: 1
name: résumé 日本
command: [python3, train.py, --lr, 0.10, "", true, "two words"]
environment: {OMP_NUM_THREADS: 4, EMPTY: "", _x: a=b}
working_directory: /data/run
tenant: vision
priority: -7
workers: 16
gpus_per_worker: 2
memory: 64GiB
gpu_type: a100
node: node-0003
time_limit: 1h30m
grace_time: 0
retries: {max: 3, backoff: 500ms}
array: 20
dependencies:
  - {job: 12}
  - {job: 13, when: after_any}
hold: true
)",
                                "/base");
  ASSERT_TRUE(result) << result.error().message;
  JobRequest expected;
  expected.name = "résumé 日本";
  expected.command = {"python3", "train.py", "--lr", "0.10", "", "true", "two words"};
  expected.environment = {{"OMP_NUM_THREADS", "4"}, {"EMPTY", ""}, {"_x", "a=b"}};
  expected.working_directory = "/data/run";
  expected.tenant = "vision";
  expected.priority = -7;
  expected.workers = 16;
  expected.gpus_per_worker = 2;
  expected.memory_bytes = std::int64_t{64} << 30;
  expected.gpu_type = "a100";
  expected.node = "node-0003";
  expected.time_limit = minutes(90);
  expected.grace_time = seconds(0);
  expected.max_retries = 3;
  expected.retry_backoff = milliseconds(500);
  expected.array_size = 20;
  expected.dependencies = {{12, Dependency::When::after_ok}, {13, Dependency::When::after_any}};
  expected.hold = true;
  EXPECT_EQ(*result, expected);
  EXPECT_EQ(parse_job("x", format_job(expected), ""), expected);
}

TEST(JobFile, NeedsLittle) {
  JobRequest expected;
  expected.command = {"a"};
  expected.working_directory = "/base";
  EXPECT_EQ(job(""), expected);
  expected.working_directory.clear();
  EXPECT_EQ(parse_job("j", "version: 1\ncommand: [a]", ""), expected);
  EXPECT_EQ(format_job(expected), R"({"version": 1, "command": ["a"]})");
}

TEST(JobFile, ResolvesTheWorkingDirectory) {
  EXPECT_EQ(job("working_directory: runs/../x/").working_directory, "/base/x");
  EXPECT_EQ(job("working_directory: .").working_directory, "/base");
  EXPECT_EQ(job("working_directory: /a/../b").working_directory, "/a/../b") << "whoever writes that may have links";
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nworking_directory: x", ""),
              AllOf(StartsWith("j.yaml:3:20: "), HasSubstr("'x' is not absolute")));
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nworking_directory: /" + std::string(4095, 'd')),
              HasSubstr("longer than 4095 bytes"));
}

TEST(JobFile, ReadsBytes) {
  EXPECT_EQ(job("memory: 1048576").memory_bytes, 1 << 20);
  EXPECT_EQ(job("memory: 2048KiB").memory_bytes, 2 << 20);
  EXPECT_EQ(job("memory: 1024TiB").memory_bytes, kMaxMemoryBytes);
  for (const char* wrong : {"1025TiB", "9223372036854775807TiB", "9223372036854775808", "1048575", "-1GiB", "1.5GiB",
                            "GiB", "4 GiB", "4gib"}) {
    EXPECT_THAT(error_of(fmt::format("version: 1\ncommand: [a]\nmemory: {}", wrong)),
                StartsWith("j.yaml:3:9: 'memory'"))
        << wrong;
  }
}

// Each file says in its first line what the message has; tests/job-schema has the schema refuse the same files.
TEST(JobFile, RefusesBadFiles) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "testdata/jobs_bad")) {
    const std::string text = read_file(entry.path()).value();
    const std::string expected = text.substr(2, text.find('\n') - 2);
    const std::string message = error_of(text);
    EXPECT_THAT(message, HasSubstr(expected)) << entry.path();
    EXPECT_THAT(message, testing::ContainsRegex("^j.yaml:[0-9]+:[0-9]+: ")) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 30);
}

TEST(JobFile, SaysWhere) {
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nretries:\n  max: 2\n  backoff: never"),
              AllOf(StartsWith("j.yaml:5:12: "), HasSubstr("'backoff': 'never'")));
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nenvironment:\n  OK: 1\n  RANK: 2"), StartsWith("j.yaml:5:3: "));
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\ndependencies: [{job: 7}, {job: 7, when: after_any}]"),
              AllOf(StartsWith("j.yaml:3:26: "), HasSubstr("job 7 appears twice")));
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nenvironment: {A: 1, A: 2}"), HasSubstr("'A' appears twice"));
  EXPECT_THAT(error_of("version: 1\ncommand: [a, \"b\\0c\"]"), AllOf(StartsWith("j.yaml:2:14: "), HasSubstr("NUL")));
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nname: a\x04 hidden"),
              AllOf(StartsWith("j.yaml:3:8: "), HasSubstr("0x04")));
  EXPECT_THAT(error_of("version: 1\ncommand: [a, \xff]"), HasSubstr("is not UTF-8"));
  EXPECT_THAT(error_of("version: 2\ncommand: [a]"), HasSubstr("reads up to version 1"));
}

TEST(JobFile, LimitsWhatIsPassedOn) {
  const std::string most(kMaxArgumentBytes, 'x');
  EXPECT_EQ(job("environment: {A: " + most.substr(2) + "}").environment["A"].size(), kMaxArgumentBytes - 2);
  EXPECT_THAT(error_of("version: 1\ncommand: [a, " + most + "x]"), HasSubstr("the most is 131071"));
  EXPECT_THAT(error_of("version: 1\ncommand: [a]\nenvironment: {A: " + most + "}"), HasSubstr("the most is 131071"));
  // 1 MiB in all, ends included: eight arguments of 128 KiB with their ends, and nothing else.
  const std::string list = most + ", " + most + ", " + most + ", " + most;
  EXPECT_TRUE(parse_job("j", "{version: 1, command: [" + list + ", " + list + "]}", ""));
  EXPECT_THAT(error_of("{version: 1, command: [" + list + ", " + list + ", y]}"), HasSubstr("more than 1048576 bytes"));
  EXPECT_THAT(error_of("{version: 1, command: [" + list + ", " + list + "], environment: {A: 1}}"),
              HasSubstr("more than 1048576 bytes"));
  // A small file that would be large in memory.
  std::string bomb = "{version: 1, command: [&a " + most;
  for (int i = 0; i < 100'000; ++i) bomb += ", *a";
  EXPECT_THAT(error_of(bomb + "]}"), HasSubstr("more than 1048576 bytes"));
  std::string dependencies;
  for (int i = 0; i < 1'001; ++i) dependencies += fmt::format("{{job: {}}}, ", i);
  EXPECT_THAT(error_of("{version: 1, command: [a], dependencies: [" + dependencies + "]}"),
              HasSubstr("a list of at most 1000"));
  EXPECT_EQ(parse_job("j", std::string(kMaxJobFileBytes + 1, ' '), "").error().code, ErrorCode::resource_exhausted);
  EXPECT_THAT(error_of("{version: 1, command: [a], environment: {" + std::string(257, 'V') + ": 1}}"),
              HasSubstr("at most 256 letters"));
  // Characters, not bytes.
  std::string name;
  for (std::size_t i = 0; i < kMaxNameCharacters; ++i) name += "日";
  EXPECT_EQ(job("name: " + name).name, name);
}

TEST(JobFile, ReadsJsonAsOtherProgramsWriteIt) {
  const auto name_of = [](const std::string& escaped) {
    return parse_job("j", "{\"version\":1,\"command\":[\"a\"],\n\t\"name\":\"" + escaped + "\"}", "").value().name;
  };
  EXPECT_EQ(name_of(R"(\ud83d\ude80 \u00e9\/)"), "🚀 é/");
  EXPECT_EQ(name_of(R"(\\ud83d\\ude80)"), R"(\ud83d\ude80)") << "escaped backslashes, no escapes";
  EXPECT_EQ(name_of("🚀"), "🚀");
  EXPECT_THAT(error_of(R"({"version": 1, "command": ["a", "\ud83d"]})"), HasSubstr("not valid YAML"));
}

TEST(JobFile, ReadsFilesAndExamples) {
  EXPECT_EQ(read_job(kSource / "examples/jobs/none.yaml", "").error().code, ErrorCode::not_found);
  int examples = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "examples/jobs")) {
    const auto read = read_job(entry.path(), "/base");
    EXPECT_TRUE(read) << read.error().message;
    ++examples;
  }
  EXPECT_GE(examples, 3);
}

TEST(JobSchema, IsTheCommittedOne) {
  const fs::path committed = kSource / "docs/reference/job.schema.json";
  const fs::path generated = fs::temp_directory_path() / "job.schema.json";
  if (const auto text = read_file(committed); !text || *text != job_schema()) {
    ASSERT_TRUE(write_file_atomically(generated, job_schema()));
    FAIL() << "the keys have changed; look at the difference, then: cp " << generated << " " << committed;
  }
}

// The page describes every key, in the order of the table, and its examples are read.
TEST(JobSchema, HasItsKeysOnThePage) {
  const std::string page = read_file(kSource / "docs/reference/job.md").value();
  const YAML::Node schema = YAML::Load(job_schema());
  std::size_t at = 0;
  for (const auto& entry : schema["properties"]) {
    const std::string row = "\n| `" + entry.first.Scalar() + "` | ";
    const std::size_t found = page.find(row);
    ASSERT_NE(found, std::string::npos) << entry.first.Scalar();
    EXPECT_GT(found, at) << entry.first.Scalar();
    at = found;
  }
  const std::regex block("```(yaml|json)\n([^`]*)```");
  int examples = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), block); match != std::sregex_iterator(); ++match) {
    EXPECT_TRUE(parse_job("job.md", (*match)[2], "/base"));
    ++examples;
  }
  EXPECT_EQ(examples, 2);
}

// Any text that a process can be given: also quotes, control characters, and what YAML takes for something else.
rc::Gen<std::string> texts(bool control_characters) {
  const std::vector<std::string> pieces{"a", "\"", "\\", "'", ": ",  "#", "~",      "null",   "- ", "{",  "}", "[", ",",
                                        "é", "日", "🚀", " ", "\\u", "%", "\u2028", "\ufeff", "|",  "&a", "*", "<<"};
  const std::vector<std::string> controls{"\n", "\t", "\r", "\x01", "\x04", "\x7f", "\u0085", "\x1b", "\r\n"};
  std::vector<std::string> all = pieces;
  if (control_characters) all.insert(all.end(), controls.begin(), controls.end());
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(all)),
                      [](const std::vector<std::string>& parts) {
                        std::string out;
                        for (const std::string& part : parts) out += part;
                        return out;
                      });
}

rc::Gen<std::string> labels() {
  return rc::gen::map(texts(false), [](const std::string& text) {
    return utf8_characters(text).value() > kMaxNameCharacters ? std::string("long") : text;
  });
}

RC_GTEST_PROP(JobFileProperty, TakesBackWhatItWrites, ()) {
  JobRequest request;
  request.name = *labels();
  request.command = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(texts(true)));
  request.command[0] = *rc::gen::nonEmpty(texts(true));
  for (const auto& [name, value] : *rc::gen::container<std::map<std::string, std::string>>(
           rc::gen::element<std::string>("A", "_", "PATH", "a1", "RANKS", "RAN"), texts(true))) {
    request.environment.emplace(name, value);
  }
  const std::string directory = *texts(true);
  if (*rc::gen::arbitrary<bool>()) request.working_directory = "/" + directory;
  request.tenant = *labels();
  request.priority = *rc::gen::inRange(-kMaxPriority, kMaxPriority + 1);
  request.workers = *rc::gen::inRange(1, kMaxWorkers + 1);
  request.gpus_per_worker = *rc::gen::inRange(1, 4097);
  if (*rc::gen::arbitrary<bool>()) request.memory_bytes = *rc::gen::inRange(kMinMemoryBytes, kMaxMemoryBytes + 1);
  request.gpu_type = *labels();
  request.node = *labels();
  const auto durations = rc::gen::oneOf(
      rc::gen::map(rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 52), [](auto ns) { return Duration(ns); }),
      rc::gen::map(rc::gen::inRange<std::int64_t>(1, 3'000'000'000), [](auto s) { return Duration(seconds(s)); }));
  if (*rc::gen::arbitrary<bool>()) request.time_limit = *durations;
  if (*rc::gen::arbitrary<bool>()) request.grace_time = *durations;
  request.max_retries = *rc::gen::inRange(0, kMaxRetries + 1);
  if (*rc::gen::arbitrary<bool>()) request.retry_backoff = *durations;
  request.array_size = *rc::gen::inRange(0, kMaxArraySize + 1);
  for (const JobId id : *rc::gen::container<std::set<JobId>>(rc::gen::arbitrary<JobId>())) {
    request.dependencies.push_back({id, *rc::gen::element(Dependency::When::after_ok, Dependency::When::after_any)});
  }
  request.hold = *rc::gen::arbitrary<bool>();

  const std::string text = format_job(request);
  RC_ASSERT(text.find('\n') == std::string::npos);
  RC_ASSERT(nlohmann::json::accept(text));
  const auto back = parse_job("j", text, "");
  if (!back) RC_FAIL(back.error().message + " in " + text);
  RC_ASSERT(*back == request);
}

}  // namespace
}  // namespace ebb::spec
