#include "ebb/sim/lending_output.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ebb/base/files.h"
#include "ebb/base/text.h"

namespace ebb::sim {
namespace {

using Json = nlohmann::ordered_json;

struct CellFigure {
  const char* name;
  Estimate LendingCell::* estimate;
};
constexpr CellFigure kCellFigures[] = {
    {"jct_change", &LendingCell::jct_change},
    {"jct_none_s", &LendingCell::jct_none_s},
    {"jct_lending_s", &LendingCell::jct_lending_s},
    {"wait_none_s", &LendingCell::wait_none_s},
    {"run_none_s", &LendingCell::run_none_s},
    {"lent_gpu_h", &LendingCell::lent_gpu_h},
    {"freed_gpu_h", &LendingCell::freed_gpu_h},
    {"idle_gpu_h", &LendingCell::idle_gpu_h},
    {"bound_used", &LendingCell::bound_used},
    {"in_target_none", &LendingCell::in_target_none},
    {"in_target_lending", &LendingCell::in_target_lending},
    {"in_target_change", &LendingCell::in_target_change},
    {"restarts_none", &LendingCell::restarts_none},
    {"restarts_lending", &LendingCell::restarts_lending},
    {"reclaims", &LendingCell::reclaims},
};

struct RunFigure {
  const char* name;
  double (*value)(const LendingFigures&);
};
constexpr RunFigure kRunFigures[] = {
    {"jobs", [](const LendingFigures& f) { return static_cast<double>(f.jobs); }},
    {"mean_jct_s", [](const LendingFigures& f) { return f.mean_jct_s; }},
    {"p99_jct_s", [](const LendingFigures& f) { return f.p99_jct_s; }},
    {"mean_wait_s", [](const LendingFigures& f) { return f.mean_wait_s; }},
    {"mean_run_s", [](const LendingFigures& f) { return f.mean_run_s; }},
    {"makespan_s", [](const LendingFigures& f) { return f.makespan_s; }},
    {"lent_gpu_s", [](const LendingFigures& f) { return f.lent_gpu_s; }},
    {"freed_gpu_s", [](const LendingFigures& f) { return f.freed_gpu_s; }},
    {"idle_gpu_s", [](const LendingFigures& f) { return f.idle_gpu_s; }},
    {"requests", [](const LendingFigures& f) { return f.requests; }},
    {"in_target_share", [](const LendingFigures& f) { return f.in_target_share; }},
    {"reclaims", [](const LendingFigures& f) { return static_cast<double>(f.reclaims); }},
    {"reclaim_p50_s", [](const LendingFigures& f) { return f.reclaim_p50_s; }},
    {"reclaim_p99_s", [](const LendingFigures& f) { return f.reclaim_p99_s; }},
    {"forced", [](const LendingFigures& f) { return static_cast<double>(f.forced); }},
    {"restarts", [](const LendingFigures& f) { return static_cast<double>(f.restarts); }},
    {"preemptions", [](const LendingFigures& f) { return static_cast<double>(f.preemptions); }},
};

Json json_of(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"low", estimate.low}, {"high", estimate.high}};
}

Json json_of(const LendingColumn& column) {
  return {{"serving_mean", column.plan.mean_share},
          {"serving_mean_asked", column.asked ? Json(*column.asked) : Json()},
          {"shape_power", column.plan.power},
          {"replica_mean", column.plan.replica_share}};
}

Json json_of(const LendingCell& cell, const LendingColumn& column) {
  Json json = {{"load", cell.load},
               {"serving_mean", column.plan.mean_share},
               {"shape_power", column.plan.power},
               {"jobs", cell.jobs},
               {"seeds", cell.jct_change.count}};
  for (const CellFigure& figure : kCellFigures) json[figure.name] = json_of(cell.*figure.estimate);
  json["reclaim_p50_s"] = cell.reclaim_p50_s;
  json["reclaim_p99_s"] = cell.reclaim_p99_s;
  json["forced"] = cell.forced;
  return json;
}

// What the search for an equal share found, beside the figures of its cell.
Json json_of(const LendingEqualShare& share, const LendingColumn& column) {
  Json json = {{"headroom", share.headroom}, {"reached", share.reached}};
  json.update(json_of(share.cell, column));
  return json;
}

// "31.2 % (95 % interval 28.1 to 34.0 %, 10 seeds)" of a value's size.
std::string percent_with_interval(const Estimate& e, double sign) {
  if (e.count < 2) return fmt::format("{:.1f} % (one seed, no interval)", 100 * sign * e.mean);
  const double low = 100 * std::min(sign * e.low, sign * e.high);
  const double high = 100 * std::max(sign * e.low, sign * e.high);
  return fmt::format("{:.1f} % (95 % interval {:.1f} to {:.1f} %, {} seeds)", 100 * sign * e.mean, low, high, e.count);
}

