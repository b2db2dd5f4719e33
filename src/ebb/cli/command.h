#pragma once

/// Internal: what the commands share. A command adds itself to the CLI11 tree with add_...(); its callback does the
/// work and stores the exit code in the Context.

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/text.h"
#include "ebb/base/units.h"
#include "ebb/cli/cli.h"
#include "ebb/sched/registry.h"

namespace CLI {
class App;
}

namespace ebb::cli {

struct Context {
  const sched::Registry& registry;
  Streams streams;
  const Programs& programs;
  std::string command_line;  ///< as typed, for reports and run.json
  bool check_invariants = false;
  int exit_code = kExitOk;

  void print(const std::string& text) const { std::fputs(printable(text).c_str(), streams.out); }
  void warn(const std::string& text) const { std::fputs(("warning: " + printable(text) + "\n").c_str(), streams.err); }
  /// Prints the error of a command that failed and sets the exit code.
  void finish(const Result<void>& result);
};

void add_sim_run(CLI::App& sim, Context& context);
void add_sim_compare(CLI::App& sim, Context& context);
void add_sim_lending(CLI::App& sim, Context& context);
void add_sim_replay(CLI::App& sim, Context& context);
void add_jobs(CLI::App& app, Context& context);
void add_cluster(CLI::App& app, Context& context);
void add_tokens(CLI::App& app, Context& context);
void add_what_if(CLI::App& app, Context& context);
void add_top(CLI::App& app, Context& context);
/// Of all commands that were added.
void add_completion(CLI::App& app, Context& context);
void add_policies(CLI::App& app, Context& context);
void add_trace(CLI::App& app, Context& context);

/// Of --set: "KEY=VALUE". Errors: invalid_argument.
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text);
Result<std::vector<std::pair<std::string, std::string>>> parse_assignments(const std::vector<std::string>& texts);

/// For times of the API (UTC), in words: how long from then until `to`, or now, and how long until then. Never less
/// than 0.
std::string age(Time from, std::optional<Time> to = {});
std::string ahead(Time at);

/// A progress line on a terminal, redrawn at most ten times a second: share done and the time left. Silent where the
/// stream is no terminal or `mode` is "never". Call from one thread at a time.
class Progress {
 public:
  Progress(std::FILE* stream, const std::string& mode, std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void update(double share);

 private:
  std::FILE* stream_;
  std::string what_;
  bool shown_;
  double started_;
  double drawn_ = 0;
};

/// Columns of text: the first left, the others right aligned.
std::string table(const std::vector<std::vector<std::string>>& rows);
/// Columns of words, all left aligned.
std::string left_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace ebb::cli
