#include "ebb/agent/contract_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>

#include "ebb/base/fd.h"
#include "ebb/base/secret.h"
#include "ebb/wire/unix_socket.h"
#include "ebb/wire/worker_client.h"

namespace ebb::agent {
namespace {

using namespace std::chrono_literals;
using wire::WorkerClient;
using wire::WorkerReport;

constexpr auto kPatience = 60s;  // only ends a test that failed

/// What came to the sink.
class Inbox {
 public:
  void add(WorkerReport report) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
    changed_.notify_all();
  }
  /// Waits for so many.
  std::vector<WorkerReport> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return reports_.size() >= count; }));
    return reports_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WorkerReport> reports_;
};

class ContractServerTest : public testing::Test {
 protected:
  ContractServerTest() { start(); }

  void start() {
    server_.reset();
    server_ = ContractServer::start(address_, "key", [this](WorkerReport r) { inbox_.add(std::move(r)); }).value();
  }

  std::unique_ptr<WorkerClient> client(const WorkerId& worker) {
    return std::make_unique<WorkerClient>(address_, worker, server_->secret_of(worker));
  }

  // A connection that has said these bytes.
  Fd connect(const std::string& bytes) {
    const auto address = wire::unix_address(address_).value();
    Fd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(fd.get(), address.get(), address.length), 0);
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return fd;
  }
  // Reads until the other side closes; true if it did without a word.
  static bool closed_silently(const Fd& fd) {
    char byte = 0;
    return ::recv(fd.get(), &byte, 1, 0) <= 0;
  }

  const std::string address_ = "@ebb-test-" + random_hex(8).value();
  Inbox inbox_;
  std::unique_ptr<ContractServer> server_;
};

TEST_F(ContractServerTest, SaysWhoConnectedAndPassesOn) {
  const auto worker = client("j0-1-0");
  worker->ready();
  const auto reports = inbox_.wait(2);
  EXPECT_EQ(reports[0], (WorkerReport{"j0-1-0", 0, wire::Connected{}}));
  EXPECT_EQ(reports[1], (WorkerReport{"j0-1-0", 1, wire::Ready{}}));
  const wire::TargetOrder target{1, {{"j0-1-0", "n0", {2}, true}}, 5s, "start"};
  server_->tell("j0-1-0", target);
  server_->tell("j0-1-1", wire::CheckpointOrder{1s});
  EXPECT_EQ(worker->next(kPatience), wire::Order(target));
  server_->tell("j0-1-0", target);
  server_->tell("j0-1-0", wire::CheckpointOrder{2s});
  EXPECT_EQ(worker->next(kPatience), wire::Order(wire::CheckpointOrder{2s})) << "a revision is given out once";
}

TEST_F(ContractServerTest, AnswersAreSaidAgainUntilTheyAreAcknowledged) {
  const auto worker = client("j0-1-0");
  worker->ready();
  worker->switched(1, 1, {"j0-1-0"});
  inbox_.wait(3);
  EXPECT_FALSE(worker->flush(0ms)) << "nobody has acknowledged";
  start();  // an agent that comes back
  const auto reports = inbox_.wait(6);
  EXPECT_TRUE(std::holds_alternative<wire::Connected>(reports[3].report));
  EXPECT_EQ(reports[4].number, 1u);
  EXPECT_EQ(reports[5].number, 2u);
  server_->tell("j0-1-0", wire::Acknowledged{2});
  EXPECT_TRUE(worker->flush(kPatience));
  start();
  inbox_.wait(7);
  worker->drained();
  EXPECT_EQ(inbox_.wait(8)[7], (WorkerReport{"j0-1-0", 3, wire::Drained{"j0-1-0"}})) << "and not what is on disk";
}

TEST_F(ContractServerTest, OnlyTheLatestProgressIsSent) {
  const auto worker = client("j0-1-0");
  inbox_.wait(1);
  wire::Progress progress;
  for (progress.step = 1; progress.step <= 1'000; ++progress.step) worker->progress(progress);
  worker->ready();
  // However many went through, the last one does.
  for (std::size_t count = 2;; ++count) {
    const auto reports = inbox_.wait(count);
    const auto* last = std::get_if<wire::Progress>(&reports[count - 1].report);
    if (last != nullptr && last->step == 1'000) break;
  }
}

TEST_F(ContractServerTest, WhoHasNoSecretOrNoMannersIsCutOff) {
  using wire::frame;
  EXPECT_TRUE(closed_silently(connect(frame(wire::Hello{1, "j0-1-0", "wrong"}))));
  EXPECT_TRUE(closed_silently(connect(frame(wire::Hello{1, "j0-1-0", server_->secret_of("j0-1-1")}))));
  EXPECT_TRUE(closed_silently(connect(frame(wire::Hello{0, "j0-1-0", server_->secret_of("j0-1-0")}))));
  EXPECT_TRUE(closed_silently(connect(frame(1, wire::Ready{})))) << "before its hello";
  EXPECT_TRUE(closed_silently(connect("\xff\xff\xff\xff"))) << "a length above the limit";
  EXPECT_TRUE(closed_silently(connect(std::string("\0\0\0\4....", 8))));
  const auto worker = client("j0-1-0");
  EXPECT_EQ(inbox_.wait(1).size(), 1u) << "the others were not heard";
}

TEST_F(ContractServerTest, OfOneWorkerTheNewestConnectionCounts) {
  const std::string hello = wire::frame(wire::Hello{1, "j0-1-0", server_->secret_of("j0-1-0")});
  const Fd old = connect(hello);
  inbox_.wait(1);
  const Fd now = connect(hello);
  inbox_.wait(2);
  std::string welcome(wire::frame(wire::Welcome{}).size(), '\0');
  EXPECT_EQ(::recv(old.get(), welcome.data(), welcome.size(), MSG_WAITALL), static_cast<ssize_t>(welcome.size()));
  EXPECT_TRUE(closed_silently(old));
  EXPECT_EQ(::send(now.get(), wire::frame(1, wire::Ready{}).data(), wire::frame(1, wire::Ready{}).size(), 0),
            static_cast<ssize_t>(wire::frame(1, wire::Ready{}).size()));
  EXPECT_EQ(inbox_.wait(3)[2].number, 1u);
}

TEST_F(ContractServerTest, OneAddressOneServer) {
  EXPECT_EQ(ContractServer::start(address_, "key", [](const WorkerReport&) {}).error().code, ErrorCode::unavailable);
  EXPECT_EQ(ContractServer::start("@" + std::string(200, 'x'), "key", [](const WorkerReport&) {}).error().code,
            ErrorCode::invalid_argument);
}

TEST(WorkerClient, NeedsItsEnvironment) {
  EXPECT_EQ(WorkerClient::from_environment().error().code, ErrorCode::failed_precondition);
}

}  // namespace
}  // namespace ebb::agent
