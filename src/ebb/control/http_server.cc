#include "ebb/control/http_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <optional>
#include <set>
#include <thread>

#include "ebb/wire/api_json.h"

namespace ebb::control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

HttpRequest plain(const http::request<http::string_body>& in) {
  HttpRequest out;
  out.method = std::string(in.method_string());
  const std::string target(in.target());
  const auto question = target.find('?');
  out.path = target.substr(0, question);
  std::string_view query = question == std::string::npos ? "" : std::string_view(target).substr(question + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (pair.empty()) continue;
    out.query[wire::url_unescape(pair.substr(0, equals))] =
        equals == std::string_view::npos ? "" : wire::url_unescape(pair.substr(equals + 1));
  }
  for (const auto& field : in) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out.headers[name] = std::string(field.value());
  }
  out.body = in.body();
  return out;
}

}  // namespace

struct HttpServer::Impl {
  class Session;

  Impl(const HttpLimits& the_limits, Handler the_handler)
      : limits(the_limits), handler(std::move(the_handler)), acceptor(io), pool(limits.threads) {}

  void accept();
  void wake_streams();

  HttpLimits limits;
  Handler handler;
  std::atomic<std::size_t> sessions = 0;  // outlives `io`, whose handlers hold sessions
  std::atomic<std::size_t> streams = 0;
  std::atomic<std::uint64_t> news = 0;  // counts wake()
  std::atomic<bool> stopping = false;   // streams end, however much they have to say
  std::atomic<bool> waking = false;     // a call of wake_streams() is on its way
  asio::io_context io;
  Tcp::acceptor acceptor;
  asio::thread_pool pool;
  std::set<std::shared_ptr<Session>> sleepers;  // streams without news; used on the thread of io only
  std::thread thread;
};

