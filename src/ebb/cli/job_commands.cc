#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <thread>

#include "ebb/base/files.h"
#include "ebb/base/secret.h"
#include "ebb/base/text.h"
#include "ebb/cli/api_client.h"
#include "ebb/cli/command.h"
#include "ebb/spec/job_file.h"
#include "ebb/wire/api_json.h"

namespace ebb::cli {
namespace {

using wire::JobView;

constexpr std::size_t kPage = 1'000;
constexpr std::size_t kLogChunk = 65'536;

/// What every one of these commands takes.
struct JobFlags {
  std::string data;
  JobId job = 0;
  bool json = false;
};

// A file, or "-" for standard input. Relative paths in it are meant from where the user stands.
Result<std::string> read_request(const std::string& path) {
  if (path != "-") return read_file(path, spec::kMaxJobFileBytes);
  std::string text(spec::kMaxJobFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stdin));
  return text;
}

Result<void> submit(Context& context, const JobFlags& flags, const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, read_request(path));
  const std::string name = path == "-" ? "standard input" : path;
  EBB_ASSIGN_OR_RETURN(const JobRequest request, spec::parse_job(name, text, std::filesystem::current_path().string()));
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string key, random_hex(16));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.post("/v1/jobs", spec::format_job(request), "cli-" + key));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<JobId> ids, wire::ids_from(body));
  if (ids.size() == 1) {
    context.print(fmt::format("job {} was accepted\n", ids.front()));
  } else if (!ids.empty()) {
    context.print(fmt::format("jobs {} to {} were accepted\n", ids.front(), ids.back()));
  }
  return {};
}

struct PsFlags {
  bool all = false;
  std::size_t limit = kPage;  ///< 0: no limit
  std::string status;
  std::string tenant;
};

// Page by page; of more than the limit one more than it.
Result<std::vector<JobView>> list_jobs(ApiClient& api, const PsFlags& ps_flags) {
  std::string filter = fmt::format("limit={}", kPage);
  if (!ps_flags.all && ps_flags.status.empty()) filter += "&active=true";
  if (!ps_flags.status.empty()) filter += "&status=" + wire::url_escape(ps_flags.status);
  if (!ps_flags.tenant.empty()) filter += "&tenant=" + wire::url_escape(ps_flags.tenant);
  std::vector<JobView> jobs;
  while (true) {
    const std::string after = jobs.empty() ? "" : fmt::format("&after={}", jobs.back().id);
    EBB_ASSIGN_OR_RETURN(const std::string body, api.get("/v1/jobs?" + filter + after));
    EBB_ASSIGN_OR_RETURN(std::vector<JobView> page, wire::jobs_from(body));
    const bool last = page.size() < kPage;
    std::move(page.begin(), page.end(), std::back_inserter(jobs));
    if (ps_flags.limit > 0 && jobs.size() > ps_flags.limit) jobs.resize(ps_flags.limit + 1);
    if (last || (ps_flags.limit > 0 && jobs.size() > ps_flags.limit)) return jobs;
  }
}

// Jobs that wait for GPUs, or for something before that, in order of submission.
Result<void> queue(Context& context, const JobFlags& flags, const PsFlags& ps_flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  PsFlags all = ps_flags;
  all.limit = 0;
  EBB_ASSIGN_OR_RETURN(std::vector<JobView> jobs, list_jobs(api, all));
  std::erase_if(jobs, [](const JobView& job) { return job.status > wire::JobStatus::waiting; });
  if (flags.json) {
    context.print(wire::list_to_json(jobs) + "\n");
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"PLACE", "JOB", "NAME", "TENANT", "GPUS", "AGE", "STATUS", "WHY"}};
  std::size_t place = 0;
  for (const JobView& job : jobs) {
    const bool waits = job.status == wire::JobStatus::waiting;
    rows.push_back({waits ? fmt::format("{}", ++place) : "-", fmt::format("{}", job.id), job.name, job.tenant,
                    fmt::format("{}", job.gpus), age(job.submitted), to_string(job.status), job.reason});
  }
  context.print(left_table(rows));
  return {};
}

Result<void> ps(Context& context, const JobFlags& flags, const PsFlags& ps_flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(std::vector<JobView> jobs, list_jobs(api, ps_flags));
  if (ps_flags.limit > 0 && jobs.size() > ps_flags.limit) {
    jobs.pop_back();
    context.warn(fmt::format("these are the first {} jobs; --limit 0 lists all", jobs.size()));
  }
  if (flags.json) {
    context.print(wire::list_to_json(jobs) + "\n");
    return {};
  }
  std::vector<std::vector<std::string>> rows{{"JOB", "NAME", "STATUS", "GPUS", "AGE", "RUN", "WHY"}};
  for (const JobView& job : jobs) {
    rows.push_back({fmt::format("{}", job.id), job.name, to_string(job.status), fmt::format("{}", job.gpus),
                    age(job.submitted), job.started ? age(*job.started, job.ended) : "-", job.reason});
  }
  context.print(left_table(rows));
  return {};
}

