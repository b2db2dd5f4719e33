#include "ebb/sim/confirmations.h"

#include <algorithm>

namespace ebb::sim {
namespace {

// Whether a fault in `batch` makes a confirmation void.
bool is_broken(const Event& confirmed, const std::vector<Event>& batch) {
  const auto any_in_batch = [&](const auto& test) { return std::any_of(batch.begin(), batch.end(), test); };
  const auto of_job = [&](JobId id) {
    return any_in_batch([&](const Event& event) {
      const auto* failed = std::get_if<JobFailed>(&event);
      return failed != nullptr && failed->job == id;
    });
  };
  if (const auto* stopped = std::get_if<JobStopped>(&confirmed)) return of_job(stopped->job);
  if (const auto* shrunk = std::get_if<JobShrunk>(&confirmed)) return of_job(shrunk->job);
  if (const auto* failed = std::get_if<JobFailed>(&confirmed)) return of_job(failed->job);
  const auto* ready = std::get_if<ReplicaReady>(&confirmed);
  return ready != nullptr && any_in_batch([&](const Event& event) {
           const auto* lost = std::get_if<ReplicaStopped>(&event);
           return lost != nullptr && lost->replica == ready->replica;
         });
}

}  // namespace

void Confirmations::add(Time at, Event event) {
  const std::uint64_t stamp = stamp_of(event);
  queue_.push({std::min(at, kEndOfTime), sequence_++, stamp, std::move(event)});
}

std::optional<Time> Confirmations::next() {
  while (!queue_.empty() && is_void(queue_.top())) queue_.pop();
  if (queue_.empty()) return std::nullopt;
  return queue_.top().at;
}

std::optional<Event> Confirmations::take(Time now, const std::vector<Event>& batch) {
  while (!queue_.empty() && queue_.top().at == now) {
    Confirmation confirmation = queue_.top();
    queue_.pop();
    if (!is_void(confirmation) && !is_broken(confirmation.event, batch)) return std::move(confirmation.event);
  }
  return std::nullopt;
}

// What a confirmation is about, as a number that changes whenever it is about something else.
std::uint64_t Confirmations::stamp_of(const Event& event) const {
  const auto of_job = [&](JobId id) {
    const sched::JobState& job = state_.job(id);
    return (std::uint64_t{job.incarnations} << 32 | std::uint64_t{job.failures} << 20 | job.resizes) << 4 |
           static_cast<std::uint64_t>(job.phase);
  };
  const auto of_replica = [&](ReplicaId id) { return static_cast<std::uint64_t>(state_.replica(id).folded); };
  if (const auto* stopped = std::get_if<JobStopped>(&event)) return of_job(stopped->job);
  if (const auto* shrunk = std::get_if<JobShrunk>(&event)) return of_job(shrunk->job);
  if (const auto* failed = std::get_if<JobFailed>(&event)) return of_job(failed->job);
  if (const auto* ready = std::get_if<ReplicaReady>(&event)) return of_replica(ready->replica);
  return 0;
}

}  // namespace ebb::sim
