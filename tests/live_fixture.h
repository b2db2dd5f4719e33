#pragma once

/// For tests of the live control plane: folders that go away, a controller on a thread.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "ebb/backend/fake_backend.h"
#include "ebb/base/test_folder.h"
#include "ebb/control/controller.h"
#include "ebb/policies/all.h"
#include "ebb/sched/test_cluster.h"

namespace ebb::control {

inline JobRequest test_request(std::int32_t workers = 1) {
  JobRequest job;
  job.name = "train";
  job.command = {"true"};
  job.working_directory = "/";
  job.workers = workers;
  return job;
}

using ebb::TestFolder;

/// A controller that runs on a thread, with a backend that may outlive it.
class TestCluster {
 public:
  explicit TestCluster(const std::filesystem::path& folder, backend::FakeBackend* backend = nullptr,
                       GpuCount slots = 4) {
    auto opened =
        Controller::open(Store::open(folder).value(), {sched::test_cluster(1, slots), "fifo", {}}, policies::all());
    if (!opened) {
      error = opened.error();
      return;
    }
    controller_ = std::move(*opened);
    if (backend == nullptr) {
      own_ = std::make_unique<backend::FakeBackend>(
          [this](WorkerStatus status) { controller_->on_status(std::move(status)); });
      backend = own_.get();
    }
    backend_ = backend;
  }
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;
  ~TestCluster() { stop(); }

  void run() {
    thread_ = std::thread([this] { result = controller_->run(*backend_); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    controller_->stop();
    thread_.join();
    EXPECT_TRUE(result.has_value()) << result.error().message;
  }

  Controller& operator*() { return *controller_; }
  Controller* operator->() { return controller_.get(); }
  backend::FakeBackend& backend() { return *backend_; }

  /// Waits for the status; the deadline only ends a test that failed.
  bool reaches(JobId job, wire::JobStatus status) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::uint64_t seen = 0;
    while (std::chrono::steady_clock::now() < deadline) {
      if (controller_->job(job).value().job.status == status) return true;
      const auto rows = controller_->events(seen, 1000, std::chrono::milliseconds(100)).value();
      if (!rows.empty()) seen = rows.back().seq;
    }
    return false;
  }

  std::optional<Error> error;
  Result<void> result;

 private:
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<backend::FakeBackend> own_;
  backend::FakeBackend* backend_ = nullptr;
  std::thread thread_;
};

}  // namespace ebb::control
