#include "ebb/control/api.h"

#include <charconv>

#include "ebb/spec/job_file.h"
#include "ebb/wire/api_json.h"

namespace ebb::control {
namespace {

constexpr std::size_t kMaxPage = 1'000;
constexpr std::int64_t kMaxWaitMs = 20'000;

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::already_exists:
    case ErrorCode::failed_precondition:
    case ErrorCode::aborted:
    case ErrorCode::cancelled:
      return 409;
    case ErrorCode::resource_exhausted:
      return 507;
    case ErrorCode::unavailable:
      return 503;
    case ErrorCode::deadline_exceeded:
      return 504;
    case ErrorCode::unimplemented:
      return 501;
    case ErrorCode::internal:
      return 500;
  }
  return 500;
}

HttpResponse answer(const Error& error) {
  return {status_of(error.code), wire::to_json(error)};
}
HttpResponse answer(int status, ErrorCode code, std::string message) {
  return {status, wire::to_json(Error{code, std::move(message)})};
}

template <typename T>
HttpResponse answer(const Result<T>& result, std::string (*to_text)(const T&)) {
  return result ? HttpResponse{200, to_text(*result)} : answer(result.error());
}
HttpResponse answer(const Result<void>& result) {
  return result ? HttpResponse{200, "{}"} : answer(result.error());
}

/// A whole number of the query; `otherwise` if it is not given.
Result<std::int64_t> number(const HttpRequest& request, const char* name, std::int64_t otherwise, std::int64_t max) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  std::int64_t value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > max) {
    return fail(ErrorCode::invalid_argument, "'{}': '{}' is not a whole number from 0 to {}", name, text, max);
  }
  return value;
}

std::string word(const HttpRequest& request, const char* name, const std::string& otherwise = "") {
  const auto found = request.query.find(name);
  return found == request.query.end() ? otherwise : found->second;
}

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

// Takes as long for a wrong token as for a right one.
bool same(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(b[i]) ^ static_cast<unsigned char>(i < a.size() ? a[i] : '\0');
  }
  return difference == 0;
}

bool loopback(std::string host) {
  const auto colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

}  // namespace

HttpResponse Api::handle(const HttpRequest& request) const {
  if (!loopback(header(request, "host")) || request.headers.contains("origin")) {
    return answer(403, ErrorCode::failed_precondition, "this API answers programs on this machine only, no web pages");
  }
  if (request.path == "/healthz") return {200, "{}"};
  if (request.path == "/readyz") return answer(controller_.ready());
  if (!same(header(request, "authorization"), "Bearer " + settings_.token)) {
    return answer(401, ErrorCode::failed_precondition,
                  "the token is missing or wrong (header 'Authorization: Bearer')");
  }
  return route(request);
}

HttpResponse Api::route(const HttpRequest& request) const {
  const bool get = request.method == "GET";
  const bool post = request.method == "POST";
  const std::string& path = request.path;
  constexpr std::string_view kJobs = "/v1/jobs/";
  constexpr std::string_view kNodes = "/v1/nodes/";
  if (path == "/v1/jobs" && post) return submit(request);
  if (path == "/v1/jobs" && get) return list_jobs(request);
  if (path == "/v1/nodes" && get) return answer(controller_.nodes(), &wire::list_to_json);
  if (path == "/v1/policy" && get) return answer(controller_.policy(), &wire::to_json);
  if (path == "/v1/events" && get) return list_events(request);
  if (path.starts_with(kJobs)) {
    const std::string_view rest = std::string_view(path).substr(kJobs.size());
    const std::string_view digits = rest.substr(0, rest.find('/'));
    JobId job = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), job);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return answer(404, ErrorCode::not_found, "'" + std::string(digits) + "' is no number of a job");
    }
    return job_route(request, job, std::string(rest.substr(digits.size())));
  }
  if (path.starts_with(kNodes) && post) {
    const std::string rest = path.substr(kNodes.size());
    const auto slash = rest.rfind('/');
    const std::string verb = slash == std::string::npos ? "" : rest.substr(slash + 1);
    if (verb == "drain" || verb == "undrain") {
      return answer(controller_.drain(rest.substr(0, slash), verb == "drain"));
    }
  }
  return answer(404, ErrorCode::not_found, request.method + " " + path + " is not part of this API");
}