std::string progress_text(const wire::Progress& progress) {
  std::string text = fmt::format("step {}, {} samples", progress.step, progress.samples);
  if (progress.loss) text += fmt::format(", loss {:.4g}", *progress.loss);
  if (!progress.checkpoint.empty()) text += fmt::format(", checkpoint {}", progress.checkpoint);
  if (progress.checkpoint_age) text += fmt::format(" ({} old)", format_human(*progress.checkpoint_age));
  return text;
}

// A GPU is a CPU slot on machines without.
std::string workers_text(const JobRequest& request) {
  std::string text =
      fmt::format("{} x {} slot{}", request.workers, request.gpus_per_worker, request.gpus_per_worker == 1 ? "" : "s");
  if (request.min_workers > 0) {
    text += fmt::format("; {} to {} workers, elasticity {}", request.min_workers, request.max_workers,
                        to_string(request.elasticity));
  }
  return text;
}

Result<void> describe_job(Context& context, const JobFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.get(fmt::format("/v1/jobs/{}", flags.job)));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const wire::JobDetail detail, wire::job_detail_from(body));
  const JobView& job = detail.job;
  std::string command;
  for (const std::string& word : detail.request.command) command += (command.empty() ? "" : " ") + word;
  std::vector<std::vector<std::string>> rows{
      {"job", fmt::format("{}", job.id)},
      {"name", job.name},
      {"status", fmt::format("{}{}{}", to_string(job.status), job.reason.empty() ? "" : ": ", job.reason)},
      {"command", command},
      {"folder", detail.request.working_directory},
      {"workers", workers_text(detail.request)},
      {"starts", fmt::format("{} (retries: {} of {})", job.incarnations, job.retries, detail.request.max_retries)},
      {"submitted", age(job.submitted) + " ago"}};
  if (job.started) rows.push_back({"ran", age(*job.started, job.ended)});
  if (job.exit_code) rows.push_back({"exit code", fmt::format("{}", *job.exit_code)});
  if (detail.resizing) rows.push_back({"resize", "its GPUs are being changed"});
  if (detail.revision > 0) {
    rows.push_back({"target", fmt::format("revision {}, generation {}", detail.revision, detail.generation)});
  }
  if (detail.progress) rows.push_back({"progress", progress_text(*detail.progress)});
  for (const wire::WorkerView& worker : detail.workers) {
    std::string slots;
    for (const std::int32_t slot : worker.slots) slots += fmt::format("{}{}", slots.empty() ? "" : ",", slot);
    rows.push_back({fmt::format("worker {}", worker.rank),
                    fmt::format("{} slots {}: {}", worker.node, slots,
                                worker.exit       ? describe(*worker.exit)
                                : worker.pid != 0 ? fmt::format("runs, process {}", worker.pid)
                                                  : "starting")});
  }
  context.print(left_table(rows));
  return {};
}

Result<void> explain(Context& context, const JobFlags& flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.get(fmt::format("/v1/jobs/{}/explain", flags.job)));
  if (flags.json) {
    context.print(body + "\n");
    return {};
  }
  EBB_ASSIGN_OR_RETURN(const wire::Explanation why, wire::explanation_from(body));
  std::string text = fmt::format("job {} ('{}') is {}", why.job.id, why.job.name, to_string(why.job.status));
  if (!why.sentence.empty()) text += ": " + why.sentence;
  text += "\n";
  if (why.position) text += fmt::format("{} in the order of submission among waiting jobs\n", *why.position);
  if (why.expected_start) {
    text += fmt::format("expected to start in {}, ", ahead(*why.expected_start));
  }
  if (!why.basis.empty()) text += why.basis + "\n";
  context.print(text);
  return {};
}

struct LogFlags {
  bool follow = false;
  std::int32_t rank = 0;
  bool error_stream = false;
};

Result<bool> job_ended(ApiClient& api, JobId job) {
  EBB_ASSIGN_OR_RETURN(const std::string body, api.get(fmt::format("/v1/jobs/{}", job)));
  EBB_ASSIGN_OR_RETURN(const wire::JobDetail detail, wire::job_detail_from(body));
  return wire::ended(detail.job.status);
}

