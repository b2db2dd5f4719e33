#include "ebb/control/record.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "ebb/wire/contract_json.h"
#include "ebb/wire/job_json.h"

namespace ebb::control {
namespace {

using Json = nlohmann::ordered_json;

Json row(Time at, const char* type) {
  return Json{{"t", at.time_since_epoch().count()}, {"type", type}};
}

// Bytes that are no UTF-8 (in a name) become U+FFFD: a journal is always readable.
std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr const char* kInputs[] = {"job_accepted",     "cancel_requested", "hold_requested", "release_requested",
                                   "drain_requested",  "retry_due",        "worker_said",    "worker_reported",
                                   "target_timed_out", "resize_requested", "policy_set",     "plan_answered"};

using Options = std::vector<std::pair<std::string, std::string>>;

Json options_to_json(const Options& options) {
  Json out = Json::array();
  for (const auto& [name, value] : options) out.push_back(Json::array({name, value}));
  return out;
}

Options options_from_json(const Json& in) {
  Options options;
  for (const Json& option : in) options.emplace_back(option.at(0).get<std::string>(), option.at(1).get<std::string>());
  return options;
}

struct Put {
  Time at;

  Json operator()(const JobAccepted& in) const {
    Json out = row(at, kInputs[0]);
    out["first"] = in.first;
    out["request"] = wire::to_json(in.request);
    if (!in.key.empty()) out["key"] = in.key;
    return out;
  }
  Json operator()(const CancelRequested& in) const { return job(kInputs[1], in.job); }
  Json operator()(const HoldRequested& in) const { return job(kInputs[2], in.job); }
  Json operator()(const ReleaseRequested& in) const { return job(kInputs[3], in.job); }
  Json operator()(const DrainRequested& in) const {
    Json out = row(at, kInputs[4]);
    out["node"] = in.node;
    out["on"] = in.on;
    return out;
  }
  Json operator()(const RetryDue& in) const { return job(kInputs[5], in.job); }
  Json operator()(const WorkerSaid& in) const {
    Json out = row(at, kInputs[6]);
    out["worker"] = in.status.id;
    if (in.status.pid != 0) out["pid"] = in.status.pid;
    if (in.status.exit) out["exit"] = wire::to_json(*in.status.exit);
    return out;
  }
  Json operator()(const WorkerReported& in) const {
    Json out = row(at, kInputs[7]);
    out["worker"] = in.report.worker;
    out["report"] = wire::to_json(in.report.report);
    return out;
  }
  Json operator()(const TargetTimedOut& in) const {
    Json out = job(kInputs[8], in.job);
    out["revision"] = in.revision;
    return out;
  }
  Json operator()(const ResizeRequested& in) const {
    Json out = job(kInputs[9], in.job);
    out["workers"] = in.workers;
    return out;
  }
  Json operator()(const PolicySet& in) const {
    Json out = row(at, kInputs[10]);
    out["policy"] = in.policy;
    out["options"] = options_to_json(in.options);
    return out;
  }
  Json operator()(const PlanAnswered& in) const {
    Json out = row(at, kInputs[11]);
    out["plan"] = in.plan;
    out["answer"] = in.answer;
    return out;
  }
  Json operator()(const TargetRequested& intent) const {
    Json out = job("target_requested", intent.job);
    out["revision"] = intent.revision;
    out["members"] = intent.members;
    out["within"] = intent.within.count();
    out["why"] = intent.why;
    return out;
  }
  Json operator()(const StartRequested& intent) const {
    Json out = row(at, "start_requested");
    out["worker"] = intent.worker;
    out["node"] = intent.node;
    out["slots"] = intent.slots;
    out["fence"] = intent.fence;
    out["port"] = intent.port;
    return out;
  }
  Json operator()(const StopRequested& intent) const {
    Json out = row(at, "stop_requested");
    out["worker"] = intent.worker;
    out["why"] = intent.why;
    return out;
  }

