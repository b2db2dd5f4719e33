#include "ebb/base/text.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(Printable, WritesControlCharactersOut) {
  EXPECT_EQ(printable("a\tb\nü"), "a\tb\nü");
  EXPECT_EQ(printable("\x1b[2J\x07\r\x7f"), "\\x1b[2J\\x07\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");  // CSI in one character
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
  EXPECT_EQ(printable("\xc2"), "\xc2");
}

TEST(Text, FiguresForPeople) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1'000), "1,000");
  EXPECT_EQ(with_commas(1'234'567), "1,234,567");
  EXPECT_EQ(human_seconds(90), "90.0 s");
  EXPECT_EQ(human_seconds(7500), "2h 05m");
  EXPECT_EQ(human_seconds(1e12), "1000000000000 s");
}

}  // namespace
}  // namespace ebb
