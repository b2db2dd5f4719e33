#include "ebb/wire/api_json.h"

#include <fmt/ranges.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "ebb/wire/contract_json.h"
#include "ebb/wire/job_json.h"

namespace ebb::wire {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::int64_t ns(Time t) {
  return t.time_since_epoch().count();
}

Json object(const JobView& view) {
  Json out{{"id", view.id},
           {"name", view.name},
           {"tenant", view.tenant},
           {"status", to_string(view.status)},
           {"reason", view.reason},
           {"gpus", view.gpus},
           {"incarnations", view.incarnations},
           {"retries", view.retries},
           {"submitted", ns(view.submitted)}};
  if (view.started) out["started"] = ns(*view.started);
  if (view.ended) out["ended"] = ns(*view.ended);
  if (view.exit_code) out["exit_code"] = *view.exit_code;
  return out;
}

Json object(const WorkerView& view) {
  Json out{{"id", view.id}, {"rank", view.rank}, {"node", view.node}, {"slots", view.slots}};
  if (view.pid != 0) out["pid"] = view.pid;
  if (view.exit) out["exit"] = to_json(*view.exit);
  return out;
}

Json object(const NodeView& view) {
  return Json{{"name", view.name},
              {"state", view.state},
              {"gpus", view.gpus},
              {"held", view.held},
              {"gpu_type", view.gpu_type}};
}

Json object(const TokenView& view) {
  Json out{{"name", view.name}, {"role", to_string(view.role)}};
  if (!view.tenant.empty()) out["tenant"] = view.tenant;
  return out;
}

Result<TokenView> token_view(const Json& in) {
  const auto role = role_from(in.at("role").get<std::string>());
  if (!role) return fail(ErrorCode::invalid_argument, "'role' is viewer, user or admin");
  return TokenView{in.at("name").get<std::string>(), *role, in.value("tenant", "")};
}

Time time_at(const Json& in, const char* key) {
  return Time(Duration(in.at(key).get<std::int64_t>()));
}
std::optional<Time> time_if(const Json& in, const char* key) {
  return in.contains(key) ? std::optional(time_at(in, key)) : std::nullopt;
}

JobView job_view(const Json& in) {
  JobView view;
  in.at("id").get_to(view.id);
  in.at("name").get_to(view.name);
  in.at("tenant").get_to(view.tenant);
  // A later server may know more of them; what it says is shown as waiting.
  view.status = job_status_from(in.at("status").get<std::string>()).value_or(JobStatus::waiting);
  in.at("reason").get_to(view.reason);
  in.at("gpus").get_to(view.gpus);
  in.at("incarnations").get_to(view.incarnations);
  in.at("retries").get_to(view.retries);
  view.submitted = time_at(in, "submitted");
  view.started = time_if(in, "started");
  view.ended = time_if(in, "ended");
  if (in.contains("exit_code")) view.exit_code = in["exit_code"].get<int>();
  return view;
}

Result<WorkerView> worker_view(const Json& in) {
  WorkerView view;
  in.at("id").get_to(view.id);
  in.at("rank").get_to(view.rank);
  in.at("node").get_to(view.node);
  in.at("slots").get_to(view.slots);
  view.pid = in.value("pid", std::int64_t{0});
  if (in.contains("exit")) {
    EBB_ASSIGN_OR_RETURN(view.exit, worker_exit_from(in["exit"]));
  }
  return view;
}

NodeView node_view(const Json& in) {
  return {in.at("name").get<std::string>(), in.at("state").get<std::string>(), in.at("gpus").get<GpuCount>(),
          in.at("held").get<GpuCount>(), in.at("gpu_type").get<std::string>()};
}

template <typename View>
std::string list(const char* name, const std::vector<View>& views) {
  Json out = Json::array();
  for (const View& view : views) out.push_back(object(view));
  return text(Json{{name, out}});
}

/// What `read(json)` gives, or its exception as an error.
template <typename Read>
auto read_json(std::string_view json, Read read) -> decltype(read(Json())) {
  try {
    return read(Json::parse(json));
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "an answer that this ebb cannot read: {}", e.what());
  }
}

/// What `read(json)` makes of the body of a request: an object with these keys only.
template <typename Read>
auto read_request(std::string_view json, const std::vector<std::string>& keys, Read read) -> decltype(read(Json())) {
  try {
    const Json in = Json::parse(json);
    if (!in.is_object()) return fail(ErrorCode::invalid_argument, "the body is no JSON object");
    for (const auto& [key, value] : in.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        return fail(ErrorCode::invalid_argument, "unknown key '{}'; there are {}", key, fmt::join(keys, ", "));
      }
    }
    return read(in);
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "the body of the request: {}", e.what());
  }
}

}  // namespace

