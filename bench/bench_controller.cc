// The controller with 100,000 pending and 2,000 running jobs on 1,000 nodes of 8 slots whose workers are not real:
//   steps        the scheduler's part of a turn, under each policy, while jobs end and others come: p50, p99, largest
//   ps           what `ebb ps` asks for, through the HTTP API: the first page (1,000 jobs), and with --limit 0 all
//   restart      folding a journal of 1,000,000 rows, of jobs of one and two workers that came, ran and ended
//   submissions  durable ones through the HTTP API: one client after the other beside an fsync of as many bytes in the
//                same folder, in turn; 16 clients at once; arrays of 100
// usage: bench_controller [PENDING [FOLDER]]     FOLDER on the disk to measure; it is made, and removed at the end

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "bench_support.h"
#include "ebb/backend/fake_backend.h"
#include "ebb/control/api.h"
#include "ebb/control/ledger.h"
#include "ebb/policies/all.h"
#include "ebb/wire/api_json.h"
#include "ebb/wire/http_client.h"

namespace {

using namespace ebb;
using control::Ledger;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kRunning = 2'000;
constexpr std::size_t kTurns = 3'000;
constexpr std::size_t kSubmissions = 2'000;
constexpr std::size_t kClients = 16;
constexpr std::uint64_t kRestartRows = 1'000'000;
constexpr auto kTimeout = std::chrono::minutes(5);

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "bench_controller: {}\n", why);
  std::exit(1);
}

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string spread(const std::vector<double>& ms) {
  return fmt::format("p50 {:.3f} ms, p99 {:.3f} ms, largest {:.3f} ms", bench::percentile(ms, 0.5),
                     bench::percentile(ms, 0.99), bench::percentile(ms, 1));
}

