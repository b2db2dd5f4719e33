#pragma once

/// A client of the API: one request, one answer, on one connection that is kept. Used by one thread at a time.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::wire {

struct HttpReply {
  int status = 0;
  std::string body;
  std::optional<std::uint64_t> log_offset;  ///< header X-Log-Offset
};

class HttpClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  HttpClient(std::string host, std::uint16_t port);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  /// Errors: unavailable if nobody answers there; deadline_exceeded. Whether the server saw the request is not known
  /// then.
  Result<HttpReply> send(const std::string& method, const std::string& target, const Headers& headers,
                         const std::string& body, std::chrono::milliseconds timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::wire
