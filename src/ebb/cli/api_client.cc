#include "ebb/cli/api_client.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/base/text.h"
#include "ebb/wire/api_json.h"

namespace ebb::cli {
namespace {

// Longer than the API waits for anything.
constexpr std::chrono::seconds kTimeout{60};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::filesystem::path default_data_folder() {
  if (const std::string home = environment("EBB_HOME"); !home.empty()) return home;
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty()) {
    return std::filesystem::path(state) / "ebb";
  }
  return std::filesystem::path(environment("HOME")) / ".local" / "state" / "ebb";
}

void add_data_flag(CLI::App& command, std::string& folder) {
  command.add_option("--data", folder,
                     "The data folder of the cluster (default: $EBB_HOME, else $XDG_STATE_HOME/ebb, else "
                     "~/.local/state/ebb)");
}

namespace {

/// Of "http://127.0.0.1:8080".
Result<wire::HttpClient> client_of(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const auto colon = url.rfind(':');
  std::uint16_t port = 0;
  if (url.starts_with(kScheme) && colon != std::string::npos && colon > kScheme.size()) {
    const auto [end, error] = std::from_chars(url.data() + colon + 1, url.data() + url.size(), port);
    if (error == std::errc() && end == url.data() + url.size() && port != 0) {
      return wire::HttpClient(url.substr(kScheme.size(), colon - kScheme.size()), port);
    }
  }
  return fail(ErrorCode::invalid_argument, "EBB_API is '{}'; it has the form http://127.0.0.1:8080", url);
}

}  // namespace

Result<ApiClient> ApiClient::connect(const std::string& data_folder) {
  const std::string url = environment("EBB_API");
  const std::string own_token = environment("EBB_TOKEN");
  if (data_folder.empty() && !url.empty() && !own_token.empty()) {
    EBB_ASSIGN_OR_RETURN(wire::HttpClient client, client_of(url));
    return ApiClient(std::move(client), own_token, url);
  }
  const std::filesystem::path folder = data_folder.empty() ? default_data_folder() : std::filesystem::path(data_folder);
  const auto none = [&](const Error& error) {
    return fail(ErrorCode::unavailable, "no cluster runs with the data folder {} (`ebb up` starts one): {}",
                folder.string(), error.message);
  };
  const auto where = read_file(folder / "api.json");
  if (!where) return none(where.error());
  const auto token = read_file(folder / "token");
  if (!token) return none(token.error());
  const auto json = nlohmann::json::parse(*where, nullptr, false);
  if (!json.is_object() || !json.contains("address") || !json.contains("port")) {
    return fail(ErrorCode::unavailable, "{} is damaged; start the cluster again", (folder / "api.json").string());
  }
  return ApiClient(wire::HttpClient(json["address"].get<std::string>(), json["port"].get<std::uint16_t>()),
                   first_line(*token), folder.string());
}

Result<std::string> ApiClient::get(const std::string& target) {
  EBB_ASSIGN_OR_RETURN(wire::HttpReply reply, send("GET", target, "", ""));
  return std::move(reply.body);
}

Result<LogChunk> ApiClient::get_log(const std::string& target) {
  EBB_ASSIGN_OR_RETURN(wire::HttpReply reply, send("GET", target, "", ""));
  if (!reply.log_offset) return fail(ErrorCode::internal, "the API answered without X-Log-Offset");
  return LogChunk{*reply.log_offset, std::move(reply.body)};
}

Result<std::string> ApiClient::post(const std::string& target, const std::string& body, const std::string& key) {
  EBB_ASSIGN_OR_RETURN(wire::HttpReply reply, send("POST", target, body, key));
  return std::move(reply.body);
}

Result<std::string> ApiClient::put(const std::string& target, const std::string& body) {
  EBB_ASSIGN_OR_RETURN(wire::HttpReply reply, send("PUT", target, body, ""));
  return std::move(reply.body);
}

Result<std::string> ApiClient::remove(const std::string& target) {
  EBB_ASSIGN_OR_RETURN(wire::HttpReply reply, send("DELETE", target, "", ""));
  return std::move(reply.body);
}

// The stream has lines "id: N", "data: JSON" and an empty one, for each row.
Result<void> ApiClient::follow_events(std::uint64_t after, const std::function<bool(const wire::EventView&)>& take) {
  std::string pending;
  wire::EventView row;
  const auto line = [&](std::string_view text) {
    if (text.starts_with("id: ")) std::from_chars(text.data() + 4, text.data() + text.size(), row.seq);
    if (text.starts_with("data: ")) row.json = text.substr(6);
    return !text.empty() || row.json.empty() || take(std::exchange(row, {}));
  };
  const auto status = http_.follow(
      "/v1/events/stream?after=" + std::to_string(after), {{"Authorization", "Bearer " + token_}}, kTimeout,
      [&](std::string_view bytes) {
        pending += bytes;
        std::size_t begin = 0;
        bool more = true;
        for (std::size_t end = 0; more && (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
          more = line(std::string_view(pending).substr(begin, end - begin));
        }
        pending.erase(0, begin);
        return more;
      });
  if (!status) {
    return fail(status.error().code, "the cluster of {} went away: {}", where_, status.error().message);
  }
  if (*status < 300) return {};
  return tl::unexpected(wire::error_from(pending, {ErrorCode::internal, fmt::format("the API answered {}", *status)}));
}

Result<wire::HttpReply> ApiClient::send(const std::string& method, const std::string& target, const std::string& body,
                                        const std::string& key) {
  wire::HttpClient::Headers headers{{"Authorization", "Bearer " + token_}};
  if (!key.empty()) headers.emplace_back("Idempotency-Key", key);
  auto reply = http_.send(method, target, headers, body, kTimeout);
  if (!reply) {
    return fail(reply.error().code, "the cluster of {} does not answer ({}); is `ebb up` running?", where_,
                reply.error().message);
  }
  if (reply->status < 300) return std::move(*reply);
  return tl::unexpected(
      wire::error_from(reply->body, {ErrorCode::internal, fmt::format("the API answered {}", reply->status)}));
}

}  // namespace ebb::cli
