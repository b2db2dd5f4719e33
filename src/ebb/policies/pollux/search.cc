#include "ebb/policies/pollux/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ebb/base/random.h"
#include "ebb/policies/pollux/search_rows.h"

namespace ebb::policies::pollux {
namespace {

using sched::GroupMask;

constexpr double kReset = 0.05;   // of the rows go back to the present
constexpr double kShrink = 0.05;  // of the rows lose GPUs
constexpr double kRaise = 0.5;    // of the genomes have a job raised
constexpr int kOffered = 3;       // jobs to which free GPUs of a node are offered at a time
constexpr int kMisses = 4;        // offers that nobody takes end the handing out
constexpr std::size_t kHandedOn = 16;

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem),
        random_(problem.seed, "pollux-" + std::to_string(problem.plan)),
        values_(problem),
        rows_(values_),
        left_(problem.nodes.size()),
        crowded_(problem.nodes.size()) {
    for (std::size_t j = 0; j < jobs(); ++j) {
      empty_.push_back(rows_.add(j, {}));
      present_.push_back(values_.present(j).empty() ? empty_[j] : rows_.add(j, values_.present(j)));
    }
  }

  Found run() {
    begin();
    std::vector<Member> children(problem_.population);
    for (std::uint32_t g = 0; g < problem_.generations; ++g) {
      for (Member& child : children) {
        breed(child);
        settle(child, mutate(child));
      }
      for (Member& child : children) members_.push_back(std::move(child));
      select(children);
    }
    Found found;
    found.evaluations = evaluations_;
    for (std::size_t m = 0; m < std::min(kHandedOn, members_.size()); ++m) found.genomes.push_back(genome(members_[m]));
    return found;
  }

 private:
  struct Member {
    double cost = 0;
    std::uint64_t hash = 0;
    std::vector<RowId> rows;

    bool operator<(const Member& other) const { return cost != other.cost ? cost < other.cost : hash < other.hash; }
    bool operator==(const Member& other) const { return cost == other.cost && hash == other.hash; }
  };
  static constexpr std::size_t kNobody = SIZE_MAX;

  std::size_t jobs() const { return problem_.jobs.size(); }
  std::size_t index(std::size_t n) { return static_cast<std::size_t>(random_.uniform() * static_cast<double>(n)); }
  bool chance(double p) { return random_.uniform() < p; }
  GroupMask bit(NodeId node) const { return GroupMask{1} << problem_.nodes[node].group; }

  GpuCount legal(const SearchJob& job, GpuCount gpus) const {
    if (gpus < job.smallest) return 0;
    return std::min(job.largest, job.smallest + (gpus - job.smallest) / job.step * job.step);
  }

  // The present allocation, the inheritance, and mutations of these up to the size of the population.
  void begin() {
    Member now;
    now.rows = present_;
    settle(now, kNobody);
    members_.push_back(std::move(now));
    for (const Genome& genome : problem_.inheritance) {
      if (members_.size() >= problem_.population) break;
      Member member;
      for (std::size_t j = 0; j < jobs(); ++j) member.rows.push_back(adopt(j, genome[j]));
      settle(member, kNobody);
      members_.push_back(std::move(member));
    }
    const std::size_t given = members_.size();
    while (members_.size() < problem_.population) {
      Member member = members_[index(given)];
      settle(member, mutate(member));
      members_.push_back(std::move(member));
    }
    std::sort(members_.begin(), members_.end());
  }

  // A row of an earlier search, cut to what is legal for its job now.
  RowId adopt(std::size_t j, Allocation row) {
    sort_by_node(row);
    if (values_.is_present(j, row)) return present_[j];
    const SearchJob& job = problem_.jobs[j];
    if (job.fixed) return empty_[j];
    return cut(j, row);
  }