std::string to_json(const JobView& view) {
  return text(object(view));
}

std::string to_json(const JobDetail& detail) {
  Json out = object(detail.job);
  out["request"] = to_json(detail.request);
  Json& workers = out["workers"] = Json::array();
  for (const WorkerView& worker : detail.workers) workers.push_back(object(worker));
  if (detail.resizing) out["resizing"] = true;
  if (detail.revision > 0) {
    out["revision"] = detail.revision;
    out["generation"] = detail.generation;
  }
  if (detail.progress) out["progress"] = to_json(*detail.progress);
  return text(out);
}

std::string to_json(const Explanation& explanation) {
  Json out{{"job", object(explanation.job)}, {"code", explanation.code}, {"sentence", explanation.sentence}};
  if (explanation.position) out["position"] = *explanation.position;
  if (explanation.expected_start) out["expected_start"] = ns(*explanation.expected_start);
  if (!explanation.basis.empty()) out["basis"] = explanation.basis;
  return text(out);
}

std::string to_json(const Error& error) {
  return text(Json{{"error", Json{{"code", to_string(error.code)}, {"message", error.message}}}});
}

std::string to_json(const PolicyView& policy) {
  Json options = Json::object();
  for (const auto& [name, value] : policy.options) options[name] = value;
  return text(Json{{"name", policy.name}, {"options", options}});
}

std::string list_to_json(const std::vector<JobView>& jobs) {
  return list("jobs", jobs);
}
std::string list_to_json(const std::vector<NodeView>& nodes) {
  return list("nodes", nodes);
}

std::string to_json(const TokenView& token) {
  return text(object(token));
}

std::string list_to_json(const std::vector<TokenView>& tokens) {
  return list("tokens", tokens);
}

namespace {

Json object(const Outlook& outlook) {
  Json jobs = Json::array();
  for (const Outlook::Job& job : outlook.jobs) {
    Json out{{"id", job.id}, {"name", job.name}};
    if (job.start) out["start"] = ns(*job.start);
    if (job.end) out["end"] = ns(*job.end);
    jobs.push_back(std::move(out));
  }
  Json out{{"policy", outlook.policy}, {"jobs", std::move(jobs)}};
  if (outlook.mean_wait) out["mean_wait"] = outlook.mean_wait->count();
  if (outlook.mean_jct) out["mean_jct"] = outlook.mean_jct->count();
  if (outlook.all_done) out["all_done"] = ns(*outlook.all_done);
  return out;
}

Outlook outlook_from(const Json& in) {
  Outlook outlook;
  in.at("policy").get_to(outlook.policy);
  for (const Json& job : in.at("jobs")) {
    outlook.jobs.push_back(
        {job.at("id").get<JobId>(), job.at("name").get<std::string>(), time_if(job, "start"), time_if(job, "end")});
  }
  if (in.contains("mean_wait")) outlook.mean_wait = Duration(in["mean_wait"].get<std::int64_t>());
  if (in.contains("mean_jct")) outlook.mean_jct = Duration(in["mean_jct"].get<std::int64_t>());
  outlook.all_done = time_if(in, "all_done");
  return outlook;
}

}  // namespace

std::string outlooks_to_json(const Outlook& as_is, const Outlook& changed) {
  return text(Json{{"as_is", object(as_is)}, {"changed", object(changed)}});
}

Result<std::pair<Outlook, Outlook>> outlooks_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<std::pair<Outlook, Outlook>> {
    return std::pair{outlook_from(in.at("as_is")), outlook_from(in.at("changed"))};
  });
}

std::string resize_to_json(std::int32_t workers) {
  return text(Json{{"workers", workers}});
}

Result<std::int32_t> resize_from(std::string_view json) {
  const Json in = Json::parse(json, nullptr, false);
  if (!in.is_object() || in.size() != 1 || !in.contains("workers") || !in["workers"].is_number_integer() ||
      in["workers"] < 1 || in["workers"] > kMaxWorkers) {
    return fail(ErrorCode::invalid_argument, R"(the body is not {{"workers": k}} with k from 1 to {})", kMaxWorkers);
  }
  return in["workers"].get<std::int32_t>();
}

std::string token_to_json(const std::string& token) {
  return text(Json{{"token", token}});
}

std::string list_to_json(const std::vector<EventView>& events) {
  std::string out = R"({"events":[)";
  for (const EventView& event : events) {
    out += R"({"seq":)" + std::to_string(event.seq) + R"(,"event":)" + event.json + "},";
  }
  if (!events.empty()) out.pop_back();
  return out + "]}";
}