std::string change_in_words(const LendingCell& cell) {
  const Estimate& change = cell.jct_change;
  if (change.count > 1 && change.low < 0 && change.high > 0) {
    return fmt::format(
        "makes no difference to the mean completion time that is larger than chance: {:+.1f} % (95 % "
        "interval {:+.1f} to {:+.1f} %, {} seeds)",
        100 * change.mean, 100 * change.low, 100 * change.high, change.count);
  }
  if (change.mean <= 0)
    return fmt::format("shortens the mean completion time by {}", percent_with_interval(change, -1));
  return fmt::format("lengthens the mean completion time by {}", percent_with_interval(change, 1));
}

std::string target_in_words(const LendingCell& cell) {
  return fmt::format("Requests in target: {:.3f} % with lending, {:.3f} % without ({:+.3f} points).",
                     100 * cell.in_target_lending.mean, 100 * cell.in_target_none.mean,
                     100 * cell.in_target_change.mean);
}

std::string equal_share_in_words(const LendingEqualShare& share) {
  const double with = 100 * share.cell.in_target_lending.mean;
  const double without = 100 * share.cell.in_target_none.mean;
  if (!share.reached) {
    return fmt::format(
        "No headroom gives an equal share of requests in target: with {} warm replicas of each service held back it is "
        "{:.3f} % with lending, {:.3f} % without.",
        share.headroom, with, without);
  }
  return fmt::format(
      "At an equal share of requests in target ({:.3f} % with lending, {:.3f} % without), for which {} of each service "
      "{} held back from lending, it {}.",
      with, without, share.headroom == 1 ? "1 warm replica" : fmt::format("{} warm replicas", share.headroom),
      share.headroom == 1 ? "is" : "are", change_in_words(share.cell));
}

void append_row(std::string& line, double value) {
  fmt::format_to(std::back_inserter(line), ",{}", value);
}

void append_runs(FileWriter& file, const LendingStudy& study, const std::vector<LendingRun>& runs, const char* part) {
  for (const LendingRun& run : runs) {
    const DemandPlan& plan = study.columns[run.column].plan;
    for (const bool lends : {false, true}) {
      std::string line = fmt::format("{},{},{},{},{},{}", part, run.load, plan.mean_share, plan.power, run.seed,
                                     to_string(lends ? study.options.lending : Lending::none));
      for (const RunFigure& figure : kRunFigures) append_row(line, figure.value(lends ? run.lending : run.none));
      file.write(line + "\n");
    }
  }
}

}  // namespace

std::string column_name(const LendingColumn& column) {
  if (column.asked) return fmt::format("{:.4g} %", 100 * *column.asked);
  if (column.plan.power == 1) return fmt::format("{:.1f} % (as it is)", 100 * column.plan.mean_share);
  return fmt::format("{:.1f} % (power {:.3g})", 100 * column.plan.mean_share, column.plan.power);
}

std::vector<std::string> lending_sentences(const LendingStudy& study) {
  std::vector<std::string> sentences;
  const auto lends = fmt::format("Lending ({})", to_string(study.options.lending));
  if (const auto& headline = study.headline) {
    const LendingCell& cell = headline->cell;
    const double mean = study.columns[headline->column].plan.mean_share;
    if (headline->found) {
      sentences.push_back(
          fmt::format("{} {} under {}, at load {} and a serving mean of {:.0f} %: the point where, without it, jobs "
                      "wait as long as "
                      "they run ({} and {} on average).",
                      lends, change_in_words(cell), study.day.policy, cell.load, 100 * mean,
                      human_seconds(cell.wait_none_s.mean), human_seconds(cell.run_none_s.mean)));
    } else {
      sentences.push_back(fmt::format(
          "{} {} under {}, at load {} and a serving mean of {:.0f} %. No load was found at which jobs wait as "
          "long as they run without lending; here they wait {} and run {} on average.",
          lends, change_in_words(cell), study.day.policy, cell.load, 100 * mean, human_seconds(cell.wait_none_s.mean),
          human_seconds(cell.run_none_s.mean)));
    }
    sentences.push_back(target_in_words(cell));
    std::string freed = fmt::format(
        "A run frees {:.0f} GPU-hours for training, {:.0f} % of the {:.0f} that serving "
        "leaves idle; ",
        cell.freed_gpu_h.mean, 100 * cell.bound_used.mean, cell.idle_gpu_h.mean);
    freed += cell.reclaims.mean > 0 ? fmt::format("GPUs are back within {} (median) and {} (99th percentile).",
                                                  human_seconds(cell.reclaim_p50_s), human_seconds(cell.reclaim_p99_s))
                                    : "none had to be taken back.";
    if (cell.forced > 0) freed += fmt::format(" Jobs were killed at the bound {} times, over all runs.", cell.forced);
    sentences.push_back(std::move(freed));
    if (headline->equal_share) sentences.push_back(equal_share_in_words(*headline->equal_share));
  }
  const auto [least, most] = std::minmax_element(
      study.cells.begin(), study.cells.end(),
      [](const LendingCell& a, const LendingCell& b) { return a.jct_change.mean < b.jct_change.mean; });
  sentences.push_back(
      fmt::format("Over the sweep the mean completion time changes by {:+.1f} % (load {}, serving mean {:.0f} %) to "
                  "{:+.1f} % (load "
                  "{}, serving mean {:.0f} %).",
                  100 * least->jct_change.mean, least->load, 100 * study.columns[least->column].plan.mean_share,
                  100 * most->jct_change.mean, most->load, 100 * study.columns[most->column].plan.mean_share));
  return sentences;
}

