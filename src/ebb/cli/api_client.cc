#include "ebb/cli/api_client.h"

#include <CLI/CLI.hpp>
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

Result<ApiClient> ApiClient::connect(const std::string& data_folder) {
  const std::filesystem::path folder = data_folder.empty() ? default_data_folder() : std::filesystem::path(data_folder);
  const auto none = [&](const Error& error) {
    return fail(ErrorCode::unavailable, "no cluster was started with the data folder {} (`ebb up` starts one): {}",
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
