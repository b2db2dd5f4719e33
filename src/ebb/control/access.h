#pragma once

/// Who may do what over the API. A token is a secret of 256 random bits that is shown once; what is kept, in the store
/// beside the journal, is its SHA-256 with a name, a role and, if it is bound to one, a tenant.
///
///   viewer   sees jobs (not their environment), nodes, policy, metrics
///   user     also sees logs, submits jobs, and acts on jobs of its tenant (of all, if it is bound to none)
///   admin    also sees the journal, drains nodes, changes the policy, makes and revokes tokens
///
/// The token in the data folder (file `token`) is an admin's, called "local"; it is not in the list. Thread-safe.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/control/controller.h"
#include "ebb/wire/api.h"

namespace ebb::control {

class Access {
 public:
  /// Errors: those of Controller::kept(); internal if what is kept cannot be read.
  static Result<std::unique_ptr<Access>> open(Controller& controller, const std::string& local_token);

  /// nullopt: no such token.
  std::optional<wire::TokenView> find(const std::string& token) const;
  /// The tokens' owners, by name.
  std::vector<wire::TokenView> list() const;
  /// The secret. Errors: invalid_argument for a name that is none; already_exists; those of Controller::keep().
  Result<std::string> create(const wire::TokenView& owner);
  /// Errors: not_found; those of Controller::keep().
  Result<void> revoke(const std::string& name);

 private:
  Access(Controller& controller, const std::string& local_token);
  Result<void> save(const std::map<std::string, wire::TokenView>& tokens);

  Controller& controller_;
  const std::string local_hash_;
  std::mutex change_;  // one change at a time
  mutable std::mutex mutex_;
  std::map<std::string, wire::TokenView> tokens_;  // by hash
};

}  // namespace ebb::control
