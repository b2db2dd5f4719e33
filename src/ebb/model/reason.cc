#include "ebb/model/reason.h"

#include <array>
#include <utility>

namespace ebb {
namespace {

constexpr std::array<std::pair<ReasonCode, const char*>, 7> kNames{{
    {ReasonCode::waiting_for_tick, "waiting_for_tick"},
    {ReasonCode::no_capacity, "no_capacity"},
    {ReasonCode::fragmented, "fragmented"},
    {ReasonCode::behind_head, "behind_head"},
    {ReasonCode::reserved_for_head, "reserved_for_head"},
    {ReasonCode::lower_priority, "lower_priority"},
    {ReasonCode::impossible, "impossible"},
}};

}  // namespace

const char* to_string(ReasonCode code) {
  for (const auto& [candidate, name] : kNames) {
    if (candidate == code) return name;
  }
  return "unknown";
}

std::optional<ReasonCode> reason_code_from(std::string_view name) {
  for (const auto& [code, candidate] : kNames) {
    if (name == candidate) return code;
  }
  return std::nullopt;
}

std::string describe(const Reason& reason) {
  std::string text = fmt::format("needs {} GPUs, {} of those it may use are free", reason.needed, reason.available);
  switch (reason.code) {
    case ReasonCode::waiting_for_tick:
      text += "; the next decision is at the next round";
      break;
    case ReasonCode::no_capacity:
      break;
    case ReasonCode::fragmented:
      text += ", but not together as the placement wants them";
      break;
    case ReasonCode::behind_head:
      text += "; an earlier job blocks the queue";
      break;
    case ReasonCode::reserved_for_head:
      text += "; starting it would delay the job at the head of the queue";
      break;
    case ReasonCode::lower_priority:
      text += "; jobs that go first under this policy hold the rest";
      break;
    case ReasonCode::impossible:
      return fmt::format("needs {} GPUs; the nodes it may use have {} in all", reason.needed, reason.available);
  }
  if (reason.other) text += fmt::format(" (job {})", *reason.other);
  if (reason.expected_start) text += fmt::format("; expected to start at {} s", format_seconds(*reason.expected_start));
  return text;
}

}  // namespace ebb
