#pragma once

/// A client of the API: one request, one answer, on one connection that is kept. Used by one thread at a time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

  /// Asks for an answer that comes bit by bit, and hands on what comes of its body until `take` says false or the
  /// server ends it; of an answer above 299 the whole body. `idle`: the longest time without a byte. The status.
  /// Errors: those of send().
  Result<int> follow(const std::string& target, const Headers& headers, std::chrono::milliseconds idle,
                     const std::function<bool(std::string_view)>& take);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::wire
