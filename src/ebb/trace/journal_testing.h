#pragma once

/// For tests: journals as text and back.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ebb/trace/journal.h"

namespace ebb::trace {

struct WriteRecord {
  JournalWriter& writer;
  Time at;
  void operator()(const Event& event) const { writer.write(at, event); }
  void operator()(const Decision& decision) const { writer.write(at, decision); }
  void operator()(const Waits& waits) const { writer.write_waits(at, waits.job, waits.reason); }
};

inline std::string write(const std::vector<JournalRecord>& records, std::string_view header = "{}") {
  std::string text;
  auto writer = JournalWriter::to_text(&text, header);
  EXPECT_TRUE(writer);
  for (const JournalRecord& record : records) std::visit(WriteRecord{*writer, record.at}, record.what);
  EXPECT_TRUE(writer->close());
  return text;
}

inline Result<std::vector<JournalRecord>> read(const std::string& text) {
  EBB_ASSIGN_OR_RETURN(JournalReader reader, JournalReader::from_text("j", text));
  std::vector<JournalRecord> records;
  JournalRecord record;
  while (true) {
    EBB_ASSIGN_OR_RETURN(const bool more, reader.next(record));
    if (!more) return records;
    records.push_back(record);
  }
}

}  // namespace ebb::trace
