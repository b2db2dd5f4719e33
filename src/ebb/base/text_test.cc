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

}  // namespace
}  // namespace ebb
