#include "ebb/model/job_request.h"

namespace ebb {

const char* to_string(Dependency::When when) {
  switch (when) {
    case Dependency::When::after_ok:
      return "after_ok";
    case Dependency::When::after_any:
      return "after_any";
  }
  return "";
}

const char* to_string(Elasticity elasticity) {
  switch (elasticity) {
    case Elasticity::none:
      return "none";
    case Elasticity::restart:
      return "restart";
    case Elasticity::contract:
      return "contract";
  }
  return "";
}

std::optional<Elasticity> elasticity_from(std::string_view name) {
  for (const Elasticity each : {Elasticity::none, Elasticity::restart, Elasticity::contract}) {
    if (name == to_string(each)) return each;
  }
  return std::nullopt;
}

JobSpec spec_of(const JobRequest& request, Time submit) {
  JobSpec spec;
  spec.name = request.name;
  spec.tenant = request.tenant;
  spec.priority = request.priority;
  spec.gpus = request.workers * request.gpus_per_worker;
  if (request.min_workers > 0) {
    spec.sizing = request.elasticity == Elasticity::none ? Sizing::moldable : Sizing::elastic;
    spec.min_gpus = request.min_workers * request.gpus_per_worker;
    spec.max_gpus = request.max_workers * request.gpus_per_worker;
    spec.gpu_step = request.worker_step * request.gpus_per_worker;
  }
  spec.gpu_type = request.gpu_type;
  spec.requested_time = request.time_limit;
  // The best that is known: policies that want the shortest job first go by what its owner said.
  spec.run_time = request.time_limit.value_or(Duration(0));
  spec.submit = submit;
  return spec;
}

}  // namespace ebb
