// The C functions of include/ebb_sdk/worker.h: each is one of WorkerClient.

#include <ebb_sdk/worker.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "ebb/wire/worker_client.h"

#define EBB_EXPORT extern "C" __attribute__((visibility("default")))

using ebb::wire::WorkerClient;

struct ebb_worker {
  std::unique_ptr<WorkerClient> client;
  // What the last target points into.
  ebb::wire::TargetOrder order;
  std::vector<ebb_member> members;
  ebb_target target{};
};

namespace {

std::chrono::milliseconds patience(int64_t timeout_ms) {
  // A condition variable may overflow on longer ones.
  constexpr int64_t kLongest = int64_t{365} * 24 * 3'600 * 1'000;
  return std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, 0, kLongest));
}

std::string text(const char* value) {
  return value == nullptr ? "" : value;
}

std::optional<double> known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

}  // namespace

EBB_EXPORT int ebb_worker_abi(void) {
  return EBB_WORKER_ABI;
}

EBB_EXPORT ebb_worker* ebb_worker_open(char* error, size_t size) {
  auto client = WorkerClient::from_environment();
  if (!client) {
    if (error != nullptr && size > 0) std::snprintf(error, size, "%s", client.error().message.c_str());
    return nullptr;
  }
  return new ebb_worker{std::move(*client), {}, {}, {}};
}

EBB_EXPORT void ebb_worker_close(ebb_worker* worker) {
  delete worker;
}

EBB_EXPORT const char* ebb_worker_id(const ebb_worker* worker) {
  return worker->client->worker().c_str();
}

EBB_EXPORT enum ebb_order ebb_worker_next(ebb_worker* worker, int64_t timeout_ms, const ebb_target** target) {
  auto order = worker->client->next(patience(timeout_ms));
  if (!order) return EBB_ORDER_NONE;
  auto* the_target = std::get_if<ebb::wire::TargetOrder>(&*order);
  if (the_target == nullptr) return EBB_ORDER_CHECKPOINT;
  worker->order = std::move(*the_target);
  worker->members.clear();
  for (const ebb::wire::TargetMember& member : worker->order.members) {
    worker->members.push_back(
        {member.worker.c_str(), member.node.c_str(), member.slots.data(), member.slots.size(), member.joins ? 1 : 0});
  }
  worker->target = {worker->order.revision, worker->members.data(), worker->members.size(),
                    worker->order.within.count(), worker->order.reason.c_str()};
  if (target != nullptr) *target = &worker->target;
  return EBB_ORDER_TARGET;
}

EBB_EXPORT void ebb_worker_ready(ebb_worker* worker) {
  worker->client->ready();
}

EBB_EXPORT void ebb_worker_switched(ebb_worker* worker, uint64_t revision, uint64_t generation,
                                    const char* const* members, size_t count) {
  worker->client->switched(revision, generation, {members, members + count});
}

EBB_EXPORT void ebb_worker_drained(ebb_worker* worker, const char* who) {
  worker->client->drained(text(who));
}

EBB_EXPORT void ebb_worker_refused(ebb_worker* worker, uint64_t revision, const char* why) {
  worker->client->refused(revision, text(why));
}

EBB_EXPORT void ebb_worker_report(ebb_worker* worker, const ebb_progress* progress) {
  ebb::wire::Progress report;
  report.step = progress->step;
  report.samples = progress->samples;
  report.loss = known(progress->loss);
  report.noise_scale = known(progress->noise_scale);
  report.checkpoint = text(progress->checkpoint);
  if (progress->checkpoint_age_ns >= 0) report.checkpoint_age = ebb::Duration(progress->checkpoint_age_ns);
  worker->client->progress(std::move(report));
}

EBB_EXPORT int ebb_worker_flush(ebb_worker* worker, int64_t timeout_ms) {
  return worker->client->flush(patience(timeout_ms)) ? 0 : -1;
}