/// One connection. Its socket is used on the thread of io only.
class HttpServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl& server, Tcp::socket socket) : server_(server), stream_(std::move(socket)) { ++server_.sessions; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    --server_.sessions;
    if (body_) --server_.streams;
  }

  void read() {
    parser_.emplace();
    parser_->body_limit(server_.limits.body_bytes);
    parser_->header_limit(server_.limits.header_bytes);
    stream_.expires_after(buffer_.size() > 0 ? server_.limits.transfer : server_.limits.idle);
    auto self = shared_from_this();
    http::async_read_header(stream_, buffer_, *parser_, [self](beast::error_code error, std::size_t) {
      if (error) return self->refuse(error);
      self->stream_.expires_after(self->server_.limits.transfer);
      http::async_read(self->stream_, self->buffer_, *self->parser_, [self](beast::error_code body_error, std::size_t) {
        if (body_error) return self->refuse(body_error);
        self->answer();
      });
    });
  }

  void ask_for_part() {
    timer_.cancel();
    stream_.expires_never();
    asked_at_ = server_.news;
    auto self = shared_from_this();
    asio::post(server_.pool, [self] {
      asio::post(self->server_.io, [self, part = self->body_->next()]() mutable { self->take_part(std::move(part)); });
    });
  }

 private:
  void refuse(beast::error_code error) {
    if (error == http::error::body_limit) {
      return write({413,
                    R"({"error":{"code":"resource_exhausted","message":"the request is too large"}})",
                    "application/json",
                    {}},
                   false);
    }
    if (error == http::error::header_limit) {
      return write({431, R"({"error":{"code":"resource_exhausted","message":"the headers are too large"}})"}, false);
    }
    const bool malformed = error.category() == make_error_code(http::error::bad_method).category() &&
                           error != http::error::end_of_stream && error != http::error::partial_message;
    if (malformed) write({400, R"({"error":{"code":"invalid_argument","message":"this is no HTTP request"}})"}, false);
  }

  void answer() {
    auto self = shared_from_this();
    stream_.expires_never();
    asio::post(server_.pool, [self, request = parser_->release()] {
      HttpResponse response = self->server_.handler(plain(request));
      asio::post(self->server_.io, [self, response = std::move(response), alive = request.keep_alive()]() mutable {
        self->write(std::move(response), alive);
      });
    });
  }

  void write(HttpResponse response, bool keep_alive) {
    if (response.stream) return begin_stream(std::move(response));
    response_.emplace();
    set_header(*response_, response);
    response_->keep_alive(keep_alive);
    response_->body() = std::move(response.body);
    response_->prepare_payload();
    stream_.expires_after(server_.limits.transfer);
    auto self = shared_from_this();
    http::async_write(stream_, *response_, [self, keep_alive](beast::error_code error, std::size_t) {
      if (error) return;
      if (keep_alive) return self->read();
      beast::error_code ignored;
      self->stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    });
  }

  template <typename Message>
  static void set_header(Message& message, const HttpResponse& response) {
    message.result(static_cast<unsigned>(response.status));
    message.set(http::field::content_type, response.content_type);
    message.set(http::field::cache_control, "no-store");
    message.set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) message.set(name, value);
  }

  void begin_stream(HttpResponse response) {
    if (server_.streams >= server_.limits.streams) {
      return write({503, R"({"error":{"code":"unavailable","message":"too many event streams are open"}})"}, false);
    }
    ++server_.streams;
    body_ = std::move(response.stream);
    head_.emplace();
    set_header(*head_, response);
    head_->chunked(true);
    head_->keep_alive(false);
    serializer_.emplace(*head_);
    stream_.expires_after(server_.limits.transfer);
    auto self = shared_from_this();
    http::async_write_header(stream_, *serializer_, [self](beast::error_code error, std::size_t) {
      if (!error) self->ask_for_part();
    });
  }

  void take_part(std::optional<std::string> part) {
    if (!part || server_.stopping) {
      stream_.expires_after(server_.limits.transfer);
      return asio::async_write(stream_, http::make_chunk_last(),
                               [self = shared_from_this()](beast::error_code, std::size_t) {});
    }
    if (!part->empty()) return send_part(std::move(*part));
    if (server_.news != asked_at_) return ask_for_part();
    server_.sleepers.insert(shared_from_this());
    timer_.expires_after(server_.limits.heartbeat);
    timer_.async_wait([self = shared_from_this()](beast::error_code error) {
      if (!error && self->server_.sleepers.erase(self) > 0) self->send_part(self->body_->heartbeat);
    });
  }

  void send_part(std::string part) {
    part_ = std::move(part);
    stream_.expires_after(server_.limits.transfer);
    asio::async_write(stream_, http::make_chunk(asio::buffer(part_)),
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (!error) self->ask_for_part();
                      });
  }

  Impl& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;

  // Of a stream.
  std::optional<HttpStream> body_;
  std::optional<http::response<http::empty_body>> head_;
  std::optional<http::response_serializer<http::empty_body>> serializer_;
  asio::steady_timer timer_{server_.io};
  std::uint64_t asked_at_ = 0;  // Impl::news at the last question
  std::string part_;
};

void HttpServer::Impl::wake_streams() {
  waking = false;
  for (const auto& session : std::exchange(sleepers, {})) session->ask_for_part();
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](beast::error_code error, Tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error && sessions < limits.connections) std::make_shared<Session>(*this, std::move(socket))->read();
    accept();
  });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address, std::uint16_t port,
                                                      const HttpLimits& limits, Handler handler) {
  auto impl = std::make_unique<Impl>(limits, std::move(handler));
  beast::error_code error;
  const auto failed = [&] {
    return fail(ErrorCode::unavailable, "cannot listen on {}:{}: {}", address, port, error.message());
  };
  const auto ip = asio::ip::make_address(address, error);
  if (error) return failed();
  const Tcp::endpoint endpoint(ip, port);
  if (impl->acceptor.open(endpoint.protocol(), error)) return failed();
  impl->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (impl->acceptor.bind(endpoint, error)) return failed();
  if (impl->acceptor.listen(asio::socket_base::max_listen_connections, error)) return failed();
  impl->accept();
  impl->thread = std::thread([&io = impl->io] { io.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() {
  impl_->stopping = true;
  impl_->pool.join();
  impl_->io.stop();
  impl_->thread.join();
}

void HttpServer::wake() {
  ++impl_->news;
  if (!impl_->waking.exchange(true)) asio::post(impl_->io, [impl = impl_.get()] { impl->wake_streams(); });
}

std::uint16_t HttpServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

}  // namespace ebb::control
