/// The summary in words (verdict_of of report_data.h). It says only what the figures carry: figures within 1 % of each
/// other are called equal, runs without a completed job are left out and named, and knowledge that no real cluster has
/// is pointed out.

#include <algorithm>
#include <cmath>
#include <set>

#include "ebb/base/text.h"
#include "ebb/sim/report_data.h"

namespace ebb::sim {

namespace {

constexpr double kAbout = 0.01;  // figures closer than this are not told apart

struct Contender {
  std::string name;
  bool oracle = false;
  const Summary* summary = nullptr;
};
using Contenders = std::vector<Contender>;
using Figure = double (*)(const Summary&);

double average_jct(const Summary& s) {
  return s.training.avg_s;
}
double p99_pending(const Summary& s) {
  return s.queue.p99_s;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

/// The names of those whose figure is about `value`.
std::string names_near(const Contenders& all, Figure figure, double value, double about = kAbout) {
  std::vector<std::string> names;
  for (const Contender& c : all) {
    if (std::abs(figure(*c.summary) - value) <= about * value) names.push_back(c.name);
  }
  return join(names);
}

struct Range {
  double low = 0;
  double high = 0;
  bool flat() const { return high - low <= kAbout * high; }
};

Range range_of(const Contenders& all, Figure figure) {
  Range range{figure(*all[0].summary), figure(*all[0].summary)};
  for (const Contender& c : all) {
    range.low = std::min(range.low, figure(*c.summary));
    range.high = std::max(range.high, figure(*c.summary));
  }
  return range;
}

/// "99 % of <whom> waited 3h 08m or less", or that they never waited.
std::string waiting(std::string_view whom, double p99_s) {
  return p99_s > 0 ? fmt::format("99 % of {} waited {} or less", whom, human_seconds(p99_s))
                   : fmt::format("at least 99 % of {} never waited", whom);
}

std::string sentence_about_one(const Contender& only) {
  const Summary& s = *only.summary;
  return fmt::format("Under {}, {} of {} {} completed, on average {} after they were submitted; {}.", only.name,
                     with_commas(s.training_completed()), with_commas(s.training_total()),
                     s.inference.any() ? "training jobs" : "jobs", human_seconds(s.training.avg_s),
                     waiting("them", s.queue.p99_s));
}

std::string sentence_about_several(const Contenders& all, std::string_view noun) {
  const Range jct = range_of(all, average_jct);
  const Range pending = range_of(all, p99_pending);
  std::string text;
  if (jct.flat()) {
    text = fmt::format("All {} {} completed jobs about equally fast, {} after submission on average", all.size(), noun,
                       human_seconds(jct.high));
  } else {
    text = fmt::format(
        "On average jobs completed soonest under {}, {} after submission, {:.0f} % sooner than the {} under {}",
        names_near(all, average_jct, jct.low), human_seconds(jct.low), 100 * (1 - jct.low / jct.high),
        human_seconds(jct.high), names_near(all, average_jct, jct.high));
  }
  text += "; " + waiting("jobs", pending.low);
  if (pending.flat()) return text + " under each.";
  return text + fmt::format(" under {}, against {} under {}.", names_near(all, p99_pending, pending.low),
                            pending.low > 0 ? human_seconds(pending.high)
                                            : fmt::format("a 99th percentile of {}", human_seconds(pending.high)),
                            names_near(all, p99_pending, pending.high));
}

void note_missing_jobs(const Contenders& all, std::vector<std::string>& notes) {
  const auto by_completed = [](const Contender& a, const Contender& b) {
    return a.summary->training_completed() < b.summary->training_completed();
  };
  const auto [fewest, most] = std::minmax_element(all.begin(), all.end(), by_completed);
  if (fewest->summary->training_completed() == most->summary->training_completed()) return;
  notes.push_back(fmt::format(
      "Not every run completed the same number of jobs ({} under {}, {} under {}), so these averages are not over the "
      "same jobs.",
      with_commas(fewest->summary->training_completed()), fewest->name,
      with_commas(most->summary->training_completed()), most->name));
}

// Training and inference are two questions: the sentence answers the first, this the second.
void note_inference(const Contenders& all, std::vector<std::string>& notes) {
  Contenders serving;
  for (const Contender& c : all) {
    if (c.summary->inference.any()) serving.push_back(c);
  }
  if (serving.empty()) return;
  const auto share = [](const Summary& s) { return s.inference.in_target_share; };
  const auto extra = [](const Summary& s) { return s.inference.avg_extra_s; };
  const Range shares = range_of(serving, share);
  std::string text = "Inference: ";
  const auto percent = [](double value) { return fmt::format("{:.{}f} %", 100 * value, value < 1 ? 2 : 0); };
  if (percent(shares.low) == percent(shares.high)) {
    text += fmt::format("{} in target{}", percent(shares.high), serving.size() > 1 ? " under each" : "");
  } else {
    text += fmt::format("{} in target under {}, {} under {}", percent(shares.high),
                        names_near(serving, share, shares.high, 0), percent(shares.low),
                        names_near(serving, share, shares.low, 0));
  }
  const Range extras = range_of(serving, extra);
  if (extras.high > 0) {
    text += extras.flat() ? fmt::format("; tasks took {} longer than alone on average", human_seconds(extras.high))
                          : fmt::format("; tasks took {} to {} longer than alone on average", human_seconds(extras.low),
                                        human_seconds(extras.high));
  }
  notes.push_back(text + ".");
}

void note_oracles(const Contenders& all, std::vector<std::string>& notes) {
  std::vector<std::string> knowing;
  Contenders fair;
  for (const Contender& c : all) {
    if (c.oracle) {
      knowing.push_back(c.name);
    } else {
      fair.push_back(c);
    }
  }
  if (knowing.empty()) return;
  std::string text = fmt::format(
      "{} {} the true run times (oracle), which nobody knows on a real cluster: read {} as a reference, not as a "
      "result "
      "to expect.",
      join(knowing), knowing.size() == 1 ? "uses" : "use", knowing.size() == 1 ? "it" : "them");
  if (!fair.empty()) {
    const double best = range_of(fair, average_jct).low;
    text += fmt::format(" Without such knowledge the lowest average completion time was {}, under {}.",
                        human_seconds(best), names_near(fair, average_jct, best));
  }
  notes.push_back(std::move(text));
}

}  // namespace

Verdict verdict_of(std::span<const SimResult> results, const View& view) {
  Verdict verdict;
  Contenders completed;
  std::vector<std::string> without;
  std::set<std::string> conditions;
  std::set<std::string> policies;
  for (const std::size_t i : view.runs) {
    const SimResult& run = results[i];
    RunName name = parse_label(run);
    conditions.insert(name.condition + "\n" + run.cluster);
    policies.insert(name.contender);
    std::string shown = view.by_label && !run.label.empty() ? run.label : name.contender;
    if (run.summary.training_completed() == 0) {
      without.push_back(std::move(shown));
    } else {
      completed.push_back({std::move(shown), name.oracle, &run.summary});
    }
  }
  if (view.by_label && conditions.size() > 1 && policies.size() > 1) {
    verdict.sentence =
        fmt::format("{} runs of {} policies under {} conditions; compare runs of the same load and seed.",
                    view.runs.size(), policies.size(), conditions.size());
  } else if (completed.empty()) {
    verdict.sentence = view.runs.size() == 1 ? "No job completed in this run."
                                             : fmt::format("No job completed in any of the {} runs.", view.runs.size());
    return verdict;
  } else if (completed.size() == 1) {
    verdict.sentence = sentence_about_one(completed[0]);
  } else {
    verdict.sentence = sentence_about_several(completed, policies.size() > 1 ? "policies" : "runs");
  }
  // In a sweep, which part of it this is about.
  if (!view.by_label && view.runs.size() < results.size()) {
    verdict.sentence = fmt::format("With {}: {}", view.name, verdict.sentence);
  }
  if (!without.empty()) verdict.notes.push_back(fmt::format("No job completed under {}.", join(without)));
  if (completed.size() > 1) note_missing_jobs(completed, verdict.notes);
  note_inference(completed, verdict.notes);
  note_oracles(completed, verdict.notes);
  return verdict;
}

}  // namespace ebb::sim
