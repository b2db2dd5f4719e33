#include "ebb/perf/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ebb/base/files.h"
#include "ebb/perf/profile_tables.h"

namespace ebb::perf {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Placement = std::vector<GpuCount>;

const Profile& built_in(std::string_view name) {
  const Profile* profile = ProfileSet::built_in().find(name);
  EXPECT_NE(profile, nullptr) << name;
  return *profile;
}

/// The figures of the reference have ten digits.
void expect_times(std::string_view name, const Placement& placement, BatchSize local, double step, double sync,
                  Source source) {
  const StepTimes times = built_in(name).step_times(placement, local);
  EXPECT_NEAR(times.step_s, step, 6e-9) << name;
  EXPECT_NEAR(times.sync_s, sync, 6e-9) << name;
  EXPECT_EQ(times.source, source) << name;
}

TEST(Profile, StepTimesOfMeasuredPlacements) {
  expect_times("cifar10", {4, 4, 2}, 100, 0.1851207049, 0.1036169941, Source::measured);
  expect_times("cifar10", {2, 4, 4}, 100, 0.1851207049, 0.1036169941, Source::measured);
  expect_times("cifar10", {4, 2, 4}, 100, 0.1851207049, 0.1036169941, Source::measured);
  expect_times("bert", {3, 1}, 7, 2.0005623922, 1.4184138260, Source::measured);
  expect_times("deepspeech2", {4, 4, 1}, 33, 1.3322685026, 0.3157042531, Source::measured);
  expect_times("yolov3", {2}, 7, 0.4092294946, 0.0280935461, Source::measured);
  expect_times("ncf", {1}, 32768, 0.0213155323, 0.0003458699, Source::measured);
}

TEST(Profile, StepTimesBetweenMeasuredPlacements) {
  expect_times("cifar10", Placement(5, 4), 100, 0.17808349, 0.09370467, Source::interpolated);
  expect_times("bert", Placement(10, 4), 9, 1.90158273, 1.18393811, Source::interpolated);
  expect_times("imagenet", Placement(5, 1), 100, 0.54748986, 0.03916909, Source::interpolated);
  expect_times("imagenet", Placement(8, 4), 150, 0.8214675258, 0.0719346918, Source::interpolated);
}

TEST(Profile, MeasuredValuesComeBackAsTheyAre) {
  // placements.csv of bert: "1,4" and "4444,12"; scalability.csv: "6,6,4".
  expect_times("bert", {1}, 4, 0.45532354712486267, 0.013738612174987792, Source::measured);
  expect_times("bert", {4, 4, 4, 4}, 12, 1.8881946355104446, 0.9953583183288576, Source::measured);
  expect_times("bert", Placement(6, 1), 4, 1.4923269003629684, 1.0928203125, Source::interpolated);
}

TEST(Profile, LocalBatchOutsideTheTableIsTakenAtItsEnd) {
  const Profile& ncf = built_in("ncf");
  const StepTimes end = ncf.step_times(Placement(4, 4), 2051);
  EXPECT_EQ(end.source, Source::measured);
  const StepTimes beyond = ncf.step_times(Placement(4, 4), 32768);
  EXPECT_EQ(beyond.source, Source::clamped);
  EXPECT_EQ(beyond.step_s, end.step_s);
  EXPECT_EQ(ncf.step_times(Placement{1}, 1).step_s, ncf.step_times(Placement{1}, 32).step_s);

  const Profile& deepspeech2 = built_in("deepspeech2");
  const StepTimes small = deepspeech2.step_times(Placement(16, 4), 5);
  EXPECT_EQ(small.source, Source::clamped);
  EXPECT_NEAR(small.step_s, 1.1939810514450073, 1e-12);
}

TEST(Profile, MoreThanSixteenNodesCountAsSixteen) {
  const Profile& bert = built_in("bert");
  Placement spread(40, 1);
  spread.resize(37);
  spread.back() = 4;
  const StepTimes many = bert.step_times(spread, 8);
  Placement sixteen(16, 2);
  std::fill(sixteen.begin(), sixteen.begin() + 8, 3);
  EXPECT_EQ(many.source, Source::interpolated);
  EXPECT_EQ(many.step_s, bert.step_times(sixteen, 8).step_s);
}

TEST(Profile, OutsideTheHullTheFitAnswers) {
  const Profile& cifar10 = built_in("cifar10");
  for (const Placement& placement : {Placement{16}, Placement{12, 12}, Placement(64, 8)}) {
    const StepTimes times = cifar10.step_times(placement, 128);
    EXPECT_EQ(times.source, Source::fitted);
    EXPECT_GT(times.step_s, times.sync_s);
    EXPECT_GE(times.sync_s, 0);
  }
  // Twelve GPUs of one node are not the digits of one and two.
  EXPECT_EQ(cifar10.step_times(Placement{1, 2}, 128).source, Source::measured);
  EXPECT_EQ(cifar10.step_times(Placement{12}, 128).source, Source::fitted);
}

TEST(Profile, AccumulationRepeatsTheComputation) {
  const StepTimes times{.step_s = 3, .sync_s = 1, .source = Source::measured};
  EXPECT_EQ(times.with(0), 3);
  EXPECT_EQ(times.with(2), 7);
}

TEST(Profile, Gains) {
  const std::tuple<const char*, double, std::int32_t, double> cases[] = {
      {"cifar10", 1000, 3, 4.0261379923},     {"bert", 100, 1, 8.2338985061},   {"imagenet", 5000, 45, 22.0288173854},
      {"deepspeech2", 100, 10, 4.6331227253}, {"yolov3", 48, 20, 5.4988409932}, {"ncf", 32768, 5, 127.4898191963},
  };
  for (const auto& [name, batch, epoch, gain] : cases) {
    EXPECT_NEAR(built_in(name).gain(batch, epoch), gain, 6e-10 * gain) << name;
    EXPECT_NEAR(built_in(name).gain(built_in(name).limits().initial, epoch), 1, 1e-15) << name;
  }
}

TEST(Profile, TotalProgress) {
  const std::tuple<const char*, std::int32_t, double> cases[] = {
      {"bert", 2, 14774},           {"cifar10", 100, 39062.908}, {"ncf", 10, 194174},
      {"imagenet", 90, 576525.595}, {"deepspeech2", 80, 28536},  {"yolov3", 50, 103443.978},
  };
  for (const auto& [name, epochs, progress] : cases) {
    const Profile& profile = built_in(name);
    EXPECT_EQ(profile.epochs(), epochs) << name;
    EXPECT_NEAR(profile.progress_after(epochs), progress, 6e-4) << name;
    for (std::int32_t e = 1; e < epochs; ++e) EXPECT_LT(profile.progress_after(e), profile.progress_after(e + 1));
  }
}

TEST(Profile, StatisticsBetweenTables) {
  const Profile& bert = built_in("bert");
  // validation-12.csv and validation-24.csv, first row.
  const GradientStats small = bert.gradient(12, 0);
  EXPECT_EQ(small.sqr, 195590723287826.75);
  EXPECT_EQ(small.var, 6894015304034181.0);
  const GradientStats larger = bert.gradient(24, 0);
  const GradientStats between = bert.gradient(15, 0);
  EXPECT_DOUBLE_EQ(between.sqr, 0.75 * small.sqr + 0.25 * larger.sqr);
  EXPECT_DOUBLE_EQ(between.var, 0.75 * small.var + 0.25 * larger.var);
  EXPECT_EQ(bert.gradient(1, -3), small);
  EXPECT_EQ(bert.gradient(10000, 99), bert.gradient(384, 1));
  EXPECT_EQ(bert.iterations(12, 0), 7387);
  EXPECT_EQ(bert.iterations(12, 1), 14774);
  EXPECT_DOUBLE_EQ(bert.iterations(15, 0), 0.75 * 7387 + 0.25 * bert.iterations(24, 0));
}

TEST(ProfileSet, BuiltInApplications) {
  const ProfileSet& set = ProfileSet::built_in();
  EXPECT_THAT(set.names(), ElementsAre("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"));
  EXPECT_EQ(set.find("resnet"), nullptr);
  EXPECT_EQ(built_in("bert").limits(), (BatchLimits{12, 384, 4, 12}));
  EXPECT_EQ(built_in("cifar10").limits(), (BatchLimits{128, 4096, 32, 1024}));
  EXPECT_EQ(built_in("ncf").limits(), (BatchLimits{256, 32768, 32, 32768}));
  EXPECT_EQ(built_in("imagenet").limits(), (BatchLimits{200, 12800, 20, 200}));
  EXPECT_EQ(built_in("deepspeech2").limits(), (BatchLimits{20, 640, 10, 80}));
  EXPECT_EQ(built_in("yolov3").limits(), (BatchLimits{8, 512, 4, 8}));
  EXPECT_EQ(built_in("bert").costs(), (ApplicationCosts{103, 5, 1, 8}));
  EXPECT_EQ(built_in("deepspeech2").costs(), (ApplicationCosts{18, 1, 1, 4}));
}

RC_GTEST_PROP(CanonicalPlacement, IsTheSmallestRotation, ()) {
  const auto placement = *rc::gen::nonEmpty(rc::gen::container<Placement>(rc::gen::inRange(1, 4)));
  Placement turned = placement;
  Placement smallest = placement;
  for (std::size_t i = 0; i < placement.size(); ++i) {
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
    smallest = std::min(smallest, turned);
  }
  RC_ASSERT(canonical_placement(placement) == smallest);
}

/// A folder of tables that are right, to spoil one at a time.
class ProfileFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("ebb_profile_test_{}", ::getpid());
    folder_ = root_ / "toy";
    fs::create_directories(folder_);
    put("placements.csv", kPlacements);
    put("validation-8.csv", kValidation);
    put("validation-16.csv", kValidation);
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& name, std::string_view text) const {
    ASSERT_TRUE(write_file_atomically(folder_ / name, text).has_value());
  }
  Result<Profile> read() const { return Profile::read(folder_); }
  void expect_error(std::string_view where, std::string_view what) const {
    const auto profile = read();
    ASSERT_FALSE(profile.has_value());
    EXPECT_THAT(profile.error().message, HasSubstr(where.empty() ? folder_.string() : (folder_ / where).string()));
    EXPECT_THAT(profile.error().message, HasSubstr(std::string(what)));
  }
  void expect_placement_error(std::string_view rows, std::string_view where, std::string_view what) const {
    put("placements.csv", "placement,local_bsz,step_time,sync_time\n" + std::string(rows));
    expect_error(where, what);
  }

  static constexpr std::string_view kPlacements =
      "placement,local_bsz,step_time,sync_time\n"
      "1,2,1.0,0\n1,4,2.0,0\n2,2,1.5,0.5\n2,4,2.5,0.5\n11,2,2,1\n11,4,3,1";
  static constexpr std::string_view kValidation =
      "progress,iteration,metric,grad_sqr,grad_var\n10,10,,1,4\n20,20,,1,8\n";
  fs::path root_;
  fs::path folder_;
};

