#include "ebb/policies/pollux/search_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <unordered_map>

namespace ebb::policies::pollux {
namespace {

// Splits off the text before the next `end`.
std::string_view take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return word;
}

/// The words of a line as numbers; remembers whether all of them were.
class Words {
 public:
  explicit Words(std::string_view line) : line_(line) {}

  template <typename Number>
  Number number() {
    return to_number<Number>(take(line_, ' '));
  }
  template <typename Number>
  void read(Number& value) {
    value = number<Number>();
  }
  template <typename Number>
  Number to_number(std::string_view word) {
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    ok_ = ok_ && error == std::errc() && end == word.data() + word.size();
    return value;
  }
  std::string_view word() { return take(line_, ' '); }
  bool more() const { return !line_.empty(); }
  bool ok() const { return ok_; }
  void fail() { ok_ = false; }

 private:
  std::string_view line_;
  bool ok_ = true;
};

void write_row(std::string& out, const Allocation& row) {
  auto to = std::back_inserter(out);
  for (std::size_t i = 0; i < row.size(); ++i) {
    fmt::format_to(to, "{}{}:{}", i == 0 ? "" : ",", row[i].node, row[i].gpus);
  }
}

// "-" is an empty row where a line needs a word.
Allocation read_row(Words& words, std::string_view text) {
  Allocation row;
  if (text == "-") return row;
  while (!text.empty()) {
    std::string_view share = take(text, ',');
    const auto node = words.to_number<NodeId>(take(share, ':'));
    const auto gpus = words.to_number<GpuCount>(share);
    if (gpus < 1) words.fail();
    row.push_back({node, gpus});
  }
  return row;
}

// Rows of a genome line by job, with real node numbers. nullopt if it is none.
std::optional<sched::TrainingPlan> read_genome(std::string_view line) {
  if (take(line, ' ') != "genome") return std::nullopt;
  Words words(line);
  sched::TrainingPlan rows;
  while (words.more()) {
    std::string_view text = words.word();
    const auto job = words.to_number<JobId>(take(text, '='));
    rows.emplace_back(job, read_row(words, text));
  }
  return words.ok() ? std::optional(std::move(rows)) : std::nullopt;
}

bool read_node(std::string_view line, Problem& problem) {
  Words words(line);
  SearchNode node;
  words.read(node.id);
  words.read(node.gpus);
  words.read(node.group);
  node.taken = words.number<int>() != 0;
  problem.nodes.push_back(node);
  return words.ok() && node.gpus > 0 && node.group < sched::kMaxGroups;
}

bool read_job(std::string_view line, Problem& problem) {
  Words words(line);
  SearchJob job;
  words.read(job.id);
  words.read(job.smallest);
  words.read(job.step);
  words.read(job.largest);
  job.fixed = words.number<int>() != 0;
  words.read(job.max_nodes);
  words.read(job.weight);
  words.read(job.factor);
  for (std::string_view options = words.word(); !options.empty();) {
    job.options.push_back(words.to_number<sched::GroupMask>(take(options, ',')));
  }
  job.present = read_row(words, words.word());
  while (words.more()) {
    std::string_view text = words.word();
    SpeedPoint point;
    point.gpus = words.to_number<GpuCount>(take(text, ':'));
    point.one_node = words.to_number<double>(take(text, ':'));
    point.several = words.to_number<double>(text);
    job.speed.push_back(point);
  }
  const bool sizes = job.smallest >= 1 && job.step >= 1 && job.largest >= job.smallest && job.max_nodes >= 1;
  problem.jobs.push_back(std::move(job));
  return words.ok() && sizes && !problem.jobs.back().options.empty();
}

using Index = std::unordered_map<std::uint32_t, std::uint32_t>;

// Node numbers to indices; rows that name an unknown node lose it.
Allocation to_indices(const Allocation& row, const Index& nodes) {
  Allocation local;
  for (const NodeShare& share : row) {
    if (const auto node = nodes.find(share.node); node != nodes.end()) local.push_back({node->second, share.gpus});
  }
  return local;
}

Allocation to_numbers(const Problem& problem, Allocation row) {
  for (NodeShare& share : row) share.node = problem.nodes[share.node].id;
  return row;
}

}  // namespace

