#include <CLI/CLI.hpp>
#include <memory>

#include "ebb/cli/api_client.h"
#include "ebb/cli/command.h"
#include "ebb/wire/api_json.h"

namespace ebb::cli {
namespace {

struct TokenFlags {
  std::string data;
  bool json = false;
  std::string name;
  std::string role = "user";
  std::string tenant;
};

Result<void> create(Context& context, const TokenFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  const auto role = wire::role_from(flags.role);
  const std::string request = wire::to_json(wire::TokenView{flags.name, role.value_or(wire::Role::user), flags.tenant});
  EBB_ASSIGN_OR_RETURN(const std::string body, api.post("/v1/tokens", request));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const std::string token, wire::token_from(body));
  // Alone on standard output: TOKEN=$(ebb token create ...).
  context.print(token + "\n");
  std::fputs("It is shown this once. Its owner sets EBB_TOKEN to it, and EBB_API to the address of the API.\n",
             context.streams.err);
  return {};
}

Result<void> list(Context& context, const TokenFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.get("/v1/tokens"));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<wire::TokenView> tokens, wire::tokens_from(body));
  std::vector<std::vector<std::string>> rows{{"NAME", "ROLE", "TENANT"}};
  for (const wire::TokenView& token : tokens) {
    rows.push_back({token.name, wire::to_string(token.role), token.tenant.empty() ? "any" : token.tenant});
  }
  context.print(left_table(rows));
  return {};
}

Result<void> revoke(Context& context, const TokenFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.remove("/v1/tokens/" + wire::url_escape(flags.name)));
  context.print(flags.json ? body + "\n" : fmt::format("token {} is no longer valid\n", flags.name));
  return {};
}

}  // namespace

void add_tokens(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<TokenFlags>();
  CLI::App* token = app.add_subcommand("token", "Tokens of the API: who may do what");
  token->require_subcommand(1);
  const auto add = [&](const char* name, const char* summary, bool named) {
    CLI::App* command = token->add_subcommand(name, summary);
    if (named) command->add_option("NAME", flags->name, "Whose it is")->required();
    add_data_flag(*command, flags->data);
    command->add_flag("--json", flags->json, "Print the answer of the API");
    return command;
  };
  CLI::App* command = add("create", "Make a token and print it, once", true);
  command->add_option("--role", flags->role, "viewer, user or admin (default: user)")
      ->check(CLI::IsMember({"viewer", "user", "admin"}));
  command->add_option("--tenant", flags->tenant, "A user of this tenant's jobs only");
  command->callback([&context, flags] { context.finish(create(context, *flags)); });
  command = add("list", "Who has a token", false);
  command->callback([&context, flags] { context.finish(list(context, *flags)); });
  command = add("revoke", "Make a token invalid", true);
  command->callback([&context, flags] { context.finish(revoke(context, *flags)); });
}

}  // namespace ebb::cli