TEST_F(ProfileFolder, ReadsWhatIsThere) {
  const auto profile = read();
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->name(), "toy");
  EXPECT_EQ(profile->limits(), (BatchLimits{8, 16, 2, 4}));
  EXPECT_EQ(profile->costs(), ApplicationCosts());
  EXPECT_EQ(profile->epochs(), 2);
  const StepTimes times = profile->step_times(Placement{1, 1}, 3);
  EXPECT_EQ(times.step_s, 2.5);
  EXPECT_EQ(times.sync_s, 1);
  // Two placements of two GPUs and one of one are a hull; three GPUs are outside it.
  EXPECT_EQ(profile->step_times(Placement{3}, 3).source, Source::fitted);
  EXPECT_EQ(Profile::read(folder_ / "")->name(), "toy");
}

TEST_F(ProfileFolder, TablesInOnePlaneHaveNoHull) {
  put("placements.csv", "placement,local_bsz,step_time,sync_time\n1,2,1,0\n");
  const auto profile = read();
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->step_times(Placement{1}, 2).source, Source::measured);
  EXPECT_EQ(profile->step_times(Placement{2}, 2).source, Source::fitted);
}

TEST_F(ProfileFolder, ColumnsInAnyOrderAndOthersBetween) {
  put("placements.csv", "note,sync_time,placement,step_time,local_bsz\r\nx,0.5,21,1.5,2\r\n\r\ny,0.5,21,2.5,4");
  const auto profile = read();
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->step_times(Placement{2, 1}, 3).step_s, 2);
}

