#include "ebb/wire/contract_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace ebb::wire {
namespace {

using Json = nlohmann::ordered_json;

struct Put {
  Json operator()(const Ready&) const { return Json{{"kind", "ready"}}; }
  Json operator()(const Switched& report) const {
    return Json{{"kind", "switched"},
                {"revision", report.revision},
                {"generation", report.generation},
                {"members", report.members}};
  }
  Json operator()(const Drained& report) const { return Json{{"kind", "drained"}, {"worker", report.worker}}; }
  Json operator()(const Refused& report) const {
    return Json{{"kind", "refused"}, {"revision", report.revision}, {"why", report.why}};
  }
  Json operator()(const Progress& report) const {
    Json out{{"kind", "progress"}};
    out.update(to_json(report));
    return out;
  }
  Json operator()(const Load& report) const {
    return Json{{"kind", "load"},
                {"requests_per_second", report.requests_per_second},
                {"queue", report.queue},
                {"p99", report.p99.count()}};
  }
  Json operator()(const Connected&) const { return Json{{"kind", "connected"}}; }
};

Report get(const Json& in, const std::string& kind) {
  if (kind == "ready") return Ready{};
  if (kind == "switched") {
    return Switched{in.at("revision").get<std::uint64_t>(), in.at("generation").get<std::uint64_t>(),
                    in.at("members").get<std::vector<WorkerId>>()};
  }
  if (kind == "drained") return Drained{in.at("worker").get<WorkerId>()};
  if (kind == "refused") return Refused{in.at("revision").get<std::uint64_t>(), in.at("why").get<std::string>()};
  if (kind == "load") {
    return Load{in.at("requests_per_second").get<double>(), in.at("queue").get<std::int64_t>(),
                Duration(in.at("p99").get<std::int64_t>())};
  }
  return Connected{};
}

}  // namespace

Json to_json(const Progress& progress) {
  Json out{{"step", progress.step}, {"samples", progress.samples}};
  // JSON has no infinities: a loss that is none is left out.
  if (progress.loss && std::isfinite(*progress.loss)) out["loss"] = *progress.loss;
  for (const auto& [name, took] : progress.phases) out["phases"][name] = took.count();
  if (progress.noise_scale && std::isfinite(*progress.noise_scale)) out["noise_scale"] = *progress.noise_scale;
  if (!progress.checkpoint.empty()) out["checkpoint"] = progress.checkpoint;
  if (progress.checkpoint_age) out["checkpoint_age"] = progress.checkpoint_age->count();
  return out;
}

Result<Progress> progress_from(const Json& in) {
  try {
    Progress out;
    in.at("step").get_to(out.step);
    in.at("samples").get_to(out.samples);
    if (in.contains("loss")) out.loss = in["loss"].get<double>();
    if (in.contains("phases")) {
      for (const auto& [name, took] : in["phases"].items()) out.phases[name] = Duration(took.get<std::int64_t>());
    }
    if (in.contains("noise_scale")) out.noise_scale = in["noise_scale"].get<double>();
    out.checkpoint = in.value("checkpoint", "");
    if (in.contains("checkpoint_age")) out.checkpoint_age = Duration(in["checkpoint_age"].get<std::int64_t>());
    return out;
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "no progress of a worker: {}", e.what());
  }
}

Json to_json(const Report& report) {
  return std::visit(Put{}, report);
}

Result<Report> report_from(const Json& in) {
  try {
    const auto kind = in.at("kind").get<std::string>();
    if (kind == "progress") {
      EBB_ASSIGN_OR_RETURN(Progress progress, progress_from(in));
      return progress;
    }
    return get(in, kind);
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::invalid_argument, "no report of a worker: {}", e.what());
  }
}

}  // namespace ebb::wire
