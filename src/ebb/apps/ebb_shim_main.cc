#include <cstdio>
#include <exception>
#include <string_view>

#include "ebb/agent/shim.h"
#include "ebb/version.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("ebb-shim " EBB_VERSION);
    return 0;
  }
  if (argc != 2 || argv[1][0] != '/') {
    std::fputs("usage: ebb-shim FOLDER\nRuns the worker of FOLDER (absolute); ebb's agent starts it.\n", stderr);
    return 2;
  }
  try {
    return ebb::agent::run_shim(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ebb-shim: %s\n", e.what());
    return 1;
  }
}