TEST_F(ProfileFolder, ConstantsOfTheFolderOrOfTheBuiltInOne) {
  put("constants.csv", "local_min,local_max,restart_s,afe_next_s,stop_free_s,cold_start_s\n1,8,10,2.5,0,4\n");
  EXPECT_EQ(read()->limits(), (BatchLimits{8, 16, 1, 8}));
  EXPECT_EQ(read()->costs(), (ApplicationCosts{10, 2.5, 0, 4}));
  fs::remove(folder_ / "constants.csv");
  fs::rename(folder_, root_ / "yolov3");
  const auto named = Profile::read(root_ / "yolov3");
  ASSERT_TRUE(named.has_value()) << named.error().message;
  EXPECT_EQ(named->limits(), (BatchLimits{8, 16, 4, 8}));
  EXPECT_EQ(named->costs(), (ApplicationCosts{26, 3, 1, 6}));
}

TEST_F(ProfileFolder, OriginalPlacementsGoFirst) {
  put("origin_placements.csv", "placement,local_bsz,step_time,sync_time\n1,2,7,0\n");
  EXPECT_EQ(read()->step_times(Placement{1}, 2).step_s, 7);
}

TEST_F(ProfileFolder, BadPlacements) {
  expect_placement_error("1,2,1,0\n1,4,,0\n", "placements.csv:3: column 'step_time'", "'' is empty");
  expect_placement_error("1,2,1,0\n1,4,1\n", "placements.csv:3", "the row has 3 fields, the header 4");
  expect_placement_error("1,2,nan,0\n", "placements.csv:2: column 'step_time'", "'nan' is not finite");
  expect_placement_error("1,2,fast,0\n", "placements.csv:2: column 'step_time'", "'fast' is not a number");
  expect_placement_error("1,2,-1,0\n", "placements.csv:2: column 'step_time'", "'-1' is outside 0 to 86400");
  expect_placement_error("1,2,1,-0.5\n", "placements.csv:2: column 'sync_time'", "'-0.5' is outside");
  expect_placement_error("1,2,1,1\n", "placements.csv:2: column 'sync_time'", "is not less than step_time, 1");
  expect_placement_error("1,2,0,0\n1,4,1,0\n", "placements.csv:2: column 'step_time'", "'0' is not above 0");
  expect_placement_error("1,0,1,0\n", "placements.csv:2: column 'local_bsz'", "'0' is outside 1 to");
  expect_placement_error("1,2.5,1,0\n", "placements.csv:2: column 'local_bsz'", "'2.5' is not a whole number");
  expect_placement_error("104,2,1,0\n", "placements.csv:2: column 'placement'", "'104' is not a placement");
  expect_placement_error(",2,1,0\n", "placements.csv:2: column 'placement'", "'' is not a placement");
  expect_placement_error("21,2,1,0\n12,2,1,0\n", "placements.csv:3: column 'local_bsz'", "in line 2 too");
  expect_placement_error("", "placements.csv", "no row below the header");
}

