#include <cstdio>
#include <exception>

#include "ebb/cli/cli.h"
#include "ebb/policies/all.h"

int main(int argc, char** argv) {
  try {
    return ebb::cli::run({argv + 1, argv + argc}, ebb::policies::all(), {stdout, stderr});
  } catch (const std::bad_alloc&) {
    std::fputs("ebb: out of memory\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ebb: internal error: %s\n", e.what());
  }
  return ebb::cli::kExitFailed;
}
