#include "ebb/wire/contract.h"

#include <ebb/v1/worker.pb.h>

#include <algorithm>

#include "ebb/base/check.h"

namespace ebb::wire {
namespace {

std::string framed(const google::protobuf::MessageLite& message) {
  std::string out(4, '\0');
  const std::string body = message.SerializeAsString();
  EBB_CHECK(body.size() <= kMaxFrameBytes);
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(body.size() >> (8 * (3 - i)) & 0xff);
  return out + body;
}

std::uint64_t ns(Duration duration) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, duration.count()));
}
Duration duration(std::uint64_t ns) {
  return Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(ns, INT64_MAX)));
}

struct PutOrder {
  v1::ToWorker& out;

  void operator()(const TargetOrder& order) const {
    v1::Target& target = *out.mutable_target();
    target.set_revision(order.revision);
    target.set_within_ns(ns(order.within));
    target.set_reason(order.reason);
    for (const TargetMember& from : order.members) {
      v1::Member& member = *target.add_members();
      member.set_worker(from.worker);
      member.set_node(from.node);
      member.set_joins(from.joins);
      for (const std::int32_t slot : from.slots) member.add_slots(slot);
    }
  }
  void operator()(const CheckpointOrder& order) const { out.mutable_checkpoint_now()->set_within_ns(ns(order.within)); }
  void operator()(const Acknowledged& order) const { out.set_acknowledged(order.number); }
};

struct PutReport {
  v1::FromWorker& out;

  void operator()(const Ready&) const { out.mutable_ready(); }
  void operator()(const Switched& report) const {
    v1::Switched& to = *out.mutable_switched();
    to.set_revision(report.revision);
    to.set_generation(report.generation);
    for (const WorkerId& member : report.members) to.add_members(member);
  }
  void operator()(const Drained& report) const { out.mutable_drained()->set_worker(report.worker); }
  void operator()(const Refused& report) const {
    out.mutable_refused()->set_revision(report.revision);
    out.mutable_refused()->set_why(report.why);
  }
  void operator()(const Progress& report) const {
    v1::Progress& to = *out.mutable_progress();
    to.set_step(report.step);
    to.set_samples(report.samples);
    if (report.loss) to.set_loss(*report.loss);
    for (const auto& [name, took] : report.phases) {
      v1::Phase& phase = *to.add_phases();
      phase.set_name(name);
      phase.set_ns(ns(took));
    }
    if (report.noise_scale) to.set_noise_scale(*report.noise_scale);
    to.set_checkpoint(report.checkpoint);
    if (report.checkpoint_age) to.set_checkpoint_age_ns(ns(*report.checkpoint_age));
  }
  void operator()(const Load& report) const {
    v1::Load& to = *out.mutable_load();
    to.set_requests_per_second(report.requests_per_second);
    to.set_queue(report.queue);
    to.set_p99_ns(ns(report.p99));
  }
  void operator()(const Connected&) const { EBB_CHECK(false && "no worker says this"); }
};

TargetOrder target_from(const v1::Target& in) {
  TargetOrder order{in.revision(), {}, duration(in.within_ns()), in.reason()};
  for (const v1::Member& member : in.members()) {
    order.members.push_back(
        {member.worker(), member.node(), {member.slots().begin(), member.slots().end()}, member.joins()});
  }
  return order;
}

Progress progress_from(const v1::Progress& in) {
  Progress out;
  out.step = in.step();
  out.samples = in.samples();
  if (in.has_loss()) out.loss = in.loss();
  for (const v1::Phase& phase : in.phases()) out.phases[phase.name()] = duration(phase.ns());
  if (in.has_noise_scale()) out.noise_scale = in.noise_scale();
  out.checkpoint = in.checkpoint();
  if (in.has_checkpoint_age_ns()) out.checkpoint_age = duration(in.checkpoint_age_ns());
  return out;
}

/// False if it is no report.
bool read_report(const v1::FromWorker& in, Report& out) {
  switch (in.what_case()) {
    case v1::FromWorker::kReady:
      out = Ready{};
      return true;
    case v1::FromWorker::kSwitched:
      out = Switched{in.switched().revision(),
                     in.switched().generation(),
                     {in.switched().members().begin(), in.switched().members().end()}};
      return true;
    case v1::FromWorker::kDrained:
      out = Drained{in.drained().worker()};
      return true;
    case v1::FromWorker::kRefused:
      out = Refused{in.refused().revision(), in.refused().why()};
      return true;
    case v1::FromWorker::kProgress:
      out = progress_from(in.progress());
      return true;
    case v1::FromWorker::kLoad:
      out = Load{in.load().requests_per_second(), in.load().queue(), duration(in.load().p99_ns())};
      return true;
    case v1::FromWorker::kHello:
    case v1::FromWorker::WHAT_NOT_SET:
      break;
  }
  return false;
}

tl::unexpected<Error> unreadable() {
  return fail(ErrorCode::invalid_argument, "a message that is none of the worker contract");
}

}  // namespace

bool is_answer(const Report& report) {
  return std::holds_alternative<Ready>(report) || std::holds_alternative<Switched>(report) ||
         std::holds_alternative<Drained>(report) || std::holds_alternative<Refused>(report);
}

std::string frame(const Hello& hello) {
  v1::FromWorker message;
  message.mutable_hello()->set_version(hello.version);
  message.mutable_hello()->set_worker(hello.worker);
  message.mutable_hello()->set_secret(hello.secret);
  return framed(message);
}

std::string frame(const Welcome& welcome) {
  v1::ToWorker message;
  message.mutable_welcome()->set_version(welcome.version);
  return framed(message);
}

std::string frame(const Order& order) {
  v1::ToWorker message;
  std::visit(PutOrder{message}, order);
  return framed(message);
}

std::string frame(std::uint64_t number, const Report& report) {
  v1::FromWorker message;
  message.set_number(number);
  std::visit(PutReport{message}, report);
  return framed(message);
}

Result<std::variant<Welcome, Order>> decode_to_worker(std::string_view bytes) {
  v1::ToWorker message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return unreadable();
  switch (message.what_case()) {
    case v1::ToWorker::kWelcome:
      return Welcome{message.welcome().version()};
    case v1::ToWorker::kTarget:
      return Order(target_from(message.target()));
    case v1::ToWorker::kCheckpointNow:
      return Order(CheckpointOrder{duration(message.checkpoint_now().within_ns())});
    case v1::ToWorker::kAcknowledged:
      return Order(Acknowledged{message.acknowledged()});
    case v1::ToWorker::WHAT_NOT_SET:
      break;
  }
  return unreadable();
}

Result<std::variant<Hello, WorkerReport>> decode_from_worker(std::string_view bytes) {
  v1::FromWorker message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return unreadable();
  if (message.has_hello()) {
    return Hello{message.hello().version(), message.hello().worker(), message.hello().secret()};
  }
  WorkerReport said;
  said.number = message.number();
  if (!read_report(message, said.report)) return unreadable();
  return said;
}

Result<std::optional<std::string>> FrameReader::next() {
  if (bytes_.size() < 4) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes_[i]);
  if (length > kMaxFrameBytes) {
    return fail(ErrorCode::invalid_argument, "a frame of {} bytes; the most is {}", length, kMaxFrameBytes);
  }
  if (bytes_.size() < 4 + length) return std::nullopt;
  std::string message = bytes_.substr(4, length);
  bytes_.erase(0, 4 + length);
  return message;
}

}  // namespace ebb::wire
