/// Fuzzes the reader of journals. Records that are accepted must be the same after they are written and read again.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/trace/journal.h"

namespace {

using namespace ebb;         // NOLINT: one function
using namespace ebb::trace;  // NOLINT

struct Write {
  JournalWriter& writer;
  Time at;
  void operator()(const Event& event) const { writer.write(at, event); }
  void operator()(const Decision& decision) const { writer.write(at, decision); }
  void operator()(const Waits& waits) const { writer.write_waits(at, waits.job, waits.reason); }
};

// All records up to the first error.
std::vector<JournalRecord> read_all(JournalReader& reader) {
  std::vector<JournalRecord> records;
  JournalRecord record;
  while (true) {
    const auto more = reader.next(record);
    if (!more || !*more) return records;
    records.push_back(record);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A valid header stands in front, so that the work goes into records; one bit leaves it to the input.
  std::string text(reinterpret_cast<const char*>(data), size);
  if (size > 0 && (data[0] & 0x80) == 0) text = "{\"type\":\"journal\",\"version\":1}\n" + text;
  auto reader = JournalReader::from_text("f", text);
  if (!reader) return 0;
  const std::vector<JournalRecord> records = read_all(*reader);

  std::string written;
  auto writer = JournalWriter::to_text(&written, "{}");
  EBB_CHECK(writer.has_value());
  for (const JournalRecord& record : records) std::visit(Write{*writer, record.at}, record.what);
  EBB_CHECK(writer->close().has_value());
  auto again = JournalReader::from_text("again", written);
  EBB_CHECK(again.has_value());
  EBB_CHECK(read_all(*again) == records);
  return 0;
}
