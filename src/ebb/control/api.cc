#include "ebb/control/api.h"

#include <charconv>
#include <chrono>

#include "ebb/base/log.h"
#include "ebb/spec/job_file.h"
#include "ebb/wire/api_json.h"

namespace ebb::control {
namespace {

constexpr std::size_t kMaxPage = 1'000;
constexpr std::size_t kMaxKey = 128;
constexpr std::size_t kStreamRows = 100;  // in one part

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

/// The caller is known, and may not do this.
HttpResponse forbidden(std::string message) {
  return answer(403, ErrorCode::failed_precondition, std::move(message));
}

HttpResponse wrong_method(const HttpRequest& request, const std::string& allowed) {
  HttpResponse refused = answer(405, ErrorCode::invalid_argument, request.path + " takes " + allowed);
  refused.headers.emplace_back("Allow", allowed);
  return refused;
}

template <typename T>
HttpResponse answer(const Result<T>& result, std::string (*to_text)(const T&)) {
  return result ? HttpResponse{200, to_text(*result)} : answer(result.error());
}
HttpResponse answer(const Result<void>& result) {
  return result ? HttpResponse{200, "{}"} : answer(result.error());
}

Result<std::int64_t> parse_number(const char* name, const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return fail(ErrorCode::invalid_argument, "'{}': '{}' is not a whole number from {} to {}", name, text, min, max);
  }
  return value;
}

/// A whole number of the query; `otherwise` if it is not given.
Result<std::int64_t> number(const HttpRequest& request, const char* name, std::int64_t otherwise, std::int64_t min,
                            std::int64_t max) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  return parse_number(name, found->second, min, max);
}

std::string word(const HttpRequest& request, const char* name, const std::string& otherwise = "") {
  const auto found = request.query.find(name);
  return found == request.query.end() ? otherwise : found->second;
}

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

bool loopback(std::string host) {
  const auto colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

Time monotonic() {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

/// "/v1/nodes/a%2Fb" -> {"v1", "nodes", "a/b"}
std::vector<std::string> segments(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // '/'
    const std::string_view part = path.substr(0, path.find('/'));
    parts.push_back(wire::url_unescape(part));
    path.remove_prefix(part.size());
  }
  return parts;
}

/// The part of an event stream (text/event-stream) that holds these rows.
std::string stream_part(const std::vector<wire::EventView>& rows) {
  std::string part;
  for (const wire::EventView& row : rows) part += fmt::format("id: {}\ndata: {}\n\n", row.seq, row.json);
  return part;
}

}  // namespace

struct Api::Call {
  const HttpRequest& request;
  wire::TokenView who;
  std::vector<std::string> arguments;  ///< what stands for the {} of the route's path
};

struct Api::Route {
  std::string_view method;
  std::vector<std::string> path;  ///< its segments; "{}" stands for any
  wire::Role least;
  HttpResponse (Api::*handler)(const Call&);
};

const std::vector<Api::Route>& Api::routes() {
  using wire::Role;
  static const std::vector<Route> table{
      {"GET", segments("/v1/jobs"), Role::viewer, &Api::list_jobs},
      {"POST", segments("/v1/jobs"), Role::user, &Api::submit},
      {"GET", segments("/v1/jobs/{}"), Role::viewer, &Api::show_job},
      {"GET", segments("/v1/jobs/{}/explain"), Role::viewer, &Api::explain},
      {"GET", segments("/v1/jobs/{}/log"), Role::user, &Api::read_log},
      {"POST", segments("/v1/jobs/{}/cancel"), Role::user, &Api::cancel},
      {"POST", segments("/v1/jobs/{}/hold"), Role::user, &Api::hold},
      {"POST", segments("/v1/jobs/{}/release"), Role::user, &Api::release},
      {"POST", segments("/v1/jobs/{}/resize"), Role::user, &Api::resize},
      {"GET", segments("/v1/nodes"), Role::viewer, &Api::list_nodes},
      {"POST", segments("/v1/nodes/{}/drain"), Role::admin, &Api::drain},
      {"POST", segments("/v1/nodes/{}/undrain"), Role::admin, &Api::undrain},
      {"GET", segments("/v1/policy"), Role::viewer, &Api::show_policy},
      {"PUT", segments("/v1/policy"), Role::admin, &Api::set_policy},
      {"POST", segments("/v1/what-if"), Role::viewer, &Api::what_if},
      {"GET", segments("/v1/events"), Role::admin, &Api::list_events},
      {"GET", segments("/v1/events/stream"), Role::admin, &Api::stream_events},
      {"GET", segments("/v1/tokens"), Role::admin, &Api::list_tokens},
      {"POST", segments("/v1/tokens"), Role::admin, &Api::create_token},
      {"DELETE", segments("/v1/tokens/{}"), Role::admin, &Api::revoke_token},
      {"GET", segments("/metrics"), Role::viewer, &Api::show_metrics},
  };
  return table;
}