std::string ids_to_json(const std::vector<JobId>& ids) {
  return text(Json{{"jobs", ids}});
}

Result<JobDetail> job_detail_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<JobDetail> {
    JobDetail detail{.job = job_view(in), .request = {}, .workers = {}, .progress = {}};
    EBB_ASSIGN_OR_RETURN(detail.request, job_request_from(in.at("request")));
    for (const Json& worker : in.at("workers")) {
      EBB_ASSIGN_OR_RETURN(WorkerView view, worker_view(worker));
      detail.workers.push_back(std::move(view));
    }
    detail.resizing = in.value("resizing", false);
    detail.revision = in.value("revision", std::uint64_t{0});
    detail.generation = in.value("generation", std::uint64_t{0});
    if (in.contains("progress")) {
      EBB_ASSIGN_OR_RETURN(detail.progress, progress_from(in["progress"]));
    }
    return detail;
  });
}

Result<Explanation> explanation_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<Explanation> {
    Explanation explanation{job_view(in.at("job")),
                            in.at("code").get<std::string>(),
                            in.at("sentence").get<std::string>(),
                            {},
                            time_if(in, "expected_start"),
                            in.value("basis", "")};
    if (in.contains("position")) explanation.position = in["position"].get<std::uint32_t>();
    return explanation;
  });
}

Result<std::vector<JobView>> jobs_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<std::vector<JobView>> {
    std::vector<JobView> views;
    for (const Json& view : in.at("jobs")) views.push_back(job_view(view));
    return views;
  });
}

Result<std::vector<NodeView>> nodes_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<std::vector<NodeView>> {
    std::vector<NodeView> views;
    for (const Json& view : in.at("nodes")) views.push_back(node_view(view));
    return views;
  });
}

Result<std::vector<EventView>> events_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<std::vector<EventView>> {
    std::vector<EventView> views;
    for (const Json& view : in.at("events")) {
      views.push_back({view.at("seq").get<std::uint64_t>(), text(view.at("event"))});
    }
    return views;
  });
}

Result<PolicyView> policy_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<PolicyView> {
    PolicyView policy{in.at("name").get<std::string>(), {}};
    for (const auto& [name, value] : in.at("options").items()) {
      policy.options.emplace_back(name, value.get<std::string>());
    }
    return policy;
  });
}

Result<PolicyView> policy_request_from(std::string_view json) {
  return read_request(json, {"name", "options"}, [](const Json& in) -> Result<PolicyView> {
    PolicyView policy{in.at("name").get<std::string>(), {}};
    if (!in.contains("options")) return policy;
    if (!in["options"].is_object()) return fail(ErrorCode::invalid_argument, "'options' is no JSON object");
    for (const auto& [name, value] : in["options"].items()) {
      policy.options.emplace_back(name, value.get<std::string>());
    }
    return policy;
  });
}

Result<std::vector<TokenView>> tokens_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<std::vector<TokenView>> {
    std::vector<TokenView> views;
    for (const Json& each : in.at("tokens")) {
      EBB_ASSIGN_OR_RETURN(TokenView view, token_view(each));
      views.push_back(std::move(view));
    }
    return views;
  });
}

Result<TokenView> token_request_from(std::string_view json) {
  return read_request(json, {"name", "role", "tenant"}, [](const Json& in) -> Result<TokenView> {
    if (in.contains("tenant") && in["tenant"] == "") {
      return fail(ErrorCode::invalid_argument, "'tenant' is empty; leave it out for a token that is bound to none");
    }
    return token_view(in);
  });
}

Result<std::string> token_from(std::string_view json) {
  return read_json(json, [](const Json& in) -> Result<std::string> { return in.at("token").get<std::string>(); });
}

Result<std::vector<JobId>> ids_from(std::string_view json) {
  return read_json(
      json, [](const Json& in) -> Result<std::vector<JobId>> { return in.at("jobs").get<std::vector<JobId>>(); });
}

std::string url_escape(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string url_unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* digits = text.data() + i + 1;
      if (std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        out += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

Error error_from(std::string_view json, Error otherwise) {
  const Json in = Json::parse(json, nullptr, false);
  if (!in.is_object() || !in.contains("error") || !in["error"].is_object()) return otherwise;
  otherwise.message = in["error"].value("message", otherwise.message);
  const std::string code = in["error"].value("code", "");
  for (int k = 0; k <= static_cast<int>(ErrorCode::internal); ++k) {
    if (code == to_string(static_cast<ErrorCode>(k))) otherwise.code = static_cast<ErrorCode>(k);
  }
  return otherwise;
}

}  // namespace ebb::wire
