#include <array>
#include <nlohmann/json.hpp>

#include "ebb/trace/fields.h"
#include "ebb/trace/journal.h"

namespace ebb::trace {
namespace {

using Json = nlohmann::json;

// More than any cluster has.
constexpr std::int64_t kMostGpus = 10'000'000;

/// The members of one JSON object. The first error is kept and every later read gives a zero, so that decoding reads
/// as a list of fields.
class Fields {
 public:
  Fields(const Json& object, std::string& error) : object_(object), error_(error) {
    if (!object.is_object()) set_error("is not a JSON object");
  }

  const Json* find(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  const Json& need(const char* key) {
    static const Json kNothing;
    const Json* value = find(key);
    if (value != nullptr) return *value;
    set_error(fmt::format("lacks key '{}'", key));
    return kNothing;
  }

  std::int64_t integer(const char* key, std::int64_t min, std::int64_t max) {
    return as_integer(key, need(key), min, max);
  }
  Time time(const char* key) { return Time(Duration(integer(key, 0, kEndOfTime.time_since_epoch().count()))); }
  Duration duration(const char* key) { return time(key).time_since_epoch(); }
  std::uint32_t id(const char* key) { return static_cast<std::uint32_t>(integer(key, 0, UINT32_MAX)); }
  JobId job() { return id("job"); }
  NodeId node() { return id("node"); }
  std::int32_t count(const char* key) { return static_cast<std::int32_t>(integer(key, 0, INT32_MAX)); }
  GpuCount gpus(const char* key) { return static_cast<GpuCount>(integer(key, 0, kMostGpus)); }

  std::uint64_t plan() {
    const Json& value = need("plan");
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    set_error("key 'plan': the value is not a whole number from 0 to 2^64-1");
    return 0;
  }

  std::string text(const char* key) {
    const Json& value = need(key);
    if (value.is_string()) return value.get<std::string>();
    set_error(fmt::format("key '{}': the value is not a string", key));
    return {};
  }

  double number(const char* key) {
    const Json& value = need(key);
    if (value.is_number()) return value.get<double>();
    set_error(fmt::format("key '{}': the value is not a number", key));
    return 0;
  }

  std::optional<Time> maybe_time(const char* key) {
    return find(key) == nullptr ? std::nullopt : std::optional(time(key));
  }
  std::optional<Duration> maybe_duration(const char* key) {
    return find(key) == nullptr ? std::nullopt : std::optional(duration(key));
  }
  bool flag(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) set_error(fmt::format("key '{}': the value is not a boolean", key));
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  std::optional<JobId> maybe_job(const char* key) {
    return find(key) == nullptr ? std::nullopt : std::optional<JobId>(id(key));
  }

  Reason reason() {
    Fields fields(need("reason"), error_);
    Reason reason;
    const std::string code = fields.text("code");
    if (const auto known = reason_code_from(code)) {
      reason.code = *known;
    } else {
      set_error(fmt::format("key 'code': {} is not a reason", shown(code)));
    }
    reason.needed = fields.gpus("needed");
    reason.available = fields.gpus("available");
    reason.other = fields.maybe_job("other");
    reason.expected_start = fields.maybe_time("expected_start");
    return reason;
  }

  Allocation allocation() {
    const Json& value = need("allocation");
    Allocation allocation;
    if (!value.is_array()) set_error("key 'allocation': the value is not a list of [node, gpus]");
    for (const Json& share : value.is_array() ? value : Json::array()) {
      if (!share.is_array() || share.size() != 2) {
        set_error("key 'allocation': an entry is not [node, gpus]");
        break;
      }
      allocation.push_back({static_cast<NodeId>(as_integer("allocation", share[0], 0, UINT32_MAX)),
                            static_cast<GpuCount>(as_integer("allocation", share[1], 0, kMostGpus))});
    }
    return allocation;
  }

  JobSpec spec() {
    Fields fields(need("spec"), error_);
    JobSpec spec;
    spec.name = fields.text("name");
    spec.gpus = fields.gpus("gpus");
    spec.submit = fields.time("submit");
    spec.run_time = fields.duration("run_time");
    if (fields.find("tenant") != nullptr) spec.tenant = fields.text("tenant");
    if (fields.find("priority") != nullptr) {
      spec.priority = static_cast<int>(fields.integer("priority", -kMaxPriority, kMaxPriority));
    }
    if (fields.find("gpu_type") != nullptr) spec.gpu_type = fields.text("gpu_type");
    if (fields.find("pool") != nullptr) spec.pool = fields.text("pool");
    spec.requested_time = fields.maybe_duration("requested_time");
    if (fields.find("kind") != nullptr) spec.kind = fields.word("kind", parse_kind);
    if (fields.find("sizing") != nullptr) spec.sizing = fields.word("sizing", parse_sizing);
    if (fields.find("min_gpus") != nullptr) spec.min_gpus = fields.gpus("min_gpus");
    if (fields.find("max_gpus") != nullptr) spec.max_gpus = fields.gpus("max_gpus");
    // Sizes are counted in steps: a step of 0 would be a division by it.
    if (fields.find("gpu_step") != nullptr) {
      spec.gpu_step = static_cast<GpuCount>(fields.integer("gpu_step", 1, kMostGpus));
    }
    if (fields.find("application") != nullptr) spec.application = fields.text("application");
    if (fields.find("batch_size") != nullptr) spec.batch_size = fields.count("batch_size");
    if (const Json* limits = fields.find("batch")) {
      Fields batch(*limits, error_);
      spec.batch = {batch.count("initial"), batch.count("largest"), batch.count("local_min"), batch.count("local_max")};
    }
    return spec;
  }

  ServiceSpec service_spec() {
    Fields fields(need("spec"), error_);
    ServiceSpec spec;
    spec.name = fields.text("name");
    spec.gpus = fields.gpus("gpus");
    spec.start_delay = fields.duration("start_delay");
    spec.service_time = fields.duration("service_time");
    spec.target_latency = fields.duration("target_latency");
    spec.percentile = fields.number("percentile");
    return spec;
  }

  GradientStats gradient() {
    const Json* value = find("gradient");
    if (value == nullptr) return {};
    Fields fields(*value, error_);
    return {fields.number("sqr"), fields.number("var")};
  }

  std::optional<ThroughputParams> throughput() {
    const Json* value = find("throughput");
    if (value == nullptr) return std::nullopt;
    Fields f(*value, error_);
    return ThroughputParams{f.number("alpha_c"), f.number("beta_c"), f.number("alpha_n"), f.number("beta_n"),
                            f.number("alpha_r"), f.number("beta_r"), f.number("gamma")};
  }

  std::vector<Target> targets() {
    const Json& value = need("targets");
    if (!value.is_array()) set_error("key 'targets': the value is not a list of {job, allocation}");
    std::vector<Target> targets;
    for (const Json& entry : value.is_array() ? value : Json::array()) {
      Fields fields(entry, error_);
      targets.push_back({fields.job(), fields.allocation()});
      if (!error_.empty()) break;
    }
    return targets;
  }

 private:
  template <typename T>
  T word(const char* key, Result<T> (*parse)(std::string_view)) {
    const Result<T> value = parse(text(key));
    if (value) return *value;
    set_error(fmt::format("key '{}': {}", key, value.error().message));
    return {};
  }

  std::int64_t as_integer(const char* key, const Json& value, std::int64_t min, std::int64_t max) {
    // Beyond int64 the parser gives an unsigned number.
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max));
    if (fits && value.get<std::int64_t>() >= min && value.get<std::int64_t>() <= max) return value.get<std::int64_t>();
    set_error(fmt::format("key '{}': the value is not a whole number from {} to {}", key, min, max));
    return 0;
  }

