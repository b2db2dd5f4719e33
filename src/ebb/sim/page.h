#pragma once

/// Internal: what the pages that ebb writes have in common: files of web/, filling in a template, and making data and
/// texts safe to stand in HTML. Nothing here depends on the time or the place.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ebb/sim/result.h"

namespace ebb::sim {

/// A file of web/ or the chart library, by its name; it must exist.
std::string_view page_file(std::string_view name);

/// The page `name` with every {{file}} replaced by that file of web/, {{title}} by the title and {{data}} by the data.
/// Files that end in .html are filled in alike; what else is put in is never looked at again.
std::string render_page(std::string_view name, const std::string& title, const nlohmann::ordered_json& data);

/// JSON that can stand inside a script element: "<" only as an escape, so no tag and no comment can start in it. Bytes
/// that are not UTF-8 are replaced by U+FFFD.
std::string script_safe(const nlohmann::ordered_json& json);

/// Text as the content of an HTML element.
std::string html_text(const std::string& text);

/// A number with so many significant digits; whole ones without ".0", a third of the bytes of a busy series.
nlohmann::ordered_json short_number(double value, int digits);
nlohmann::ordered_json series_json(const Series& series);

}  // namespace ebb::sim
