#pragma once

/// For tests: a profile whose figures can be computed by hand.
///
///   placement   local batch 10   local batch 20   of it synchronising
///   1 GPU            1 s             1.5 s              0
///   2 on a node      1.25            1.75               0.25
///   1 + 1            1.5             2                  0.5
///
/// Two epochs of 100 iterations at a batch of 10; variance and squared norm of the gradient are equal: an iteration of
/// 20 samples counts 4/3. One GPU takes 10 to 20 samples, all together 20 at most.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ebb/base/files.h"
#include "ebb/perf/profile.h"

namespace ebb::sim {

inline perf::ProfileSet test_profiles() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("ebb_test_profile_{}", ::getpid());
  fs::create_directories(folder / "toy");
  const auto write = [&](const char* name, const char* text) {
    EXPECT_TRUE(write_file_atomically(folder / "toy" / name, text));
  };
  write("placements.csv",
        "placement,local_bsz,step_time,sync_time\n1,10,1,0\n1,20,1.5,0\n2,10,1.25,0.25\n2,20,1.75,0.25\n11,10,1.5,0.5\n"
        "11,20,2,0.5\n");
  write("validation-10.csv", "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,1,1\n200,200,0,1,1\n");
  write("validation-20.csv", "progress,iteration,metric,grad_sqr,grad_var\n100,75,0,1,1\n200,150,0,1,1\n");
  write("constants.csv",
        "local_min,local_max,restart_s,afe_next_s,stop_free_s,cold_start_s,max_gpus,fixed_batch\n10,20,24,3,1,8,0,0\n");
  auto profiles = perf::ProfileSet::read(folder).value();
  fs::remove_all(folder);
  return profiles;
}

}  // namespace ebb::sim
