#pragma once

/// Addresses of unix sockets as text: a path, or with '@' in front a name of the kernel's (abstract) namespace, which
/// leaves no file behind and has no length limit that a deep folder could break.

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "ebb/base/result.h"

namespace ebb::wire {

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// Errors: invalid_argument if the text is empty or too long for the system.
inline Result<UnixAddress> unix_address(const std::string& text) {
  UnixAddress out;
  if (text.empty() || text.size() >= sizeof out.address.sun_path) {
    return fail(ErrorCode::invalid_argument, "'{}' is no address of a unix socket: 1 to {} characters", text,
                sizeof out.address.sun_path - 1);
  }
  out.address.sun_family = AF_UNIX;
  std::memcpy(out.address.sun_path, text.data(), text.size());
  if (text.front() == '@') out.address.sun_path[0] = '\0';
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (text.front() == '@' ? 0 : 1));
  return out;
}

}  // namespace ebb::wire
