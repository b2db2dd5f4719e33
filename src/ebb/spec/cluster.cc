#include "ebb/spec/cluster.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace ebb::spec {
namespace {

constexpr std::size_t kMostText = 64 * 1024;
constexpr std::size_t kShown = 160;
constexpr std::string_view kForm =
    "a cluster is NODESxGPUS[:TYPE][@POOL], groups joined by '+', for example 16x4 or "
    "8x8:a100@training+4x4:t4@serving";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<ClusterSpec> parse() {
    if (text_.size() > kMostText) {
      return fail(ErrorCode::invalid_argument, "the cluster is written with more than {} bytes; {}", kMostText, kForm);
    }
    ClusterSpec cluster;
    do {
      EBB_RETURN_IF_ERROR(group(cluster));
    } while (accept('+'));
    if (at_ < text_.size()) return wrong(at_, "expected '+' or the end here");
    name_nodes(cluster);
    return cluster;
  }

 private:
  Result<void> group(ClusterSpec& cluster) {
    const std::size_t begin = at_;
    EBB_ASSIGN_OR_RETURN(const std::int64_t nodes, number("a number of nodes", kMaxNodes));
    if (!accept('x')) return wrong(at_, "expected 'x' between the number of nodes and GPUs");
    EBB_ASSIGN_OR_RETURN(const std::int64_t gpus, number("a number of GPUs a node", kMaxGpusPerNode));
    NodeSpec node;
    node.gpus = static_cast<GpuCount>(gpus);
    if (accept(':')) {
      EBB_ASSIGN_OR_RETURN(node.gpu_type, name("a GPU type"));
    }
    if (accept('@')) {
      EBB_ASSIGN_OR_RETURN(node.pool, name("the name of a pool"));
    }
    total_gpus_ += nodes * gpus;
    if (static_cast<std::int64_t>(cluster.nodes.size()) + nodes > kMaxNodes) {
      return wrong(begin, fmt::format("with this group there are more than {} nodes", kMaxNodes));
    }
    if (total_gpus_ > kMaxClusterGpus) {
      return wrong(begin, fmt::format("with this group there are more than {} GPUs", kMaxClusterGpus));
    }
    groups_.insert({node.gpu_type, node.pool});
    if (groups_.size() > kMaxGroups) {
      return wrong(begin, fmt::format("with this group there are more than {} different pairs of GPU type and pool",
                                      kMaxGroups));
    }
    cluster.nodes.insert(cluster.nodes.end(), static_cast<std::size_t>(nodes), node);
    return {};
  }

  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<std::int64_t> number(const char* what, std::int64_t most) {
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const char* const limit = text_.data() + text_.size();
    if (begin == limit || *begin < '0' || *begin > '9') return wrong(at_, fmt::format("expected {} here", what));
    const auto [end, error] = std::from_chars(begin, limit, value);
    if (error != std::errc() || value < 1 || value > most) {
      return wrong(at_, fmt::format("expected {} from 1 to {} here", what, most));
    }
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  Result<std::string> name(const char* what) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (at_ == begin) return wrong(at_, fmt::format("expected {} here (letters, digits, '.', '_', '-')", what));
    return std::string(text_.substr(begin, at_ - begin));
  }

  // The message with a marker under the offending place; of a long text only what is around it.
  tl::unexpected<Error> wrong(std::size_t at, std::string_view what) const {
    const std::size_t begin = at > kShown / 2 ? at - kShown / 2 : 0;
    std::string excerpt(text_.substr(begin, kShown));
    std::replace_if(excerpt.begin(), excerpt.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    return fail(ErrorCode::invalid_argument, "not a cluster: {}{}{}: {}\n  {}\n  {}^\n{}", begin > 0 ? "..." : "'",
                excerpt, begin + kShown < text_.size() ? "..." : "'", what, excerpt, std::string(at - begin, ' '),
                kForm);
  }

  static void name_nodes(ClusterSpec& cluster) {
    const std::size_t width = std::max<std::size_t>(4, fmt::formatted_size("{}", cluster.nodes.size() - 1));
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) cluster.nodes[i].name = fmt::format("node-{:0{}}", i, width);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::int64_t total_gpus_ = 0;
  std::set<std::pair<std::string, std::string>> groups_;
};

}  // namespace

Result<ClusterSpec> parse_cluster(std::string_view text) {
  return Parser(text).parse();
}

std::string format_cluster(const ClusterSpec& cluster) {
  const auto alike = [](const NodeSpec& a, const NodeSpec& b) {
    return a.gpus == b.gpus && a.gpu_type == b.gpu_type && a.pool == b.pool;
  };
  std::string text;
  for (auto group = cluster.nodes.begin(); group != cluster.nodes.end();) {
    const auto end =
        std::find_if_not(group, cluster.nodes.end(), [&](const NodeSpec& node) { return alike(node, *group); });
    text += fmt::format("{}{}x{}", text.empty() ? "" : "+", end - group, group->gpus);
    if (!group->gpu_type.empty()) text += ":" + group->gpu_type;
    if (!group->pool.empty()) text += "@" + group->pool;
    group = end;
  }
  return text;
}

}  // namespace ebb::spec
