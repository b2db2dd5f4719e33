#include "ebb/spec/job_file.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "ebb/base/files.h"
#include "ebb/spec/cluster.h"
#include "ebb/spec/keys.h"

namespace ebb::spec {
namespace {

namespace fs = std::filesystem;

constexpr std::array kElasticities{Elasticity::none, Elasticity::restart, Elasticity::contract};
constexpr std::array kWhens{Dependency::When::after_ok, Dependency::When::after_any};
/// What ebb sets for every worker, so that torch.distributed finds the others.
constexpr std::array<std::string_view, 7> kReserved{"RANK",       "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                                    "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"};
constexpr std::string_view kReservedPrefix = "EBB_";
constexpr std::size_t kMaxPathBytes = 4095;

struct ByteUnit {
  std::string_view name;
  int shift;
};
constexpr std::array<ByteUnit, 4> kByteUnits{{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};

std::string write_duration(Duration duration) {
  return json_string(format_seconds(duration) + "s");
}

/// "4GiB", "512MiB", "1073741824".
std::optional<std::int64_t> parse_bytes(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) return number;
  for (const ByteUnit& known : kByteUnits) {
    if (unit == known.name) return number > INT64_MAX >> known.shift ? INT64_MAX : number << known.shift;
  }
  return std::nullopt;
}

std::string write_bytes(std::int64_t bytes) {
  for (const ByteUnit& unit : {kByteUnits[2], kByteUnits[1]}) {
    if (bytes % (std::int64_t{1} << unit.shift) == 0) {
      return json_string(fmt::format("{}{}", bytes >> unit.shift, unit.name));
    }
  }
  return fmt::format("{}", bytes);
}

constexpr std::string_view kTextSchema = R"("type": ["string", "number", "boolean"])";
constexpr std::string_view kDurationSchema =
    R"("type": ["string", "number"], "minimum": 0, )"
    R"("pattern": "^[0-9]+(\\.[0-9]+)?((ns|us|ms|s|m|h|d)([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h|d))*)?$")";

std::string label_schema() {
  return fmt::format(R"("type": ["string", "number", "boolean"], "minLength": 1, "maxLength": {}, )"
                     R"("pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")",
                     kMaxNameCharacters);
}

std::string integer_schema(std::int64_t min, std::int64_t max) {
  return fmt::format(R"("type": "integer", "minimum": {}, "maximum": {})", min, max);
}

/// A file, and the table of its keys.
class Parser : private YamlFile {
 public:
  Parser(std::string name, fs::path base)
      : YamlFile(std::move(name), "the job"),
        base_(std::move(base)),
        range_keys_(range_keys()),
        retry_keys_(retry_keys()),
        dependency_keys_(dependency_keys()),
        keys_(job_keys()) {}
  Parser(const Parser&) = delete;  // its keys point to it
  Parser& operator=(const Parser&) = delete;
  ~Parser() = default;

  Result<JobRequest> parse(const std::string& text) const {
    EBB_ASSIGN_OR_RETURN(const YAML::Node root, YamlFile::root(text, names_of(keys_)));
    JobRequest request;
    request.working_directory = base_.string();
    EBB_RETURN_IF_ERROR(read_keys(*this, root, "the job", keys_, request));
    if (request.elasticity == Elasticity::restart && request.min_workers == 0) {
      return at(root["elasticity"], "'elasticity: restart' needs a range of workers: workers: {min: 1, max: 4}");
    }
    return request;
  }

  const Keys<JobRequest>& keys() const { return keys_; }

 private:
  // Keys are in the order in which people look for them; `command` is read before `environment`, which counts on.
  Keys<JobRequest> job_keys() const {
    Keys<JobRequest> keys{{.name = "version",
                           .help = "Of the format: 1.",
                           .schema = R"("const": 1)",
                           .needed = true,
                           .read = [](const YAML::Node&, JobRequest&) { return Result<void>(); },
                           .write = [](const JobRequest&) { return "1"; }}};
    keys.push_back(label("name", "What people call it.", &JobRequest::name));
    keys.push_back(command_key());
    keys.push_back(environment_key());
    keys.push_back(
        path_key("working_directory", "Where it runs; the same path on every node.", &JobRequest::working_directory));
    keys.push_back(label("tenant", "Who pays.", &JobRequest::tenant));
    keys.push_back(integer_key("priority", "Higher first.", &JobRequest::priority, -kMaxPriority, kMaxPriority));
    keys.push_back(workers_key());
    keys.push_back(elasticity_key());
    keys.push_back(duration_key<JobRequest>(
        "resize_timeout", "contract: for joining workers to be ready and switched to.", &JobRequest::resize_timeout));
    keys.push_back(path_key("checkpoint_folder", "Where its checkpoints are; told to its workers.",
                            &JobRequest::checkpoint_folder));
    keys.push_back(integer_key("gpus_per_worker", "GPUs of each worker, or CPU slots on machines without GPUs.",
                               &JobRequest::gpus_per_worker, 1, static_cast<GpuCount>(kMaxGpusPerNode)));
    keys.push_back(memory_key());
    keys.push_back(label("gpu_type", "Run on GPUs of this type only.", &JobRequest::gpu_type));
    keys.push_back(label("node", "Run on this node only.", &JobRequest::node));
    keys.push_back(
        {.name = "time_limit",
         .help = "Of each run; a longer one is ended as timed out.",
         .schema = std::string(kDurationSchema),
         .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
           EBB_ASSIGN_OR_RETURN(into.time_limit, duration(node, "time_limit", false));
           return {};
         },
         .write = [](const JobRequest& from) { return from.time_limit ? write_duration(*from.time_limit) : ""; }});
    keys.push_back(
        duration_key<JobRequest>("grace_time", "From SIGTERM to SIGKILL when it is stopped.", &JobRequest::grace_time));
    keys.push_back(retries_key());
    keys.push_back(integer_key("array", "So many jobs, told apart by EBB_ARRAY_INDEX (from 0).",
                               &JobRequest::array_size, 1, kMaxArraySize));
    keys.push_back(dependencies_key());
    keys.push_back(hold_key());
    return keys;
  }

  // A word or a few, without control characters.
  Key<JobRequest> label(const char* name, const char* help, std::string JobRequest::* member) const {
    return {
        .name = name,
        .help = help,
        .schema = label_schema(),
        .read = [this, name, member](const YAML::Node& node, JobRequest& into) -> Result<void> {
          EBB_ASSIGN_OR_RETURN(const std::string value, plain_text(node, name));
          if (value.empty()) return at(node, fmt::format("'{}' needs a value", name));
          if (utf8_characters(value).value_or(0) > kMaxNameCharacters || has_control_character(value)) {
            return at(node, fmt::format("'{}': {} is not a name of at most {} characters, none of them control "
                                        "characters",
                                        name, shown(value), kMaxNameCharacters));
          }
          into.*member = value;
          return {};
        },
        .write = [member](const JobRequest& from) { return (from.*member).empty() ? "" : json_string(from.*member); }};
  }

  Key<JobRequest> integer_key(const char* name, const char* help, std::int32_t JobRequest::* member, std::int32_t min,
                              std::int32_t max) const {
    return {.name = name,
            .help = help,
            .schema = integer_schema(min, max),
            .read = [=, this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              EBB_ASSIGN_OR_RETURN(into.*member, integer<std::int32_t>(node, name, min, max));
              return {};
            },
            .write =
                [member](const JobRequest& from) {
                  return from.*member == JobRequest().*member ? "" : fmt::format("{}", from.*member);
                }};
  }

  template <typename T>
  Key<T> duration_key(const char* name, const char* help, Duration T::* member) const {
    return {
        .name = name,
        .help = help,
        .schema = std::string(kDurationSchema),
        .read = [=, this](const YAML::Node& node, T& into) -> Result<void> {
          EBB_ASSIGN_OR_RETURN(into.*member, duration(node, name, true));
          return {};
        },
        .write = [member](const T& from) { return from.*member == T().*member ? "" : write_duration(from.*member); }};
  }

  // Any text, also an empty one: what a process can be given.
  Result<std::string> plain_text(const YAML::Node& node, std::string_view key) const {
    if (!node.IsScalar()) return at(node, fmt::format("'{}' needs a text (\"\" for an empty one)", key));
    const std::string& value = node.Scalar();
    if (value.find('\0') != std::string::npos) {
      return at(node,
                fmt::format("'{}': {} has a NUL character in it, which no process can be given", key, shown(value)));
    }
    if (!utf8_characters(value)) return at(node, fmt::format("'{}': {} is not UTF-8", key, shown(value)));
    return value;
  }

  // `total`: bytes of everything so far, each text with its end.
  Result<void> count_bytes(const YAML::Node& node, std::string_view key, std::size_t bytes, std::size_t& total) const {
    if (bytes > kMaxArgumentBytes) {
      return at(node, fmt::format("'{}': a text of {} bytes; the most is {} (put more into a file)", key, bytes,
                                  kMaxArgumentBytes));
    }
    total += bytes + 1;
    if (total > kMaxCommandBytes) {
      return at(node, fmt::format("'{}': 'command' and 'environment' have more than {} bytes together (put what is "
                                  "large into a file)",
                                  key, kMaxCommandBytes));
    }
    return {};
  }

  static std::size_t bytes_of(const std::vector<std::string>& command) {
    std::size_t total = 0;
    for (const std::string& argument : command) total += argument.size() + 1;
    return total;
  }

  Key<JobRequest> command_key() const {
    return {.name = "command",
            .help = "The program and its arguments as a list; no shell reads it.",
            .schema = fmt::format(R"("type": "array", "minItems": 1, "items": {{{}, "maxLength": {}}})", kTextSchema,
                                  kMaxArgumentBytes),
            .needed = true,
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              if (!node.IsSequence()) {
                return at(node,
                          "'command' must be a list, the program and each argument by itself: [python, train.py, "
                          "--lr, 0.1]; for a shell: [sh, -c, \"...\"]");
              }
              std::size_t total = 0;
              for (const YAML::Node& item : node) {
                EBB_ASSIGN_OR_RETURN(std::string argument, plain_text(item, "command"));
                EBB_RETURN_IF_ERROR(count_bytes(item, "command", argument.size(), total));
                into.command.push_back(std::move(argument));
              }
              if (into.command.empty() || into.command.front().empty()) {
                return at(node, "'command' must begin with a program");
              }
              return {};
            },
            .write =
                [](const JobRequest& from) {
                  std::string out;
                  for (const std::string& argument : from.command) {
                    out += (out.empty() ? "" : ", ") + json_string(argument);
                  }
                  return "[" + out + "]";
                }};
  }

