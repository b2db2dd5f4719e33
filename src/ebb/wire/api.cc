#include "ebb/wire/api.h"

namespace ebb::wire {

const char* to_string(JobStatus status) {
  switch (status) {
    case JobStatus::held:
      return "held";
    case JobStatus::blocked:
      return "blocked";
    case JobStatus::backing_off:
      return "backing_off";
    case JobStatus::waiting:
      return "waiting";
    case JobStatus::starting:
      return "starting";
    case JobStatus::running:
      return "running";
    case JobStatus::stopping:
      return "stopping";
    case JobStatus::completed:
      return "completed";
    case JobStatus::failed:
      return "failed";
    case JobStatus::cancelled:
      return "cancelled";
  }
  return "";
}

std::optional<JobStatus> job_status_from(std::string_view name) {
  for (const JobStatus status :
       {JobStatus::held, JobStatus::blocked, JobStatus::backing_off, JobStatus::waiting, JobStatus::starting,
        JobStatus::running, JobStatus::stopping, JobStatus::completed, JobStatus::failed, JobStatus::cancelled}) {
    if (name == to_string(status)) return status;
  }
  return std::nullopt;
}

bool ended(JobStatus status) {
  return status >= JobStatus::completed;
}

const char* to_string(Role role) {
  switch (role) {
    case Role::viewer:
      return "viewer";
    case Role::user:
      return "user";
    case Role::admin:
      return "admin";
  }
  return "";
}

std::optional<Role> role_from(std::string_view name) {
  for (const Role role : {Role::viewer, Role::user, Role::admin}) {
    if (name == to_string(role)) return role;
  }
  return std::nullopt;
}

}  // namespace ebb::wire
