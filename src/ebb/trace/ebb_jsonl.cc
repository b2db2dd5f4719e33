/// ebb's own format as one JSON object a line, with the keys of ebb-csv. Numbers are taken as they are written, not
/// through a double: seconds stay exact. Nested values of unknown keys are skipped.

#include <array>
#include <nlohmann/json.hpp>

#include "ebb/trace/fields.h"
#include "ebb/trace/job_columns.h"
#include "ebb/trace/reader.h"

namespace ebb::trace {
namespace {

constexpr std::int64_t kVersion = 1;

enum class Kind { absent, null, number, string, other };

// The keys that ebb knows, in the header line and in rows. Those of job_columns() follow.
enum Key : std::size_t {
  kFormat,
  kVersionKey,
  kTimeZero,
  kJob,
  kSubmit,
  kRun,
  kGpus,
  kTenant,
  kPriority,
  kRequested,
  kType,
  kPool
};
constexpr std::array<std::string_view, 12> kKeys{"format", "version", "time_zero", "job",         "submit_s", "run_s",
                                                 "gpus",   "tenant",  "priority",  "requested_s", "gpu_type", "pool"};

// All keys: a Key is a position in them, and so is kKeys.size() + a position in job_columns().
const std::vector<std::string_view>& all_keys() {
  static const std::vector<std::string_view> kAll = [] {
    std::vector<std::string_view> keys(kKeys.begin(), kKeys.end());
    for (const JobColumn& column : job_columns()) keys.push_back(column.name);
    return keys;
  }();
  return kAll;
}

struct Value {
  Kind kind = Kind::absent;
  std::string text;
};

/// Collects the top-level values of known keys. Interface: nlohmann's SAX consumer.
class LineHandler {
 public:
  std::vector<Value> values{all_keys().size()};
  std::string error;

  void clear() {
    for (Value& value : values) value.kind = Kind::absent;
    error.clear();
    depth_ = 0;
    current_ = nullptr;
  }

  bool null() { return take(Kind::null, ""); }
  bool boolean(bool) { return take(Kind::other, ""); }
  bool number_integer(std::int64_t value) { return take(Kind::number, fmt::format_int(value).c_str()); }
  bool number_unsigned(std::uint64_t value) { return take(Kind::number, fmt::format_int(value).c_str()); }
  bool number_float(double, const std::string& written) { return take(Kind::number, written); }
  bool string(std::string& value) { return take(Kind::string, value); }
  bool binary(std::vector<std::uint8_t>&) { return take(Kind::other, ""); }
  bool start_object(std::size_t) { return depth_ == 0 ? open() : take(Kind::other, "") && open(); }
  bool start_array(std::size_t) {
    if (depth_ > 0) return take(Kind::other, "") && open();
    error = "the line is not a JSON object";
    return false;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (depth_ != 1) return true;
    current_ = nullptr;
    const std::vector<std::string_view>& keys = all_keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] != name) continue;
      current_ = &values[i];
      if (current_->kind != Kind::absent) {
        error = fmt::format("key '{}' appears twice", name);
        return false;
      }
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    error = fmt::format("the line is not JSON: unexpected text at column {}", position);
    return false;
  }

 private:
  bool take(Kind kind, std::string_view text) {
    if (depth_ == 0) {
      error = "the line is not a JSON object";
      return false;
    }
    if (depth_ == 1 && current_ != nullptr) {
      current_->kind = kind;
      current_->text = text;
    }
    return true;
  }
  bool open() {
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  Value* current_ = nullptr;
};

class EbbJsonlReader : public FormatReader {
 public:
  Result<bool> preamble(std::string_view line) override {
    if (any_line_) return false;
    any_line_ = true;
    // A line that is not an object at all is reported by row(), as a bad row.
    if (!parse(line) || handler_.values[kFormat].kind == Kind::absent) return false;
    if (handler_.values[kFormat].text != "ebb-trace") {
      return fail(ErrorCode::invalid_argument, "key 'format': {} is not 'ebb-trace'",
                  shown(handler_.values[kFormat].text));
    }
    if (has(kVersionKey)) {
      EBB_ASSIGN_OR_RETURN(const std::string_view text, text_of(kVersionKey, Kind::number));
      EBB_ASSIGN_OR_RETURN(const std::int64_t version, in_key(kVersionKey, parse_integer(text, 1, INT32_MAX)));
      if (version > kVersion) {
        return fail(ErrorCode::invalid_argument, "this is version {} of ebb-jsonl; this ebb reads up to version {}",
                    version, kVersion);
      }
    }
    EBB_RETURN_IF_ERROR(copy_name(kTimeZero, time_zero_));
    return true;
  }