Api::Api(Controller& controller, Access& access, ApiSettings settings)
    : controller_(controller),
      access_(access),
      settings_(std::move(settings)),
      rate_limit_(settings_.requests_per_second, settings_.burst) {}

HttpResponse Api::handle(const HttpRequest& request) {
  const Time began = monotonic();
  HttpResponse response = answer_to(request);
  const Duration took = monotonic() - began;
  controller_.metrics().observe_request(request.method, response.status, took);
  if (logs(LogLevel::debug)) {
    log(LogLevel::debug, "request",
        {{"method", request.method},
         {"path", request.path},
         {"status", std::int64_t{response.status}},
         {"seconds", std::chrono::duration<double>(took).count()}});
  }
  return response;
}

HttpResponse Api::answer_to(const HttpRequest& request) {
  if (!loopback(header(request, "host")) || request.headers.contains("origin")) {
    return forbidden("this API answers programs on this machine only, no web pages");
  }
  if (request.path == "/healthz" || request.path == "/readyz") {
    if (request.method != "GET") return wrong_method(request, "GET");
    return request.path == "/healthz" ? HttpResponse{200, "{}"} : answer(controller_.ready());
  }
  return route(request);
}

HttpResponse Api::route(const HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string authorization = header(request, "authorization");
  const auto who =
      authorization.starts_with(kBearer) ? access_.find(authorization.substr(kBearer.size())) : std::nullopt;
  if (!who) {
    HttpResponse refused =
        answer(401, ErrorCode::failed_precondition, "the token is missing or wrong (header 'Authorization: Bearer')");
    refused.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refused;
  }
  if (const auto wait = rate_limit_.refuse(who->name, monotonic())) {
    HttpResponse refused =
        answer(429, ErrorCode::resource_exhausted,
               fmt::format("token '{}' asks more than {} times a second", who->name, settings_.requests_per_second));
    refused.headers.emplace_back("Retry-After", std::to_string(*wait / std::chrono::seconds(1) + 1));
    return refused;
  }
  const auto parts = segments(request.path);
  std::string allowed;
  for (const Route& route : routes()) {
    if (route.path.size() != parts.size()) continue;
    Call call{request, *who, {}};
    bool fits = true;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (route.path[i] == "{}") {
        call.arguments.emplace_back(parts[i]);
      } else if (route.path[i] != parts[i]) {
        fits = false;
      }
    }
    if (!fits) continue;
    if (route.method != request.method) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
      continue;
    }
    if (who->role < route.least) {
      return forbidden(fmt::format("token '{}' is a {}'s; this takes a {}'s", who->name, wire::to_string(who->role),
                                   wire::to_string(route.least)));
    }
    return (this->*route.handler)(call);
  }
  if (allowed.empty()) return answer(404, ErrorCode::not_found, request.path + " is not part of this API");
  return wrong_method(request, allowed);
}

namespace {

Result<JobId> job_of(const std::string& digits) {
  JobId job = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), job);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return fail(ErrorCode::not_found, "'{}' is no number of a job", digits);
  }
  return job;
}

bool may_act(const wire::TokenView& who, const std::string& tenant) {
  return who.role >= wire::Role::user && (who.tenant.empty() || who.tenant == tenant);
}

}  // namespace

