#include "ebb/policies/backfill/estimate_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace ebb::policies {
namespace {

RC_GTEST_PROP(EstimateQueueProperty, FindsTheFirstThatIsShortEnough, ()) {
  EstimateQueue queue;
  std::map<sched::QueueKey, Duration> naive;
  const auto changes = *rc::gen::inRange(0, 200);
  for (int i = 0; i < changes; ++i) {
    const sched::QueueKey key{*rc::gen::inRange(-2, 3), *rc::gen::inRange<JobId>(0, 100)};
    if (*rc::gen::inRange(0, 3) == 0) {
      queue.erase(key);
      naive.erase(key);
    } else if (!naive.contains(key)) {
      const Duration estimate(*rc::gen::inRange(0, 50));
      queue.insert({key, estimate});
      naive[key] = estimate;
    }
    const Duration limit(*rc::gen::inRange(-1, 50));
    std::optional<sched::QueueKey> expected;
    for (const auto& [k, estimate] : naive) {
      if (estimate <= limit) {
        expected = k;
        break;
      }
    }
    RC_ASSERT(queue.first_at_most(limit) == expected);
  }
}

}  // namespace
}  // namespace ebb::policies
