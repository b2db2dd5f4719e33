/// Fuzzes the worker contract, as a worker's bytes meet it in the agent and the agent's in a worker: whatever way they
/// are cut, the same messages come out; what is understood is said again the same way.

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/wire/contract.h"

namespace {

using namespace ebb::wire;

std::vector<std::string> messages(std::string_view bytes, std::size_t piece) {
  FrameReader reader;
  std::vector<std::string> all;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.add(bytes.substr(at, piece));
    while (true) {
      const auto message = reader.next();
      if (!message) return all;
      if (!*message) break;
      EBB_CHECK((*message)->size() <= kMaxFrameBytes);
      all.push_back(**message);
    }
  }
  return all;
}

void check_from_worker(const std::string& message) {
  const auto said = decode_from_worker(message);
  if (!said) return;
  const auto* report = std::get_if<WorkerReport>(&*said);
  if (report == nullptr) return;
  const auto again = decode_from_worker(frame(report->number, report->report).substr(4));
  EBB_CHECK(again.has_value());
  // Not-a-number is not equal to itself.
  if (!std::holds_alternative<Progress>(report->report) && !std::holds_alternative<Load>(report->report)) {
    EBB_CHECK(std::get<WorkerReport>(*again) == *report);
  }
}

void check_to_worker(const std::string& message) {
  const auto said = decode_to_worker(message);
  if (!said) return;
  const auto* order = std::get_if<Order>(&*said);
  if (order == nullptr) return;
  const auto again = decode_to_worker(frame(*order).substr(4));
  EBB_CHECK(again && std::get<Order>(*again) == *order);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = messages(bytes, std::max<std::size_t>(1, size));
  EBB_CHECK(messages(bytes, 3) == whole);
  for (const std::string& message : whole) {
    check_from_worker(message);
    check_to_worker(message);
  }
  check_from_worker(bytes);
  check_to_worker(bytes);
  return 0;
}
