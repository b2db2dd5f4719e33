#include "ebb/cli/cli.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "ebb/cli/command.h"
#include "ebb/version.h"

namespace ebb::cli {

void Context::finish(const Result<void>& result) {
  if (result) return;
  const Error& error = result.error();
  std::fputs(("ebb: " + printable(error.message) + "\n").c_str(), streams.err);
  exit_code = error.code == ErrorCode::internal || error.code == ErrorCode::aborted ? kExitFailed : kExitBadInput;
}

namespace {

// The arguments as a shell would take them.
std::string command_line_of(const std::vector<std::string>& args) {
  std::string line = "ebb";
  for (const std::string& arg : args) {
    line += ' ';
    if (!arg.empty() && arg.find_first_of(" \t\n'\"\\$&|;<>*?()[]{}~#!`") == std::string::npos) {
      line += arg;
      continue;
    }
    line += '\'';
    for (const char c : arg) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

// CLI11 says only that a command is missing, also where a wrong one was given.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto unknown = app.remaining(/*recurse=*/true);
  if (dynamic_cast<const CLI::RequiredError*>(&error) == nullptr) return error.what();
  const CLI::App* at = &app;
  std::string name = "ebb";
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : at->get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  if (commands.empty()) return error.what();
  return fmt::format("{}; '{}' has the commands {}",
                     unknown.empty() ? "no command is given" : fmt::format("'{}' is no command", unknown.front()), name,
                     fmt::join(commands, ", "));
}

}  // namespace

int run(const std::vector<std::string>& args, const sched::Registry& registry, const Streams& streams,
        const Programs& programs, bool check_invariants) {
  Context context{registry, streams, programs, command_line_of(args), check_invariants};

  CLI::App app(
      "ebb: one shared pool of GPUs for training and serving. Replay your own trace of jobs (sim), or run jobs on this "
      "machine (up, submit).",
      "ebb");
  app.set_version_flag("--version", "ebb " EBB_VERSION);
  app.require_subcommand(1);
  app.footer("Each command explains itself: ebb COMMAND --help.");
  CLI::App* sim = app.add_subcommand("sim", "Simulate a cluster on a trace of jobs");
  sim->require_subcommand(1);
  add_sim_run(*sim, context);
  add_sim_compare(*sim, context);
  add_sim_lending(*sim, context);
  add_sim_replay(*sim, context);
  add_cluster(app, context);
  add_jobs(app, context);
  add_top(app, context);
  add_what_if(app, context);
  add_tokens(app, context);
  add_policies(app, context);
  add_trace(app, context);
  add_completion(app, context);

  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForVersion&) {
    context.print("ebb " EBB_VERSION "\n");
  } catch (const CLI::CallForHelp&) {
    const CLI::App* asked = &app;
    std::string before;
    while (!asked->get_subcommands().empty()) {
      before += (before.empty() ? "" : " ") + asked->get_name();
      asked = asked->get_subcommands().front();
    }
    context.print(asked->help(before));
  } catch (const CLI::CallForAllHelp&) {
    context.print(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::ParseError& error) {
    std::fputs(
        fmt::format("ebb: {}\nTry 'ebb --help', or --help after the command.\n", printable(usage_error(app, error)))
            .c_str(),
        streams.err);
    return kExitBadInput;
  }
  // Of a long output the failed part may have been dropped before.
  if (std::fflush(streams.out) != 0 || std::ferror(streams.out) != 0) {
    std::fputs("ebb: cannot write to standard output (closed, or its disk is full); files of --out are complete\n",
               streams.err);
    return kExitBadInput;
  }
  return context.exit_code;
}

}  // namespace ebb::cli
