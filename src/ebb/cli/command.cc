#include "ebb/cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "ebb/sim/output.h"

namespace ebb::cli {
namespace {

Time utc_now() {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
}

}  // namespace

Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorCode::invalid_argument, "--set {}: give key=value", text);
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<std::vector<std::pair<std::string, std::string>>> parse_assignments(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> assignments;
  for (const std::string& text : texts) {
    EBB_ASSIGN_OR_RETURN(auto assignment, parse_assignment(text));
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

std::string age(Time from, std::optional<Time> to) {
  return format_human(std::max(Duration(0), to.value_or(utc_now()) - from));
}

std::string ahead(Time at) {
  return format_human(std::max(Duration(0), at - utc_now()));
}

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

namespace {

std::string aligned(const std::vector<std::vector<std::string>>& rows, bool numbers) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const char* gap = c == 0 ? "" : "  ";
      line += c > 0 && numbers ? fmt::format("{}{:>{}}", gap, row[c], widths[c])
                               : fmt::format("{}{:<{}}", gap, row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  return aligned(rows, true);
}

std::string left_table(const std::vector<std::vector<std::string>>& rows) {
  return aligned(rows, false);
}

}  // namespace ebb::cli
