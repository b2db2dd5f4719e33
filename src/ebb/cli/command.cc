#include "ebb/cli/command.h"

#include <unistd.h>

#include <algorithm>

#include "ebb/base/units.h"
#include "ebb/sim/output.h"

namespace ebb::cli {

Progress::Progress(std::FILE* stream, const std::string& mode, std::string what)
    : stream_(stream),
      what_(std::move(what)),
      shown_(mode != "never" && ::isatty(::fileno(stream)) != 0),
      started_(sim::monotonic_seconds()) {}

Progress::~Progress() {
  if (shown_ && drawn_ > 0) std::fputs("\r\033[K", stream_);
}

void Progress::update(double share) {
  if (!shown_) return;
  const double now = sim::monotonic_seconds();
  if (now - drawn_ < 0.1) return;
  drawn_ = now;
  constexpr int kWidth = 30;
  const int filled = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  std::string left;
  if (share > 0.02 && now - started_ > 0.5) {
    left = fmt::format(", {:.0f} s left", (now - started_) * (1 - share) / share);
  }
  std::fputs(fmt::format("\r\033[K{} [{}{}] {:3.0f} %{}", what_, std::string(static_cast<std::size_t>(filled), '#'),
                         std::string(static_cast<std::size_t>(kWidth - filled), '.'), 100 * share, left)
                 .c_str(),
             stream_);
  std::fflush(stream_);
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += c == 0 ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace ebb::cli
