#include "ebb/model/service.h"

namespace ebb {

const char* to_string(Lending lending) {
  switch (lending) {
    case Lending::none:
      return "none";
    case Lending::pooled:
      return "pooled";
    case Lending::partitioned:
      return "partitioned";
  }
  return "unknown";
}

Result<Lending> parse_lending(std::string_view name) {
  for (const Lending lending : {Lending::none, Lending::pooled, Lending::partitioned}) {
    if (name == to_string(lending)) return lending;
  }
  return fail(ErrorCode::invalid_argument, "'{}' is not a way of lending: give none, pooled or partitioned", name);
}

}  // namespace ebb
