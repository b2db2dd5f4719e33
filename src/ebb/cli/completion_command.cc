#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "ebb/cli/command.h"

namespace ebb::cli {
namespace {

/// What may follow each path of commands ("" is ebb alone, "sim run" two of them): commands and flags.
using Words = std::map<std::string, std::string>;

void collect(const CLI::App& app, const std::string& path, Words& words) {
  std::string& list = words[path];
  const auto add = [&](const std::string& word) { list += (list.empty() ? "" : " ") + word; };
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands) add(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) add("--" + name);
  }
  for (const CLI::App* command : commands) {
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), words);
  }
}

std::string cases(const Words& words, const char* line) {
  std::string text;
  for (const auto& [path, list] : words) text += fmt::format(fmt::runtime(line), path, list);
  return text;
}

// For shells of Bourne's kind: a function that tells the words of a path.
std::string shell_words(const Words& words) {
  return "_ebb_words() {\n  case \"$1\" in\n" + cases(words, "    \"{}\") echo \"{}\" ;;\n") + "  esac\n}\n";
}

// Walks along the words typed so far as long as they are commands; then offers what may follow.
std::string bash(const Words& words) {
  return shell_words(words) + R"sh(_ebb() {
  local word path=""
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ "$word" != -* && " $(_ebb_words "$path") " == *" $word "* ]] && path="${path:+$path }$word"
  done
  mapfile -t COMPREPLY < <(compgen -W "$(_ebb_words "$path")" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _ebb ebb
)sh";
}

std::string zsh(const Words& words) {
  return shell_words(words) + R"sh(_ebb() {
  local word taken=""
  for word in "${(@)words[2,CURRENT-1]}"; do
    [[ "$word" != -* && " $(_ebb_words "$taken") " == *" $word "* ]] && taken="${taken:+$taken }$word"
  done
  compadd -- ${(s: :)$(_ebb_words "$taken")} || _files
}
compdef _ebb ebb
)sh";
}

std::string fish(const Words& words) {
  return "function __ebb_words\n  switch \"$argv[1]\"\n" +
         cases(words, "    case \"{}\"\n      string split ' ' \"{}\"\n") +
         R"sh(  end
end
function __ebb
  set -l taken ""
  for word in (commandline -opc)[2..]
    if not string match -q -- '-*' $word; and contains -- $word (__ebb_words "$taken")
      set taken (string trim "$taken $word")
    end
  end
  __ebb_words "$taken"
end
complete -c ebb -a '(__ebb)'
)sh";
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes commands and flags in your shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, &context, shell] {
    Words words;
    collect(app, "", words);
    const std::string text = *shell == "bash" ? bash(words) : *shell == "zsh" ? zsh(words) : fish(words);
    std::fputs(text.c_str(), context.streams.out);
  });
}

}  // namespace ebb::cli
