#pragma once

/// Internal: the columns of ebb's own formats that say what kind of job it is, which sizes and batches it may have.
/// All are optional; an empty field is the default of JobSpec. ebb_csv.cc, ebb_jsonl.cc and write.cc go through this
/// one list.

#include <span>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/model/job.h"

namespace ebb::trace {

struct JobColumn {
  std::string_view name;
  bool is_text;                                          ///< ebb-jsonl: a string, not a number
  std::string (*get)(const JobSpec&);                    ///< "" for the default
  Result<void> (*set)(JobSpec&, std::string_view text);  ///< errors are predicates, without the column
};

std::span<const JobColumn> job_columns();

/// Whether kind, sizes and batches go together. Errors: a sentence about the columns of the job.
Result<void> check_sizes(const JobSpec& job);

}  // namespace ebb::trace
