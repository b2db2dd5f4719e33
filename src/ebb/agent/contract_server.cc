#include "ebb/agent/contract_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "ebb/base/fd.h"
#include "ebb/base/secret.h"
#include "ebb/base/thread.h"
#include "ebb/wire/unix_socket.h"

namespace ebb::agent {
namespace {

constexpr std::size_t kMaxWaiting = std::size_t{8} << 20;
constexpr std::size_t kMaxConnections = 10'000;

/// One process that connected; a worker once it said a good hello.
struct Connection {
  Fd fd;
  WorkerId worker;
  wire::FrameReader reader;
  std::string out;
  bool broken = false;
};

bool same_user(const Fd& fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

}  // namespace

struct ContractServer::Impl {
  Impl(std::string the_key, Sink the_sink) : key(std::move(the_key)), sink(std::move(the_sink)) {}

  void run();
  void accept();
  void read(Connection& connection);
  void hear(Connection& connection, const std::string& message);
  void greet(Connection& connection, const wire::Hello& hello);
  void take_orders();
  static void write(Connection& connection);

  std::string secret_of(const WorkerId& worker) const { return sha256_hex(key + "/" + worker); }
  void poke() const {
    const std::uint64_t one = 1;
    if (::write(wake.get(), &one, sizeof one) < 0) return;  // full: it wakes anyway
  }

  const std::string key;
  const Sink sink;
  Fd listener;
  Fd wake;

  std::mutex mutex;
  std::deque<std::pair<WorkerId, std::string>> orders;  // frames; under the mutex
  bool stopping = false;                                // under the mutex

  std::list<Connection> connections;  // the thread's own
  std::thread thread;
};

void ContractServer::Impl::run() {
  while (true) {
    std::vector<pollfd> polled{{wake.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const Connection& each : connections) {
      polled.push_back({each.fd.get(), static_cast<short>(each.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    {
      const std::lock_guard lock(mutex);
      if (stopping) return;
    }
    std::size_t at = 2;
    const std::size_t old = connections.size();
    auto each = connections.begin();
    for (std::size_t i = 0; i < old; ++i, ++each, ++at) {
      if ((polled[at].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read(*each);
    }
    if ((polled[1].revents & POLLIN) != 0) accept();
    if ((polled[0].revents & POLLIN) != 0) take_orders();
    for (Connection& connection : connections) write(connection);
    connections.remove_if([](const Connection& connection) { return connection.broken; });
  }
}

void ContractServer::Impl::accept() {
  Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd || !same_user(fd) || connections.size() >= kMaxConnections) return;
  connections.emplace_back().fd = std::move(fd);
}

void ContractServer::Impl::read(Connection& connection) {
  std::array<char, 65'536> bytes{};
  const ssize_t n = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
  if (n <= 0) {
    connection.broken = n == 0 || (errno != EAGAIN && errno != EINTR);
    return;
  }
  connection.reader.add({bytes.data(), static_cast<std::size_t>(n)});
  while (!connection.broken) {
    const auto message = connection.reader.next();
    if (!message) connection.broken = true;
    if (!message || !*message) return;
    hear(connection, **message);
  }
}

void ContractServer::Impl::hear(Connection& connection, const std::string& message) {
  auto said = wire::decode_from_worker(message);
  if (!said) {
    connection.broken = true;
  } else if (const auto* hello = std::get_if<wire::Hello>(&*said)) {
    greet(connection, *hello);
  } else if (connection.worker.empty()) {
    connection.broken = true;  // before its hello
  } else {
    auto& report = std::get<wire::WorkerReport>(*said);
    report.worker = connection.worker;
    sink(std::move(report));
  }
}

void ContractServer::Impl::greet(Connection& connection, const wire::Hello& hello) {
  // Compared by hash: how long that takes says nothing about the secret.
  if (hello.version == 0 || sha256_hex(hello.secret) != sha256_hex(secret_of(hello.worker))) {
    connection.broken = true;
    return;
  }
  for (Connection& other : connections) {
    if (&other != &connection && other.worker == hello.worker) other.broken = true;
  }
  connection.worker = hello.worker;
  connection.out += wire::frame(wire::Welcome{std::min(hello.version, wire::kContractVersion)});
  sink({hello.worker, 0, wire::Connected{}});
}

void ContractServer::Impl::take_orders() {
  std::uint64_t count = 0;
  if (::read(wake.get(), &count, sizeof count) < 0) return;
  std::deque<std::pair<WorkerId, std::string>> taken;
  {
    const std::lock_guard lock(mutex);
    taken.swap(orders);
  }
  for (auto& [worker, bytes] : taken) {
    for (Connection& connection : connections) {
      if (connection.broken || connection.worker != worker) continue;
      connection.out += bytes;
      if (connection.out.size() > kMaxWaiting) connection.broken = true;
    }
  }
}

void ContractServer::Impl::write(Connection& connection) {
  while (!connection.broken && !connection.out.empty()) {
    const ssize_t n = ::send(connection.fd.get(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (n < 0) {
      connection.broken = errno != EAGAIN && errno != EINTR;
      return;
    }
    connection.out.erase(0, static_cast<std::size_t>(n));
  }
}

Result<std::unique_ptr<ContractServer>> ContractServer::start(const std::string& address, std::string key, Sink sink) {
  auto impl = std::make_unique<Impl>(std::move(key), std::move(sink));
  EBB_ASSIGN_OR_RETURN(const wire::UnixAddress bound, wire::unix_address(address));
  impl->listener = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  impl->wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!impl->listener || !impl->wake || ::bind(impl->listener.get(), bound.get(), bound.length) != 0 ||
      ::listen(impl->listener.get(), SOMAXCONN) != 0) {
    return fail(ErrorCode::unavailable, "cannot listen for workers on '{}': {}", address, std::strerror(errno));
  }
  impl->thread = thread_without_signals([&self = *impl] { self.run(); });
  return std::unique_ptr<ContractServer>(new ContractServer(std::move(impl)));
}

ContractServer::ContractServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ContractServer::~ContractServer() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->poke();
  impl_->thread.join();
}

std::string ContractServer::secret_of(const WorkerId& worker) const {
  return impl_->secret_of(worker);
}

void ContractServer::tell(const WorkerId& worker, const wire::Order& order) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->orders.emplace_back(worker, wire::frame(order));
  }
  impl_->poke();
}

}  // namespace ebb::agent
