#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "ebb/control/api.h"
#include "ebb/wire/api_json.h"
#include "ebb/wire/http_client.h"
#include "live_fixture.h"

namespace ebb::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::HttpReply;

constexpr std::chrono::milliseconds kTimeout{60'000};
const std::string kJob = R"({"version": 1, "name": "train", "command": ["true"]})";

/// A server on a free port of loopback in front of a controller.
class ApiTest : public testing::Test {
 protected:
  ApiTest()
      : cluster_(folder_.path()),
        api_(*cluster_, {"secret", "/"}),
        server_(HttpServer::start("127.0.0.1", 0, limits(), [this](const HttpRequest& r) { return api_.handle(r); })
                    .value()),
        client_("127.0.0.1", server_->port()) {
    cluster_.run();
  }

  static HttpLimits limits() {
    HttpLimits limits;
    limits.body_bytes = 100'000;
    return limits;
  }

  HttpReply send(const std::string& method, const std::string& target, const std::string& body = "",
                 wire::HttpClient::Headers headers = {}) {
    headers.emplace_back("Authorization", "Bearer secret");
    return client_.send(method, target, headers, body, kTimeout).value();
  }

  // What the server says to these bytes.
  std::string raw(const std::string& bytes) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    shutdown(fd, SHUT_WR);
    std::string answer(4096, '\0');
    const ssize_t n = read(fd, answer.data(), answer.size());
    close(fd);
    answer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return answer;
  }

  TestFolder folder_;
  TestCluster cluster_;
  Api api_;
  std::unique_ptr<HttpServer> server_;
  wire::HttpClient client_;
};

TEST_F(ApiTest, SubmitsListsAndEndsJobs) {
  const HttpReply submitted = send("POST", "/v1/jobs", kJob);
  EXPECT_EQ(submitted.status, 201);
  EXPECT_THAT(wire::ids_from(submitted.body).value(), ElementsAre(0));
  ASSERT_TRUE(cluster_.reaches(0, wire::JobStatus::running));
  const auto detail = wire::job_detail_from(send("GET", "/v1/jobs/0").body).value();
  EXPECT_EQ(detail.job.status, wire::JobStatus::running);
  EXPECT_THAT(detail.request.command, ElementsAre("true"));
  ASSERT_EQ(detail.workers.size(), 1u);
  EXPECT_THAT(detail.workers[0].slots, ElementsAre(0));
  const HttpReply log = send("GET", "/v1/jobs/0/log?offset=7");
  EXPECT_EQ(log.body, "stdout\n");
  EXPECT_EQ(log.log_offset, 7u);
  EXPECT_EQ(send("POST", "/v1/jobs/0/cancel").status, 200);
  ASSERT_TRUE(cluster_.reaches(0, wire::JobStatus::cancelled));
  const HttpReply again = send("POST", "/v1/jobs/0/cancel");
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(wire::error_from(again.body, {}).message, "job 0 has ended");
}

TEST_F(ApiTest, AKeySubmitsOnce) {
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(send("POST", "/v1/jobs", kJob, {{"Idempotency-Key", "k"}}).body, R"({"jobs":[0]})");
  }
  const HttpReply other =
      send("POST", "/v1/jobs", R"({"version": 1, "command": ["false"]})", {{"Idempotency-Key", "k"}});
  EXPECT_EQ(other.status, 409);
  EXPECT_EQ(wire::error_from(other.body, {}).code, ErrorCode::already_exists);
}

TEST_F(ApiTest, PagesOfJobs) {
  send("POST", "/v1/jobs", R"({"version": 1, "command": ["true"], "array": 5})");
  const auto page = wire::jobs_from(send("GET", "/v1/jobs?limit=2").body).value();
  ASSERT_EQ(page.size(), 2u);
  const auto rest = wire::jobs_from(send("GET", "/v1/jobs?limit=10&after=1").body).value();
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest[0].id, 2u);
  EXPECT_EQ(send("GET", "/v1/jobs?limit=x").status, 400);
  EXPECT_EQ(send("GET", "/v1/jobs?limit=100000").status, 400);
  EXPECT_EQ(send("GET", "/v1/jobs?status=asleep").status, 400);
}

TEST_F(ApiTest, NobodyWithoutTheTokenAndNoWebPage) {
  const auto status = [&](const wire::HttpClient::Headers& headers) {
    return client_.send("GET", "/v1/jobs", headers, "", kTimeout).value().status;
  };
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer secreT"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer secret and more"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer secret"}, {"Origin", "http://127.0.0.1"}}), 403);
  EXPECT_EQ(status({{"Authorization", "Bearer secret"}, {"Host", "evil.example"}}), 403);
  EXPECT_EQ(status({{"Authorization", "Bearer secret"}, {"Host", "localhost:80"}}), 200);
  EXPECT_EQ(client_.send("GET", "/healthz", {}, "", kTimeout).value().status, 200);
  EXPECT_EQ(client_.send("GET", "/readyz", {}, "", kTimeout).value().status, 200);
}

TEST_F(ApiTest, WhatIsNoRequest) {
  const HttpReply bad = send("POST", "/v1/jobs", R"({"version": 1, "command": "true"})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(wire::error_from(bad.body, {}).message, HasSubstr("command"));
  EXPECT_EQ(send("POST", "/v1/jobs", std::string(200'000, 'x')).status, 413);
  EXPECT_EQ(send("GET", "/v1/jobs/99").status, 404);
  EXPECT_EQ(send("GET", "/v1/jobs/-1").status, 404);
  EXPECT_EQ(send("GET", "/v1/jobs/99999999999").status, 404);
  EXPECT_EQ(send("GET", "/v1/jobs/../../etc/passwd").status, 404);
  EXPECT_EQ(send("DELETE", "/v1/jobs").status, 404);
  EXPECT_EQ(send("POST", "/v1/nodes/nowhere/drain").status, 404);
  EXPECT_THAT(raw("\x16\x03\x01\x02garbage\r\n\r\n"), HasSubstr("400"));
  EXPECT_THAT(raw("GET / HTTP/1.1\r\nA: " + std::string(100'000, 'a') + "\r\n\r\n"), HasSubstr("431"));
  EXPECT_EQ(send("GET", "/v1/nodes").status, 200) << "the server goes on";
}

TEST_F(ApiTest, EventsWaitForNews) {
  const auto last = wire::events_from(send("GET", "/v1/events").body).value().back().seq;
  std::thread later([&] { EXPECT_TRUE(cluster_->submit(test_request(), "").has_value()); });
  const auto news = wire::events_from(send("GET", fmt::format("/v1/events?after={}&wait_ms=20000", last)).body).value();
  later.join();
  ASSERT_FALSE(news.empty());
  EXPECT_EQ(news.front().seq, last + 1);
  EXPECT_THAT(news.front().json, HasSubstr("job_accepted"));
}

}  // namespace
}  // namespace ebb::control
