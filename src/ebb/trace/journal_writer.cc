#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/trace/fields.h"
#include "ebb/trace/journal.h"

namespace ebb::trace {
namespace {

constexpr std::size_t kFlushAt = std::size_t{256} << 10;

std::int64_t ns(Time t) {
  return t.time_since_epoch().count();
}
std::int64_t ns(Duration d) {
  return d.count();
}

/// Appends records to a string. Every line is one call chain of put(); text is escaped here and nowhere else.
class Line {
 public:
  Line(std::string& out, Time at, const char* type) : out_(out) {
    out_ += R"({"t":)";
    put_integer(ns(at));
    out_ += R"(,"type":")";
    out_ += type;
    out_ += '"';
  }
  ~Line() { out_ += "}\n"; }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  template <typename Integer>
    requires std::is_integral_v<Integer>
  Line& put(const char* key, Integer value) {
    put_key(key);
    put_integer(value);
    return *this;
  }

  /// In the shortest form that reads back as the same number.
  Line& put(const char* key, double value) {
    EBB_CHECK(std::isfinite(value));  // JSON has no other numbers
    put_key(key);
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out_.append(digits.data(), end);
    if (value == 0 && std::signbit(value)) out_ += ".0";  // "-0" would read back as the integer 0
    return *this;
  }

  Line& put_true(const char* key) {
    put_key(key);
    out_ += "true";
    return *this;
  }

  Line& put(const char* key, std::string_view text) {
    put_key(key);
    put_text(text);
    return *this;
  }

  Line& put(const char* key, const Reason& reason) {
    open(key).put("code", to_string(reason.code)).put("needed", reason.needed).put("available", reason.available);
    if (reason.other) put("other", *reason.other);
    if (reason.expected_start) put("expected_start", ns(*reason.expected_start));
    return close();
  }

  Line& put(const char* key, const Allocation& allocation) {
    put_key(key);
    out_ += '[';
    for (const NodeShare& share : allocation) {
      out_ += '[';
      put_integer(share.node);
      out_ += ',';
      put_integer(share.gpus);
      out_ += "],";
    }
    if (!allocation.empty()) out_.pop_back();
    out_ += ']';
    return *this;
  }

  Line& put(const char* key, const std::vector<Target>& targets) {
    put_key(key);
    out_ += '[';
    for (const Target& target : targets) {
      out_ += '{';
      put("job", target.job).put("allocation", target.allocation).close();
      out_ += ',';
    }
    if (!targets.empty()) out_.pop_back();
    out_ += ']';
    return *this;
  }

  Line& put(const char* key, std::optional<Duration> duration) {
    if (duration) put(key, ns(*duration));
    return *this;
  }

  Line& put(const char* key, const JobSpec& spec) {
    open(key)
        .put("name", spec.name)
        .put("gpus", spec.gpus)
        .put("submit", ns(spec.submit))
        .put("run_time", ns(spec.run_time));
    if (!spec.tenant.empty()) put("tenant", spec.tenant);
    if (spec.priority != 0) put("priority", spec.priority);
    if (!spec.gpu_type.empty()) put("gpu_type", spec.gpu_type);
    if (!spec.pool.empty()) put("pool", spec.pool);
    put("requested_time", spec.requested_time);
    if (spec.kind != JobKind::training) put("kind", to_name(spec.kind));
    if (spec.sizing != Sizing::rigid) put("sizing", to_string(spec.sizing));
    if (spec.min_gpus != 0) put("min_gpus", spec.min_gpus);
    if (spec.max_gpus != 0) put("max_gpus", spec.max_gpus);
    if (spec.gpu_step != 1) put("gpu_step", spec.gpu_step);
    if (!spec.application.empty()) put("application", spec.application);
    if (spec.batch_size != 0) put("batch_size", spec.batch_size);
    if (spec.batch != BatchLimits{}) put("batch", spec.batch);
    return close();
  }

  Line& put(const char* key, const BatchLimits& batch) {
    return open(key)
        .put("initial", batch.initial)
        .put("largest", batch.largest)
        .put("local_min", batch.local_min)
        .put("local_max", batch.local_max)
        .close();
  }

  Line& put(const char* key, const ServiceSpec& spec) {
    open(key).put("name", spec.name).put("gpus", spec.gpus);
    put("start_delay", ns(spec.start_delay)).put("service_time", ns(spec.service_time));
    return put("target_latency", ns(spec.target_latency)).put("percentile", spec.percentile).close();
  }