  // Of `row` (sorted), which it spoils, what is legal: nodes of one option, not too many, a legal size.
  RowId cut(std::size_t j, Allocation& row) {
    const SearchJob& job = problem_.jobs[j];
    GroupMask groups = 0;
    for (const NodeShare& share : row) groups |= bit(share.node);
    const auto allowed = [&](GroupMask option) { return (groups & ~option) == 0; };
    if (std::none_of(job.options.begin(), job.options.end(), allowed)) return empty_[j];
    while (row.size() > job.max_nodes) row.erase(row.begin() + static_cast<std::ptrdiff_t>(index(row.size())));
    const GpuCount gpus = gpus_in(row);
    for (GpuCount surplus = gpus - legal(job, gpus); surplus > 0;) {
      // From the smallest shares, to be on few nodes.
      const auto least = std::min_element(row.begin(), row.end(),
                                          [](const NodeShare& a, const NodeShare& b) { return a.gpus < b.gpus; });
      const GpuCount taken = std::min(surplus, least->gpus);
      surplus -= taken;
      least->gpus -= taken;
      if (least->gpus == 0) row.erase(least);
    }
    return row.empty() ? empty_[j] : rows_.add(j, row);
  }

  // The better of two, by rank.
  const Member& parent() {
    const std::size_t a = index(members_.size());
    return members_[std::min(a, index(members_.size()))];
  }

  void breed(Member& child) {
    const Member& head = parent();
    const Member& tail = parent();
    const std::size_t point = index(jobs() + 1);
    child.rows.assign(head.rows.begin(), head.rows.begin() + static_cast<std::ptrdiff_t>(point));
    child.rows.insert(child.rows.end(), tail.rows.begin() + static_cast<std::ptrdiff_t>(point), tail.rows.end());
  }

  // Calls `change` for each job with probability p.
  template <typename Change>
  void some_jobs(double p, Change&& change) {
    const double scale = 1 / std::log1p(-p);
    double j = std::floor(std::log1p(-random_.uniform()) * scale);
    while (j < static_cast<double>(jobs())) {
      change(static_cast<std::size_t>(j));
      j += 1 + std::floor(std::log1p(-random_.uniform()) * scale);
    }
  }

  // Returns the job that was raised.
  std::size_t mutate(Member& member) {
    some_jobs(kReset, [&](std::size_t j) { member.rows[j] = present_[j]; });
    some_jobs(kShrink, [&](std::size_t j) { member.rows[j] = shrunk(j, member.rows[j]); });
    return chance(kRaise) ? raise(member) : kNobody;
  }

  RowId shrunk(std::size_t j, RowId row) {
    if (rows_[row].gpus == 0 || problem_.jobs[j].fixed || chance(0.5)) return empty_[j];
    work_.assign(rows_.shares(row).begin(), rows_.shares(row).end());
    const auto share = work_.begin() + static_cast<std::ptrdiff_t>(index(work_.size()));
    share->gpus -= 1 + static_cast<GpuCount>(index(static_cast<std::size_t>(share->gpus)));
    if (share->gpus == 0) work_.erase(share);
    return cut(j, work_);
  }

  // A random job, often one without GPUs, to a random size: on one node where one is large enough, else on nodes in a
  // row from its own on.
  std::size_t raise(Member& member) {
    std::size_t j = index(jobs());
    if (!starved_.empty() && chance(0.5)) j = starved_[index(starved_.size())];
    const SearchJob& job = problem_.jobs[j];
    if (job.fixed) return member.rows[j] = present_[j], j;
    const auto sizes = static_cast<std::size_t>((job.largest - job.smallest) / job.step + 1);
    const GpuCount gpus = job.smallest + static_cast<GpuCount>(index(sizes)) * job.step;
    const GroupMask option = job.options[index(job.options.size())];
    const std::size_t nodes = problem_.nodes.size();
    const std::span<const NodeShare> own = rows_.shares(member.rows[j]);
    const std::size_t from = !own.empty() && chance(0.5) ? own[index(own.size())].node : index(nodes);
    work_.clear();
    GpuCount wanted = gpus;
    for (std::size_t i = 0; i < nodes && wanted > 0 && work_.size() < job.max_nodes; ++i) {
      const auto node = static_cast<NodeId>((from + i) % nodes);
      const GpuCount has = problem_.nodes[node].gpus;
      if ((bit(node) & option) == 0 || has == 0) continue;
      if (has >= gpus) work_.assign(1, {node, gpus});
      if (has >= gpus) break;
      work_.push_back({node, std::min(has, wanted)});
      wanted -= work_.back().gpus;
    }
    sort_by_node(work_);
    if (const RowId row = cut(j, work_); rows_[row].gpus > 0) member.rows[j] = row;
    return j;
  }

