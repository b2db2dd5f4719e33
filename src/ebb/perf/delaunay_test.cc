#include "ebb/perf/delaunay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "ebb/base/files.h"
#include "ebb/perf/profile_files.h"
#include "ebb/perf/profile_tables.h"

namespace ebb::perf {
namespace {

using ::testing::HasSubstr;
using Points = std::vector<Delaunay::Point>;

std::map<std::string, std::shared_ptr<const ProfileTables>> built_in_tables() {
  std::map<std::string, std::shared_ptr<const ProfileTables>> tables;
  for (ProfileFiles& files : built_in_profile_files()) {
    const std::string name = files.name;
    tables[name] = read_profile_tables(std::move(files)).value();
  }
  return tables;
}

// Each query with the value and the simplex by which a simulation gives Pollux's published averages.
TEST(Delaunay, AnswersThePublishedQueries) {
  const auto tables = built_in_tables();
  const std::filesystem::path path = EBB_SOURCE_DIR "/testdata/pollux/delaunay_queries.csv";
  const TableFile file{path.string(), read_file(path).value()};
  int queries = 0;
  const auto visit = [&](const TableRow& row) -> Result<void> {
    const ProfileTables& profile = *tables.at(std::string(row.text(0)));
    const auto at = profile.hull->locate(
        {row.integer(1, 1, 16).value(), row.integer(2, 1, 64).value(), row.integer(3, 1, 1000).value()});
    EXPECT_TRUE(at.has_value()) << "line " << row.line();
    if (!at) return {};
    const double step = row.number(4, 0, 100).value();
    const double sync = row.number(5, 0, 100).value();
    EXPECT_EQ(at->simplex, row.integer(6, 0, 10000).value()) << "line " << row.line();
    EXPECT_NEAR(at->interpolate(profile.step_s), step, 1e-12 * step) << "line " << row.line();
    EXPECT_NEAR(at->interpolate(profile.sync_s), sync, 1e-12 * sync) << "line " << row.line();
    ++queries;
    return {};
  };
  const auto read =
      read_table(file, {"app", "nodes", "replicas", "local_bsz", "step_time", "sync_time", "simplex"}, visit);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(queries, 474);
}

// Another version of libqhull, or other options, would show here first.
TEST(Delaunay, TriangulatesAsThePublishedSimulatorDid) {
  const auto tables = built_in_tables();
  EXPECT_EQ(tables.at("bert")->hull->size(), 1661);
  EXPECT_EQ(tables.at("cifar10")->hull->size(), 3914);
  EXPECT_EQ(tables.at("imagenet")->hull->size(), 2925);
  EXPECT_EQ(tables.at("deepspeech2")->hull->size(), 2308);
}

TEST(Delaunay, InterpolatesInATetrahedron) {
  const Points points{{0, 0, 0}, {4, 0, 0}, {0, 4, 0}, {0, 0, 4}};
  const auto made = Delaunay::triangulate(points);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->size(), 1);
  const auto at = made->locate({1, 1, 1});
  ASSERT_TRUE(at.has_value());
  EXPECT_DOUBLE_EQ(at->interpolate(std::vector<double>{8, 12, 16, 24}), 15);
  EXPECT_FALSE(made->locate({2, 2, 2}).has_value());
  EXPECT_FALSE(made->locate({5, 0, 0}).has_value());
}

TEST(Delaunay, RefusesWhatSpansNoVolume) {
  for (const Points& points : {Points{}, Points{{1, 2, 3}}, Points{{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {9, 9, 9}},
                               Points{{0, 0, 5}, {1, 0, 5}, {0, 1, 5}, {1, 1, 5}, {7, 3, 5}}}) {
    EXPECT_EQ(Delaunay::triangulate(points).error().code, ErrorCode::failed_precondition);
  }
  for (const int bits : {22, 26}) {
    const std::int64_t far = std::int64_t{1} << bits;
    const auto wide = Delaunay::triangulate(Points{{0, 0, 0}, {far, 0, 0}, {0, bits == 22 ? far : 1, 0}, {0, 0, far}});
    EXPECT_THAT(wide.error().message, HasSubstr("spread too far"));
  }
}

// Whichever simplices a grid gets: they cover it, and what is linear comes back as it was.
RC_GTEST_PROP(Delaunay, GivesBackALinearFunction, ()) {
  const int width = *rc::gen::inRange(2, 6);
  const int height = *rc::gen::inRange(2, 6);
  const int depth = *rc::gen::inRange(2, 6);
  Points points;
  for (int x = 0; x < width; ++x) {
    for (int y = 0; y < height; ++y) {
      for (int z = 0; z < depth; ++z) points.push_back({2 * x, 3 * y, 5 * z});
    }
  }
  const auto extra = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(-20, 40));
  points.push_back({extra[0], extra[1], extra[2]});
  const auto made = Delaunay::triangulate(points);
  RC_ASSERT(made.has_value());
  const auto linear = [](const Delaunay::Point& p) {
    return 3 + 2 * static_cast<double>(p[0]) - static_cast<double>(p[1]) + 0.5 * static_cast<double>(p[2]);
  };
  std::vector<double> values;
  for (const Delaunay::Point& point : points) values.push_back(linear(point));
  const Delaunay::Point asked{*rc::gen::inRange(0, 2 * width - 1), *rc::gen::inRange(0, 3 * height - 2),
                              *rc::gen::inRange(0, 5 * depth - 4)};
  const auto at = made->locate(asked);
  RC_ASSERT(at.has_value());
  RC_ASSERT(std::abs(at->interpolate(values) - linear(asked)) < 1e-6);
}

}  // namespace
}  // namespace ebb::perf
