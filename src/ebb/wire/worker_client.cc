#include "ebb/wire/worker_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "ebb/base/fd.h"
#include "ebb/base/thread.h"
#include "ebb/wire/unix_socket.h"

namespace ebb::wire {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1'000};

}  // namespace

/// One thread reads and writes; others leave what is to be said, and fetch what was heard, under the mutex.
struct WorkerClient::Impl {
  Impl(std::string the_socket, WorkerId the_worker, std::string the_secret)
      : socket(std::move(the_socket)), worker(std::move(the_worker)), secret(std::move(the_secret)) {
    wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    thread = thread_without_signals([this] { run(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    poke();
    thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void poke() const {
    const std::uint64_t one = 1;
    if (::write(wake.get(), &one, sizeof one) < 0) return;  // full: it wakes anyway
  }

  void answer(Report report) {
    {
      const std::lock_guard lock(mutex);
      answers.push_back({"", ++last_number, std::move(report)});
    }
    poke();
  }

  // Until told to stop: connect, talk, and when that breaks, again.
  void run() {
    milliseconds pause = kFirstPause;
    while (!wait(pause)) {
      if (talk()) pause = kFirstPause / 2;
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // True once told to stop.
  bool wait(milliseconds pause) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, connected_once ? pause : milliseconds(0), [&] { return stopping; });
    connected_once = true;
    return stopping;
  }

  // One connection, from hello to its end. Whether it was welcomed.
  bool talk() {
    const auto address = unix_address(socket);
    const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!address || !fd || ::connect(fd.get(), address->get(), address->length) != 0) return false;
    if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) return false;
    FrameReader reader;
    std::string out = frame(Hello{kContractVersion, worker, secret});
    bool welcome = false;
    std::uint64_t sent = 0;  // answers up to this number, on this connection
    while (true) {
      {
        const std::lock_guard lock(mutex);
        if (stopping) return welcome;
        if (welcome) collect(out, sent);
      }
      if (!write_some(fd, out)) return welcome;
      if (welcome && out.empty() && figures_wait()) continue;
      if (!exchange(fd, out, reader, welcome)) return welcome;
    }
  }

  // What is to be said and was not yet on this connection. Called with the mutex held.
  void collect(std::string& out, std::uint64_t& sent) {
    for (const WorkerReport& answer : answers) {
      if (answer.number <= sent) continue;
      out += frame(answer.number, answer.report);
      sent = answer.number;
    }
    if (!out.empty()) return;  // figures wait for a connection that takes more
    for (std::optional<Report>* figure : {&latest_progress, &latest_load}) {
      if (*figure) out += frame(0, **figure);
      figure->reset();
    }
  }

  bool figures_wait() {
    const std::lock_guard lock(mutex);
    return latest_progress || latest_load;
  }

  static bool write_some(const Fd& fd, std::string& out) {
    while (!out.empty()) {
      const ssize_t n = ::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      out.erase(0, static_cast<std::size_t>(n));
    }
    return true;
  }

  // Waits for bytes, room or something to say. False when the connection is of no more use.
  bool exchange(const Fd& fd, const std::string& out, FrameReader& reader, bool& welcome) {
    std::array<pollfd, 2> polled{pollfd{fd.get(), static_cast<short>(out.empty() ? POLLIN : POLLIN | POLLOUT), 0},
                                 {wake.get(), POLLIN, 0}};
    if (::poll(polled.data(), polled.size(), -1) < 0) return errno == EINTR;
    std::uint64_t count = 0;
    if ((polled[1].revents & POLLIN) != 0 && ::read(wake.get(), &count, sizeof count) < 0 && errno != EAGAIN) {
      return false;
    }
    if ((polled[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) return true;
    std::array<char, 65'536> bytes{};
    const ssize_t n = ::recv(fd.get(), bytes.data(), bytes.size(), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    reader.add({bytes.data(), static_cast<std::size_t>(n)});
    while (true) {
      const auto message = reader.next();
      if (!message) return false;
      if (!*message) return true;
      const auto said = decode_to_worker(**message);
      if (!said) continue;  // of a later version
      if (std::holds_alternative<Welcome>(*said)) {
        welcome = true;
      } else {
        hear(std::get<Order>(*said));
      }
    }
  }

  void hear(const Order& order) {
    const std::lock_guard lock(mutex);
    if (const auto* acknowledged = std::get_if<Acknowledged>(&order)) {
      std::erase_if(answers, [&](const WorkerReport& answer) { return answer.number <= acknowledged->number; });
    } else if (const auto* the_target = std::get_if<TargetOrder>(&order)) {
      if (the_target->revision <= last_revision) return;  // heard before
      last_revision = the_target->revision;
      target = *the_target;
    } else {
      checkpoint = std::get<CheckpointOrder>(order);
    }
    changed.notify_all();
  }

  const std::string socket;
  const WorkerId worker;
  const std::string secret;
  Fd wake;

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  bool connected_once = false;
  std::uint64_t last_number = 0;
  std::uint64_t last_revision = 0;
  std::deque<WorkerReport> answers;  // not acknowledged
  std::optional<Report> latest_progress;
  std::optional<Report> latest_load;
  std::optional<TargetOrder> target;  // not given out
  std::optional<CheckpointOrder> checkpoint;
  std::thread thread;
};

Result<std::unique_ptr<WorkerClient>> WorkerClient::from_environment() {
  std::array<std::string, 3> values;
  const std::array<const char*, 3> names{"EBB_WORKER_SOCKET", "EBB_WORKER_ID", "EBB_WORKER_SECRET"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char* value = std::getenv(names[i]);
    if (value == nullptr || *value == '\0') {
      return fail(ErrorCode::failed_precondition,
                  "{} is not set: this process is no worker of a job with 'elasticity: contract'", names[i]);
    }
    values[i] = value;
  }
  return std::make_unique<WorkerClient>(values[0], values[1], values[2]);
}

WorkerClient::WorkerClient(std::string socket, WorkerId worker, std::string secret)
    : impl_(std::make_unique<Impl>(std::move(socket), std::move(worker), std::move(secret))) {}
WorkerClient::~WorkerClient() = default;

const WorkerId& WorkerClient::worker() const {
  return impl_->worker;
}

std::optional<Order> WorkerClient::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, timeout, [&] { return impl_->target || impl_->checkpoint; });
  if (impl_->target) return *std::exchange(impl_->target, std::nullopt);
  if (impl_->checkpoint) return *std::exchange(impl_->checkpoint, std::nullopt);
  return std::nullopt;
}

void WorkerClient::ready() {
  impl_->answer(Ready{});
}
void WorkerClient::switched(std::uint64_t revision, std::uint64_t generation, std::vector<WorkerId> members) {
  impl_->answer(Switched{revision, generation, std::move(members)});
}
void WorkerClient::drained(const WorkerId& worker) {
  impl_->answer(Drained{worker.empty() ? impl_->worker : worker});
}
void WorkerClient::refused(std::uint64_t revision, const std::string& why) {
  impl_->answer(Refused{revision, why});
}

void WorkerClient::progress(Progress progress) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->latest_progress = std::move(progress);
  }
  impl_->poke();
}

void WorkerClient::load(Load load) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->latest_load = load;
  }
  impl_->poke();
}

Result<void> WorkerClient::flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  if (impl_->changed.wait_for(lock, timeout, [&] { return impl_->answers.empty(); })) return {};
  return fail(ErrorCode::deadline_exceeded, "{} answers of worker {} are not acknowledged", impl_->answers.size(),
              impl_->worker);
}

}  // namespace ebb::wire
