#include "ebb/sim/report_data.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "ebb/base/check.h"

namespace ebb::sim {

namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

void append_part(std::string& to, std::string_view part) {
  if (!to.empty()) to += ", ";
  to += part;
}

bool says_oracle(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("oracle") != std::string::npos;
}

}  // namespace

Cdf cdf_of(std::vector<Duration> values, std::size_t max_points) {
  EBB_CHECK(max_points >= 2);
  Cdf cdf;
  cdf.count = values.size();
  if (values.empty()) return cdf;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const auto add = [&](std::size_t rank) {
    // Equal values make one point, at the share of the last of them.
    const Duration value = values[rank - 1];
    const auto end = std::upper_bound(values.begin(), values.end(), value);
    const CdfPoint point{to_seconds(value), static_cast<double>(end - values.begin()) / static_cast<double>(n)};
    if (cdf.points.empty() || cdf.points.back() != point) cdf.points.push_back(point);
  };
  if (n <= max_points) {
    for (std::size_t rank = 1; rank <= n; ++rank) add(rank);
  } else {
    const std::size_t steps = max_points - 1;
    add(1);
    for (std::size_t i = 1; i <= steps; ++i) add((i * n + steps - 1) / steps);
  }
  if (cdf.points.front().value_s == 0) cdf.zero_share = cdf.points.front().share;
  return cdf;
}

Cdf jct_cdf(const SimResult& run) {
  std::vector<Duration> values;
  for (const JobRecord& job : run.jobs) {
    if (job.kind == JobKind::training && job.end) values.push_back(*job.jct());
  }
  return cdf_of(std::move(values));
}

Cdf pending_cdf(const SimResult& run) {
  std::vector<Duration> values;
  for (const JobRecord& job : run.jobs) {
    if (job.kind == JobKind::training && job.end) values.push_back(job.pending);
  }
  return cdf_of(std::move(values));
}

double round_significant(double value, int digits) {
  if (!std::isfinite(value)) return 0;
  char text[64];
  std::snprintf(text, sizeof text, "%.*e", std::max(digits, 1) - 1, value);
  return std::strtod(text, nullptr);
}

RunName parse_label(const SimResult& run) {
  RunName name;
  for (const std::string_view part : split(run.label, ", ")) {
    if (part.starts_with("load ") || part.starts_with("seed ")) {
      append_part(name.condition, part);
    } else if (!part.empty()) {
      append_part(name.contender, part);
    }
  }
  if (name.contender.empty()) name.contender = run.policy;
  name.oracle = says_oracle(run.label) || says_oracle(run.policy);
  return name;
}

std::vector<View> views_of(std::span<const SimResult> results) {
  const bool one_cluster =
      std::all_of(results.begin(), results.end(), [&](const SimResult& r) { return r.cluster == results[0].cluster; });
  std::vector<View> views;
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::string condition = parse_label(results[i]).condition;
    if (!one_cluster) append_part(condition, "cluster " + results[i].cluster);
    auto view = std::find_if(views.begin(), views.end(), [&](const View& v) { return v.name == condition; });
    if (view == views.end()) view = views.insert(views.end(), View{condition, {}, false});
    view->runs.push_back(i);
  }
  if (views.size() <= 1) return views;
  for (View& view : views) {
    if (view.name.empty()) view.name = "as given";
  }
  if (results.size() <= kRunsTogether) {
    View all{"all runs", {}, true};
    for (std::size_t i = 0; i < results.size(); ++i) all.runs.push_back(i);
    const bool alone = std::all_of(views.begin(), views.end(), [](const View& v) { return v.runs.size() == 1; });
    if (alone) return {all};  // nothing to compare within a condition
    views.insert(views.begin(), std::move(all));
  }
  return views;
}

TenantTable fold_tenants(std::span<const SimResult> results, std::span<const std::size_t> runs, std::size_t top) {
  std::map<std::string, std::vector<double>> by_tenant;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [tenant, gpu_seconds] : results[runs[i]].tenant_gpu_seconds) {
      auto& row = by_tenant[tenant];
      row.resize(runs.size());
      row[i] += gpu_seconds;
    }
  }
  struct Ranked {
    double sum;
    TenantTable::Row row;
  };
  std::vector<Ranked> ranked;
  for (auto& [tenant, seconds] : by_tenant) {
    double sum = 0;
    for (const double s : seconds) sum += s;
    ranked.push_back({sum, {tenant, 0, std::move(seconds)}});
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.sum != b.sum ? a.sum > b.sum : a.row.tenant < b.row.tenant;
  });

  TenantTable table;
  const std::size_t own_rows = ranked.size() <= top + 1 ? ranked.size() : top;
  for (std::size_t i = 0; i < own_rows; ++i) table.rows.push_back(std::move(ranked[i].row));
  if (own_rows < ranked.size()) {
    TenantTable::Row rest{"", ranked.size() - own_rows, std::vector<double>(runs.size())};
    for (std::size_t i = own_rows; i < ranked.size(); ++i) {
      for (std::size_t r = 0; r < runs.size(); ++r) rest.gpu_seconds[r] += ranked[i].row.gpu_seconds[r];
    }
    table.rows.push_back(std::move(rest));
  }
  return table;
}

std::vector<bool> histories_shown(std::span<const SimResult> results, std::size_t most) {
  std::vector<bool> shown;
  for (const SimResult& run : results) {
    std::size_t spans = 0;
    for (const JobHistory& history : run.histories) spans += history.spans.size();
    shown.push_back(spans <= most);
    if (shown.back()) most -= spans;
  }
  return shown;
}

std::vector<RunWarning> fold_warnings(std::span<const SimResult> results) {
  std::vector<RunWarning> warnings;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (const std::string& text : results[i].summary.warnings) {
      auto known = std::find_if(warnings.begin(), warnings.end(), [&](const RunWarning& w) { return w.text == text; });
      if (known == warnings.end()) known = warnings.insert(warnings.end(), RunWarning{text, {}});
      if (known->runs.empty() || known->runs.back() != i) known->runs.push_back(i);
    }
  }
  return warnings;
}

}  // namespace ebb::sim