TEST_F(ProfileFolder, BadHeaders) {
  put("placements.csv", "");
  expect_error("placements.csv", "the file is empty");
  put("placements.csv", "placement,local_bsz,step_time\n1,2,1\n");
  expect_error("placements.csv:1", "column 'sync_time' is missing; the header has: placement, local_bsz, step_time");
  put("placements.csv", "placement,local_bsz,step_time,sync_time,step_time\n1,2,1,0,1\n");
  expect_error("placements.csv:1", "column 'step_time' is there twice");
}

TEST_F(ProfileFolder, BadScalability) {
  const auto expect = [&](std::string_view rows, std::string_view where, std::string_view what) {
    put("scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n" + std::string(rows));
    expect_error(where, what);
  };
  expect("8,4,2,1,0\n", "scalability.csv:2: column 'num_replicas'", "'4' is less than num_nodes, 8");
  expect("8,8,2,0,0\n", "scalability.csv:2: column 'step_time'", "'0' is not above 0");
  expect("8,8,2,1,0\n8,8,2,2,0\n", "scalability.csv:3: column 'local_bsz'", "in line 2 too");
  expect("", "scalability.csv", "no row below the header");
}

TEST_F(ProfileFolder, BadValidation) {
  const auto expect = [&](std::string_view rows, std::string_view where, std::string_view what) {
    put("validation-16.csv", "progress,iteration,metric,grad_sqr,grad_var\n" + std::string(rows));
    expect_error(where, what);
  };
  expect("10,10,,1,4\n", "validation-16.csv", "1 rows, but " + (folder_ / "validation-8.csv").string() + " has 2");
  expect("10,10,,1,4\n10,20,,1,4\n", "validation-16.csv:3: column 'progress'", "'10' is not above");
  expect("10,10,,1,4\n20,5,,1,4\n", "validation-16.csv:3: column 'iteration'", "'5' is not above");
  expect("10,10,,1,4\n20,20,,-1,4\n", "validation-16.csv:3: column 'grad_sqr'", "'-1' is outside");
  expect("10,10,,1,4\n20,20,,1,inf\n", "validation-16.csv:3: column 'grad_var'", "'inf' is not finite");
  expect("10,10,,0,0\n20,20,,1,4\n", "validation-16.csv:2: column 'grad_var'", "and so is grad_sqr");
  expect("", "validation-16.csv", "no row below the header");
  fs::rename(folder_ / "validation-16.csv", folder_ / "validation-x.csv");
  expect_error("", ": the name of 'validation-x.csv' holds no batch size");
}

