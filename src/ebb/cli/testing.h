#pragma once

/// For tests: the command line in-process, every simulated step checked, with its output in strings.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ebb/base/test_folder.h"
#include "ebb/cli/cli.h"

namespace ebb::cli {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string take_text(std::FILE* stream) {
  std::string text;
  std::rewind(stream);
  char chunk[4096];
  while (const std::size_t n = std::fread(chunk, 1, sizeof chunk, stream)) text.append(chunk, n);
  std::fclose(stream);
  return text;
}

inline Outcome run_in_process(const std::vector<std::string>& args, const sched::Registry& registry) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  Outcome outcome;
  outcome.code = run(args, registry, {out, err}, {}, /*check_invariants=*/true);
  outcome.out = take_text(out);
  outcome.err = take_text(err);
  return outcome;
}

using ebb::TestFolder;

}  // namespace ebb::cli