  // Repairs a genome, hands out what is free then, and adds up its value.
  void settle(Member& member, std::size_t first) {
    for (std::size_t n = 0; n < left_.size(); ++n) {
      left_[n] = problem_.nodes[n].gpus;
      crowded_[n] = problem_.nodes[n].taken ? 1 : 0;
    }
    if (first != kNobody) member.rows[first] = fitted(first, member.rows[first]);
    growing_.clear();
    starved_.clear();
    for (std::size_t j = 0; j < jobs(); ++j) {
      if (j != first) member.rows[j] = fitted(j, member.rows[j]);
      const GpuCount gpus = rows_[member.rows[j]].gpus;
      if (gpus == 0) starved_.push_back(j);
      if (gpus < problem_.jobs[j].largest && !problem_.jobs[j].fixed) growing_.push_back(j);
    }
    if (!growing_.empty()) hand_out(member);
    member.cost = 0;
    member.hash = 0;
    for (const RowId row : member.rows) {
      member.cost += rows_[row].cost;
      member.hash += rows_[row].hash;
    }
    ++evaluations_;
  }

  // Offers the free GPUs of one node after the other.
  void hand_out(Member& member) {
    const std::size_t nodes = left_.size();
    const std::size_t from = index(nodes);
    int misses = 0;
    for (std::size_t i = 0; i < nodes && misses < kMisses; ++i) {
      const auto node = static_cast<NodeId>((from + i) % nodes);
      while (left_[node] > 0) {
        if (offer(member, node)) continue;
        ++misses;
        break;
      }
    }
  }

  // The row, or what of it its nodes have left; takes it from there.
  RowId fitted(std::size_t j, RowId row) {
    if (!fits(row)) {
      if (problem_.jobs[j].fixed) return empty_[j];
      const bool alone = problem_.avoid_interference && rows_[row].count > 1;
      work_.clear();
      for (const NodeShare& share : rows_.shares(row)) {
        const GpuCount gpus = std::min(share.gpus, left_[share.node]);
        if (gpus > 0 && !(alone && crowded_[share.node])) work_.push_back({share.node, gpus});
      }
      row = cut(j, work_);
    }
    take(row);
    return row;
  }

  bool fits(RowId row) const {
    const bool alone = problem_.avoid_interference && rows_[row].count > 1;
    for (const NodeShare& share : rows_.shares(row)) {
      if (share.gpus > left_[share.node] || (alone && crowded_[share.node])) return false;
    }
    return true;
  }

  void take(RowId row) {
    for (const NodeShare& share : rows_.shares(row)) {
      left_[share.node] -= share.gpus;
      if (rows_[row].count > 1) crowded_[share.node] = 1;
    }
  }

  void give_back(RowId row) {
    for (const NodeShare& share : rows_.shares(row)) {
      left_[share.node] += share.gpus;
      if (rows_[row].count > 1) crowded_[share.node] = problem_.nodes[share.node].taken ? 1 : 0;
    }
  }

  // Offers GPUs of a node to some jobs; false if none took any.
  bool offer(Member& member, NodeId node) {
    double most = 0;
    std::size_t winner = kNobody;
    for (int i = 0; i < kOffered; ++i) {
      const std::vector<std::size_t>& from = i == 0 && !starved_.empty() ? starved_ : growing_;
      const std::size_t j = from[index(from.size())];
      if (j == winner || !grown(j, member.rows[j], node)) continue;
      const RowId row = member.rows[j];
      const double gain = rows_[row].cost - values_.cost(j, work_, gpus_in(work_));
      if (gain <= most) continue;
      most = gain;
      winner = j;
      best_.swap(work_);
    }
    if (winner == kNobody) return false;
    give_back(member.rows[winner]);
    member.rows[winner] = rows_.add(winner, best_);
    take(member.rows[winner]);
    return true;
  }

