#include <deque>

#include "ebb/sim/journal_header.h"
#include "ebb/sim/simulator.h"
#include "ebb/trace/journal.h"

namespace ebb::sim {
namespace {

/// Feeds recorded events to a scheduler, in the batches in which they happened, and holds the decisions it takes
/// against the recorded ones.
class Replayer {
 public:
  Replayer(sched::Scheduler scheduler) : scheduler_(std::move(scheduler)) {}

  Result<void> event(Time at, Event event) {
    if (at != at_) EBB_RETURN_IF_ERROR(step());
    at_ = at;
    const bool last = std::holds_alternative<Tick>(event) || std::holds_alternative<Timer>(event);
    batch_.push_back(std::move(event));
    return last ? step() : Result<void>();
  }

  Result<void> decision(Time at, const Decision& recorded) {
    EBB_RETURN_IF_ERROR(step());
    if (taken_.empty() || at != at_ || taken_.front() != recorded) {
      return fail(ErrorCode::aborted, "at {} s: this decision was not taken again", format_seconds(at));
    }
    taken_.pop_front();
    ++compared_;
    return {};
  }

  Result<std::uint64_t> finish() {
    EBB_RETURN_IF_ERROR(step());
    EBB_RETURN_IF_ERROR(nothing_left());
    return compared_;
  }

 private:
  Result<void> step() {
    if (batch_.empty()) return {};
    EBB_RETURN_IF_ERROR(nothing_left());
    EBB_RETURN_IF_ERROR(scheduler_.step(batch_, at_, result_));
    scheduler_.take_launchable();
    taken_.assign(result_.decisions.begin(), result_.decisions.end());
    batch_.clear();
    return {};
  }

  Result<void> nothing_left() const {
    if (taken_.empty()) return {};
    return fail(ErrorCode::aborted, "{} decisions were taken that are not in the journal", taken_.size());
  }

  sched::Scheduler scheduler_;
  Time at_{};
  std::vector<Event> batch_;
  sched::StepResult result_;
  std::deque<Decision> taken_;
  std::uint64_t compared_ = 0;
};

}  // namespace

Result<std::uint64_t> replay(const std::string& journal_path, const sched::Registry& registry) {
  EBB_ASSIGN_OR_RETURN(trace::JournalReader reader, trace::JournalReader::open(journal_path));
  EBB_ASSIGN_OR_RETURN(ReplaySetup setup, parse_journal_header(reader.header()));
  EBB_ASSIGN_OR_RETURN(sched::Scheduler scheduler,
                       make_scheduler(setup.cluster, setup.options, setup.profiles, registry));
  Replayer replayer(std::move(scheduler));
  const auto located = [&](Error error) {
    error.message = fmt::format("{}:{}: {}", journal_path, reader.line_number(), error.message);
    return tl::unexpected(std::move(error));
  };
  trace::JournalRecord record;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, reader.next(record));
    if (!more) break;
    Result<void> done;
    if (auto* event = std::get_if<Event>(&record.what)) {
      done = replayer.event(record.at, std::move(*event));
    } else if (const auto* decision = std::get_if<Decision>(&record.what)) {
      done = replayer.decision(record.at, *decision);
    }
    if (!done) return located(done.error());
  }
  auto compared = replayer.finish();
  if (!compared) return located(compared.error());
  return compared;
}

}  // namespace ebb::sim
