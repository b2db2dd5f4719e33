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
using testing::Not;
using wire::HttpReply;

constexpr std::chrono::milliseconds kTimeout{60'000};
constexpr std::size_t kStreams = 3;
const wire::HttpClient::Headers kAuthorized{{"Authorization", "Bearer secret"}};
const std::string kJob = R"({"version": 1, "name": "train", "command": ["true"]})";

/// A server on a free port of loopback in front of a controller.
class ApiTest : public testing::Test {
 public:
  ~ApiTest() override { cluster_.stop(); }

 protected:
  ApiTest()
      : cluster_(folder_.path()),
        access_(Access::open(*cluster_, "secret").value()),
        api_(*cluster_, *access_, {"/"}),
        server_(HttpServer::start("127.0.0.1", 0, limits(), [this](const HttpRequest& r) { return api_.handle(r); })
                    .value()),
        client_("127.0.0.1", server_->port()) {
    cluster_->watch([this] { server_->wake(); });
    cluster_.run();
  }

  static HttpLimits limits() {
    HttpLimits limits;
    limits.body_bytes = 100'000;
    limits.streams = kStreams;
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
  std::unique_ptr<Access> access_;
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
  EXPECT_EQ(send("DELETE", "/v1/jobs").status, 405);
  EXPECT_EQ(send("POST", "/v1/nodes/nowhere/drain").status, 404);
  EXPECT_THAT(raw("\x16\x03\x01\x02garbage\r\n\r\n"), HasSubstr("400"));
  EXPECT_THAT(raw("GET / HTTP/1.1\r\nA: " + std::string(100'000, 'a') + "\r\n\r\n"), HasSubstr("431"));
  EXPECT_EQ(send("GET", "/v1/nodes").status, 200) << "the server goes on";
}

TEST_F(ApiTest, AStreamBringsRowsAsTheyCome) {
  const auto last = wire::events_from(send("GET", "/v1/events").body).value().back().seq;
  std::string got;
  std::thread later;
  const auto status = client_.follow(
      fmt::format("/v1/events/stream?after={}", last - 1), kAuthorized, kTimeout, [&](std::string_view bytes) {
        if (got.empty()) {
          EXPECT_TRUE(bytes.starts_with(fmt::format("id: {}\ndata: {{", last)));
          // What comes after a stream has fallen asleep wakes it.
          later = std::thread([&] { EXPECT_TRUE(cluster_->submit(test_request(), "")); });
        }
        got += bytes;
        return got.find("job_accepted") == std::string::npos;
      });
  later.join();
  EXPECT_EQ(status.value(), 200);
  EXPECT_THAT(got, HasSubstr(fmt::format("id: {}\ndata: {{", last + 1)));
}

TEST_F(ApiTest, AStreamGoesOnAfterTheIdThatWasSeenLast) {
  const auto last = wire::events_from(send("GET", "/v1/events").body).value().back().seq;
  EXPECT_TRUE(cluster_->submit(test_request(), ""));
  auto headers = kAuthorized;
  headers.emplace_back("Last-Event-ID", std::to_string(last));
  std::string got;
  EXPECT_EQ(client_
                .follow("/v1/events/stream?after=0", headers, kTimeout,
                        [&](std::string_view bytes) {
                          got += bytes;
                          return false;
                        })
                .value(),
            200);
  EXPECT_TRUE(got.starts_with(fmt::format("id: {}\n", last + 1))) << got;
}

TEST_F(ApiTest, AStreamWithoutAnEndDoesNotKeepTheServer) {
  HttpStream endless;
  endless.next = [] { return std::optional<std::string>("more\n"); };
  auto server = HttpServer::start("127.0.0.1", 0, limits(), [&](const HttpRequest&) {
                  return HttpResponse{200, "", "text/event-stream", {}, endless};
                }).value();
  wire::HttpClient client("127.0.0.1", server->port());
  std::thread stops;
  std::size_t got = 0;
  const auto status = client.follow("/", {}, kTimeout, [&](std::string_view) {
    if (got++ == 0) stops = std::thread([&] { server.reset(); });
    return true;
  });
  stops.join();
  EXPECT_GT(got, 0u);
}

TEST_F(ApiTest, TooManyStreamsAreRefused) {
  std::size_t open = 0;
  const std::function<void()> one_more = [&] {
    wire::HttpClient client("127.0.0.1", server_->port());
    const bool fits = open < kStreams;
    const auto status = client.follow("/v1/events/stream", kAuthorized, kTimeout, [&](std::string_view) {
      if (++open <= kStreams) one_more();
      return false;
    });
    ASSERT_TRUE(status.has_value()) << status.error().message;
    EXPECT_EQ(*status, fits ? 200 : 503);
  };
  one_more();
  EXPECT_EQ(open, kStreams + 1);
}

TEST_F(ApiTest, RolesAndTenantsOfTokens) {
  const auto make = [&](const std::string& body) {
    return wire::token_from(send("POST", "/v1/tokens", body).body).value();
  };
  const std::string viewer = make(R"({"name": "dashboard", "role": "viewer"})");
  const std::string user = make(R"({"name": "ann", "role": "user", "tenant": "vision"})");
  const auto as = [&](const std::string& token, const std::string& method, const std::string& target,
                      const std::string& body = "") {
    return client_.send(method, target, {{"Authorization", "Bearer " + token}}, body, kTimeout).value();
  };
  EXPECT_EQ(as(viewer, "GET", "/v1/jobs").status, 200);
  EXPECT_EQ(as(viewer, "POST", "/v1/jobs", kJob).status, 403);
  EXPECT_EQ(as(viewer, "GET", "/v1/events").status, 403) << "the journal shows environments";
  EXPECT_EQ(as(user, "POST", "/v1/nodes/n0/drain").status, 403);
  EXPECT_EQ(as(user, "GET", "/v1/tokens").status, 403);

  const std::string with_environment =
      R"({"version": 1, "command": ["true"], "hold": true, "environment": {"KEY": "secret value"}})";
  ASSERT_EQ(as(user, "POST", "/v1/jobs", with_environment).status, 201);
  EXPECT_EQ(wire::job_detail_from(as(user, "GET", "/v1/jobs/0").body).value().job.tenant, "vision");
  EXPECT_THAT(as(user, "GET", "/v1/jobs/0").body, HasSubstr("secret value"));
  EXPECT_THAT(as(viewer, "GET", "/v1/jobs/0").body, Not(HasSubstr("secret value")));
  EXPECT_EQ(as(user, "POST", "/v1/jobs", R"({"version": 1, "command": ["true"], "tenant": "audio"})").status, 403);
  ASSERT_EQ(send("POST", "/v1/jobs", R"({"version": 1, "command": ["true"], "tenant": "audio"})").status, 201);
  EXPECT_EQ(as(user, "POST", "/v1/jobs/1/cancel").status, 404);
  EXPECT_EQ(as(user, "POST", "/v1/jobs/0/cancel").status, 200);

  EXPECT_EQ(send("POST", "/v1/tokens", R"({"name": "ann", "role": "admin"})").status, 409);
  EXPECT_EQ(send("POST", "/v1/tokens", R"({"name": "local", "role": "admin"})").status, 400);
  EXPECT_EQ(send("POST", "/v1/tokens", R"({"name": "x", "role": "king"})").status, 400);
  EXPECT_EQ(send("POST", "/v1/tokens", R"({"name": "x", "role": "viewer", "tenant": "t"})").status, 400);
  EXPECT_EQ(send("POST", "/v1/tokens", R"({"name": "x", "role": "viewer", "more": 1})").status, 400);
  EXPECT_EQ(send("DELETE", "/v1/tokens/ann").status, 200);
  EXPECT_EQ(as(user, "GET", "/v1/jobs").status, 401);
  EXPECT_EQ(send("DELETE", "/v1/tokens/ann").status, 404);
}

TEST_F(ApiTest, TokensOutliveTheServerAndAreKeptAsHashes) {
  const std::string token =
      wire::token_from(send("POST", "/v1/tokens", R"({"name": "ci", "role": "user"})").body).value();
  const auto again = Access::open(*cluster_, "another local token").value();
  ASSERT_TRUE(again->find(token).has_value());
  EXPECT_EQ(again->find(token)->name, "ci");
  EXPECT_FALSE(again->find("secret").has_value());
  EXPECT_THAT(cluster_->kept("tokens").value(), Not(HasSubstr(token)));
}

TEST_F(ApiTest, KeysOfDifferentCallersDoNotMeet) {
  const std::string token =
      wire::token_from(send("POST", "/v1/tokens", R"({"name": "ci", "role": "user"})").body).value();
  EXPECT_EQ(send("POST", "/v1/jobs", kJob, {{"Idempotency-Key", "k"}}).body, R"({"jobs":[0]})");
  const auto other = client_.send("POST", "/v1/jobs", {{"Authorization", "Bearer " + token}, {"Idempotency-Key", "k"}},
                                  kJob, kTimeout);
  EXPECT_EQ(other->body, R"({"jobs":[1]})");
}

TEST_F(ApiTest, WhoAsksTooOftenWaits) {
  Api slow(*cluster_, *access_, {"/", 0.001, 2});
  const HttpRequest request{"GET", "/v1/nodes", {}, {{"host", "localhost"}, {"authorization", "Bearer secret"}}, ""};
  EXPECT_EQ(slow.handle(request).status, 200);
  EXPECT_EQ(slow.handle(request).status, 200);
  const HttpResponse refused = slow.handle(request);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.headers, testing::Contains(testing::Key("Retry-After")));
}

TEST_F(ApiTest, MetricsCountWhatHappens) {
  send("POST", "/v1/jobs", kJob);
  ASSERT_TRUE(cluster_.reaches(0, wire::JobStatus::running));
  const std::string text = send("GET", "/metrics").body;
  EXPECT_THAT(text, HasSubstr("ebb_jobs{status=\"running\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_jobs{status=\"waiting\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("ebb_gpus 4\n"));
  EXPECT_THAT(text, HasSubstr("ebb_gpus_held 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_http_requests_total{code=\"201\",method=\"POST\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_journal_writable 1\n"));
  EXPECT_THAT(text, HasSubstr("ebb_step_duration_seconds_count"));
}

TEST_F(ApiTest, WhatAnotherPolicyOrOneMoreJobWouldChange) {
  const auto job = [](int workers, const std::string& limit) {
    return fmt::format(R"({{"version": 1, "command": ["true"], "workers": {}, "time_limit": "{}"}})", workers, limit);
  };
  for (const std::string& each : {job(4, "1h"), job(4, "2h"), job(1, "10m")}) send("POST", "/v1/jobs", each);
  ASSERT_TRUE(cluster_.reaches(0, wire::JobStatus::running));
  // Under fifo job 2 waits behind job 1; shortest first, it goes before it, and before job 0 too.
  const HttpReply shortest = send("POST", "/v1/what-if?policy=srtf");
  ASSERT_EQ(shortest.status, 200) << shortest.body;
  const auto [as_is, changed] = wire::outlooks_from(shortest.body).value();
  EXPECT_EQ(as_is.policy, "fifo");
  EXPECT_EQ(changed.policy, "srtf");
  ASSERT_EQ(as_is.jobs.size(), 3u);
  EXPECT_GT(*as_is.jobs[2].start, *as_is.jobs[1].start);
  EXPECT_LT(*changed.jobs[2].start, *changed.jobs[1].start);
  EXPECT_LT(*changed.mean_wait, *as_is.mean_wait);
  EXPECT_TRUE(as_is.all_done.has_value());

  const auto more = wire::outlooks_from(send("POST", "/v1/what-if", job(4, "1h")).body).value();
  ASSERT_EQ(more.second.jobs.size(), 4u);
  EXPECT_EQ(*more.second.jobs[3].end - *more.first.all_done, std::chrono::hours(1));
  EXPECT_EQ(send("POST", "/v1/what-if?policy=nonsense").status, 404);
  EXPECT_EQ(send("POST", "/v1/what-if?policy=tiresias&option.queues=x").status, 400);
  EXPECT_EQ(send("POST", "/v1/what-if", job(5, "1h")).status, 400);
  EXPECT_EQ(wire::jobs_from(send("GET", "/v1/jobs").body)->size(), 3u) << "asking changes nothing";
  EXPECT_EQ(wire::policy_from(send("GET", "/v1/policy").body)->name, "fifo");
}

TEST_F(ApiTest, ThePolicyIsChangedWhileJobsWait) {
  send("POST", "/v1/jobs", kJob);
  EXPECT_EQ(send("PUT", "/v1/policy", R"({"name": "tiresias", "options": {"promote": "2"}})").status, 200);
  const auto policy = wire::policy_from(send("GET", "/v1/policy").body).value();
  EXPECT_EQ(policy.name, "tiresias");
  EXPECT_THAT(policy.options, ElementsAre(std::pair<std::string, std::string>("promote", "2")));
  EXPECT_EQ(send("PUT", "/v1/policy", R"({"name": "nonsense"})").status, 404);
  EXPECT_EQ(send("PUT", "/v1/policy", R"({"name": "fifo", "options": {"x": "1"}})").status, 400);
  EXPECT_EQ(send("PUT", "/v1/policy", R"({"name": "fifo", "more": 1})").status, 400);
  EXPECT_EQ(send("PUT", "/v1/policy", "fifo").status, 400);
}

TEST_F(ApiTest, AnExplanationHasAForecast) {
  const std::string job = R"({"version": 1, "command": ["true"], "workers": 4, "time_limit": "1h"})";
  for (int k = 0; k < 2; ++k) send("POST", "/v1/jobs", job);
  ASSERT_TRUE(cluster_.reaches(0, wire::JobStatus::running));
  const auto why = wire::explanation_from(send("GET", "/v1/jobs/1/explain").body).value();
  EXPECT_EQ(why.position, 1u);
  const auto started = wire::job_detail_from(send("GET", "/v1/jobs/0").body)->job.started.value();
  EXPECT_EQ(*why.expected_start - started, std::chrono::hours(1));
  EXPECT_THAT(why.basis, HasSubstr("time limits"));
}

TEST_F(ApiTest, AWrongMethodSaysWhichAreRight) {
  const std::string answer = raw(fmt::format(
      "PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_THAT(answer, HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(answer, HasSubstr("Allow: GET, POST"));
}

TEST(RateLimit, GivesBackWithTime) {
  RateLimit limit(2, 1);
  const Time t0{};
  EXPECT_FALSE(limit.refuse("a", t0));
  EXPECT_EQ(limit.refuse("a", t0), std::chrono::milliseconds(500));
  EXPECT_FALSE(limit.refuse("b", t0)) << "each has its own";
  EXPECT_TRUE(limit.refuse("a", t0 + std::chrono::milliseconds(400)));
  EXPECT_FALSE(limit.refuse("a", t0 + std::chrono::milliseconds(500)));
  EXPECT_FALSE(limit.refuse("a", t0 + std::chrono::hours(1)));
  EXPECT_TRUE(limit.refuse("a", t0 + std::chrono::hours(1))) << "no more than the burst";
}

}  // namespace
}  // namespace ebb::control
