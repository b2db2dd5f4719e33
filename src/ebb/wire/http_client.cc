#include "ebb/wire/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
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

HttpClient::HttpClient(std::string host, std::uint16_t port) : impl_(std::make_unique<Impl>()) {
  impl_->host = std::move(host);
  impl_->port = port;
}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::send(const std::string& method, const std::string& target, const Headers& headers,
                                   const std::string& body, std::chrono::milliseconds timeout) {
  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, impl_->host + ":" + std::to_string(impl_->port));
  for (const auto& [name, value] : headers) request.set(name, value);
  request.body() = body;
  request.prepare_payload();
  const auto failed = [&](const beast::error_code& error) {
    const bool late = error == beast::error::timeout;
    return fail(late ? ErrorCode::deadline_exceeded : ErrorCode::unavailable, "{}:{}: {}", impl_->host, impl_->port,
                late ? "no answer in time" : error.message());
  };
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

}  // namespace ebb::wire