std::string write_problem(const Problem& problem, std::string_view inheritance) {
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "search {} {} {} {} {} {} {}\n", problem.plan, problem.seed, problem.fairness, problem.scale,
                 problem.population, problem.generations, problem.avoid_interference ? 1 : 0);
  for (const SearchNode& node : problem.nodes) {
    fmt::format_to(to, "node {} {} {} {}\n", node.id, node.gpus, node.group, node.taken ? 1 : 0);
  }
  for (const SearchJob& job : problem.jobs) {
    fmt::format_to(to, "job {} {} {} {} {} {} {} {:.6g} {} ", job.id, job.smallest, job.step, job.largest,
                   job.fixed ? 1 : 0, job.max_nodes, job.weight, job.factor, fmt::join(job.options, ","));
    if (job.present.empty()) out += '-';
    write_row(out, to_numbers(problem, job.present));
    for (const SpeedPoint& point : job.speed) {
      fmt::format_to(to, " {}:{:.6g}:{:.6g}", point.gpus, point.one_node, point.several);
    }
    out += '\n';
  }
  out += inheritance;
  return out;
}

std::optional<Problem> read_problem(std::string_view text) {
  Problem problem;
  std::string_view line = take(text, '\n');
  if (take(line, ' ') != "search") return std::nullopt;
  Words words(line);
  words.read(problem.plan);
  words.read(problem.seed);
  words.read(problem.fairness);
  words.read(problem.scale);
  words.read(problem.population);
  words.read(problem.generations);
  problem.avoid_interference = words.number<int>() != 0;
  if (!words.ok() || problem.population < 1) return std::nullopt;
  while (text.starts_with("node ") || text.starts_with("job ")) {
    line = take(text, '\n');
    if (!(take(line, ' ') == "node" ? read_node(line, problem) : read_job(line, problem))) return std::nullopt;
  }
  Index nodes;
  for (const SearchNode& node : problem.nodes) nodes.emplace(node.id, static_cast<std::uint32_t>(nodes.size()));
  Index jobs;
  for (SearchJob& job : problem.jobs) {
    jobs.emplace(job.id, static_cast<std::uint32_t>(jobs.size()));
    const std::size_t shares = job.present.size();
    job.present = to_indices(job.present, nodes);
    if (job.present.size() != shares) return std::nullopt;
  }
  while (!text.empty()) {
    const auto rows = read_genome(take(text, '\n'));
    if (!rows) return std::nullopt;
    Genome genome = problem.inheritance.empty() ? Genome(problem.jobs.size()) : problem.inheritance.front();
    for (const auto& [id, row] : *rows) {
      if (const auto job = jobs.find(id); job != jobs.end()) genome[job->second] = to_indices(row, nodes);
    }
    problem.inheritance.push_back(std::move(genome));
  }
  return problem;
}

std::string write_answer(const Problem& problem, const std::vector<Genome>& genomes) {
  std::string out;
  for (const Genome& genome : genomes) {
    out += "genome";
    const bool first = &genome == &genomes.front();
    for (std::size_t j = 0; j < genome.size(); ++j) {
      if (first ? genome[j].empty() : genome[j] == genomes.front()[j]) continue;
      fmt::format_to(std::back_inserter(out), " {}=", problem.jobs[j].id);
      write_row(out, to_numbers(problem, genome[j]));
    }
    out += '\n';
  }
  return out;
}

std::optional<sched::TrainingPlan> read_choice(std::string_view answer) {
  return read_genome(take(answer, '\n'));
}

}  // namespace ebb::policies::pollux
