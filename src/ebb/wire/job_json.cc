#include "ebb/wire/job_json.h"

#include <nlohmann/json.hpp>

namespace ebb::wire {
namespace {

using Json = nlohmann::ordered_json;

// What differs from a default is written, so that rows stay short.
template <typename T>
void put_if(Json& out, const char* key, const T& value, const T& otherwise) {
  if (value != otherwise) out[key] = value;
}

template <typename T>
void get_if(const Json& in, const char* key, T& value) {
  if (const auto it = in.find(key); it != in.end()) it->get_to(value);
}

void get_if(const Json& in, const char* key, std::optional<Duration>& value) {
  if (const auto it = in.find(key); it != in.end()) value = Duration(it->get<std::int64_t>());
}

}  // namespace

Json to_json(const JobRequest& request) {
  const JobRequest none;
  Json out{{"name", request.name}, {"command", request.command}};
  put_if(out, "environment", request.environment, none.environment);
  out["working_directory"] = request.working_directory;
  put_if(out, "tenant", request.tenant, none.tenant);
  put_if(out, "priority", request.priority, none.priority);
  out["workers"] = request.workers;
  if (request.min_workers > 0) {
    out["min_workers"] = request.min_workers;
    out["max_workers"] = request.max_workers;
    put_if(out, "worker_step", request.worker_step, none.worker_step);
  }
  if (request.elasticity != Elasticity::none) out["elasticity"] = to_string(request.elasticity);
  if (request.resize_timeout != none.resize_timeout) out["resize_timeout"] = request.resize_timeout.count();
  put_if(out, "checkpoint_folder", request.checkpoint_folder, none.checkpoint_folder);
  out["gpus_per_worker"] = request.gpus_per_worker;
  if (request.memory_bytes) out["memory"] = *request.memory_bytes;
  put_if(out, "gpu_type", request.gpu_type, none.gpu_type);
  put_if(out, "node", request.node, none.node);
  if (request.time_limit) out["time_limit"] = request.time_limit->count();
  out["grace_time"] = request.grace_time.count();
  if (request.max_retries != 0) {
    out["retries"] = Json{{"max", request.max_retries}, {"backoff", request.retry_backoff.count()}};
  }
  if (request.array_size != 0) out["array"] = Json{{"size", request.array_size}};
  if (!request.dependencies.empty()) {
    Json& dependencies = out["dependencies"] = Json::array();
    for (const Dependency& on : request.dependencies) {
      dependencies.push_back(Json{{"job", on.job}, {"when", to_string(on.when)}});
    }
  }
  put_if(out, "hold", request.hold, none.hold);
  return out;
}

Result<JobRequest> job_request_from(const Json& in) {
  JobRequest request;
  try {
    in.at("name").get_to(request.name);
    in.at("command").get_to(request.command);
    get_if(in, "environment", request.environment);
    in.at("working_directory").get_to(request.working_directory);
    get_if(in, "tenant", request.tenant);
    get_if(in, "priority", request.priority);
    in.at("workers").get_to(request.workers);
    get_if(in, "min_workers", request.min_workers);
    get_if(in, "max_workers", request.max_workers);
    get_if(in, "worker_step", request.worker_step);
    if (const auto name = in.find("elasticity"); name != in.end()) {
      const auto elasticity = elasticity_from(name->get<std::string>());
      if (!elasticity) return fail(ErrorCode::invalid_argument, "not a job request: its elasticity is not known");
      request.elasticity = *elasticity;
    }
    if (const auto timeout = in.find("resize_timeout"); timeout != in.end()) {
      request.resize_timeout = Duration(timeout->get<std::int64_t>());
    }
    get_if(in, "checkpoint_folder", request.checkpoint_folder);
    in.at("gpus_per_worker").get_to(request.gpus_per_worker);
    if (const auto memory = in.find("memory"); memory != in.end()) request.memory_bytes = memory->get<std::int64_t>();
    get_if(in, "gpu_type", request.gpu_type);
    get_if(in, "node", request.node);
    get_if(in, "time_limit", request.time_limit);
    request.grace_time = Duration(in.at("grace_time").get<std::int64_t>());
    if (const auto retries = in.find("retries"); retries != in.end()) {
      retries->at("max").get_to(request.max_retries);
      request.retry_backoff = Duration(retries->at("backoff").get<std::int64_t>());
    }
    if (const auto array = in.find("array"); array != in.end()) array->at("size").get_to(request.array_size);
    if (const auto dependencies = in.find("dependencies"); dependencies != in.end()) {
      for (const Json& on : *dependencies) {
        const bool ok = on.at("when").get<std::string>() == to_string(Dependency::When::after_ok);
        request.dependencies.push_back(
            {on.at("job").get<JobId>(), ok ? Dependency::When::after_ok : Dependency::When::after_any});
      }
    }
    get_if(in, "hold", request.hold);
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "not a job request: {}", e.what());
  }
  return request;
}

Json to_json(const WorkerExit& exit) {
  Json out{{"cause", to_string(exit.cause)}, {"code", exit.code}};
  if (!exit.message.empty()) out["message"] = exit.message;
  return out;
}

Result<WorkerExit> worker_exit_from(const Json& in) {
  WorkerExit exit;
  try {
    const auto name = in.at("cause").get<std::string>();
    const auto cause = exit_cause_from(name);
    if (!cause) return fail(ErrorCode::invalid_argument, "'{}' is no way for a worker to end", name);
    exit.cause = *cause;
    in.at("code").get_to(exit.code);
    get_if(in, "message", exit.message);
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "not an exit: {}", e.what());
  }
  return exit;
}

}  // namespace ebb::wire
