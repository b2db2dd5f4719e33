/// Any record that can be written reads back the same.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cmath>

#include "ebb/trace/journal_testing.h"

namespace ebb::trace {
namespace {

Time any_time() {
  return Time(Duration(*rc::gen::inRange<std::int64_t>(0, kEndOfTime.time_since_epoch().count() + 1)));
}
Duration any_duration() {
  return any_time().time_since_epoch();
}
std::uint32_t any_id() {
  return *rc::gen::arbitrary<std::uint32_t>();
}
GpuCount any_gpus() {
  return *rc::gen::inRange(0, 10'000'001);
}

std::int32_t any_count() {
  return *rc::gen::inRange(0, INT32_MAX);
}

// Valid UTF-8 of any code points, with those that JSON escapes among them.
std::string any_text() {
  std::string text;
  for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
    text += *rc::gen::element<std::string>("a", "\"", "\\", "\n", std::string(1, '\0'), "\x1f", "\x7f", "é", "\u2028",
                                           "\U0001F600", "\uFFFF", "/", " ");
  }
  return text;
}

Reason any_reason() {
  Reason reason;
  reason.code = static_cast<ReasonCode>(*rc::gen::inRange(0, static_cast<int>(ReasonCode::impossible) + 1));
  reason.needed = any_gpus();
  reason.available = any_gpus();
  if (*rc::gen::arbitrary<bool>()) reason.other = any_id();
  if (*rc::gen::arbitrary<bool>()) reason.expected_start = any_time();
  return reason;
}

JobSpec any_spec() {
  JobSpec spec;
  spec.name = any_text();
  spec.tenant = any_text();
  spec.gpus = any_gpus();
  spec.submit = any_time();
  spec.priority = *rc::gen::inRange(-kMaxPriority, kMaxPriority + 1);
  spec.gpu_type = any_text();
  spec.pool = any_text();
  if (*rc::gen::arbitrary<bool>()) spec.requested_time = any_duration();
  spec.run_time = any_duration();
  if (*rc::gen::arbitrary<bool>()) return spec;
  spec.kind = *rc::gen::element(JobKind::training, JobKind::inference);
  spec.sizing = *rc::gen::element(Sizing::rigid, Sizing::moldable, Sizing::elastic);
  spec.min_gpus = any_gpus();
  spec.max_gpus = any_gpus();
  spec.gpu_step = any_gpus() % 8 + 1;
  spec.application = any_text();
  spec.batch_size = any_count();
  spec.batch = {any_count(), any_count(), any_count(), any_count()};
  return spec;
}

// Any finite number, bit by bit.
double any_number() {
  while (true) {
    const auto value = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
    if (*rc::gen::arbitrary<bool>()) return *rc::gen::element(0.0, -0.0, 1.0, 0.1, 1e22, 1152921504606846976.0, 1e300);
    if (std::isfinite(value)) return value;
  }
}

JobReport any_report() {
  JobReport report;
  report.job = any_id();
  report.progress = any_duration();
  report.speed = any_number();
  report.epoch = any_count();
  report.fraction_done = any_number();
  report.steps_done = any_number();
  report.most_gpus = any_gpus();
  report.gradient = {any_number(), any_number()};
  if (*rc::gen::arbitrary<bool>()) {
    report.throughput = {any_number(), any_number(), any_number(), any_number(),
                         any_number(), any_number(), any_number()};
  }
  return report;
}

ServiceSpec any_service() {
  return {any_text(), any_gpus(), any_duration(), any_duration(), any_duration(), any_number()};
}

template <typename T>
std::optional<T> maybe(T value) {
  return *rc::gen::arbitrary<bool>() ? std::optional<T>(value) : std::nullopt;
}

Allocation any_allocation() {
  Allocation allocation;
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) allocation.push_back({any_id(), any_gpus()});
  return allocation;
}