Result<JobId> Api::own_job(const Call& call) {
  EBB_ASSIGN_OR_RETURN(const JobId job, job_of(call.arguments.front()));
  if (call.who.tenant.empty()) return job;
  EBB_ASSIGN_OR_RETURN(const wire::JobDetail detail, controller_.job(job));
  if (may_act(call.who, detail.job.tenant)) return job;
  // As if it were not there: whose it is, is nobody else's business.
  return fail(ErrorCode::not_found, "there is no job {} of tenant '{}'", job, call.who.tenant);
}

HttpResponse Api::act(const Call& call, Result<void> (Controller::*verb)(JobId)) {
  const auto job = own_job(call);
  return job ? answer((controller_.*verb)(*job)) : answer(job.error());
}

HttpResponse Api::cancel(const Call& call) {
  return act(call, &Controller::cancel);
}
HttpResponse Api::hold(const Call& call) {
  return act(call, &Controller::hold);
}
HttpResponse Api::release(const Call& call) {
  return act(call, &Controller::release);
}

HttpResponse Api::resize(const Call& call) {
  const auto job = own_job(call);
  if (!job) return answer(job.error());
  const auto workers = wire::resize_from(call.request.body);
  return workers ? answer(controller_.resize(*job, *workers)) : answer(workers.error());
}

HttpResponse Api::submit(const Call& call) {
  const std::string key = header(call.request, "idempotency-key");
  const auto visible = [](char c) { return c > ' ' && c <= '~'; };
  if (call.request.headers.contains("idempotency-key") &&
      (key.empty() || key.size() > kMaxKey || !std::all_of(key.begin(), key.end(), visible))) {
    return answer(400, ErrorCode::invalid_argument,
                  fmt::format("an Idempotency-Key has 1 to {} visible ASCII characters", kMaxKey));
  }
  auto job = spec::parse_job("request", call.request.body, settings_.working_directory);
  if (!job) return answer(job.error());
  if (job->tenant.empty()) job->tenant = call.who.tenant;
  if (!may_act(call.who, job->tenant)) {
    return forbidden(fmt::format("token '{}' submits for tenant '{}' only", call.who.name, call.who.tenant));
  }
  // Keys of different callers do not meet.
  const auto ids = controller_.submit(*job, key.empty() ? "" : call.who.name + "/" + key);
  return ids ? HttpResponse{201, wire::ids_to_json(*ids)} : answer(ids.error());
}

HttpResponse Api::list_jobs(const Call& call) {
  JobFilter filter;
  if (call.request.query.contains("status")) {
    const std::string status = word(call.request, "status");
    filter.status = wire::job_status_from(status);
    if (!filter.status) return answer(400, ErrorCode::invalid_argument, "'status': no job is ever '" + status + "'");
  }
  filter.tenant = word(call.request, "tenant");
  const std::string active = word(call.request, "active", "false");
  if (active != "true" && active != "false") {
    return answer(400, ErrorCode::invalid_argument, "'active' is true or false, not '" + active + "'");
  }
  filter.active_only = active == "true";
  const auto limit = number(call.request, "limit", 100, 1, kMaxPage);
  if (!limit) return answer(limit.error());
  filter.limit = static_cast<std::size_t>(*limit);
  if (call.request.query.contains("after")) {
    const auto after = number(call.request, "after", 0, 0, UINT32_MAX);
    if (!after) return answer(after.error());
    filter.after = static_cast<JobId>(*after);
  }
  return answer(controller_.jobs(filter), &wire::list_to_json);
}

HttpResponse Api::show_job(const Call& call) {
  const auto job = job_of(call.arguments.front());
  if (!job) return answer(job.error());
  auto detail = controller_.job(*job);
  // An environment may hold passwords.
  if (detail && !may_act(call.who, detail->job.tenant)) detail->request.environment.clear();
  return answer(detail, &wire::to_json);
}

HttpResponse Api::explain(const Call& call) {
  const auto job = job_of(call.arguments.front());
  return job ? answer(controller_.explain(*job), &wire::to_json) : answer(job.error());
}