  Line& put(const char* key, const GradientStats& gradient) {
    if (gradient == GradientStats{}) return *this;  // not known
    return open(key).put("sqr", gradient.sqr).put("var", gradient.var).close();
  }

  Line& put(const char* key, const std::optional<ThroughputParams>& params) {
    if (!params) return *this;
    open(key).put("alpha_c", params->alpha_c).put("beta_c", params->beta_c);
    put("alpha_n", params->alpha_n).put("beta_n", params->beta_n);
    return put("alpha_r", params->alpha_r).put("beta_r", params->beta_r).put("gamma", params->gamma).close();
  }

 private:
  // An object as the value of a key; close() ends it.
  Line& open(const char* key) {
    put_key(key);
    out_ += '{';
    return *this;
  }
  Line& close() {
    out_ += '}';
    return *this;
  }

  void put_key(const char* key) {
    out_ += out_.back() == '{' ? "\"" : ",\"";
    out_ += key;
    out_ += "\":";
  }

  template <typename Integer>
  void put_integer(Integer value) {
    const fmt::format_int digits(value);
    out_.append(digits.data(), digits.size());
  }

  void put_text(std::string_view text) {
    const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
    if (std::all_of(text.begin(), text.end(), plain)) {
      out_ += '"';
      out_ += text;
      out_ += '"';
    } else {
      // Bytes that are no UTF-8 become U+FFFD: a journal is always readable.
      out_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
  }

  std::string& out_;
};

struct Encoder {
  std::string& out;
  Time at;

  void operator()(const JobSubmitted& e) const { Line(out, at, "job_submitted").put("job", e.job).put("spec", e.spec); }
  void operator()(const JobStarted& e) const {
    Line(out, at, "job_started").put("job", e.job).put("productive_at", ns(e.productive_at));
  }
  void operator()(const JobStopped& e) const {
    Line(out, at, "job_stopped").put("job", e.job).put("progress", ns(e.progress));
  }
  void operator()(const JobFailed& e) const {
    Line(out, at, "job_failed").put("job", e.job).put("progress", ns(e.progress));
  }
  void operator()(const JobFinished& e) const {
    Line line(out, at, "job_finished");
    line.put("job", e.job);
    if (e.at) line.put("at", ns(*e.at));
  }
  void operator()(const JobHeld& e) const { Line(out, at, "job_held").put("job", e.job); }
  void operator()(const JobSizeAsked& e) { Line(out, at, "job_size_asked").put("job", e.job).put("gpus", e.gpus); }
  void operator()(const JobReleased& e) const { Line(out, at, "job_released").put("job", e.job); }
  void operator()(const JobCancelled& e) const { Line(out, at, "job_cancelled").put("job", e.job); }
  void operator()(const JobShrunk& e) const { Line(out, at, "job_shrunk").put("job", e.job); }
  void operator()(const JobResized& e) const {
    Line line(out, at, "job_resized");
    line.put("job", e.job).put("productive_at", ns(e.productive_at)).put("progress", ns(e.progress));
  }
  void operator()(const JobReport& e) const {
    Line line(out, at, "job_report");
    line.put("job", e.job).put("progress", ns(e.progress)).put("speed", e.speed).put("epoch", e.epoch);
    line.put("fraction_done", e.fraction_done).put("steps_done", e.steps_done);
    line.put("most_gpus", e.most_gpus).put("gradient", e.gradient).put("throughput", e.throughput);
  }
  void operator()(const ServiceAdded& e) const {
    Line(out, at, "service_added").put("service", e.service).put("spec", e.spec);
  }
  void operator()(const ServiceDemand& e) const {
    Line(out, at, "service_demand").put("service", e.service).put("replicas", e.replicas);
  }
  void operator()(const ReplicaReady& e) const { Line(out, at, "replica_ready").put("replica", e.replica); }
  void operator()(const ReplicaStopped& e) const { Line(out, at, "replica_stopped").put("replica", e.replica); }
  void operator()(const NodeFailed& e) const { Line(out, at, "node_failed").put("node", e.node); }
  void operator()(const NodeRepaired& e) const { Line(out, at, "node_repaired").put("node", e.node); }
  void operator()(const NodeDrained& e) const { Line(out, at, "node_drained").put("node", e.node); }
  void operator()(const NodeUndrained& e) const { Line(out, at, "node_undrained").put("node", e.node); }
  void operator()(const PlanReady& e) const { Line(out, at, "plan_ready").put("plan", e.plan).put("answer", e.answer); }
  void operator()(const Timer&) const { Line(out, at, "timer"); }
  void operator()(const Tick&) const { Line(out, at, "tick"); }

