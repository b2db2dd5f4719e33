#include "ebb/sim/lending_page.h"

#include <nlohmann/json.hpp>

#include "ebb/sim/lending_output.h"
#include "ebb/sim/page.h"

namespace ebb::sim {
namespace {

using Json = nlohmann::ordered_json;

Json page_data(const LendingStudy& study, const LendingPageOptions& options) {
  Json data = lending_json(study);
  for (std::size_t i = 0; i < study.columns.size(); ++i) data["columns"][i]["name"] = column_name(study.columns[i]);
  for (std::size_t i = 0; i < study.cells.size(); ++i) data["cells"][i]["column"] = study.cells[i].column;
  if (study.headline) data["headline"]["column"] = study.headline->column;
  data["day"] = {{"load", study.day_load},
                 {"serving_mean", study.columns[study.day_column].plan.mean_share},
                 {"seed", study.options.seeds.front()},
                 {"cluster_gpus", study.day.cluster_gpus},
                 {"training", series_json(study.day.gpus_in_use)},
                 {"lent", series_json(study.day.gpus_lent)},
                 {"serving", series_json(study.day.gpus_serving)}};
  data["title"] = options.title;
  data["command"] = options.command;
  data["ebb_version"] = options.ebb_version;
  return data;
}

}  // namespace

std::string render_lending(const LendingStudy& study, const LendingPageOptions& options) {
  return render_page("lending.html", options.title, page_data(study, options));
}

}  // namespace ebb::sim
