#include "ebb/spec/services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ebb::spec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  const auto result = parse_services("s.yaml", text);
  return result ? "no error" : result.error().message;
}

// A services file of one service with this further text.
std::string service(const std::string& more) {
  return "version: 1\nservices:\n- {name: a, service_time: 1s, target_latency: 2s, start_delay: 0, requests: r.csv" +
         more + "}\n";
}

TEST(Services, ReadsEveryKey) {
  const auto result = parse_services("folder/s.yaml", R"(
version: 1
services:
  - name: chat
    gpus: 2
    service_time: 50ms
    target_latency: 200ms
    percentile: 99.9
    start_delay: 1m30s
    requests: rates/chat.csv
  - {name: infer-bert-1, service_time: 1, target_latency: 1, start_delay: 0, requests: /data/bert.csv}
)");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(
      *result,
      ElementsAre(
          ServiceEntry{{"chat", 2, seconds(90), milliseconds(50), milliseconds(200), 0.999}, "folder/rates/chat.csv"},
          ServiceEntry{{"infer-bert-1", 1, seconds(0), seconds(1), seconds(1), 0.99}, "/data/bert.csv"}));
}

TEST(Services, ReadsFiles) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto path = folder / "ebb_services_test.yaml";
  std::ofstream(path) << service("");
  EXPECT_EQ(read_services(path).value()[0].requests, (folder / "r.csv").string());
  std::filesystem::remove(path);
  EXPECT_EQ(read_services(path).error().code, ErrorCode::not_found);
}

TEST(Services, TakesPercentilesAsPercent) {
  const auto percentile = [](const char* text) {
    return parse_services("s.yaml", service(fmt::format(", percentile: {}", text))).value()[0].spec.percentile;
  };
  EXPECT_EQ(percentile("50"), 0.5);
  EXPECT_EQ(percentile("95"), 0.95);
  EXPECT_EQ(percentile("99"), 0.99);
  EXPECT_EQ(percentile("99.99"), 0.9999);
}

TEST(Services, PlacesEveryError) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "s.yaml: the services file is empty"},
      {"services: []", "s.yaml:1:1: the key 'version' is missing"},
      {"version: 2\nservices: []", "s.yaml:1:10: the services file has version 2"},
      {"version: 1", "s.yaml:1:1: the key 'services' is missing"},
      {"version: 1\nservices: []", "s.yaml:2:11: 'services' must be a list of at least one service"},
      {"version: 1\nservices: {a: 1}", "s.yaml:2:11: 'services' must be a list"},
      {"version: 1\nservice: []", "s.yaml:2:1: unknown key 'service'; did you mean 'services'?"},
      {"version: 1\nservices: [a]", "s.yaml:2:12: a service must be a map"},
      {"- {name: a}", "s.yaml:1:1: the services file must be a map"},
      {service(", taget_latency: 1"), "unknown key 'taget_latency'; did you mean 'target_latency'?"},
      {service(", gpus: 0"), "'gpus': '0' is not a whole number from 1 to 4096"},
      {service(", percentile: 0.99"), "'percentile': '0.99' is not a number from 50 to below 100, such as 99"},
      {service(", percentile: 100"), "'percentile': '100' is not a number"},
      {service(", percentile: 9.9e1"), "'percentile': '9.9e1' is not a number"},
      {service(", percentile: nan"), "'percentile': 'nan' is not a number"},
      {service(", name: b"), "key 'name' appears twice"},
      {service("") + "- {name: a, service_time: 1, target_latency: 1, start_delay: 0, requests: r.csv}",
       "s.yaml:4:10: 'name': there is a service 'a' already"},
      {"version: 1\nservices:\n- {service_time: 1}", "s.yaml:3:3: the service lacks 'name'"},
      {"version: 1\nservices:\n- {name: a, service_time: 1, target_latency: 1, start_delay: 0}",
       "the service lacks 'requests'"},
      {"version: 1\nservices:\n- {name: a b, service_time: 1, target_latency: 1, start_delay: 0, requests: r}",
       "s.yaml:3:10: 'name': 'a b' is not a name"},
      {"version: 1\nservices:\n- {name: a, service_time: 0, target_latency: 1, start_delay: 0, requests: r}",
       "'service_time' must be longer than 0"},
      {"version: 1\nservices:\n- {name: a, service_time: 2s, target_latency: 500ms, start_delay: 0, requests: r}",
       "s.yaml:3:47: 'target_latency': no number of replicas meets 500 ms: one request alone takes 2.0 s"},
      {"version: 1\nservices:\n- {name: a, service_time: 1, target_latency: 1, start_delay: -1, requests: r}",
       "'start_delay': '-1' is not a duration"},
      {"version: 1\nservices:\n- {name: a, service_time: 1, target_latency: 1, start_delay: 0, requests: }",
       "'requests' needs a value"},
      {"version: 1\nservices: [1", "not valid YAML"},
      {"version: 1\n---\n", "something follows the first YAML document; the services file is one"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of(text), AllOf(StartsWith("s.yaml:"), HasSubstr(message))) << text;
  }
  EXPECT_THAT(error_of(std::string(2 << 20, '#')), HasSubstr("larger than 1048576 bytes"));
}

}  // namespace
}  // namespace ebb::spec
