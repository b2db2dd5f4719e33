#pragma once

/// The agent's end of the worker contract (wire/contract.h): a unix socket on which workers say who they are, prove it
/// with their secret, and then report and take orders. It keeps nothing: after a restart of the agent workers connect
/// again, and whoever gives orders hears of it (Connected) and gives them again.
///
/// A connection ends for: another user than the agent's, a wrong secret, bytes that are no message, a worker that does
/// not read (8 MiB wait for it), or a newer connection of the same worker. One thread; callbacks come from it.

#include <functional>
#include <memory>
#include <string>

#include "ebb/base/result.h"
#include "ebb/wire/contract.h"

namespace ebb::agent {

class ContractServer {
 public:
  using Sink = std::function<void(wire::WorkerReport)>;

  /// `address`: see wire/unix_socket.h. `key`: what the secrets are made of; nobody else knows it. Errors: unavailable,
  /// with the system's reason.
  static Result<std::unique_ptr<ContractServer>> start(const std::string& address, std::string key, Sink sink);
  ~ContractServer();
  ContractServer(const ContractServer&) = delete;
  ContractServer& operator=(const ContractServer&) = delete;

  /// What proves that a process is this worker.
  std::string secret_of(const WorkerId& worker) const;
  /// Nothing happens if the worker is not connected: it will ask.
  void tell(const WorkerId& worker, const wire::Order& order);

 private:
  struct Impl;
  explicit ContractServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebb::agent
