#include "ebb/agent/records.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ebb::agent {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxMessage = 1024;  // exit.json has ReservedFile::kSize bytes, and one may be written as six

Duration to_duration(const Json& json) {
  return Duration(json.get<std::int64_t>());
}

/// Runs `read` on the parsed text; the library says what is missing or of the wrong type by exceptions.
template <typename T, typename Read>
Result<T> from_json(std::string_view text, const char* what, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& e) {
    return fail(ErrorCode::invalid_argument, "{}: {}", what, e.what());
  }
}

Json to_json(const GroupPlan& group) {
  Json json{{"folders", Json::array()}};
  for (const GroupFolder& folder : group.folders) {
    json["folders"].push_back({{"kind", static_cast<int>(folder.kind)}, {"path", folder.path}});
  }
  if (group.milli_cpus) json["milli_cpus"] = *group.milli_cpus;
  if (group.memory_bytes) json["memory_bytes"] = *group.memory_bytes;
  return json;
}

std::optional<std::int64_t> optional_number(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return json.at(key).get<std::int64_t>();
}

GroupPlan group_from(const Json& json) {
  GroupPlan group;
  for (const Json& folder : json.at("folders")) {
    const int kind = std::clamp(folder.at("kind").get<int>(), 0, static_cast<int>(GroupKind::memory));
    group.folders.push_back({.kind = static_cast<GroupKind>(kind), .path = folder.at("path").get<std::string>()});
  }
  group.milli_cpus = optional_number(json, "milli_cpus");
  group.memory_bytes = optional_number(json, "memory_bytes");
  return group;
}

Json to_json(const WorkerSpec& worker) {
  Json json{{"id", worker.id},
            {"node", worker.node},
            {"slots", worker.slots},
            {"fence", worker.fence},
            {"command", worker.command},
            {"environment", worker.environment},
            {"working_directory", worker.working_directory},
            {"grace_ns", worker.grace_time.count()}};
  if (worker.contract) json["contract"] = true;
  if (worker.memory_bytes) json["memory_bytes"] = *worker.memory_bytes;
  if (worker.time_limit) json["time_limit_ns"] = worker.time_limit->count();
  return json;
}

WorkerSpec worker_from(const Json& json) {
  WorkerSpec worker;
  json.at("id").get_to(worker.id);
  json.at("node").get_to(worker.node);
  json.at("slots").get_to(worker.slots);
  json.at("fence").get_to(worker.fence);
  json.at("command").get_to(worker.command);
  json.at("environment").get_to(worker.environment);
  json.at("working_directory").get_to(worker.working_directory);
  worker.grace_time = to_duration(json.at("grace_ns"));
  worker.contract = json.value("contract", false);
  worker.memory_bytes = optional_number(json, "memory_bytes");
  if (json.contains("time_limit_ns")) worker.time_limit = to_duration(json.at("time_limit_ns"));
  return worker;
}

}  // namespace

bool is_valid_worker_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

Result<std::string> launch_to_json(const Launch& launch) {
  const Json json{{"worker", to_json(launch.worker)},
                  {"agent", launch.agent},
                  {"environment", launch.environment},
                  {"group", to_json(launch.group)},
                  {"log_segment_bytes", launch.logs.segment_bytes},
                  {"log_segments", launch.logs.segments},
                  {"leased", launch.leased}};
  try {
    return json.dump();
  } catch (const Json::exception&) {
    return fail(ErrorCode::invalid_argument, "command, environment or working directory are not valid UTF-8");
  }
}

Result<Launch> launch_from_json(std::string_view text) {
  return from_json<Launch>(text, "spec.json", [](const Json& json) {
    Launch launch;
    launch.worker = worker_from(json.at("worker"));
    json.at("agent").get_to(launch.agent);
    json.at("environment").get_to(launch.environment);
    launch.group = group_from(json.at("group"));
    json.at("log_segment_bytes").get_to(launch.logs.segment_bytes);
    json.at("log_segments").get_to(launch.logs.segments);
    json.at("leased").get_to(launch.leased);
    return launch;
  });
}

std::string exit_to_json(const WorkerId& worker, const WorkerExit& exit) {
  const Json json{{"worker", worker},
                  {"cause", to_string(exit.cause)},
                  {"code", exit.code},
                  {"message", exit.message.substr(0, kMaxMessage)}};
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() < ReservedFile::kSize) return text;
  return exit_to_json(worker, {.cause = exit.cause, .code = exit.code, .message = exit.message.substr(0, 100)});
}

Result<WorkerExit> exit_from_json(std::string_view text) {
  Result<WorkerExit> exit = from_json<WorkerExit>(text, "exit.json", [](const Json& json) {
    WorkerExit read;
    // An unknown cause comes from a later version; what it says is still that the worker ended.
    read.cause = exit_cause_from(json.at("cause").get<std::string>()).value_or(WorkerExit::Cause::lost);
    json.at("code").get_to(read.code);
    json.at("message").get_to(read.message);
    return read;
  });
  return exit;
}

std::string stop_to_json(Duration grace) {
  return Json{{"grace_ns", grace.count()}}.dump();
}

Result<Duration> stop_from_json(std::string_view text) {
  return from_json<Duration>(text, "stop.json", [](const Json& json) { return to_duration(json.at("grace_ns")); });
}

std::string status_to_json(std::int64_t pid) {
  return Json{{"pid", pid}}.dump();
}

Result<std::int64_t> status_from_json(std::string_view text) {
  return from_json<std::int64_t>(text, "status.json",
                                 [](const Json& json) { return json.at("pid").get<std::int64_t>(); });
}

std::string lease_to_json(Duration deadline) {
  return Json{{"boot_clock_ns", deadline.count()}}.dump();
}

Result<Duration> lease_from_json(std::string_view text) {
  return from_json<Duration>(text, "lease", [](const Json& json) { return to_duration(json.at("boot_clock_ns")); });
}

std::string fences_to_json(const std::vector<Fence>& fences) {
  Json json = Json::array();
  for (const Fence& fence : fences) json.push_back({{"fence", fence.number}, {"worker", fence.worker}});
  return json.dump();
}

Result<std::vector<Fence>> fences_from_json(std::string_view text) {
  return from_json<std::vector<Fence>>(text, "fences.json", [](const Json& json) {
    std::vector<Fence> fences;
    for (const Json& fence : json) {
      fences.push_back({.number = fence.at("fence").get<std::uint64_t>(), .worker = fence.at("worker")});
    }
    return fences;
  });
}

}  // namespace ebb::agent
