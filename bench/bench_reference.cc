// CPU seconds of the 5,000-job LAS run (640 GPUs), reading the trace included, without and with the journal, in
// interleaved blocks A/B/B/A.

#include <fmt/format.h>

#include <filesystem>

#include "bench_support.h"
#include "ebb/policies/all.h"
#include "ebb/sim/journal_header.h"
#include "ebb/sim/simulator.h"
#include "ebb/spec/cluster.h"
#include "ebb/trace/journal.h"
#include "ebb/trace/workload.h"

int main(int argc, char** argv) {
  using namespace ebb;
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_reference TRACE (testdata/tiresias/philly_2017-10_first5000.csv)\n");
    return 2;
  }
  const auto registry = policies::all();
  const ClusterSpec cluster = spec::parse_cluster("80x8").value();
  const auto path = std::filesystem::temp_directory_path() / "ebb_bench_reference.jsonl";
  std::uint64_t events = 0;
  const auto run = [&](bool with_journal) {
    const double start = bench::cpu_seconds();
    const auto read = trace::read_workload(argv[1], {});
    if (!read) {
      fmt::print(stderr, "{}\n", read.error().message);
      std::exit(2);
    }
    sim::SimOptions options;
    options.policy = "tiresias";
    options.time = spec::TimeModel::seconds;
    sim::SimHooks hooks;
    std::optional<trace::JournalWriter> journal;
    if (with_journal) {
      journal = trace::JournalWriter::create(path, sim::journal_header(cluster, read->workload, options)).value();
      hooks.journal = &*journal;
    }
    const auto result = sim::simulate(cluster, read->workload, options, registry, hooks);
    if (journal && !journal->close()) std::exit(1);
    if (!result) {
      fmt::print(stderr, "{}\n", result.error().message);
      std::exit(1);
    }
    events = result->events;
    return bench::cpu_seconds() - start;
  };
  std::vector<double> plain;
  std::vector<double> journalled;
  for (int block = 0; block < 10; ++block) {
    for (const bool with_journal : {false, true, true, false}) {
      (with_journal ? journalled : plain).push_back(run(with_journal));
    }
  }
  const auto show = [](const char* what, const std::vector<double>& sample) {
    fmt::print("{:<16} median {:.4f} CPU-s, p5 {:.4f}, p95 {:.4f} ({} runs)\n", what, bench::percentile(sample, 0.5),
               bench::percentile(sample, 0.05), bench::percentile(sample, 0.95), sample.size());
  };
  show("without journal", plain);
  show("with journal", journalled);
  fmt::print("{} events; journal {:.1f} MB\n", events, static_cast<double>(std::filesystem::file_size(path)) / 1e6);
  std::filesystem::remove(path);
  return 0;
}
