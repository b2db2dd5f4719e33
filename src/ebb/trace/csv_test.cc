#include "ebb/trace/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace ebb::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> split(std::string_view line, char separator = ',', bool quotes = true) {
  std::vector<std::string_view> fields;
  std::string scratch;
  const auto ok = split_fields(line, separator, quotes, fields, scratch);
  if (!ok) return {"error: " + ok.error().message};
  return {fields.begin(), fields.end()};
}

TEST(SplitFields, SeparatesAndUnquotes) {
  EXPECT_THAT(split("a,b,,d"), ElementsAre("a", "b", "", "d"));
  EXPECT_THAT(split("a,"), ElementsAre("a", ""));
  EXPECT_THAT(split(R"("a,b","say ""hi""","")"), ElementsAre("a,b", R"(say "hi")", ""));
  EXPECT_THAT(split(R"(5" disk,x)"), ElementsAre(R"(5" disk)", "x"));
  EXPECT_THAT(split(R"(a|"b,c)", '|', false), ElementsAre("a", R"("b,c)"));
}

TEST(SplitFields, RefusesBrokenQuotes) {
  EXPECT_THAT(split(R"(a,"b)"), ElementsAre(HasSubstr("field 2 begins with a quote that does not end")));
  EXPECT_THAT(split(R"("a""b)"), ElementsAre(HasSubstr("does not end")));
  EXPECT_THAT(split(R"("a"b,c)"), ElementsAre(HasSubstr("text after its closing quote")));
}

TEST(SplitFields, UndoesAppendField) {
  const bool holds = rc::check([](const std::vector<std::string>& fields) {
    RC_PRE(!fields.empty());
    std::string line;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) line += ',';
      append_field(line, fields[i]);
    }
    RC_ASSERT(split(line) == fields);
  });
  EXPECT_TRUE(holds);
}

TEST(CsvTable, FindsColumnsByNameInAnyOrder) {
  CsvTable table(',', true);
  ASSERT_TRUE(table.read_header("extra, b ,a", {"a", "b"}));
  ASSERT_TRUE(table.read_row("1,2,3"));
  EXPECT_EQ(table[*table.find("a")], "3");
  EXPECT_EQ(table[*table.find("b")], "2");
  EXPECT_EQ(table.find("c"), std::nullopt);
}

TEST(CsvTable, SaysWhatTheHeaderLacksAndHas) {
  CsvTable table(',', true);
  const auto missing = table.read_header("a,x,y", {"a", "b", "c"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "the header lacks: b, c; it has: 'a', 'x', 'y'");
  EXPECT_THAT(table.read_header("a,a", {"a"}).error().message, HasSubstr("'a' appears 2 times"));
}

TEST(CsvTable, RefusesRowsOfAnotherWidth) {
  CsvTable table(',', true);
  ASSERT_TRUE(table.read_header("a,b,c", {}));
  EXPECT_EQ(table.read_row("1").error().message, "the row has 1 fields, the header 3: column 'b' is missing");
  EXPECT_THAT(table.read_row("1,2,3,4").error().message, HasSubstr("is there a ',' inside a field?"));
}

}  // namespace
}  // namespace ebb::trace
