#pragma once

/// Errors as values. Anything that touches the outside world returns Result<T>: a value, or an Error whose message an
/// operator understands without reading the source: what went wrong, where (file, line, column, job), what to do.
/// Codes are a closed set, the same as gRPC's where they mean the same.

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ebb {

enum class ErrorCode {
  invalid_argument,
  not_found,
  already_exists,
  failed_precondition,
  resource_exhausted,
  unavailable,
  deadline_exceeded,
  aborted,
  cancelled,
  unimplemented,
  internal,
};

/// The name of a code as it is printed and put into JSON, for example "invalid_argument".
const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::invalid_argument, "{}: row {}: ...", file, row);`
template <typename... Args>
tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace ebb

#define EBB_CONCAT_IMPL(a, b) a##b
#define EBB_CONCAT(a, b) EBB_CONCAT_IMPL(a, b)

/// Returns the error of `expr` (a Result) from the enclosing function, if it has one.
#define EBB_RETURN_IF_ERROR(expr)                                                                    \
  do {                                                                                               \
    if (auto ebb_result = (expr); !ebb_result) return tl::unexpected(std::move(ebb_result).error()); \
  } while (false)

/// `EBB_ASSIGN_OR_RETURN(auto x, f());`: x = the value of f(), or return its error.
#define EBB_ASSIGN_OR_RETURN(lhs, expr) EBB_ASSIGN_OR_RETURN_IMPL(EBB_CONCAT(ebb_result_, __LINE__), lhs, expr)
#define EBB_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)             \
  auto result = (expr);                                          \
  if (!result) return tl::unexpected(std::move(result).error()); \
  lhs = std::move(*result)
