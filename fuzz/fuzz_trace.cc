/// Fuzzes the readers of workloads and of request rates. The first byte chooses the format (or detection, or rates) and
/// whether bad rows are skipped; the rest is the file. Whatever is accepted must survive a round trip through both
/// formats of ebb and the transforms.

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "ebb/base/check.h"
#include "ebb/trace/rates.h"
#include "ebb/trace/transform.h"
#include "ebb/trace/workload.h"

namespace {

using namespace ebb;  // NOLINT: one function

void check_round_trip(const Workload& workload) {
  for (const trace::Format format : {trace::Format::ebb_csv, trace::Format::ebb_jsonl}) {
    const auto text = trace::write_workload_text(workload, format);
    EBB_CHECK(text.has_value());
    const auto back = trace::read_workload_text("back", *text, {});
    EBB_CHECK(back.has_value());
    EBB_CHECK(back->workload.jobs == workload.jobs);
  }
  for (const trace::Format format : {trace::Format::tiresias, trace::Format::philly, trace::Format::swf}) {
    if (const auto text = trace::write_workload_text(workload, format)) {
      EBB_CHECK(trace::read_workload_text("back", *text, {}).has_value());
    }
  }
}

void check_rates(std::string text) {
  const auto points = trace::read_rates_text("f", std::move(text));
  if (!points) return;
  EBB_CHECK(!points->empty());
  Time latest(Duration(-1));
  for (const RatePoint& point : *points) {
    EBB_CHECK(point.at > latest && point.requests_per_s >= 0 && std::isfinite(point.requests_per_s));
    latest = point.at;
  }
}

// What the first byte chooses. nullopt: the content decides. New choices go to the end: seeds count on their places.
constexpr std::array<std::optional<trace::Format>, 9> kChoices{
    trace::Format::tiresias, trace::Format::philly,    trace::Format::swf, trace::Format::sacct,
    trace::Format::ebb_csv,  trace::Format::ebb_jsonl, std::nullopt,       trace::Format::pollux,
    trace::Format::deepboot};
constexpr std::size_t kRates = kChoices.size();

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t choice = (data[0] >> 1) % (kRates + 1);
  if (choice == kRates) {
    check_rates(std::move(text));
    return 0;
  }
  trace::ReadOptions options;
  options.skip_bad_rows = (data[0] & 1) != 0;
  options.format = kChoices[choice];
  options.procs_per_gpu = 1 + (data[0] >> 6);
  const auto result = trace::read_workload_text("f", std::move(text), options);
  if (!result) return 0;
  const Workload& workload = result->workload;
  EBB_CHECK(result->report.rows_read == workload.jobs.size() && !workload.jobs.empty());
  check_round_trip(workload);
  EBB_CHECK(trace::info(workload).jobs == workload.jobs.size());
  for (const double factor : {0.7, 1.3}) {
    for (const trace::LoadMethod method : {trace::LoadMethod::compress, trace::LoadMethod::sample}) {
      if (const auto scaled = trace::scale_load(workload, factor, method, 1)) {
        EBB_CHECK(trace::write_workload_text(*scaled, trace::Format::ebb_csv).has_value() ||
                  method == trace::LoadMethod::sample);
      }
    }
  }
  trace::CutOptions cut;
  cut.from = workload.jobs.back().submit;
  cut.shift = true;
  EBB_CHECK(trace::cut(workload, cut).has_value());
  return 0;
}