  Result<std::string> variable_name(const YAML::Node& node) const {
    if (!node.IsScalar()) return at(node, "'environment': a name must be a plain word");
    const std::string& name = node.Scalar();
    const auto in_name = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (name.empty() || name.size() > kMaxVariableNameBytes || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ||
        !std::all_of(name.begin(), name.end(), in_name)) {
      return at(node, fmt::format("'environment': {} is not a name of at most {} letters, digits and '_' that does not "
                                  "begin with a digit",
                                  shown(name), kMaxVariableNameBytes));
    }
    if (name.starts_with(kReservedPrefix) || std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
      return at(node, fmt::format("'environment': '{}' is set by ebb for each worker (so are {}* and {})", name,
                                  kReservedPrefix, fmt::join(kReserved, ", ")));
    }
    return name;
  }

  Key<JobRequest> environment_key() const {
    return {.name = "environment",
            .help = "Variables, added to what ebb sets.",
            .schema = fmt::format(R"("type": "object", "propertyNames": {{"maxLength": {}, "pattern": )"
                                  R"("^(?!{}|({})$)[A-Za-z_][A-Za-z0-9_]*$"}}, "additionalProperties": {{{}}})",
                                  kMaxVariableNameBytes, kReservedPrefix, fmt::join(kReserved, "|"), kTextSchema),
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              if (!node.IsMap()) return at(node, "'environment' must be a map of names and values");
              std::size_t total = bytes_of(into.command);
              for (const auto& entry : node) {
                EBB_ASSIGN_OR_RETURN(const std::string name, variable_name(entry.first));
                EBB_ASSIGN_OR_RETURN(const std::string value, plain_text(entry.second, name));
                EBB_RETURN_IF_ERROR(count_bytes(entry.second, "environment", name.size() + 1 + value.size(), total));
                if (!into.environment.emplace(name, value).second) {
                  return at(entry.first, fmt::format("'environment': '{}' appears twice", name));
                }
              }
              return {};
            },
            .write = [](const JobRequest& from) -> std::string {
              std::string out;
              for (const auto& [name, value] : from.environment) {
                out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", json_string(name), json_string(value));
              }
              return out.empty() ? "" : "{" + out + "}";
            }};
  }