ClusterSpec big_cluster() {
  ClusterSpec cluster;
  for (int node = 0; node < 1'000; ++node) cluster.nodes.push_back({fmt::format("n{}", node), 8, "", ""});
  return cluster;
}

/// Gangs of 1, 2, 4 and 8 slots with time limits from minutes to days; `gpus` > 0 fixes the size.
class Jobs {
 public:
  JobRequest next(std::int32_t gpus = 0) {
    JobRequest job;
    job.name = "job";
    job.command = {"python3", "train.py"};
    job.working_directory = "/";
    job.tenant = fmt::format("tenant{}", random_() % 20);
    job.workers = gpus > 0 ? gpus : 1 << (random_() % 4);
    job.time_limit = std::chrono::minutes(5 + random_() % 5'000);
    return job;
  }
  std::size_t below(std::size_t n) { return random_() % n; }

 private:
  std::mt19937_64 random_{1};
};

/// A ledger and the workers that it started.
class Driver {
 public:
  Driver(const std::string& policy) : ledger_(Ledger::begin({0, big_cluster(), policy, {}}, policies::all()).value()) {}

  void submit(const JobRequest& job) { hear(control::JobAccepted{static_cast<JobId>(ledger_.jobs().size()), job, ""}); }
  /// From now on rows are kept as they would be journalled.
  void record() { recorded_ = std::vector<control::Row>(); }
  std::vector<control::Row> take_rows() { return std::exchange(*recorded_, {}); }
  void exit_job(JobId job) {
    for (std::size_t rank = 0; rank < ledger_.jobs()[job].workers.size(); ++rank) {
      const control::WorkerEntry& worker = ledger_.jobs()[job].workers[rank];
      if (!worker.exit) hear(control::WorkerSaid{{worker.placed.worker, 1, WorkerExit{}}});
    }
  }
  /// Milliseconds of the step; what it starts runs at the next one, what it stops is gone then.
  double step() {
    now_ += std::chrono::milliseconds(500);
    control::Consequences out;
    const auto start = Clock::now();
    if (auto done = ledger_.step(now_, out); !done) die(done.error().message);
    const double ms = ms_since(start);
    if (recorded_) {
      for (std::string& row : out.rows) recorded_->push_back({0, std::move(row)});
    }
    for (const control::Action& action : out.actions) {
      if (const auto* run = std::get_if<control::StartWorker>(&action)) {
        hear(control::WorkerSaid{{run->spec.id, 1, {}}});
      } else if (const auto* stop = std::get_if<control::StopWorker>(&action)) {
        hear(control::WorkerSaid{{stop->worker, 1, WorkerExit{WorkerExit::Cause::stopped, 0, ""}}});
      }
    }
    return ms;
  }
  const Ledger& ledger() const { return ledger_; }

 private:
  void hear(const control::Input& input) {
    ledger_.apply(now_, input);
    if (recorded_) recorded_->push_back({0, control::encode(now_, input)});
  }

  Ledger ledger_;
  Time now_{};
  std::optional<std::vector<control::Row>> recorded_;
};

void measure_steps(const std::string& policy, std::size_t pending) {
  Jobs jobs;
  Driver driver(policy);
  for (std::size_t i = 0; i < kRunning; ++i) driver.submit(jobs.next(4));
  driver.step();
  for (std::size_t i = 0; i < pending; ++i) driver.submit(jobs.next());
  const double first = driver.step();
  std::vector<double> ms;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const auto& holding = driver.ledger().scheduler().state().holding();
    driver.exit_job(holding[jobs.below(holding.size())]);
    driver.submit(jobs.next());
    ms.push_back(driver.step());
  }
  const sched::State& state = driver.ledger().scheduler().state();
  fmt::print("steps, {}: {} waiting, {} running: {}; the step that hears of all {}: {:.0f} ms; {:.0f} MB resident\n",
             policy, state.waiting_count(), state.holding_count(), spread(ms), pending, first, bench::peak_rss_mb());
}

void measure_restart(const std::filesystem::path& folder) {
  auto opened = control::Store::open(folder);
  if (!opened) die(opened.error().message);
  std::optional<control::Store> store(std::move(*opened));
  std::vector<control::Row> first{{0, control::encode(control::Beginning{0, big_cluster(), "backfill", {}})}};
  if (!store->append(first)) die("cannot write");
  Jobs jobs;
  Driver driver("backfill");
  driver.record();
  while (store->last_seq() < kRestartRows) {
    for (int i = 0; i < 50; ++i) driver.submit(jobs.next(1 + static_cast<std::int32_t>(jobs.below(2))));
    driver.step();
    const std::vector<JobId> holding = driver.ledger().scheduler().state().holding();
    for (std::size_t i = 0; holding.size() > kRunning && i < holding.size() - kRunning; ++i)
      driver.exit_job(holding[i]);
    auto rows = driver.take_rows();
    if (!store->append(rows)) die("cannot write");
  }
  driver.step();
  auto rows = driver.take_rows();
  if (!store->append(rows)) die("cannot write");
  const std::uint64_t count = store->last_seq();
  store.reset();
  const auto start = Clock::now();
  auto again = control::Store::open(folder);
  if (!again) die(again.error().message);
  auto controller = control::Controller::open(std::move(*again), {big_cluster(), {}, {}}, policies::all());
  if (!controller) die(controller.error().message);
  fmt::print("restart: {} rows, {} jobs: {:.2f} s; {:.0f} MB resident at most so far\n", count,
             driver.ledger().jobs().size(), ms_since(start) / 1'000, bench::peak_rss_mb());
}

/// A controller with its API on loopback.
class Server {
 public:
  explicit Server(const std::filesystem::path& folder) {
    auto store = control::Store::open(folder);
    if (!store) die(store.error().message);
    auto opened = control::Controller::open(std::move(*store), {big_cluster(), "backfill", {}}, policies::all());
    if (!opened) die(opened.error().message);
    controller_ = std::move(*opened);
    backend_.emplace([this](WorkerStatus status) { controller_->on_status(std::move(status)); });
    access_ = control::Access::open(*controller_, "secret").value();
    api_.emplace(*controller_, *access_, control::ApiSettings{"/", 1e9, 1e9});
    http_ = control::HttpServer::start("127.0.0.1", 0, {}, [this](const auto& r) { return api_->handle(r); }).value();
    thread_ = std::thread([this] {
      if (auto ran = controller_->run(*backend_); !ran) die(ran.error().message);
    });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    controller_->stop();
    thread_.join();
  }
  control::Controller& controller() { return *controller_; }
  wire::HttpClient client() { return {"127.0.0.1", http_->port()}; }

 private:
  std::unique_ptr<control::Controller> controller_;
  std::optional<backend::FakeBackend> backend_;
  std::unique_ptr<control::Access> access_;
  std::optional<control::Api> api_;
  std::unique_ptr<control::HttpServer> http_;
  std::thread thread_;
};

std::string send(wire::HttpClient& client, const std::string& method, const std::string& target,
                 const std::string& body = "") {
  const auto reply = client.send(method, target, {{"Authorization", "Bearer secret"}}, body, kTimeout);
  if (!reply) die(reply.error().message);
  if (reply->status >= 300) die(reply->body);
  return reply->body;
}

// Held, so that only the submission is measured.
std::string held_job(int array) {
  return fmt::format(R"({{"version":1,"command":["python3","train.py"],"hold":true{}}})",
                     array > 0 ? fmt::format(R"(,"array":{})", array) : "");
}

void measure_ps(Server& server, std::size_t pending) {
  Jobs jobs;
  for (std::size_t i = 0; i < kRunning; ++i) server.controller().submit(jobs.next(4), "").value();
  // What does not fit any more waits.
  JobRequest waiting = jobs.next(8);
  waiting.array_size = 1'000;
  for (std::size_t i = 0; i < pending / 1'000; ++i) server.controller().submit(waiting, "").value();
  wire::HttpClient client = server.client();
  std::vector<double> page_ms;
  std::vector<double> all_ms;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    std::string after;
    std::size_t seen = 0;
    while (true) {
      const auto asked = Clock::now();
      const auto page = wire::jobs_from(send(client, "GET", "/v1/jobs?active=true&limit=1000" + after)).value();
      page_ms.push_back(ms_since(asked));
      seen += page.size();
      if (page.size() < 1'000) break;
      after = fmt::format("&after={}", page.back().id);
    }
    all_ms.push_back(ms_since(start));
    if (seen < pending) die("jobs are missing");
  }
  fmt::print("ps: a page of 1,000 of {} jobs: {}; all of them: {}; {:.0f} MB resident\n", pending + kRunning,
             spread(page_ms), spread(all_ms), bench::peak_rss_mb());
}

void measure_singles(Server& server, const std::filesystem::path& folder) {
  wire::HttpClient client = server.client();
  const std::filesystem::path side = folder / "side";
  const int fd = ::open(side.c_str(), O_RDWR | O_CREAT, 0600);
  const std::string bytes(400, 'x');
  if (fd < 0 || ::ftruncate(fd, off_t{4} << 20) != 0) die("cannot write " + side.string());
  std::vector<double> submit_ms;
  std::vector<double> fsync_ms;
  const std::string job = held_job(0);
  const auto submit = [&] {
    const auto start = Clock::now();
    send(client, "POST", "/v1/jobs", job);
    submit_ms.push_back(ms_since(start));
  };
  const auto sync = [&] {
    const auto start = Clock::now();
    if (::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(fsync_ms.size() * bytes.size())) < 0 ||
        ::fsync(fd) != 0) {
      die("cannot write " + side.string());
    }
    fsync_ms.push_back(ms_since(start));
  };
  for (std::size_t i = 0; i < kSubmissions / 4; ++i) {
    submit();
    sync();
    sync();
    submit();
  }
  ::close(fd);
  const double ratio = bench::percentile(submit_ms, 0.99) / bench::percentile(fsync_ms, 0.5);
  fmt::print(
      "submissions, one after the other: {}; fsync beside them: {}; p99 of the one by p50 of the other: {:.2f}\n",
      spread(submit_ms), spread(fsync_ms), ratio);
}

void measure_many(Server& server, const char* what, std::size_t requests, int array) {
  const std::string job = held_job(array);
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  std::atomic<std::size_t> left = requests;
  for (std::size_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      wire::HttpClient client = server.client();
      while (left.fetch_sub(1) - 1 < requests) send(client, "POST", "/v1/jobs", job);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = ms_since(start) / 1'000;
  fmt::print("submissions, {}: {:.0f} jobs a second\n", what,
             static_cast<double>(requests) * std::max(1, array) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t pending = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000;
  const std::filesystem::path folder = argc > 2 ? argv[2] : "build/bench_controller";
  if (pending == 0) die("usage: bench_controller [PENDING [FOLDER]]");
  for (const char* policy : {"backfill", "tiresias"}) measure_steps(policy, pending);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  measure_restart(folder / "restart");
  {
    Server server(folder / "submissions");
    measure_singles(server, folder);
    measure_many(server, "16 clients at once", 10 * kSubmissions, 0);
    measure_many(server, "16 clients, arrays of 100", kSubmissions / 10, 100);
  }
  {
    Server server(folder / "ps");
    measure_ps(server, pending);
  }
  std::filesystem::remove_all(folder);
}