  Json job(const char* type, JobId id) const {
    Json out = row(at, type);
    out["job"] = id;
    return out;
  }
};

Input get_input(const Json& in, const std::string& type) {
  const auto job = [&] { return in.at("job").get<JobId>(); };
  if (type == kInputs[1]) return CancelRequested{job()};
  if (type == kInputs[2]) return HoldRequested{job()};
  if (type == kInputs[3]) return ReleaseRequested{job()};
  if (type == kInputs[4]) return DrainRequested{in.at("node").get<NodeId>(), in.at("on").get<bool>()};
  if (type == kInputs[5]) return RetryDue{job()};
  if (type == kInputs[8]) return TargetTimedOut{job(), in.at("revision").get<std::uint64_t>()};
  if (type == kInputs[9]) return ResizeRequested{job(), in.at("workers").get<std::int32_t>()};
  if (type == kInputs[10]) return PolicySet{in.at("policy").get<std::string>(), options_from_json(in.at("options"))};
  if (type == kInputs[11]) return PlanAnswered{in.at("plan").get<std::uint64_t>(), in.at("answer").get<std::string>()};
  WorkerSaid said;
  in.at("worker").get_to(said.status.id);
  said.status.pid = in.value("pid", std::int64_t{0});
  return said;
}

}  // namespace

std::string encode(const Beginning& beginning) {
  Json nodes = Json::array();
  for (const NodeSpec& node : beginning.cluster.nodes) {
    nodes.push_back(Json{{"name", node.name}, {"gpus", node.gpus}, {"gpu_type", node.gpu_type}, {"pool", node.pool}});
  }
  return line(Json{{"t", 0},
                   {"type", "live_journal"},
                   {"version", kLiveJournalVersion},
                   {"epoch", beginning.epoch},
                   {"policy", beginning.policy},
                   {"options", options_to_json(beginning.options)},
                   {"nodes", nodes}});
}

std::string encode(Time at, const Input& input) {
  return line(std::visit(Put{at}, input));
}
std::string encode(Time at, const Intent& intent) {
  return line(std::visit(Put{at}, intent));
}

Result<Beginning> decode_beginning(std::string_view text) {
  Beginning beginning;
  try {
    const Json in = Json::parse(text);
    if (in.at("type").get<std::string>() != "live_journal") {
      return fail(ErrorCode::internal, "the first row of the journal is not its beginning");
    }
    if (const int version = in.at("version").get<int>(); version > kLiveJournalVersion) {
      return fail(ErrorCode::unimplemented, "the journal has version {}; this ebb knows versions up to {}", version,
                  kLiveJournalVersion);
    }
    in.at("epoch").get_to(beginning.epoch);
    in.at("policy").get_to(beginning.policy);
    beginning.options = options_from_json(in.at("options"));
    for (const Json& node : in.at("nodes")) {
      beginning.cluster.nodes.push_back({node.at("name").get<std::string>(), node.at("gpus").get<GpuCount>(),
                                         node.at("gpu_type").get<std::string>(), node.at("pool").get<std::string>()});
    }
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::internal, "the first row of the journal is not its beginning: {}", e.what());
  }
  return beginning;
}

Result<Time> time_of(std::string_view text) {
  // Every row begins with it; at start they are read by the million.
  constexpr std::string_view kTime = R"({"t":)";
  std::int64_t t = 0;
  const char* const digits = text.data() + std::min(kTime.size(), text.size());
  const auto [end, error] = std::from_chars(digits, text.data() + text.size(), t);
  if (!text.starts_with(kTime) || error != std::errc() || end == text.data() + text.size() || *end != ',') {
    return fail(ErrorCode::internal, "a row without a time: {}", text);
  }
  return Time(Duration(t));
}

// Rows begin with `t` and `type`.
bool is_input(std::string_view text) {
  constexpr std::string_view kType = R"("type":")";
  const auto at = text.find(kType);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = text.substr(at + kType.size());
  const std::string_view type = rest.substr(0, rest.find('"'));
  return std::find(std::begin(kInputs), std::end(kInputs), type) != std::end(kInputs);
}

Result<Input> decode_input(std::string_view text) {
  try {
    const Json in = Json::parse(text);
    const auto type = in.at("type").get<std::string>();
    if (type == kInputs[0]) {
      EBB_ASSIGN_OR_RETURN(JobRequest request, wire::job_request_from(in.at("request")));
      return JobAccepted{in.at("first").get<JobId>(), std::move(request), in.value("key", "")};
    }
    if (type == kInputs[7]) {
      EBB_ASSIGN_OR_RETURN(wire::Report report, wire::report_from(in.at("report")));
      return WorkerReported{{in.at("worker").get<WorkerId>(), 0, std::move(report)}};
    }
    Input input = get_input(in, type);
    if (auto* said = std::get_if<WorkerSaid>(&input); said != nullptr && in.contains("exit")) {
      EBB_ASSIGN_OR_RETURN(said->status.exit, wire::worker_exit_from(in["exit"]));
    }
    return input;
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::internal, "a row that this ebb cannot read: {}: {}", e.what(), text);
  }
}

}  // namespace ebb::control