// Follows until the job ends. Bytes go out as they are: a log may hold anything its job printed.
Result<void> logs(Context& context, const JobFlags& flags, const LogFlags& log_flags) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  std::uint64_t offset = 0;
  while (true) {
    // Asked before reading: what was written until the end is read after it.
    EBB_ASSIGN_OR_RETURN(const bool ended, job_ended(api, flags.job));
    while (true) {
      auto chunk =
          api.get_log(fmt::format("/v1/jobs/{}/log?rank={}&stream={}&offset={}&max_bytes={}", flags.job, log_flags.rank,
                                  log_flags.error_stream ? "stderr" : "stdout", offset, kLogChunk));
      if (!chunk) {
        // It has not started yet.
        if (log_flags.follow && !ended && chunk.error().code == ErrorCode::not_found) break;
        return tl::unexpected(chunk.error());
      }
      if (chunk->bytes.empty()) break;
      if (chunk->offset > offset) {
        context.warn(fmt::format("{} bytes before this are no longer kept", chunk->offset - offset));
      }
      std::fwrite(chunk->bytes.data(), 1, chunk->bytes.size(), context.streams.out);
      std::fflush(context.streams.out);
      offset = chunk->offset + chunk->bytes.size();
    }
    if (!log_flags.follow || ended) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

Result<void> act(Context& context, const JobFlags& flags, const char* verb, const char* done) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body, api.post(fmt::format("/v1/jobs/{}/{}", flags.job, verb), ""));
  context.print(flags.json ? body + "\n" : fmt::format("job {} {}\n", flags.job, done));
  return {};
}

Result<void> resize(Context& context, const JobFlags& flags, std::int32_t workers) {
  EBB_ASSIGN_OR_RETURN(ApiClient api, ApiClient::connect(flags.data));
  EBB_ASSIGN_OR_RETURN(const std::string body,
                       api.post(fmt::format("/v1/jobs/{}/resize", flags.job), wire::resize_to_json(workers)));
  context.print(flags.json ? body + "\n" : fmt::format("job {} is to run on {} workers\n", flags.job, workers));
  return {};
}

/// A command about one job.
CLI::App* add_command(CLI::App& app, const char* name, const char* summary, JobFlags& flags, bool job = true) {
  CLI::App* command = app.add_subcommand(name, summary);
  if (job) command->add_option("JOB", flags.job, "Number of the job")->required();
  add_data_flag(*command, flags.data);
  command->add_flag("--json", flags.json, "Print the answer of the API");
  return command;
}

}  // namespace

void add_jobs(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<JobFlags>();

  const auto path = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "submit", "Submit a job to the running cluster", *flags, false);
  command->add_option("FILE", *path, "The job in YAML (docs/reference/job.md); - for standard input")->required();
  command->callback([&context, flags, path] { context.finish(submit(context, *flags, *path)); });

  const auto ps_flags = std::make_shared<PsFlags>();
  command = add_command(app, "ps", "List jobs that have not ended", *flags, false);
  command->add_flag("--all,-a", ps_flags->all, "Also those that have");
  command->add_option("--status", ps_flags->status, "Only jobs with this status");
  command->add_option("--tenant", ps_flags->tenant, "Only jobs of this tenant");
  command->add_option("--limit", ps_flags->limit, "How many at most; 0 = all (default: 1000)");
  command->callback([&context, flags, ps_flags] { context.finish(ps(context, *flags, *ps_flags)); });

  command = add_command(app, "queue", "List jobs that wait, in order of submission, and why", *flags, false);
  command->add_option("--tenant", ps_flags->tenant, "Only jobs of this tenant");
  command->callback([&context, flags, ps_flags] { context.finish(queue(context, *flags, *ps_flags)); });

  command = add_command(app, "describe", "All about one job", *flags);
  command->callback([&context, flags] { context.finish(describe_job(context, *flags)); });
  command = add_command(app, "explain", "Why a job waits, and when it is expected to start", *flags);
  command->callback([&context, flags] { context.finish(explain(context, *flags)); });

  const auto log_flags = std::make_shared<LogFlags>();
  command = add_command(app, "logs", "What a worker of a job printed, of its latest start", *flags);
  command->add_flag("--follow,-f", log_flags->follow, "Go on until the job ends");
  command->add_option("--rank", log_flags->rank, "Which worker (default: 0)")->check(CLI::NonNegativeNumber);
  command->add_flag("--stderr", log_flags->error_stream, "Standard error instead of standard output");
  command->callback([&context, flags, log_flags] { context.finish(logs(context, *flags, *log_flags)); });

  command = add_command(app, "cancel", "End a job, whether it waits or runs", *flags);
  command->callback([&context, flags] { context.finish(act(context, *flags, "cancel", "will end")); });
  const auto workers = std::make_shared<std::int32_t>(0);
  command = add_command(app, "resize", "Run a job on another number of workers", *flags);
  command->add_option("WORKERS", *workers, "How many, of the range in its job file")->required();
  command->callback([&context, flags, workers] { context.finish(resize(context, *flags, *workers)); });
  command = add_command(app, "hold", "Keep a waiting job from starting", *flags);
  command->callback([&context, flags] { context.finish(act(context, *flags, "hold", "is held")); });
  command = add_command(app, "release", "Let a held job start", *flags);
  command->callback([&context, flags] { context.finish(act(context, *flags, "release", "was released")); });
}

}  // namespace ebb::cli