HttpResponse Api::read_log(const Call& call) {
  const auto job = own_job(call);
  if (!job) return answer(job.error());
  const auto rank = number(call.request, "rank", 0, 0, kMaxWorkers);
  if (!rank) return answer(rank.error());
  const auto offset = number(call.request, "offset", 0, 0, INT64_MAX);
  if (!offset) return answer(offset.error());
  const auto max = number(call.request, "max_bytes", 65'536, 1, std::int64_t{1} << 20);
  if (!max) return answer(max.error());
  const std::string stream = word(call.request, "stream", "stdout");
  if (stream != "stdout" && stream != "stderr") {
    return answer(400, ErrorCode::invalid_argument, "'stream' is stdout or stderr, not '" + stream + "'");
  }
  const auto log = controller_.log(*job, static_cast<std::int32_t>(*rank), stream, static_cast<std::uint64_t>(*offset),
                                   static_cast<std::size_t>(*max));
  if (!log) return answer(log.error());
  return {200, log->bytes, "application/octet-stream", {{"X-Log-Offset", std::to_string(log->offset)}}};
}

HttpResponse Api::list_nodes(const Call& /*call*/) {
  return answer(controller_.nodes(), &wire::list_to_json);
}
HttpResponse Api::drain(const Call& call) {
  return answer(controller_.drain(call.arguments.front(), true));
}
HttpResponse Api::undrain(const Call& call) {
  return answer(controller_.drain(call.arguments.front(), false));
}
HttpResponse Api::show_policy(const Call& /*call*/) {
  return answer(controller_.policy(), &wire::to_json);
}

HttpResponse Api::set_policy(const Call& call) {
  const auto policy = wire::policy_request_from(call.request.body);
  return policy ? answer(controller_.set_policy(*policy)) : answer(policy.error());
}

// The body is a job file; its policy and options come in the query, so that each is written as everywhere else.
HttpResponse Api::what_if(const Call& call) {
  wire::WhatIf question;
  if (!call.request.body.empty()) {
    auto job = spec::parse_job("request", call.request.body, settings_.working_directory);
    if (!job) return answer(job.error());
    question.job = std::move(*job);
  }
  if (call.request.query.contains("policy")) {
    question.policy = wire::PolicyView{word(call.request, "policy"), {}};
    constexpr std::string_view kOption = "option.";
    for (const auto& [name, value] : call.request.query) {
      if (name.starts_with(kOption)) question.policy->options.emplace_back(name.substr(kOption.size()), value);
    }
  }
  const auto outlooks = controller_.what_if(question);
  return outlooks ? HttpResponse{200, wire::outlooks_to_json(outlooks->first, outlooks->second)}
                  : answer(outlooks.error());
}

HttpResponse Api::list_events(const Call& call) {
  const auto after = number(call.request, "after", 0, 0, INT64_MAX);
  if (!after) return answer(after.error());
  const auto limit = number(call.request, "limit", 100, 1, kMaxPage);
  if (!limit) return answer(limit.error());
  return answer(controller_.events(static_cast<std::uint64_t>(*after), static_cast<std::size_t>(*limit), {}),
                &wire::list_to_json);
}

// Server-sent events: a reader that was cut off goes on after the id that it saw last.
HttpResponse Api::stream_events(const Call& call) {
  const std::string last = header(call.request, "last-event-id");
  const auto after =
      last.empty() ? number(call.request, "after", 0, 0, INT64_MAX) : parse_number("after", last, 0, INT64_MAX);
  if (!after) return answer(after.error());
  HttpStream stream;
  stream.heartbeat = ":\n\n";
  stream.next = [this, seen = static_cast<std::uint64_t>(*after)]() mutable -> std::optional<std::string> {
    const auto rows = controller_.events(seen, kStreamRows, {});
    if (!rows) return std::nullopt;
    if (!rows->empty()) seen = rows->back().seq;
    return stream_part(*rows);
  };
  return {200, "", "text/event-stream", {}, std::move(stream)};
}

HttpResponse Api::list_tokens(const Call& /*call*/) {
  return {200, wire::list_to_json(access_.list())};
}

HttpResponse Api::create_token(const Call& call) {
  const auto owner = wire::token_request_from(call.request.body);
  if (!owner) return answer(owner.error());
  const auto token = access_.create(*owner);
  return token ? HttpResponse{201, wire::token_to_json(*token)} : answer(token.error());
}

HttpResponse Api::revoke_token(const Call& call) {
  return answer(access_.revoke(call.arguments.front()));
}

HttpResponse Api::show_metrics(const Call& /*call*/) {
  return {200, controller_.metrics_text(), "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace ebb::control
