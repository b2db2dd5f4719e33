#include "ebb/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <system_error>

#include "ebb/agent/agent_impl.h"
#include "ebb/base/check.h"
#include "ebb/base/files.h"
#include "ebb/base/log.h"
#include "ebb/base/secret.h"
#include "ebb/base/thread.h"

namespace ebb::agent {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kWakeToken = 0;
constexpr std::uint64_t kFolderToken = 1;
constexpr int kReapFor = 1000;  // ms
constexpr std::size_t kMaxFile = std::size_t{64} << 20;

template <typename... Functions>
struct Overload : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overload(Functions...) -> Overload<Functions...>;

/// A shim that has written its exit is about to end; it shall not stay a zombie of this process.
void reap(const Fd& process) {
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  ::poll(&ended, 1, kReapFor);
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(process.get()), &info, WEXITED | WNOHANG);
}

void add_to(const Fd& epoll, int fd, std::uint64_t token) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = token}};
  EBB_CHECK(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0);
}

}  // namespace

void complain(const std::string& message) {
  log(LogLevel::error, "agent", {{"error", message}});
}

Agent::Impl::Impl(AgentOptions options, Sink sink, ReportSink reports)
    : options_(std::move(options)), sink_(std::move(sink)), reports_(std::move(reports)) {}

Agent::Impl::~Impl() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }
  std::vector<std::string> running;
  for (const auto& [id, worker] : workers_) {
    if (!worker.status.exit) running.push_back(id);
  }
  for (const auto& [token, watched] : processes_) {
    const bool runs_on = std::find(running.begin(), running.end(), watched.worker) != running.end();
    if (watched.is_child && !runs_on) reap(watched.process);
  }
  remove_stale_groups(isolation_, running);
}

Result<void> Agent::Impl::open() {
  if (::access(options_.shim.c_str(), X_OK) != 0) {
    return fail(ErrorCode::not_found, "'{}' is not there or may not be executed; it starts the workers",
                options_.shim.string());
  }
  EBB_RETURN_IF_ERROR(take_folder());
  EBB_RETURN_IF_ERROR(read_fences());
  if (options_.isolate) {
    isolation_ = find_isolation("ebb-" + id_, GroupSystem::read());
  } else {
    isolation_.how = "none";
    isolation_.reason = "CPU time and memory are not enforced: switched off";
  }
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  folder_events_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!epoll_ || !wake_ || !folder_events_) return os_error("watch", options_.folder, errno);
  add_to(epoll_, wake_.get(), kWakeToken);
  add_to(epoll_, folder_events_.get(), kFolderToken);
  EBB_RETURN_IF_ERROR(write_lease());
  if (reports_) EBB_RETURN_IF_ERROR(serve_contract());
  EBB_RETURN_IF_ERROR(adopt_workers());

  thread_ = thread_without_signals([this] { run(); });
  return {};
}

Result<void> Agent::Impl::serve_contract() {
  const fs::path path = options_.folder / "secret";
  std::string key;
  if (auto kept = read_file(path, 64)) {
    key = std::move(*kept);
  } else {
    EBB_ASSIGN_OR_RETURN(key, random_hex(32));
    EBB_RETURN_IF_ERROR(write_durably(path, key));
  }
  EBB_ASSIGN_OR_RETURN(contract_, ContractServer::start(contract_address(), std::move(key), reports_));
  return {};
}

Result<void> Agent::Impl::take_folder() {
  const fs::path& folder = options_.folder;
  if (folder.has_parent_path()) {
    std::error_code error;
    fs::create_directories(folder.parent_path(), error);
    if (error) return os_error("make folder", folder.parent_path(), error.value());
  }
  EBB_RETURN_IF_ERROR(make_folder(folder));
  EBB_ASSIGN_OR_RETURN(folder_lock_, open_file(folder / "agent.lock", O_RDWR | O_CREAT));
  if (::flock(folder_lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::failed_precondition, "another agent uses '{}'", folder.string());
  }
  if (auto id = read_file(folder / "id", 64)) {
    id_ = std::move(*id);
    if (!is_valid_worker_id(id_)) return fail(ErrorCode::invalid_argument, "'{}/id' is damaged", folder.string());
  } else {
    EBB_ASSIGN_OR_RETURN(id_, random_hex(8));
    EBB_RETURN_IF_ERROR(write_durably(folder / "id", id_));
  }
  EBB_RETURN_IF_ERROR(make_folder(folder / "workers"));
  EBB_RETURN_IF_ERROR(make_folder(folder / "ended"));
  return sync_folder(folder);
}