  Result<Row> row(std::string_view line, JobSpec& job) override {
    if (!parse(line)) return fail(ErrorCode::invalid_argument, "{}", handler_.error);
    std::string missing;
    for (const Key key : {kJob, kSubmit, kRun, kGpus}) {
      if (!has(key)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", kKeys[key]);
    }
    if (!missing.empty()) return fail(ErrorCode::invalid_argument, "the object lacks: {}", missing);
    EBB_RETURN_IF_ERROR(copy_name(kJob, job.name));
    if (job.name.empty()) return fail(ErrorCode::invalid_argument, "key 'job' is empty; a name is needed");
    EBB_ASSIGN_OR_RETURN(const Duration submit, seconds(kSubmit));
    job.submit = Time(submit);
    EBB_ASSIGN_OR_RETURN(job.run_time, seconds(kRun));
    EBB_ASSIGN_OR_RETURN(const std::string_view gpus, text_of(kGpus, Kind::number));
    EBB_ASSIGN_OR_RETURN(job.gpus, in_key(kGpus, parse_gpus(gpus)));
    if (has(kPriority)) {
      EBB_ASSIGN_OR_RETURN(const std::string_view priority, text_of(kPriority, Kind::number));
      EBB_ASSIGN_OR_RETURN(const std::int64_t value,
                           in_key(kPriority, parse_integer(priority, -kMaxPriority, kMaxPriority)));
      job.priority = static_cast<int>(value);
    }
    if (has(kRequested)) {
      EBB_ASSIGN_OR_RETURN(job.requested_time, seconds(kRequested));
    }
    EBB_RETURN_IF_ERROR(copy_name(kTenant, job.tenant));
    EBB_RETURN_IF_ERROR(copy_name(kType, job.gpu_type));
    EBB_RETURN_IF_ERROR(copy_name(kPool, job.pool));
    std::size_t key = kKeys.size();
    for (const JobColumn& column : job_columns()) {
      if (has(key)) {
        EBB_ASSIGN_OR_RETURN(const std::string_view text, column.is_text ? name_of(key) : text_of(key, Kind::number));
        if (!text.empty()) EBB_RETURN_IF_ERROR(in_key(key, column.set(job, text)));
      }
      ++key;
    }
    EBB_RETURN_IF_ERROR(check_sizes(job));
    return Row::job;
  }

  void finish(Workload& workload) override { workload.time_zero = time_zero_; }

 private:
  bool parse(std::string_view line) {
    handler_.clear();
    return nlohmann::json::sax_parse(line, &handler_);
  }

  // null counts as absent.
  bool has(std::size_t key) const {
    const Kind kind = handler_.values[key].kind;
    return kind != Kind::absent && kind != Kind::null;
  }

  template <typename T>
  static Result<T> in_key(std::size_t key, Result<T> result) {
    if (!result) result.error().message = fmt::format("key '{}': {}", all_keys()[key], result.error().message);
    return result;
  }

  Result<std::string_view> text_of(std::size_t key, Kind kind) const {
    const Value& value = handler_.values[key];
    if (value.kind != kind) {
      return fail(ErrorCode::invalid_argument, "key '{}': {} is not a {}", all_keys()[key],
                  value.kind == Kind::other ? "the value" : shown(value.text),
                  kind == Kind::number ? "number" : "string");
    }
    return std::string_view(value.text);
  }

  Result<Duration> seconds(Key key) const {
    EBB_ASSIGN_OR_RETURN(const std::string_view text, text_of(key, Kind::number));
    return in_key(key, parse_seconds(text));
  }

  // A name may also be written as a number.
  Result<std::string_view> name_of(std::size_t key) const {
    return text_of(key, handler_.values[key].kind == Kind::number ? Kind::number : Kind::string);
  }

  Result<void> copy_name(Key key, std::string& out) const {
    if (!has(key)) return {};
    EBB_ASSIGN_OR_RETURN(const std::string_view text, name_of(key));
    EBB_RETURN_IF_ERROR(in_key(key, check_text(text)));
    out = text;
    return {};
  }

  LineHandler handler_;
  bool any_line_ = false;
  std::string time_zero_;
};

}  // namespace

std::unique_ptr<FormatReader> make_ebb_jsonl_reader() {
  return std::make_unique<EbbJsonlReader>();
}

}  // namespace ebb::trace