  void set_error(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }

  const Json& object_;
  std::string& error_;
};

using What = std::variant<Event, Decision, Waits>;

struct RecordType {
  std::string_view name;
  What (*decode)(Fields&);
};

// Braced initialisers are evaluated from left to right: errors name the first bad key.
constexpr std::array<RecordType, 34> kTypes{{
    {"tick", [](Fields&) -> What { return Event(Tick{}); }},
    {"job_waits", [](Fields& f) -> What { return Waits{f.job(), f.reason()}; }},
    {"start", [](Fields& f) -> What { return Decision(Start{f.job(), f.allocation()}); }},
    {"job_submitted", [](Fields& f) -> What { return Event(JobSubmitted{f.job(), f.spec()}); }},
    {"job_started", [](Fields& f) -> What { return Event(JobStarted{f.job(), f.time("productive_at")}); }},
    {"job_finished", [](Fields& f) -> What { return Event(JobFinished{f.job(), f.maybe_time("at")}); }},
    {"preempt", [](Fields& f) -> What { return Decision(Preempt{f.job()}); }},
    {"job_stopped", [](Fields& f) -> What { return Event(JobStopped{f.job(), f.duration("progress")}); }},
    {"job_failed", [](Fields& f) -> What { return Event(JobFailed{f.job(), f.duration("progress")}); }},
    {"job_held", [](Fields& f) -> What { return Event(JobHeld{f.job()}); }},
    {"job_size_asked", [](Fields& f) -> What { return Event(JobSizeAsked{f.job(), f.gpus("gpus")}); }},
    {"job_released", [](Fields& f) -> What { return Event(JobReleased{f.job()}); }},
    {"job_cancelled", [](Fields& f) -> What { return Event(JobCancelled{f.job()}); }},
    {"reject", [](Fields& f) -> What { return Decision(Reject{f.job(), f.reason()}); }},
    {"job_report",
     [](Fields& f) -> What {
       return Event(JobReport{f.job(), f.duration("progress"), f.number("speed"), f.count("epoch"),
                              f.number("fraction_done"), f.number("steps_done"), f.gpus("most_gpus"), f.gradient(),
                              f.throughput()});
     }},
    {"resize", [](Fields& f) -> What { return Decision(Resize{f.targets()}); }},
    {"job_shrunk", [](Fields& f) -> What { return Event(JobShrunk{f.job()}); }},
    {"job_resized",
     [](Fields& f) -> What { return Event(JobResized{f.job(), f.time("productive_at"), f.duration("progress")}); }},
    {"service_added", [](Fields& f) -> What { return Event(ServiceAdded{f.id("service"), f.service_spec()}); }},
    {"service_demand", [](Fields& f) -> What { return Event(ServiceDemand{f.id("service"), f.count("replicas")}); }},
    {"replica_ready", [](Fields& f) -> What { return Event(ReplicaReady{f.id("replica")}); }},
    {"replica_stopped", [](Fields& f) -> What { return Event(ReplicaStopped{f.id("replica")}); }},
    {"timer", [](Fields&) -> What { return Event(Timer{}); }},
    {"start_replica",
     [](Fields& f) -> What {
       return Decision(StartReplica{f.id("replica"),
                                    f.id("service"),
                                    {f.node(), f.gpus("gpus")},
                                    f.maybe_job("task"),
                                    f.maybe_duration("keep_alive"),
                                    f.flag("warm")});
     }},
    {"serve",
     [](Fields& f) -> What { return Decision(Serve{f.id("task"), f.id("replica"), f.maybe_duration("keep_alive")}); }},
    {"wake_replica", [](Fields& f) -> What { return Decision(WakeReplica{f.id("replica")}); }},
    {"rest_replica",
     [](Fields& f) -> What { return Decision(RestReplica{f.id("replica"), f.duration("keep_alive")}); }},
    {"stop_replica", [](Fields& f) -> What { return Decision(StopReplica{f.id("replica")}); }},
    {"node_failed", [](Fields& f) -> What { return Event(NodeFailed{f.node()}); }},
    {"node_repaired", [](Fields& f) -> What { return Event(NodeRepaired{f.node()}); }},
    {"node_drained", [](Fields& f) -> What { return Event(NodeDrained{f.node()}); }},
    {"node_undrained", [](Fields& f) -> What { return Event(NodeUndrained{f.node()}); }},
    {"plan_ready", [](Fields& f) -> What { return Event(PlanReady{f.plan(), f.text("answer")}); }},
    {"plan_request", [](Fields& f) -> What { return Decision(PlanRequest{f.plan(), f.text("input")}); }},
}};

// "" or what is wrong with the line.
std::string decode(std::string_view line, JournalRecord& record) {
  const Json object = Json::parse(line, nullptr, false);
  if (object.is_discarded()) return "is not JSON (cut off, or not a journal)";
  std::string error;
  Fields fields(object, error);
  const std::string type = fields.text("type");
  record.at = fields.time("t");
  for (const RecordType& candidate : kTypes) {
    if (candidate.name != type) continue;
    record.what = candidate.decode(fields);
    return error;
  }
  return error.empty() ? fmt::format("key 'type': {} is not a record of a journal", shown(type)) : error;
}

}  // namespace