  // Puts the row with more GPUs, from `node` and if these do not make a legal size from the next ones, into work_.
  bool grown(std::size_t j, RowId row, NodeId node) {
    const SearchJob& job = problem_.jobs[j];
    const GpuCount had = rows_[row].gpus;
    if (had >= job.largest || (job.fixed && !values_.present(j).empty())) return false;
    const std::span<const NodeShare> own = rows_.shares(row);
    GroupMask groups = bit(node);
    for (const NodeShare& share : own) groups |= bit(share.node);
    const auto option = std::find_if(job.options.begin(), job.options.end(),
                                     [&](GroupMask allowed) { return (groups & ~allowed) == 0; });
    if (option == job.options.end()) return false;
    const GpuCount most = std::min(left_[node], job.largest - had);
    GpuCount wanted = legal(job, had + 1 + static_cast<GpuCount>(index(static_cast<std::size_t>(most)))) - had;
    if (wanted <= 0) wanted = had == 0 ? job.smallest : legal(job, had + job.step) - had;
    if (wanted <= 0) return false;
    work_.assign(own.begin(), own.end());
    for (std::size_t i = 0; i < left_.size() && wanted > 0; ++i) {
      const auto at = static_cast<NodeId>((node + i) % left_.size());
      if (left_[at] > 0 && (bit(at) & *option) != 0) wanted -= add(at, std::min(wanted, left_[at]));
    }
    if (wanted > 0 || work_.size() > job.max_nodes) return false;
    if (problem_.avoid_interference && work_.size() > 1 && own.size() <= 1) {
      // It becomes a job of several nodes.
      for (const NodeShare& share : work_) {
        if (crowded_[share.node]) return false;
      }
    } else if (problem_.avoid_interference && own.size() > 1) {
      for (const NodeShare& share : work_) {
        const auto mine = [&](const NodeShare& s) { return s.node == share.node; };
        if (crowded_[share.node] && std::none_of(own.begin(), own.end(), mine)) return false;
      }
    }
    return true;
  }

  GpuCount add(NodeId node, GpuCount gpus) {
    const auto place = std::lower_bound(work_.begin(), work_.end(), node,
                                        [](const NodeShare& share, NodeId n) { return share.node < n; });
    if (place != work_.end() && place->node == node) {
      place->gpus += gpus;
    } else {
      work_.insert(place, {node, gpus});
    }
    return gpus;
  }

  // The best of all, each once; the storage of the others goes back to `children`.
  void select(std::vector<Member>& children) {
    std::sort(members_.begin(), members_.end());
    std::size_t kept = 1;
    for (std::size_t m = 1; m < members_.size() && kept < problem_.population; ++m) {
      if (members_[m] == members_[kept - 1]) continue;
      if (m != kept) std::swap(members_[m], members_[kept]);
      ++kept;
    }
    for (std::size_t c = 0; c < children.size() && kept + c < members_.size(); ++c) {
      children[c] = std::move(members_[kept + c]);
    }
    members_.resize(kept);
  }

  Genome genome(const Member& member) const {
    Genome genome;
    for (const RowId row : member.rows) genome.emplace_back(rows_.shares(row).begin(), rows_.shares(row).end());
    return genome;
  }

  const Problem& problem_;
  Random random_;
  Values values_;
  Rows rows_;
  std::vector<RowId> empty_;
  std::vector<RowId> present_;
  std::vector<Member> members_;       // the best first
  std::vector<GpuCount> left_;        // by node, of the genome at hand
  std::vector<char> crowded_;         // a job of several nodes is on it
  std::vector<std::size_t> starved_;  // jobs without GPUs in the genome at hand, or the last one
  std::vector<std::size_t> growing_;  // jobs that could have had more before GPUs were handed out
  Allocation work_;
  Allocation best_;
  std::uint64_t evaluations_ = 0;
};

}  // namespace

Found search(const Problem& problem) {
  return Search(problem).run();
}

double objective(const Problem& problem, const Genome& genome) {
  const Values values(problem);
  double sum = 0;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    Allocation row = genome[j];
    sort_by_node(row);
    sum += values.cost(j, row, gpus_in(row));
  }
  return values.mean(sum);
}

}  // namespace ebb::policies::pollux
