#pragma once

/// Services files: one YAML file that lists inference services, what a replica of each is and does, the latency that it
/// promises, and the file of its request rates. docs/reference/services.md describes every key.
///
/// Errors: file, line and column with what is wrong; an unknown key names the nearest known one. Files above 1 MiB are
/// refused. Functions are free of shared state: call them from any thread.

#include <filesystem>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/model/service.h"

namespace ebb::spec {

struct ServiceEntry {
  ServiceSpec spec;
  std::string requests;  ///< path of its request rates (trace/rates.h), resolved against the services file's folder
  bool operator==(const ServiceEntry&) const = default;
};

/// In the order of the file, at least one; names are unique.
Result<std::vector<ServiceEntry>> read_services(const std::filesystem::path& path);
/// From text; `name` is the file for messages, and its folder the one that paths are relative to.
Result<std::vector<ServiceEntry>> parse_services(std::string name, const std::string& text);

}  // namespace ebb::spec