TEST_F(ProfileFolder, BadConstants) {
  const auto expect = [&](std::string_view rows, std::string_view where, std::string_view what) {
    put("constants.csv", "local_min,local_max,restart_s,afe_next_s,stop_free_s,cold_start_s\n" + std::string(rows));
    expect_error(where, what);
  };
  expect("9,8,10,2,1,4\n", "constants.csv:2: column 'local_min'", "'9' is above local_max, 8");
  expect("17,18,10,2,1,4\n", "constants.csv:2: column 'local_min'", "'17' is above the largest global batch, 16");
  expect("1,8,10,-2,1,4\n", "constants.csv:2: column 'afe_next_s'", "'-2' is outside");
  expect("1,8,10,2,1,4\n1,8,10,2,1,4\n", "constants.csv:3", "the file has one");
}

TEST_F(ProfileFolder, MissingFiles) {
  const auto missing = [&](const fs::path& folder, std::string_view what) {
    const auto profile = Profile::read(folder);
    ASSERT_FALSE(profile.has_value());
    EXPECT_EQ(profile.error().code, ErrorCode::not_found);
    EXPECT_THAT(profile.error().message, HasSubstr(std::string(what)));
  };
  missing(root_ / "other", "no such folder");
  missing(root_, "neither origin_placements.csv nor placements.csv");
  fs::remove(folder_ / "validation-8.csv");
  fs::remove(folder_ / "validation-16.csv");
  missing(folder_, "no validation-<global batch>.csv");
  EXPECT_THAT(Profile::read(folder_ / "placements.csv").error().message, HasSubstr("not a folder"));
}

TEST_F(ProfileFolder, ASetLeavesOutPlaceholdersAndOtherFolders) {
  fs::create_directories(root_ / "notes");
  fs::create_directories(root_ / "infer");
  ASSERT_TRUE(write_file_atomically(root_ / "README.md", "a file").has_value());
  ASSERT_TRUE(
      write_file_atomically(root_ / "infer" / "placements.csv", "placement,local_bsz,step_time,sync_time\n1,1,0,0")
          .has_value());
  ASSERT_TRUE(write_file_atomically(root_ / "infer" / "validation-1.csv",
                                    "progress,iteration,metric,grad_sqr,grad_var\n1,1,0,0,0")
                  .has_value());
  const auto set = ProfileSet::read(root_);
  ASSERT_TRUE(set.has_value()) << set.error().message;
  EXPECT_THAT(set->names(), ElementsAre("toy"));
  EXPECT_THAT(Profile::read(root_ / "infer").error().message, HasSubstr("all step times are 0"));

  fs::remove(folder_ / "placements.csv");
  EXPECT_EQ(ProfileSet::read(root_).error().code, ErrorCode::not_found);
  fs::remove_all(folder_);
  EXPECT_THAT(ProfileSet::read(root_).error().message, HasSubstr("no profile in it"));
}

}  // namespace
}  // namespace ebb::perf
