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

JobSpec spec_of(const JobRequest& request, Time submit) {
  JobSpec spec;
  spec.name = request.name;
  spec.tenant = request.tenant;
  spec.priority = request.priority;
  spec.gpus = request.workers * request.gpus_per_worker;
  spec.gpu_type = request.gpu_type;
  spec.requested_time = request.time_limit;
  spec.submit = submit;
  return spec;
}

}  // namespace ebb