HttpResponse Api::job_route(const HttpRequest& request, JobId job, const std::string& rest) const {
  if (request.method == "GET") {
    if (rest.empty()) return answer(controller_.job(job), &wire::to_json);
    if (rest == "/explain") return answer(controller_.explain(job), &wire::to_json);
    if (rest == "/log") return read_log(request, job);
  } else if (request.method == "POST") {
    if (rest == "/cancel") return answer(controller_.cancel(job));
    if (rest == "/hold") return answer(controller_.hold(job));
    if (rest == "/release") return answer(controller_.release(job));
  }
  return answer(404, ErrorCode::not_found, request.method + " " + request.path + " is not part of this API");
}

HttpResponse Api::submit(const HttpRequest& request) const {
  const std::string key = header(request, "idempotency-key");
  if (key.size() > 128) {
    return answer(400, ErrorCode::invalid_argument, "an idempotency key has at most 128 characters");
  }
  const auto job = spec::parse_job("request", request.body, settings_.working_directory);
  if (!job) return answer(job.error());
  const auto ids = controller_.submit(*job, key);
  return ids ? HttpResponse{201, wire::ids_to_json(*ids)} : answer(ids.error());
}

HttpResponse Api::list_jobs(const HttpRequest& request) const {
  JobFilter filter;
  if (const std::string status = word(request, "status"); !status.empty()) {
    filter.status = wire::job_status_from(status);
    if (!filter.status) return answer(400, ErrorCode::invalid_argument, "'status': no job is ever '" + status + "'");
  }
  filter.tenant = word(request, "tenant");
  filter.active_only = word(request, "active") == "true";
  const auto limit = number(request, "limit", 100, kMaxPage);
  if (!limit) return answer(limit.error());
  filter.limit = static_cast<std::size_t>(*limit);
  if (request.query.contains("after")) {
    const auto after = number(request, "after", 0, UINT32_MAX);
    if (!after) return answer(after.error());
    filter.after = static_cast<JobId>(*after);
  }
  return answer(controller_.jobs(filter), &wire::list_to_json);
}

HttpResponse Api::list_events(const HttpRequest& request) const {
  const auto after = number(request, "after", 0, INT64_MAX);
  if (!after) return answer(after.error());
  const auto limit = number(request, "limit", 100, kMaxPage);
  if (!limit) return answer(limit.error());
  const auto wait = number(request, "wait_ms", 0, kMaxWaitMs);
  if (!wait) return answer(wait.error());
  return answer(controller_.events(static_cast<std::uint64_t>(*after), static_cast<std::size_t>(*limit),
                                   std::chrono::milliseconds(*wait)),
                &wire::list_to_json);
}

HttpResponse Api::read_log(const HttpRequest& request, JobId job) const {
  const auto rank = number(request, "rank", 0, kMaxWorkers);
  if (!rank) return answer(rank.error());
  const auto offset = number(request, "offset", 0, INT64_MAX);
  if (!offset) return answer(offset.error());
  const auto max = number(request, "max_bytes", 65'536, std::int64_t{1} << 20);
  if (!max) return answer(max.error());
  const std::string stream = word(request, "stream", "stdout");
  if (stream != "stdout" && stream != "stderr") {
    return answer(400, ErrorCode::invalid_argument, "'stream' is stdout or stderr, not '" + stream + "'");
  }
  const auto log = controller_.log(job, static_cast<std::int32_t>(*rank), stream, static_cast<std::uint64_t>(*offset),
                                   static_cast<std::size_t>(*max));
  if (!log) return answer(log.error());
  return {200, log->bytes, "application/octet-stream", {{"X-Log-Offset", std::to_string(log->offset)}}};
}

}  // namespace ebb::control
