#include "ebb/sim/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ebb/sim/page.h"
#include "ebb/sim/report_data.h"

namespace ebb::sim {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kCurveDigits = 5;
constexpr int kTimeDigits = 8;

Json json_of(const Distribution& d) {
  return {{"count", d.count}, {"avg_s", d.avg_s}, {"p50_s", d.p50_s}, {"p99_s", d.p99_s}};
}

// Of the training jobs; inference has figures of its own.
Json json_of(const Summary& s) {
  return {{"jobs_total", s.training_total()},
          {"jobs_completed", s.training_completed()},
          {"jobs_impossible", s.training_total() - s.training_completed()},
          {"training", json_of(s.training)},
          {"queue", json_of(s.queue)},
          {"makespan_s", s.makespan_s},
          {"utilisation", s.utilisation},
          {"gpu_seconds", s.gpu_seconds},
          {"restarts", s.restarts},
          {"preemptions", s.preemptions},
          {"max_rho", s.max_rho}};
}

Json json_of(const InferenceFigures& i) {
  return {{"submitted", i.submitted},     {"count", i.count},       {"avg_extra_s", i.avg_extra_s},
          {"p99_extra_s", i.p99_extra_s}, {"requests", i.requests}, {"in_target_share", i.in_target_share}};
}

Json json_of(const LoanFigures& l) {
  return {{"count", l.count},
          {"gpu_seconds", l.gpu_seconds},
          {"reclaims", l.reclaims},
          {"reclaim_p50_s", l.reclaim_p50_s},
          {"reclaim_p99_s", l.reclaim_p99_s},
          {"forced", l.forced},
          {"late", l.late}};
}

Json json_of(const GpuSeconds& g) {
  return {{"training", g.training}, {"resizing", g.resizing}, {"starting", g.starting}, {"serving", g.serving},
          {"protected", g.protect}, {"sleeping", g.sleeping}, {"idle", g.idle}};
}

// By job: name, when it begins, and for each span its end, its GPUs and (of a wait) its reason.
Json json_of(const std::vector<JobHistory>& histories, const std::vector<JobRecord>& jobs) {
  Json all = Json::array();
  for (const JobHistory& history : histories) {
    Json spans = Json::array();
    for (const JobSpan& span : history.spans) {
      spans.push_back(short_number(to_seconds(span.to.time_since_epoch()), kTimeDigits));
      spans.push_back(span.gpus);
      spans.push_back(span.reason ? Json(to_string(*span.reason)) : Json(0));
    }
    all.push_back({jobs[history.job].name,
                   short_number(to_seconds(history.spans.front().from.time_since_epoch()), kTimeDigits),
                   std::move(spans)});
  }
  return all;
}

Json json_of(const Cdf& cdf) {
  Json values = Json::array();
  Json shares = Json::array();
  for (const CdfPoint& point : cdf.points) {
    values.push_back(round_significant(point.value_s, kCurveDigits));
    shares.push_back(round_significant(point.share, kCurveDigits));
  }
  return {{"count", cdf.count},
          {"zero_share", cdf.zero_share},
          {"values_s", std::move(values)},
          {"shares", std::move(shares)}};
}

Json json_of(const SimResult& run, bool with_histories) {
  const RunName name = parse_label(run);
  Json settings = Json::array();
  for (const auto& [what, value] : run.settings) settings.push_back({what, value});
  const auto any = [](const Series& series) {
    return std::any_of(series.values.begin(), series.values.end(), [](double v) { return v > 0; });
  };
  return {{"policy", run.policy},
          {"policy_summary", run.policy_summary},
          {"settings", std::move(settings)},
          {"label", run.label.empty() ? run.policy : run.label},
          {"contender", name.contender},
          {"oracle", name.oracle},
          {"cluster", run.cluster},
          {"cluster_gpus", run.cluster_gpus},
          {"time_zero", run.time_zero},
          {"steps", run.steps},
          {"events", run.events},
          {"summary", json_of(run.summary)},
          {"inference", run.summary.inference.any() ? json_of(run.summary.inference) : Json()},
          {"loans", run.summary.loans.any() ? json_of(run.summary.loans) : Json()},
          {"gpu_seconds_by_state", json_of(run.summary.gpu_seconds_by_state)},
          {"jct", json_of(jct_cdf(run))},
          {"pending", json_of(pending_cdf(run))},
          {"gpus_in_use", series_json(run.gpus_in_use)},
          {"queue_length", series_json(run.queue_length)},
          {"gpus_serving", any(run.gpus_serving) ? series_json(run.gpus_serving) : Json()},
          {"gpus_lent", any(run.gpus_lent) ? series_json(run.gpus_lent) : Json()},
          {"histories", with_histories && !run.histories_left_out ? json_of(run.histories, run.jobs) : Json()}};
}

Json json_of(const TenantTable& table) {
  Json rows = Json::array();
  for (const TenantTable::Row& row : table.rows) {
    Json seconds = Json::array();
    for (const double s : row.gpu_seconds) seconds.push_back(round_significant(s, kCurveDigits));
    rows.push_back({{"tenant", row.tenant}, {"folded", row.folded}, {"gpu_seconds", std::move(seconds)}});
  }
  return rows;
}

Json page_data(std::span<const SimResult> results, const ReportOptions& options) {
  Json runs = Json::array();
  const std::vector<bool> with_histories = histories_shown(results);
  for (std::size_t i = 0; i < results.size(); ++i) runs.push_back(json_of(results[i], with_histories[i]));
  Json views = Json::array();
  for (const View& view : views_of(results)) {
    const Verdict verdict = verdict_of(results, view);
    views.push_back({{"name", view.name},
                     {"by_label", view.by_label},
                     {"runs", view.runs},
                     {"sentence", verdict.sentence},
                     {"notes", verdict.notes},
                     {"tenants", json_of(fold_tenants(results, view.runs))}});
  }
  Json warnings = Json::array();
  for (const RunWarning& warning : fold_warnings(results)) {
    warnings.push_back({{"text", warning.text}, {"runs", warning.runs}});
  }
  return {{"title", options.title},
          {"command", options.command},
          {"ebb_version", options.ebb_version},
          {"views", std::move(views)},
          {"runs", std::move(runs)},
          {"warnings", std::move(warnings)},
          {"history_limits", {{"jobs", kMaxHistories}, {"spans", kMaxSpans}}}};
}

}  // namespace

Result<std::string> render_report(std::span<const SimResult> results, const ReportOptions& options) {
  if (results.empty()) return fail(ErrorCode::invalid_argument, "report: there is no run to report on");
  return render_page("template.html", options.title, page_data(results, options));
}

}  // namespace ebb::sim