nlohmann::ordered_json lending_json(const LendingStudy& study) {
  Json json;
  json["schema_version"] = kLendingVersion;
  json["policy"] = study.day.policy;
  json["lending"] = to_string(study.options.lending);
  json["cluster"] = study.day.cluster;
  json["training_gpus"] = study.halves.training;
  json["serving_gpus"] = study.halves.serving;
  json["seeds"] = study.options.seeds;
  json["loads"] = study.options.loads;
  json["columns"] = Json::array();
  for (const LendingColumn& column : study.columns) json["columns"].push_back(json_of(column));
  json["sentences"] = lending_sentences(study);
  if (study.headline) {
    Json headline = {{"found", study.headline->found}, {"wait_over_run", study.headline->wait_over_run}};
    const LendingColumn& column = study.columns[study.headline->column];
    headline.update(json_of(study.headline->cell, column));
    if (study.headline->equal_share) headline["equal_share"] = json_of(*study.headline->equal_share, column);
    json["headline"] = std::move(headline);
  } else {
    json["headline"] = nullptr;
  }
  json["cells"] = Json::array();
  for (const LendingCell& cell : study.cells) json["cells"].push_back(json_of(cell, study.columns[cell.column]));
  json["settings"] = Json::object();
  for (const auto& [what, value] : study.day.settings) json["settings"][what] = value;
  json["warnings"] = study.warnings;
  return json;
}

Result<void> write_lending_cells(const std::filesystem::path& path, const LendingStudy& study) {
  EBB_ASSIGN_OR_RETURN(FileWriter file, FileWriter::create(path));
  std::string line = "part,load,serving_mean,shape_power,replica_mean,jobs,seeds";
  for (const CellFigure& figure : kCellFigures) {
    line += fmt::format(",{0},{0}_low,{0}_high", figure.name);
  }
  file.write(line + ",reclaim_p50_s,reclaim_p99_s,forced\n");
  const auto add = [&](const LendingCell& cell, const char* part) {
    const DemandPlan& plan = study.columns[cell.column].plan;
    std::string row = fmt::format("{},{},{},{},{},{},{}", part, cell.load, plan.mean_share, plan.power,
                                  plan.replica_share, cell.jobs, cell.jct_change.count);
    for (const CellFigure& figure : kCellFigures) {
      const Estimate& estimate = cell.*figure.estimate;
      for (const double value : {estimate.mean, estimate.low, estimate.high}) append_row(row, value);
    }
    file.write(row + fmt::format(",{},{},{}\n", cell.reclaim_p50_s, cell.reclaim_p99_s, cell.forced));
  };
  for (const LendingCell& cell : study.cells) add(cell, "sweep");
  if (study.headline) add(study.headline->cell, "headline");
  if (study.headline && study.headline->equal_share) add(study.headline->equal_share->cell, "equal_share");
  return file.close();
}

Result<void> write_lending_runs(const std::filesystem::path& path, const LendingStudy& study) {
  EBB_ASSIGN_OR_RETURN(FileWriter file, FileWriter::create(path));
  std::string line = "part,load,serving_mean,shape_power,seed,lending";
  for (const RunFigure& figure : kRunFigures) line += fmt::format(",{}", figure.name);
  file.write(line + "\n");
  append_runs(file, study, study.runs, "sweep");
  if (study.headline) append_runs(file, study, study.headline->runs, "headline");
  if (study.headline && study.headline->equal_share) {
    append_runs(file, study, study.headline->equal_share->runs, "equal_share");
  }
  return file.close();
}

}  // namespace ebb::sim
