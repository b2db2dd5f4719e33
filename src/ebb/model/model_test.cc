#include <gtest/gtest.h>

#include "ebb/model/cluster.h"
#include "ebb/model/job.h"
#include "ebb/model/reason.h"

namespace ebb {
namespace {

TEST(Model, SumsGpus) {
  EXPECT_EQ(gpus_in({{0, 3}, {4, 8}}), 11);
  EXPECT_EQ((ClusterSpec{{{"a", 4, "", ""}, {"b", 8, "", ""}}}.total_gpus()), 12);
}

TEST(Reason, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(ReasonCode::impossible); ++i) {
    const auto code = static_cast<ReasonCode>(i);
    EXPECT_EQ(reason_code_from(to_string(code)), code);
  }
  EXPECT_FALSE(reason_code_from("because"));
}

TEST(Reason, SaysWhatIsMissing) {
  EXPECT_EQ(describe({ReasonCode::no_capacity, 8, 3, {}, {}}), "needs 8 GPUs, 3 of those it may use are free");
  EXPECT_NE(describe({ReasonCode::behind_head, 1, 3, 17, Time(std::chrono::seconds(60))})
                .find("(job 17); expected to start at 60 s"),
            std::string::npos);
}

}  // namespace
}  // namespace ebb
