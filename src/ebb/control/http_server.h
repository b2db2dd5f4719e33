#pragma once

/// An HTTP/1.1 server on one address: reads requests under limits and deadlines, and answers them by a function that
/// runs on a pool of threads. Connections wait on one thread, so that ten thousand idle ones cost little.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::control {

struct HttpRequest {
  std::string method;                          ///< "GET", ...
  std::string path;                            ///< decoded, without the query
  std::map<std::string, std::string> query;    ///< decoded; of a name that comes twice, the last
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< further ones
};

struct HttpLimits {
  std::size_t body_bytes = std::size_t{4} << 20;
  std::uint32_t header_bytes = 16 << 10;
  std::size_t connections = 12'000;   ///< more are closed at once
  std::chrono::seconds idle{60};      ///< between requests
  std::chrono::seconds transfer{30};  ///< for one request or answer to come through
  std::size_t threads = 16;           ///< that answer
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

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::control
