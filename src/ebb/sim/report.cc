#include "ebb/sim/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ebb/base/check.h"
#include "ebb/base/embedded.h"
#include "ebb/sim/report_data.h"

namespace ebb::embedded {
extern const std::span<const EmbeddedFile> report_files;
}

namespace ebb::sim {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSeriesDigits = 4;
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
          {"forced", l.forced}};
}

Json json_of(const GpuSeconds& g) {
  return {{"training", g.training},    {"resizing", g.resizing}, {"starting", g.starting}, {"serving", g.serving},
          {"protected", g.protected_}, {"sleeping", g.sleeping}, {"idle", g.idle}};
}

// "12" instead of "12.0": a third of the bytes of a busy series.
Json number(double value, int digits) {
  const double rounded = round_significant(value, digits);
  if (std::abs(rounded) < 1e15 && rounded == std::trunc(rounded)) return static_cast<std::int64_t>(rounded);
  return rounded;
}

// By job: name, when it begins, and for each span its end, its GPUs and (of a wait) its reason.
Json json_of(const std::vector<JobHistory>& histories, const std::vector<JobRecord>& jobs) {
  Json all = Json::array();
  for (const JobHistory& history : histories) {
    Json spans = Json::array();
    for (const JobSpan& span : history.spans) {
      spans.push_back(number(to_seconds(span.to.time_since_epoch()), kTimeDigits));
      spans.push_back(span.gpus);
      spans.push_back(span.reason ? Json(to_string(*span.reason)) : Json(0));
    }
    all.push_back({jobs[history.job].name,
                   number(to_seconds(history.spans.front().from.time_since_epoch()), kTimeDigits), std::move(spans)});
  }
  return all;
}

Json json_of(const Series& s) {
  Json values = Json::array();
  for (const double v : s.values) values.push_back(number(v, kSeriesDigits));
  return {{"start_s", to_seconds(s.start.time_since_epoch())},
          {"bucket_s", to_seconds(s.bucket)},
          {"values", std::move(values)}};
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
          {"gpus_in_use", json_of(run.gpus_in_use)},
          {"queue_length", json_of(run.queue_length)},
          {"gpus_serving", any(run.gpus_serving) ? json_of(run.gpus_serving) : Json()},
          {"gpus_lent", any(run.gpus_lent) ? json_of(run.gpus_lent) : Json()},
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
  return {{"title", options.title},    {"command", options.command}, {"ebb_version", options.ebb_version},
          {"views", std::move(views)}, {"runs", std::move(runs)},    {"warnings", std::move(warnings)}};
}

/// JSON that can stand inside a script element: "<" only as an escape, so no tag and no comment can start in it.
std::string script_safe(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

/// Text as the content of an HTML element. Through JSON and back, to get the same treatment of broken UTF-8.
std::string html_text(const std::string& text) {
  const std::string valid =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  std::string safe;
  for (const char c : valid) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string_view file(std::string_view name) {
  const EmbeddedFile* found = find_embedded(embedded::report_files, name);
  EBB_CHECK(found != nullptr);
  return found->bytes;
}

/// What stands for {{name}} in the template.
std::string part(std::string_view name, std::span<const SimResult> results, const ReportOptions& options) {
  if (name == "title") return html_text(options.title);
  if (name == "data") return script_safe(page_data(results, options));
  return std::string(file(name));
}

}  // namespace

Result<std::string> render_report(std::span<const SimResult> results, const ReportOptions& options) {
  if (results.empty()) return fail(ErrorCode::invalid_argument, "report: there is no run to report on");
  // One pass over the template: what is put in is never looked at again.
  std::string_view rest = file("template.html");
  std::string page;
  while (true) {
    const std::size_t open = rest.find("{{");
    page += rest.substr(0, open);
    if (open == std::string_view::npos) return page;
    rest.remove_prefix(open + 2);
    const std::size_t close = rest.find("}}");
    EBB_CHECK(close != std::string_view::npos);
    page += part(rest.substr(0, close), results, options);
    rest.remove_prefix(close + 2);
  }
}

}  // namespace ebb::sim