Result<JournalReader> JournalReader::open(const std::filesystem::path& path) {
  EBB_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  return begin(std::move(lines));
}

Result<JournalReader> JournalReader::from_text(std::string name, std::string text) {
  return begin(LineReader::from_text(std::move(name), std::move(text)));
}

Result<JournalReader> JournalReader::begin(LineReader lines) {
  JournalReader reader(std::move(lines));
  std::string_view line;
  EBB_ASSIGN_OR_RETURN(const bool any, reader.lines_.next(line));
  const Json header = any ? Json::parse(line, nullptr, false) : Json();
  if (!header.is_object() || !header.contains("type") || header["type"] != "journal") {
    return fail(ErrorCode::invalid_argument,
                R"({}:1: this is not a journal: it does not begin with {{"type":"journal")", reader.lines_.name());
  }
  std::string error;
  const std::int64_t version = Fields(header, error).integer("version", 1, INT32_MAX);
  if (!error.empty()) return fail(ErrorCode::invalid_argument, "{}:1: bad header: {}", reader.lines_.name(), error);
  if (version > kJournalVersion) {
    return fail(ErrorCode::invalid_argument, "{}:1: this is version {} of the journal; this ebb reads up to version {}",
                reader.lines_.name(), version, kJournalVersion);
  }
  reader.header_ = line;
  return reader;
}

Result<bool> JournalReader::next(JournalRecord& record) {
  std::string_view line;
  do {
    EBB_ASSIGN_OR_RETURN(const bool more, lines_.next(line));
    if (!more) return false;
  } while (trim(line).empty());
  if (const std::string error = decode(line, record); !error.empty()) {
    return fail(ErrorCode::invalid_argument, "{}:{}: bad record: {}", lines_.name(), lines_.line_number(), error);
  }
  return true;
}

}  // namespace ebb::trace
