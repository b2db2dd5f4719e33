#pragma once

/// Problems and answers as text: what a plan request and its answer carry in the journal. Jobs and nodes have their own
/// numbers here, so that an answer can be read when jobs came and went.
///
///   problem: one line `search`, one `node` for every node with GPUs, one `job` for every job, then genomes
///   answer:  genomes, the chosen one first
///   genome:  `genome` and JOB=NODE:GPUS,NODE:GPUS... for every job with GPUs; all but the first list only the rows in
///            which they differ from the first

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ebb/policies/pollux/search.h"

namespace ebb::policies::pollux {

/// `inheritance`: an answer, or empty. Problem::inheritance is not written.
std::string write_problem(const Problem& problem, std::string_view inheritance);
/// nullopt if the text is none. Rows of unknown jobs or nodes are left out of the inheritance.
std::optional<Problem> read_problem(std::string_view text);

std::string write_answer(const Problem& problem, const std::vector<Genome>& genomes);
/// The chosen genome: jobs with GPUs, with real node numbers. nullopt if the text is none.
std::optional<sched::TrainingPlan> read_choice(std::string_view answer);

}  // namespace ebb::policies::pollux
