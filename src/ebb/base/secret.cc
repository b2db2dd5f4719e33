#include "ebb/base/secret.h"

#include <sys/random.h>

#include <vector>

namespace ebb {

Result<std::string> random_hex(std::size_t bytes) {
  std::vector<unsigned char> drawn(bytes);
  if (::getrandom(drawn.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return fail(ErrorCode::unavailable, "the system has no random numbers");
  }
  std::string text;
  for (const unsigned char byte : drawn) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace ebb
