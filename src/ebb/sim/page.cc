#include "ebb/sim/page.h"

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

}  // namespace

std::string_view page_file(std::string_view name) {
  const EmbeddedFile* found = find_embedded(embedded::report_files, name);
  EBB_CHECK(found != nullptr);
  return found->bytes;
}

std::string render_page(std::string_view name, const std::string& title, const Json& data) {
  const auto part = [&](std::string_view part_name) {
    if (part_name == "title") return html_text(title);
    if (part_name == "data") return script_safe(data);
    return part_name.ends_with(".html") ? render_page(part_name, title, data) : std::string(page_file(part_name));
  };
  std::string_view text = page_file(name);
  std::string page;
  while (true) {
    const std::size_t open = text.find("{{");
    page += text.substr(0, open);
    if (open == std::string_view::npos) return page;
    text.remove_prefix(open + 2);
    const std::size_t close = text.find("}}");
    EBB_CHECK(close != std::string_view::npos);
    page += part(text.substr(0, close));
    text.remove_prefix(close + 2);
  }
}

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

std::string html_text(const std::string& text) {
  // Through JSON and back, to get the same treatment of broken UTF-8.
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

Json short_number(double value, int digits) {
  const double rounded = round_significant(value, digits);
  if (std::abs(rounded) < 1e15 && rounded == std::trunc(rounded)) return static_cast<std::int64_t>(rounded);
  return rounded;
}

Json series_json(const Series& series) {
  Json values = Json::array();
  for (const double v : series.values) values.push_back(short_number(v, kSeriesDigits));
  return {{"start_s", to_seconds(series.start.time_since_epoch())},
          {"bucket_s", to_seconds(series.bucket)},
          {"values", std::move(values)}};
}

}  // namespace ebb::sim
