#include "ebb/wire/http_client.h"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <limits>
#include <optional>

namespace ebb::wire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

struct HttpClient::Impl {
  std::string host;
  std::uint16_t port = 0;
  asio::io_context io;
  std::optional<beast::tcp_stream> stream;
  beast::flat_buffer buffer;

  beast::error_code connect(std::chrono::milliseconds timeout) {
    beast::error_code error;
    const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
    if (error) return error;
    buffer.clear();
    stream.emplace(io);
    stream->expires_after(timeout);
    stream->async_connect(Tcp::endpoint(address, port), [&](beast::error_code e) { error = e; });
    run();
    return error;
  }

  tl::unexpected<Error> failed(const beast::error_code& error) const {
    const bool late = error == beast::error::timeout;
    return fail(late ? ErrorCode::deadline_exceeded : ErrorCode::unavailable, "{}:{}: {}", host, port,
                late ? "no answer in time" : error.message());
  }

  void run() {
    io.restart();
    io.run();
  }

  beast::error_code exchange(const http::request<http::string_body>& request, HttpReply& reply,
                             std::chrono::milliseconds timeout) {
    beast::error_code error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::uint64_t{1} << 30);
    stream->expires_after(timeout);
    http::async_write(*stream, request, [&](beast::error_code e, std::size_t) {
      error = e;
      if (e) return;
      http::async_read(*stream, buffer, parser, [&](beast::error_code read_error, std::size_t) { error = read_error; });
    });
    run();
    if (error) {
      stream.reset();
      return error;
    }
    reply.status = static_cast<int>(parser.get().result_int());
    reply.body = std::move(parser.get().body());
    const auto offset = parser.get()["X-Log-Offset"];
    std::uint64_t value = 0;
    if (!offset.empty() && std::from_chars(offset.data(), offset.data() + offset.size(), value).ec == std::errc()) {
      reply.log_offset = value;
    }
    if (!parser.get().keep_alive()) stream.reset();
    return error;
  }
};

namespace {

http::request<http::string_body> make_request(const HttpClient::Headers& headers, const std::string& method,
                                              const std::string& target, const std::string& host) {
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, host);
  for (const auto& [name, value] : headers) request.set(name, value);
  return request;
}

}  // namespace

HttpClient::HttpClient(std::string host, std::uint16_t port) : impl_(std::make_unique<Impl>()) {
  impl_->host = std::move(host);
  impl_->port = port;
}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::send(const std::string& method, const std::string& target, const Headers& headers,
                                   const std::string& body, std::chrono::milliseconds timeout) {
  auto request = make_request(headers, method, target, impl_->host + ":" + std::to_string(impl_->port));
  request.body() = body;
  request.prepare_payload();
  const auto failed = [&](const beast::error_code& error) { return impl_->failed(error); };
  HttpReply reply;
  const bool kept = impl_->stream.has_value();
  if (kept) {
    // The server may have closed a connection that was idle; a request that can be repeated is tried once more.
    const auto error = impl_->exchange(request, reply, timeout);
    if (!error) return reply;
    if (method != "GET" && error != http::error::end_of_stream) return failed(error);
  }
  if (const auto error = impl_->connect(timeout)) return failed(error);
  if (const auto error = impl_->exchange(request, reply, timeout)) return failed(error);
  return reply;
}

Result<int> HttpClient::follow(const std::string& target, const Headers& headers, std::chrono::milliseconds idle,
                               const std::function<bool(std::string_view)>& take) {
  const auto request = make_request(headers, "GET", target, impl_->host + ":" + std::to_string(impl_->port));
  if (const auto error = impl_->connect(idle)) return impl_->failed(error);
  beast::error_code error;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());  // in Boost 1.74 none would mean zero
  impl_->stream->expires_after(idle);
  http::async_write(*impl_->stream, request, [&](beast::error_code write_error, std::size_t) {
    error = write_error;
    if (error) return;
    http::async_read_header(*impl_->stream, impl_->buffer, parser,
                            [&](beast::error_code read_error, std::size_t) { error = read_error; });
  });
  impl_->run();
  std::array<char, 65'536> bytes{};
  while (!error && !parser.is_done()) {
    parser.get().body().data = bytes.data();
    parser.get().body().size = bytes.size();
    impl_->stream->expires_after(idle);
    http::async_read_some(*impl_->stream, impl_->buffer, parser,
                          [&](beast::error_code read_error, std::size_t) { error = read_error; });
    impl_->run();
    if (error == http::error::need_buffer) error = {};
    const std::size_t got = bytes.size() - parser.get().body().size;
    if (!error && got > 0 && !take({bytes.data(), got})) break;
  }
  impl_->stream.reset();
  if (error) return impl_->failed(error);
  return static_cast<int>(parser.get().result_int());
}

}  // namespace ebb::wire