  void operator()(const Start& d) const { Line(out, at, "start").put("job", d.job).put("allocation", d.allocation); }
  void operator()(const Preempt& d) const { Line(out, at, "preempt").put("job", d.job); }
  void operator()(const Reject& d) const { Line(out, at, "reject").put("job", d.job).put("reason", d.reason); }
  void operator()(const PlanRequest& d) const {
    Line(out, at, "plan_request").put("plan", d.plan).put("input", d.input);
  }
  void operator()(const Resize& d) const { Line(out, at, "resize").put("targets", d.targets); }
  void operator()(const StartReplica& d) const {
    Line line(out, at, "start_replica");
    line.put("replica", d.replica).put("service", d.service).put("node", d.place.node).put("gpus", d.place.gpus);
    if (d.task) line.put("task", *d.task);
    line.put("keep_alive", d.keep_alive);
    if (d.warm) line.put_true("warm");
  }
  void operator()(const Serve& d) const {
    Line(out, at, "serve").put("task", d.task).put("replica", d.replica).put("keep_alive", d.keep_alive);
  }
  void operator()(const WakeReplica& d) const { Line(out, at, "wake_replica").put("replica", d.replica); }
  void operator()(const RestReplica& d) const {
    Line(out, at, "rest_replica").put("replica", d.replica).put("keep_alive", ns(d.keep_alive));
  }
  void operator()(const StopReplica& d) const { Line(out, at, "stop_replica").put("replica", d.replica); }
};

}  // namespace

std::string encode(Time at, const Event& event) {
  std::string line;
  std::visit(Encoder{line, at}, event);
  line.pop_back();
  return line;
}

std::string encode(Time at, const Decision& decision) {
  std::string line;
  std::visit(Encoder{line, at}, decision);
  line.pop_back();
  return line;
}

Result<JournalWriter> JournalWriter::create(const std::filesystem::path& path, std::string_view header_json) {
  JournalWriter writer;
  EBB_RETURN_IF_ERROR(writer.begin(header_json));  // before the file is touched
  EBB_ASSIGN_OR_RETURN(writer.file_, FileWriter::create(path));
  return writer;
}

Result<JournalWriter> JournalWriter::to_text(std::string* sink, std::string_view header_json) {
  JournalWriter writer;
  EBB_RETURN_IF_ERROR(writer.begin(header_json));
  writer.sink_ = sink;
  return writer;
}

Result<void> JournalWriter::begin(std::string_view header_json) {
  const auto members = nlohmann::ordered_json::parse(header_json, nullptr, false);
  if (!members.is_object() || members.contains("type") || members.contains("version")) {
    return fail(ErrorCode::invalid_argument,
                "the header of a journal is a JSON object without members 'type' and 'version'");
  }
  nlohmann::ordered_json header{{"type", "journal"}, {"version", kJournalVersion}};
  header.update(members);
  buffer_ = header.dump();
  buffer_ += '\n';
  return {};
}

void JournalWriter::write(Time at, const Event& event) {
  std::visit(Encoder{buffer_, at}, event);
  flush_if_full();
}

void JournalWriter::write(Time at, const Decision& decision) {
  std::visit(Encoder{buffer_, at}, decision);
  flush_if_full();
}

void JournalWriter::write_waits(Time at, JobId job, const Reason& reason) {
  Line(buffer_, at, "job_waits").put("job", job).put("reason", reason);
  flush_if_full();
}

void JournalWriter::flush_if_full() {
  if (buffer_.size() >= kFlushAt) flush();
}

void JournalWriter::flush() {
  if (file_) file_->write(buffer_);
  if (sink_ != nullptr) *sink_ += buffer_;
  buffer_.clear();
}

Result<void> JournalWriter::close() {
  flush();
  sink_ = nullptr;
  if (!file_) return {};
  std::optional<FileWriter> file = std::exchange(file_, std::nullopt);
  return file->close();
}

}  // namespace ebb::trace
