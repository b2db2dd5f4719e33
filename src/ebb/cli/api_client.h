#pragma once

/// Internal: how commands reach a running cluster. `ebb up` leaves address and token in its data folder; on the same
/// machine nothing needs to be configured.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "ebb/base/result.h"
#include "ebb/model/worker.h"
#include "ebb/wire/api.h"
#include "ebb/wire/http_client.h"

namespace CLI {
class App;
}

namespace ebb::cli {

/// $EBB_HOME, else $XDG_STATE_HOME/ebb, else ~/.local/state/ebb.
std::filesystem::path default_data_folder();

/// Adds --data to a command.
void add_data_flag(CLI::App& command, std::string& folder);

class ApiClient {
 public:
  /// $EBB_API (http://ADDRESS:PORT) and $EBB_TOKEN, if both are set and no data folder is given; else reads api.json
  /// and token of the data folder ("" = the default one). Errors: unavailable, saying that no cluster runs
  /// there; invalid_argument for an $EBB_API that is no address.
  static Result<ApiClient> connect(const std::string& data_folder);

  /// The body of the answer. Errors: what the API answered; unavailable if it does not run.
  Result<std::string> get(const std::string& target);
  /// A part of a worker's log.
  Result<LogChunk> get_log(const std::string& target);
  /// Rows of the journal after `after`, one by one as they come, until `take` says false or the cluster ends.
  Result<void> follow_events(std::uint64_t after, const std::function<bool(const wire::EventView&)>& take);
  Result<std::string> put(const std::string& target, const std::string& body);
  Result<std::string> remove(const std::string& target);
  Result<std::string> post(const std::string& target, const std::string& body, const std::string& key = "");

 private:
  ApiClient(wire::HttpClient http, std::string token, std::string where)
      : http_(std::move(http)), token_(std::move(token)), where_(std::move(where)) {}
  Result<wire::HttpReply> send(const std::string& method, const std::string& target, const std::string& body,
                               const std::string& key);

  wire::HttpClient http_;
  std::string token_;
  std::string where_;
};

}  // namespace ebb::cli