Result<void> Agent::Impl::read_fences() {
  const fs::path path = options_.folder / "fences.json";
  const auto text = read_file(path, kMaxFile);
  if (text) {
    EBB_ASSIGN_OR_RETURN(fences_, fences_from_json(*text));
  } else if (text.error().code != ErrorCode::not_found) {
    return tl::unexpected(text.error());
  }
  fences_.resize(std::max(fences_.size(), static_cast<std::size_t>(std::max(options_.slots.count, 0))));
  return {};
}

Result<void> Agent::Impl::adopt_workers() {
  std::error_code error;
  for (fs::directory_iterator it(options_.folder / "workers", error), end; !error && it != end; it.increment(error)) {
    const std::string id = it->path().filename().string();
    if (!is_valid_worker_id(id)) continue;
    Worker worker(it->path(), id);
    if (worker.folder.judge() == WorkerFolder::Standing::empty) {
      // The agent went down before it had written the spec: nobody knows this worker.
      std::error_code ignored;
      fs::remove_all(worker.folder.path(), ignored);
      continue;
    }
    worker.admitted = worker.on_disk = true;
    // Without its spec a worker can still be judged; its processes are found by their environment.
    if (auto launch = worker.folder.launch()) worker.group = std::move(launch->group);
    workers_.emplace(id, std::move(worker));
  }
  if (error) return os_error("read folder", options_.folder / "workers", error.value());
  std::vector<std::string> running;
  for (auto& [id, worker] : workers_) {
    watch_folder(worker);
    settle(worker);
    if (!worker.status.exit) running.push_back(id);
  }
  remove_stale_groups(isolation_, running);
  return {};
}

void Agent::Impl::push(Command command) {
  commands_.push_back(std::move(command));
}

void Agent::Impl::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void Agent::Impl::run() {
  flush();
  while (true) {
    wait();
    const bool stopping = take_commands();
    const Duration now = boot_clock();
    std::vector<WorkerId> due;
    for (const auto& [id, at] : retry_at_) {
      if (at <= now) due.push_back(id);
    }
    for (const WorkerId& id : due) {
      retry_at_.erase(id);
      if (Worker* const worker = find(id)) settle(*worker);
    }
    renew_if_due();
    flush();
    if (stopping) return;
  }
}

/// Until there is something to do, and does what concerns files and processes.
void Agent::Impl::wait() {
  Duration next = Duration::max();
  for (const auto& [id, at] : retry_at_) next = std::min(next, at);
  if (options_.lease && options_.renews_lease) next = std::min(next, renew_at_.load());
  int timeout_ms = -1;
  if (next != Duration::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(next - boot_clock(), Duration{0}));
    timeout_ms = static_cast<int>(std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max()));
  }
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
    if (token == kWakeToken) {
      std::uint64_t woken = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &woken, sizeof woken);
    } else if (token == kFolderToken) {
      on_folder_events();
    } else {
      on_process_end(token);
    }
  }
}

/// True if it shall end.
bool Agent::Impl::take_commands() {
  std::vector<Command> commands;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
    stopping = stopping_;
  }
  for (Command& command : commands) {
    if (!std::holds_alternative<StartCommand>(command)) launch_admitted();
    std::visit(
        Overload{[&](const StartCommand& c) { admit(c.spec); }, [&](const StopCommand& c) { stop(c.worker, c.grace); },
                 [&](const ForgetCommand& c) { forget(c.worker); }},
        command);
  }
  launch_admitted();
  return stopping;
}

void Agent::Impl::on_folder_events() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  ssize_t size = 0;
  while ((size = ::read(folder_events_.get(), buffer.data(), buffer.size())) > 0) {
    for (const char* at = buffer.data(); at < buffer.data() + size;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof(inotify_event) + event->len;
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        for (const auto& [watch, id] : folders_) retry_at_[id] = Duration{0};
      }
      const auto folder = folders_.find(event->wd);
      if (folder == folders_.end()) continue;
      if (Worker* const worker = find(folder->second)) settle(*worker);
    }
  }
}

