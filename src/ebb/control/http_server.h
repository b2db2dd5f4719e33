#pragma once

/// An HTTP/1.1 server on one address: reads requests under limits and deadlines, and answers them by a function that
/// runs on a pool of threads. Connections wait on one thread, so that ten thousand idle ones cost little.
///
/// An answer may be a stream: its parts are sent as they come, one at a time, so that a slow reader holds up nobody and
/// nothing piles up for it; a part that does not get through within the transfer time ends the connection.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::control {

struct HttpRequest {
  std::string method;                          ///< "GET", ...
  std::string path;                            ///< as it came, without the query
  std::map<std::string, std::string> query;    ///< decoded; of a name that comes twice, the last
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// The rest of a body that has no end yet.
struct HttpStream {
  /// The next part; "" if there is none yet: asked again after HttpServer::wake(). nullopt ends the answer.
  std::function<std::optional<std::string>()> next;
  std::string heartbeat;  ///< sent when there was nothing to send for HttpLimits::heartbeat
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< further ones
  std::optional<HttpStream> stream = {};                          ///< instead of `body`
};

struct HttpLimits {
  std::size_t body_bytes = std::size_t{8} << 20;
  std::uint32_t header_bytes = 16 << 10;
  std::size_t connections = 12'000;   ///< more are closed at once
  std::chrono::seconds idle{60};      ///< between requests
  std::chrono::seconds transfer{30};  ///< for one request or answer to come through
  std::size_t threads = 16;           ///< that answer
  std::size_t streams = 256;          ///< at a time; one more is answered with 503
  std::chrono::seconds heartbeat{15};
};

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  /// Listens at once. `port` 0: any free one. `handler` must not throw; it is called on several threads.
  /// Errors: unavailable, with address and reason (in use, not permitted).
  static Result<std::unique_ptr<HttpServer>> start(const std::string& address, std::uint16_t port,
                                                   const HttpLimits& limits, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Closes all connections; answers in progress are waited for.
  ~HttpServer();

  std::uint16_t port() const;
  /// There may be news for streams. Returns at once; from any thread.
  void wake();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::control
