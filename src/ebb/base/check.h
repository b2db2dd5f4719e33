#pragma once

/// EBB_CHECK(condition): an invariant of the program itself. Always on; a failure prints the place and aborts. Never
/// used on user input, traces or configuration: those get an Error (result.h).

#include <cstdio>
#include <cstdlib>

namespace ebb::internal {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "ebb: internal error: %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace ebb::internal

#define EBB_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::ebb::internal::check_failed(#condition, __FILE__, __LINE__))
