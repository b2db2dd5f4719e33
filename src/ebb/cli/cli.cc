#include "ebb/cli/cli.h"

#include <CLI/CLI.hpp>

#include "ebb/cli/command.h"
#include "ebb/version.h"

namespace ebb::cli {

void Context::finish(const Result<void>& result) {
  if (result) return;
  const Error& error = result.error();
  std::fputs(("ebb: " + error.message + "\n").c_str(), streams.err);
  exit_code = error.code == ErrorCode::internal || error.code == ErrorCode::aborted ? kExitFailed : kExitBadInput;
}

int run(const std::vector<std::string>& args, const sched::Registry& registry, const Streams& streams) {
  std::string command_line = "ebb";
  for (const std::string& arg : args) {
    const bool plain = !arg.empty() && arg.find_first_of(" \t\n'\"\\$&|;<>*?()[]{}~#!`") == std::string::npos;
    command_line += plain ? " " + arg : " '" + arg + "'";
  }
  Context context{registry, streams, command_line};

  CLI::App app("ebb: training, serving and tuning on one shared pool of GPUs.", "ebb");
  app.set_version_flag("--version", "ebb " EBB_VERSION);
  app.require_subcommand(1);
  app.footer("Each command explains itself: ebb COMMAND --help.");
  CLI::App* sim = app.add_subcommand("sim", "Simulate a cluster on a trace of jobs");
  sim->require_subcommand(1);
  add_sim_run(*sim, context);
  add_sim_compare(*sim, context);
  add_sim_replay(*sim, context);
  add_policies(app, context);
  add_trace(app, context);

  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForVersion&) {
    context.print("ebb " EBB_VERSION "\n");
  } catch (const CLI::CallForHelp&) {
    const CLI::App* asked = &app;
    while (!asked->get_subcommands().empty()) asked = asked->get_subcommands().front();
    context.print(asked->help());
  } catch (const CLI::CallForAllHelp&) {
    context.print(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::ParseError& error) {
    std::fputs(fmt::format("ebb: {}\nTry 'ebb --help', or --help after the command.\n", error.what()).c_str(),
               streams.err);
    return kExitBadInput;
  }
  if (std::fflush(streams.out) != 0) {
    std::fputs("ebb: cannot write the output\n", streams.err);
    return kExitBadInput;
  }
  return context.exit_code;
}

}  // namespace ebb::cli
