#include "ebb/base/result.h"

namespace ebb {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::already_exists:
      return "already_exists";
    case ErrorCode::failed_precondition:
      return "failed_precondition";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::aborted:
      return "aborted";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::unimplemented:
      return "unimplemented";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace ebb