// Record `kind` of all kinds.
constexpr int kKinds = 34;
JournalRecord any_record(int kind) {
  const Time at = any_time();
  switch (kind) {
    case 0:
      return {at, Event(JobSubmitted{any_id(), any_spec()})};
    case 1:
      return {at, Event(JobStarted{any_id(), any_time()})};
    case 2:
      return {at, Event(JobStopped{any_id(), any_duration()})};
    case 3:
      return {at, Event(JobFailed{any_id(), any_duration()})};
    case 4:
      return {at, Event(JobFinished{any_id(), maybe(any_time())})};
    case 5:
      return {at, Event(NodeFailed{any_id()})};
    case 6:
      return {at, Event(NodeRepaired{any_id()})};
    case 7:
      return {at, Event(NodeDrained{any_id()})};
    case 8:
      return {at, Event(NodeUndrained{any_id()})};
    case 9:
      return {at, Event(PlanReady{*rc::gen::arbitrary<std::uint64_t>(), any_text()})};
    case 10:
      return {at, Event(Tick{})};
    case 11:
      return {at, Decision(Start{any_id(), any_allocation()})};
    case 12:
      return {at, Decision(Preempt{any_id()})};
    case 13:
      return {at, Decision(Reject{any_id(), any_reason()})};
    case 14:
      return {at, Decision(PlanRequest{*rc::gen::arbitrary<std::uint64_t>(), any_text()})};
    case 15:
      return {at, Event(JobShrunk{any_id()})};
    case 16:
      return {at, Event(JobResized{any_id(), any_time(), any_duration()})};
    case 17:
      return {at, Event(any_report())};
    case 18:
      return {at, Event(ServiceAdded{any_id(), any_service()})};
    case 19:
      return {at, Event(ServiceDemand{any_id(), any_count()})};
    case 20:
      return {at, Event(ReplicaReady{any_id()})};
    case 21:
      return {at, Event(ReplicaStopped{any_id()})};
    case 22:
      return {at, Event(Timer{})};
    case 23: {
      Resize resize;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) resize.targets.push_back({any_id(), any_allocation()});
      return {at, Decision(resize)};
    }
    case 24:
      return {at, Decision(StartReplica{any_id(),
                                        any_id(),
                                        {any_id(), any_gpus()},
                                        maybe(any_id()),
                                        maybe(any_duration()),
                                        *rc::gen::arbitrary<bool>()})};
    case 25:
      return {at, Decision(Serve{any_id(), any_id(), maybe(any_duration())})};
    case 26:
      return {at, Decision(WakeReplica{any_id()})};
    case 27:
      return {at, Decision(RestReplica{any_id(), any_duration()})};
    case 28:
      return {at, Decision(StopReplica{any_id()})};
    case 29:
      return {at, Event(JobHeld{any_id()})};
    case 30:
      return {at, Event(JobReleased{any_id()})};
    case 31:
      return {at, Event(JobCancelled{any_id()})};
    case 32:
      return {at, Event(JobSizeAsked{any_id(), any_gpus()})};
    default:
      return {at, Waits{any_id(), any_reason()}};
  }
}

TEST(Journal, EveryRecordReadsBackTheSame) {
  const bool holds = rc::check([] {
    std::vector<JournalRecord> records;
    for (int kind = 0; kind < kKinds; ++kind) records.push_back(any_record(kind));
    const auto back = read(write(records));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == records);
  });
  EXPECT_TRUE(holds);
}

// The kinds above are all there are.
static_assert(std::variant_size_v<Event> + std::variant_size_v<Decision> + 1 == kKinds);

TEST(Journal, EveryNumberReadsBackBitByBit) {
  const bool holds = rc::check([] {
    const JobReport report = any_report();
    const auto back = read(write({{Time(), Event(report)}}));
    RC_ASSERT(back.has_value());
    const auto& again = std::get<JobReport>(std::get<Event>(back->at(0).what));
    for (const auto number : {&JobReport::speed, &JobReport::fraction_done, &JobReport::steps_done}) {
      RC_ASSERT(std::bit_cast<std::uint64_t>(again.*number) == std::bit_cast<std::uint64_t>(report.*number));
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace ebb::trace