void Agent::Impl::on_process_end(std::uint64_t token) {
  const auto it = processes_.find(token);
  if (it == processes_.end()) return;
  if (it->second.is_child) reap(it->second.process);
  const WorkerId id = it->second.worker;
  processes_.erase(it);
  if (const auto watched = watched_workers_.find(id); watched != watched_workers_.end() && watched->second == token) {
    watched_workers_.erase(watched);
  }
  if (Worker* const worker = find(id)) settle(*worker);
}

void Agent::Impl::renew_if_due() {
  if (!options_.lease || !options_.renews_lease || boot_clock() < renew_at_.load()) return;
  if (auto written = write_lease(); !written) complain(written.error().message);
}

void Agent::Impl::flush() {
  for (WorkerStatus& status : outbox_) sink_(std::move(status));
  outbox_.clear();
}

Result<void> Agent::Impl::write_lease() {
  if (!options_.lease) return {};
  const std::lock_guard lock(lease_mutex_);
  const Duration now = boot_clock();
  renew_at_ = now + *options_.lease / 3;
  // Not durable: the boot clock, and every worker, ends with the machine.
  return write_atomically(options_.folder / "lease", lease_to_json(now + *options_.lease));
}

fs::path Agent::Impl::log_folder(const WorkerId& worker) const {
  const fs::path running = options_.folder / "workers" / worker;
  return ::access(running.c_str(), F_OK) == 0 ? running : options_.folder / "ended" / worker;
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::open(AgentOptions options, Sink sink, ReportSink reports) {
  std::error_code error;
  options.folder = fs::absolute(options.folder, error);
  options.shim = fs::absolute(options.shim, error);
  auto impl = std::make_unique<Impl>(std::move(options), std::move(sink), std::move(reports));
  EBB_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

void Agent::start(const WorkerSpec& spec) {
  {
    const std::lock_guard lock(impl_->mutex_);
    // list() knows it from now on.
    impl_->workers_.try_emplace(spec.id, impl_->options_.folder / "workers" / spec.id, spec.id);
    impl_->push(Impl::StartCommand{spec});
  }
  impl_->wake();
}

void Agent::stop(const WorkerId& worker, Duration grace) {
  {
    const std::lock_guard lock(impl_->mutex_);
    impl_->push(Impl::StopCommand{worker, grace});
  }
  impl_->wake();
}

void Agent::tell(const WorkerId& worker, const wire::Order& order) {
  if (impl_->contract_) impl_->contract_->tell(worker, order);
}

void Agent::forget(const WorkerId& worker) {
  {
    const std::lock_guard lock(impl_->mutex_);
    impl_->push(Impl::ForgetCommand{worker});
  }
  impl_->wake();
}

std::vector<WorkerStatus> Agent::list() const {
  const std::lock_guard lock(impl_->mutex_);
  std::vector<WorkerStatus> statuses;
  for (const auto& [id, worker] : impl_->workers_) statuses.push_back(worker.status);
  return statuses;
}

Result<std::string> Agent::read_log(const WorkerId& worker, std::string_view stream, std::uint64_t offset,
                                    std::size_t max_bytes) const {
  if (!is_valid_worker_id(worker) || (stream != "stdout" && stream != "stderr")) {
    return fail(ErrorCode::not_found, "no log '{}' of worker '{}'", stream, worker);
  }
  return agent::read_log(impl_->log_folder(worker), stream, offset, max_bytes);
}

Result<LogRange> Agent::log_range(const WorkerId& worker, std::string_view stream) const {
  if (!is_valid_worker_id(worker) || (stream != "stdout" && stream != "stderr")) {
    return fail(ErrorCode::not_found, "no log '{}' of worker '{}'", stream, worker);
  }
  return agent::log_range(impl_->log_folder(worker), stream);
}

Result<void> Agent::renew_lease() {
  return impl_->write_lease();
}

const Isolation& Agent::isolation() const {
  return impl_->isolation_;
}

}  // namespace ebb::agent
