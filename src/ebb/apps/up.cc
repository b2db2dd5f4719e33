#include "ebb/apps/up.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "ebb/agent/agent.h"
#include "ebb/backend/backend.h"
#include "ebb/base/files.h"
#include "ebb/base/log.h"
#include "ebb/base/secret.h"
#include "ebb/base/text.h"
#include "ebb/control/api.h"
#include "ebb/control/controller.h"
#include "ebb/policies/all.h"

namespace ebb {
namespace {

constexpr const char* kAddress = "127.0.0.1";

std::mutex running_mutex;
control::Controller* running = nullptr;

/// The agent of this machine as the controller's backend.
class LocalBackend final : public backend::Backend {
 public:
  explicit LocalBackend(agent::Agent& agent) : agent_(agent) {
    // Nothing else of this process's environment reaches a job.
    for (const char* name : {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"}) {
      if (const char* value = std::getenv(name)) environment_.push_back(std::string(name) + "=" + value);
    }
  }

  void start(const WorkerSpec& spec) override {
    WorkerSpec full = spec;
    // What the job sets wins: of two entries with one name the later one.
    full.environment.insert(full.environment.begin(), environment_.begin(), environment_.end());
    agent_.start(full);
  }
  void stop(const WorkerId& worker, Duration grace) override { agent_.stop(worker, grace); }
  void tell(const WorkerId& worker, const wire::Order& order) override { agent_.tell(worker, order); }
  void forget(const WorkerId& worker) override { agent_.forget(worker); }
  Result<std::vector<WorkerStatus>> list() override { return agent_.list(); }
  Result<LogChunk> read_log(const WorkerId& worker, std::string_view stream, std::uint64_t offset,
                            std::size_t max_bytes) override {
    EBB_ASSIGN_OR_RETURN(const agent::LogRange range, agent_.log_range(worker, stream));
    LogChunk chunk{std::max(offset, range.begin), {}};
    EBB_ASSIGN_OR_RETURN(chunk.bytes, agent_.read_log(worker, stream, chunk.offset, max_bytes));
    return chunk;
  }

 private:
  agent::Agent& agent_;
  std::vector<std::string> environment_;
};

/// The token of the data folder; made at the first start.
Result<std::string> token_of(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "token";
  if (std::filesystem::exists(path)) {
    EBB_ASSIGN_OR_RETURN(const std::string text, read_file(path));
    return first_line(text);
  }
  EBB_ASSIGN_OR_RETURN(std::string token, random_hex(32));
  const mode_t before = umask(0077);
  const auto written = write_file_atomically(path, token + "\n");
  umask(before);
  EBB_RETURN_IF_ERROR(written);
  return token;
}

Result<std::filesystem::path> shim_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorCode::unavailable, "cannot find this program's folder: {}", error.message());
  return self.parent_path() / "ebb-shim";
}

Result<control::ClusterSettings> settings_of(const cli::UpOptions& options, const agent::SlotSet& slots) {
  control::ClusterSettings settings;
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') {
    return fail(ErrorCode::unavailable, "this machine has no host name");
  }
  const std::string type = slots.gpus.empty() ? "" : slots.gpus.front().name;
  settings.cluster.nodes.push_back({name, slots.count, type, ""});
  if (!options.policy.empty()) settings.policy = options.policy;
  if (!options.set.empty() && options.policy.empty()) {
    return fail(ErrorCode::invalid_argument, "--set needs --policy: it sets an option of that policy");
  }
  settings.options = options.set;
  return settings;
}

/// For a person who reads text, or as a row of the log.
void say_hello(const control::ClusterSettings& settings, const std::string& policy, const agent::SlotSet& slots,
               const agent::Agent& agent, const control::HttpServer& server, const std::filesystem::path& folder,
               const cli::Streams& streams) {
  const char* kind = slots.gpus.empty() ? "CPU" : "GPU";
  const GpuCount count = settings.cluster.total_gpus();
  const std::string& node = settings.cluster.nodes.front().name;
  const std::string url = fmt::format("http://{}:{}", kAddress, server.port());
  const bool shared = slots.gpus.empty() && !agent.isolation().enforced();
  if (log_format() == LogFormat::json) {
    log(LogLevel::info, "cluster started",
        {{"slots", std::int64_t{count}},
         {"kind", std::string(kind)},
         {"node", node},
         {"policy", policy},
         {"api", url},
         {"data", folder.string()}});
    if (shared) log(LogLevel::warning, "slots are not isolated", {{"reason", agent.isolation().reason}});
    return;
  }
  std::string text = fmt::format("ebb: {} {} slot{} on {}, policy {}, API at {}, data in {}\n", count, kind,
                                 count == 1 ? "" : "s", node, policy, url, folder.string());
  if (shared) {
    text +=
        fmt::format("ebb: slots are not isolated, jobs may take more than their share: {}\n", agent.isolation().reason);
  }
  text += "ebb: submit jobs with `ebb submit`; Ctrl-C ends ebb, jobs run on\n";
  std::fputs(text.c_str(), streams.err);
}

}  // namespace

Result<void> run_cluster(const cli::UpOptions& options, const cli::Streams& streams) {
  set_log(log_format_from(options.log_format).value_or(LogFormat::text),
          log_level_from(options.log_level).value_or(LogLevel::info));
  const std::filesystem::path folder = options.data_folder;
  const agent::SlotSet slots = options.slots ? agent::cpu_slots(*options.slots) : agent::discover();
  EBB_ASSIGN_OR_RETURN(const control::ClusterSettings settings, settings_of(options, slots));
  EBB_ASSIGN_OR_RETURN(control::Store store, control::Store::open(folder));
  EBB_ASSIGN_OR_RETURN(const std::string token, token_of(folder));
  EBB_ASSIGN_OR_RETURN(auto controller, control::Controller::open(std::move(store), settings, policies::all()));

  agent::AgentOptions agent_options;
  agent_options.folder = folder / "agent";
  EBB_ASSIGN_OR_RETURN(agent_options.shim, shim_path());
  agent_options.slots = slots;
  EBB_ASSIGN_OR_RETURN(
      auto agent, agent::Agent::open(
                      std::move(agent_options), [&](WorkerStatus status) { controller->on_status(std::move(status)); },
                      [&](wire::WorkerReport report) { controller->on_report(std::move(report)); }));
  LocalBackend backend(*agent);
  EBB_ASSIGN_OR_RETURN(const auto access, control::Access::open(*controller, token));
  control::Api api(
      *controller, *access,
      {std::filesystem::current_path().string(), options.requests_per_second, 5 * options.requests_per_second});
  EBB_ASSIGN_OR_RETURN(auto server, control::HttpServer::start(kAddress, options.port, {}, [&](const auto& request) {
                         return api.handle(request);
                       }));
  controller->watch([&] { server->wake(); });
  EBB_RETURN_IF_ERROR(write_file_atomically(
      folder / "api.json", fmt::format("{{\"address\":\"{}\",\"port\":{}}}\n", kAddress, server->port())));

  say_hello(settings, controller->policy()->name, slots, *agent, *server, folder, streams);

  {
    const std::lock_guard lock(running_mutex);
    running = controller.get();
  }
  const Result<void> result = controller->run(backend);
  {
    const std::lock_guard lock(running_mutex);
    running = nullptr;
  }
  std::error_code ignored;
  std::filesystem::remove(folder / "api.json", ignored);  // nobody answers there any more
  server.reset();
  agent.reset();
  return result;
}

bool stop_cluster() {
  const std::lock_guard lock(running_mutex);
  if (running == nullptr) return false;
  running->stop();
  return true;
}

}  // namespace ebb
