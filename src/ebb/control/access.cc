#include "ebb/control/access.h"

#include <nlohmann/json.hpp>

#include "ebb/base/secret.h"
#include "ebb/spec/characters.h"
#include "ebb/spec/job_file.h"

namespace ebb::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKey = "tokens";
constexpr const char* kLocal = "local";
constexpr std::size_t kMaxName = 64;

bool is_name(const std::string& text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '@';
  };
  return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), allowed);
}

Result<std::map<std::string, wire::TokenView>> parse(const std::string& text) {
  std::map<std::string, wire::TokenView> tokens;
  if (text.empty()) return tokens;
  try {
    const Json kept = Json::parse(text);
    for (const auto& [hash, entry] : kept.items()) {
      const auto role = wire::role_from(entry.at("role").get<std::string>());
      if (!role) return fail(ErrorCode::internal, "the tokens of the API in the store have a role that is not known");
      tokens[hash] = {entry.at("name").get<std::string>(), *role, entry.at("tenant").get<std::string>()};
    }
  } catch (const nlohmann::json::exception& e) {
    return fail(ErrorCode::internal, "the tokens of the API in the store cannot be read: {}", e.what());
  }
  return tokens;
}

}  // namespace

Access::Access(Controller& controller, const std::string& local_token)
    : controller_(controller), local_hash_(sha256_hex(local_token)) {}

Result<std::unique_ptr<Access>> Access::open(Controller& controller, const std::string& local_token) {
  std::unique_ptr<Access> access(new Access(controller, local_token));
  EBB_ASSIGN_OR_RETURN(const std::string text, controller.kept(kKey));
  EBB_ASSIGN_OR_RETURN(access->tokens_, parse(text));
  return access;
}

std::optional<wire::TokenView> Access::find(const std::string& token) const {
  // Looked up by hash: how long that takes says nothing about the token.
  const std::string hash = sha256_hex(token);
  if (hash == local_hash_) return wire::TokenView{kLocal, wire::Role::admin, ""};
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(hash);
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<wire::TokenView> Access::list() const {
  std::vector<wire::TokenView> owners;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [hash, owner] : tokens_) owners.push_back(owner);
  }
  std::sort(owners.begin(), owners.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return owners;
}

Result<std::string> Access::create(const wire::TokenView& owner) {
  if (!is_name(owner.name) || owner.name == kLocal) {
    return fail(ErrorCode::invalid_argument,
                "'{}' cannot name a token: use 1 to {} letters, digits and any of - _ . @, and not '{}'", owner.name,
                kMaxName, kLocal);
  }
  const auto characters = spec::utf8_characters(owner.tenant);
  if (!characters || *characters > spec::kMaxNameCharacters || spec::has_control_character(owner.tenant)) {
    return fail(ErrorCode::invalid_argument, "the tenant of a token has at most {} characters, no control characters",
                spec::kMaxNameCharacters);
  }
  if (!owner.tenant.empty() && owner.role != wire::Role::user) {
    return fail(ErrorCode::invalid_argument, "only a token with role user can be bound to a tenant");
  }
  const std::lock_guard change(change_);
  auto tokens = tokens_;
  for (const auto& [hash, other] : tokens) {
    if (other.name == owner.name) return fail(ErrorCode::already_exists, "there is a token '{}' already", owner.name);
  }
  EBB_ASSIGN_OR_RETURN(std::string secret, random_hex(32));
  tokens[sha256_hex(secret)] = owner;
  EBB_RETURN_IF_ERROR(save(tokens));
  return secret;
}

Result<void> Access::revoke(const std::string& name) {
  const std::lock_guard change(change_);
  auto tokens = tokens_;
  if (std::erase_if(tokens, [&](const auto& entry) { return entry.second.name == name; }) == 0) {
    return fail(ErrorCode::not_found, "there is no token '{}'", name);
  }
  return save(tokens);
}

Result<void> Access::save(const std::map<std::string, wire::TokenView>& tokens) {
  Json out = Json::object();
  for (const auto& [hash, owner] : tokens) {
    out[hash] = {{"name", owner.name}, {"role", wire::to_string(owner.role)}, {"tenant", owner.tenant}};
  }
  EBB_RETURN_IF_ERROR(controller_.keep(kKey, out.dump()));
  const std::lock_guard lock(mutex_);
  tokens_ = tokens;
  return {};
}

}  // namespace ebb::control
