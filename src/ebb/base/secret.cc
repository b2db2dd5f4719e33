#include "ebb/base/secret.h"

#include <openssl/sha.h>
#include <sys/random.h>

#include <array>
#include <span>
#include <vector>

namespace ebb {
namespace {

std::string hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

Result<std::string> random_hex(std::size_t bytes) {
  std::vector<unsigned char> drawn(bytes);
  if (::getrandom(drawn.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return fail(ErrorCode::unavailable, "the system has no random numbers");
  }
  return hex(drawn);
}

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex(digest);
}

}  // namespace ebb