  Keys<JobRequest> range_keys() const {
    Key<JobRequest> min = integer_key("min", "The fewest.", &JobRequest::min_workers, 1, kMaxWorkers);
    Key<JobRequest> max = integer_key("max", "The most.", &JobRequest::max_workers, 1, kMaxWorkers);
    min.needed = max.needed = true;
    Key<JobRequest> start =
        integer_key("start", "How many it asks for; max if not said.", &JobRequest::workers, 1, kMaxWorkers);
    start.write = [](const JobRequest& from) {
      return from.workers == from.max_workers ? "" : fmt::format("{}", from.workers);
    };
    return {std::move(min), std::move(max),
            integer_key("step", "From one size to the next.", &JobRequest::worker_step, 1, kMaxWorkers),
            std::move(start)};
  }

  Key<JobRequest> workers_key() const {
    return {
        .name = "workers",
        .help = "Processes, started and ended together; a range if it runs on fewer or more.",
        .schema =
            fmt::format(R"("oneOf": [{{{}}}, {{{}}}])", integer_schema(1, kMaxWorkers), schema_of(range_keys_, ", ")),
        .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
          if (!node.IsMap()) {
            EBB_ASSIGN_OR_RETURN(into.workers, integer<std::int32_t>(node, "workers", 1, kMaxWorkers));
            return {};
          }
          EBB_RETURN_IF_ERROR(check_keys(node, names_of(range_keys_), "'workers'"));
          into.workers = 0;
          EBB_RETURN_IF_ERROR(read_keys(*this, node, "'workers'", range_keys_, into));
          if (into.workers == 0) into.workers = into.max_workers;
          const auto legal = [&](std::int32_t n) {
            return n >= into.min_workers && n <= into.max_workers && (n - into.min_workers) % into.worker_step == 0;
          };
          if (legal(into.max_workers) && legal(into.workers)) return {};
          return at(node, fmt::format("'workers': {} and {} must be {} or that and a multiple of {} more, and 'start' "
                                      "at most 'max'",
                                      into.workers, into.max_workers, into.min_workers, into.worker_step));
        },
        .write =
            [this](const JobRequest& from) {
              if (from.min_workers > 0) return write_keys(range_keys_, from);
              return from.workers == JobRequest().workers ? "" : fmt::format("{}", from.workers);
            }};
  }

  Key<JobRequest> elasticity_key() const {
    return {.name = "elasticity",
            .help =
                "How its number of workers changes while it runs. none: it does not; restart: they are ended and "
                "started again; contract: they are told, and go on without a stop.",
            .schema = R"("enum": ["none", "restart", "contract"])",
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              EBB_ASSIGN_OR_RETURN(into.elasticity, one_of(node, "elasticity", kElasticities));
              return {};
            },
            .write =
                [](const JobRequest& from) {
                  return from.elasticity == Elasticity::none ? "" : json_string(to_string(from.elasticity));
                }};
  }

  // Relative ones are resolved against the folder of the submission.
  Key<JobRequest> path_key(const char* name, const char* help, std::string JobRequest::* member) const {
    return {
        .name = name,
        .help = help,
        .schema = fmt::format(R"("type": "string", "minLength": 1, "maxLength": {})", kMaxPathBytes),
        .read = [this, name, member](const YAML::Node& node, JobRequest& into) -> Result<void> {
          EBB_ASSIGN_OR_RETURN(const std::string value, plain_text(node, name));
          if (value.empty()) return at(node, fmt::format("'{}' needs a value", name));
          fs::path path = value;
          if (path.is_relative()) {
            if (base_.empty()) {
              return at(node, fmt::format("'{}': {} is not absolute", name, shown(value)));
            }
            path = (base_ / path).lexically_normal();
            if (!path.has_filename()) path = path.parent_path();
          }
          if (path.native().size() > kMaxPathBytes) {
            return at(node, fmt::format("'{}': {} is longer than {} bytes", name, shown(path.native()), kMaxPathBytes));
          }
          into.*member = path.native();
          return {};
        },
        .write = [member](const JobRequest& from) { return (from.*member).empty() ? "" : json_string(from.*member); }};
  }

  Key<JobRequest> memory_key() const {
    return {.name = "memory",
            .help = "Of each worker; one that takes more is killed as out of memory.",
            .schema = fmt::format(R"("type": ["string", "integer"], "minimum": {}, "maximum": {}, )"
                                  R"("pattern": "^[0-9]+(KiB|MiB|GiB|TiB)?$")",
                                  kMinMemoryBytes, kMaxMemoryBytes),
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              EBB_ASSIGN_OR_RETURN(const std::string value, text(node, "memory"));
              const auto bytes = parse_bytes(value);
              if (!bytes) {
                return at(node, fmt::format("'memory': {} is not a whole number of bytes, or of KiB, MiB, GiB or TiB, "
                                            "such as 512MiB",
                                            shown(value)));
              }
              if (*bytes < kMinMemoryBytes || *bytes > kMaxMemoryBytes) {
                return at(node, fmt::format("'memory': {} is not from 1MiB to 1024TiB", shown(value)));
              }
              into.memory_bytes = bytes;
              return {};
            },
            .write = [](const JobRequest& from) { return from.memory_bytes ? write_bytes(*from.memory_bytes) : ""; }};
  }

  Keys<JobRequest> retry_keys() const {
    Key<JobRequest> max = integer_key("max", "Further runs after failures of the job itself (not of a machine).",
                                      &JobRequest::max_retries, 0, kMaxRetries);
    max.needed = true;
    max.write = [](const JobRequest& from) { return fmt::format("{}", from.max_retries); };
    return {std::move(max),
            duration_key<JobRequest>("backoff", "Before the first; doubles each time.", &JobRequest::retry_backoff)};
  }

  Key<JobRequest> retries_key() const {
    return {.name = "retries",
            .help = "Whether it runs again after it failed.",
            .schema = schema_of(retry_keys_, ", "),
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              EBB_RETURN_IF_ERROR(check_keys(node, names_of(retry_keys_), "'retries'"));
              return read_keys(*this, node, "'retries'", retry_keys_, into);
            },
            .write =
                [this](const JobRequest& from) {
                  const JobRequest none;
                  const bool said = from.max_retries != none.max_retries || from.retry_backoff != none.retry_backoff;
                  return said ? write_keys(retry_keys_, from) : "";
                }};
  }

  Keys<Dependency> dependency_keys() const {
    return {
        {.name = "job",
         .help = "Its id.",
         .schema = integer_schema(0, UINT32_MAX),
         .needed = true,
         .read = [this](const YAML::Node& node, Dependency& into) -> Result<void> {
           EBB_ASSIGN_OR_RETURN(into.job, integer<JobId>(node, "job", 0, UINT32_MAX));
           return {};
         },
         .write = [](const Dependency& from) { return fmt::format("{}", from.job); }},
        {.name = "when",
         .help = "after_ok: it completed (if it ended in any other way, this job is cancelled); after_any: it ended.",
         .schema = R"("enum": ["after_ok", "after_any"])",
         .read = [this](const YAML::Node& node, Dependency& into) -> Result<void> {
           EBB_ASSIGN_OR_RETURN(into.when, one_of(node, "when", kWhens));
           return {};
         },
         .write = [](const Dependency& from) { return json_string(to_string(from.when)); }}};
  }

  Key<JobRequest> dependencies_key() const {
    return {.name = "dependencies",
            .help = "Jobs that must end before it starts.",
            .schema = fmt::format(R"("type": "array", "maxItems": {}, "items": {{{}}})", kMaxDependencies,
                                  schema_of(dependency_keys_, ", ")),
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              if (!node.IsSequence() || node.size() > kMaxDependencies) {
                return at(node,
                          fmt::format("'dependencies' must be a list of at most {}: [{{job: 12, when: after_ok}}]",
                                      kMaxDependencies));
              }
              for (const YAML::Node& item : node) {
                EBB_RETURN_IF_ERROR(check_keys(item, names_of(dependency_keys_), "a dependency"));
                Dependency dependency;
                EBB_RETURN_IF_ERROR(read_keys(*this, item, "the dependency", dependency_keys_, dependency));
                const auto same = [&](const Dependency& other) { return other.job == dependency.job; };
                if (std::any_of(into.dependencies.begin(), into.dependencies.end(), same)) {
                  return at(item, fmt::format("'dependencies': job {} appears twice", dependency.job));
                }
                into.dependencies.push_back(dependency);
              }
              return {};
            },
            .write = [this](const JobRequest& from) -> std::string {
              std::string out;
              for (const Dependency& dependency : from.dependencies) {
                out += (out.empty() ? "" : ", ") + write_keys(dependency_keys_, dependency);
              }
              return out.empty() ? "" : "[" + out + "]";
            }};
  }

  Key<JobRequest> hold_key() const {
    return {.name = "hold",
            .help = "Wait until it is released.",
            .schema = R"("type": "boolean")",
            .read = [this](const YAML::Node& node, JobRequest& into) -> Result<void> {
              EBB_ASSIGN_OR_RETURN(const std::string value, text(node, "hold"));
              if (value != "true" && value != "false") {
                return at(node, fmt::format("'hold': {} is neither true nor false", shown(value)));
              }
              into.hold = value == "true";
              return {};
            },
            .write = [](const JobRequest& from) { return from.hold ? "true" : ""; }};
  }

  fs::path base_;
  Keys<JobRequest> range_keys_;
  Keys<JobRequest> retry_keys_;
  Keys<Dependency> dependency_keys_;
  Keys<JobRequest> keys_;
};

}  // namespace

Result<JobRequest> parse_job(const std::string& name, const std::string& text, const fs::path& base) {
  const auto parse = [&]() -> Result<JobRequest> {
    EBB_RETURN_IF_ERROR(check_characters(name, text));
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != std::string::npos && text[first] == '{';
    return Parser(name, base).parse(json && text.find("\\u") != std::string::npos ? join_surrogates(text) : text);
  };
  return read_yaml(name, text, parse, kMaxJobFileBytes);
}

Result<JobRequest> read_job(const fs::path& path, const fs::path& base) {
  EBB_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxJobFileBytes));
  return parse_job(path.string(), text, base);
}

std::string format_job(const JobRequest& request) {
  return write_keys(Parser("", "").keys(), request);
}

std::string job_schema() {
  return fmt::format(
      "{{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"title\": \"ebb job\",\n{}}}\n",
      schema_of(Parser("", "").keys(), ",\n"));
}

}  // namespace ebb::spec
