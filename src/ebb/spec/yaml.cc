#include "ebb/spec/yaml.h"

#include <yaml-cpp/eventhandler.h>

#include <filesystem>
#include <sstream>

#include "ebb/spec/nearest.h"

namespace ebb::spec {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostShown = 60;

/// Hears a document and does nothing.
class Ignore : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::Load reads one document and ignores what follows; YAML::LoadAll (0.7) never returns on a text like ",a".
bool has_more_than_a_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignore ignore;
  return parser.HandleNextDocument(ignore) && static_cast<bool>(parser);
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out(text.substr(0, kMostShown));
  std::replace_if(out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return fmt::format("'{}{}'", out, text.size() > kMostShown ? "..." : "");
}

Result<YAML::Node> YamlFile::root(const std::string& text, std::span<const std::string_view> keys) const {
  if (has_more_than_a_document(text)) {
    return fail(ErrorCode::invalid_argument, "{}: something follows the first YAML document; {} is one", name_, what_);
  }
  const YAML::Node root = YAML::Load(text);
  if (root.IsNull()) {
    return fail(ErrorCode::invalid_argument, "{}: {} is empty; it needs at least 'version: 1'", name_, what_);
  }
  EBB_RETURN_IF_ERROR(check_keys(root, keys, what_));
  EBB_RETURN_IF_ERROR(check_version(root));
  return root;
}

Result<void> YamlFile::check_version(const YAML::Node& root) const {
  const YAML::Node version = root["version"];
  if (!version) return at(root, "the key 'version' is missing; add 'version: 1'");
  EBB_ASSIGN_OR_RETURN(const std::int64_t number, integer<std::int64_t>(version, "version", 1, INT32_MAX));
  if (number > kVersion) {
    return at(version, fmt::format("{} has version {}; this ebb reads up to version {}", what_, number, kVersion));
  }
  return {};
}

tl::unexpected<Error> YamlFile::at(const YAML::Mark& mark, std::string_view message) const {
  if (mark.is_null()) return fail(ErrorCode::invalid_argument, "{}: {}", name_, message);
  return fail(ErrorCode::invalid_argument, "{}:{}:{}: {}", name_, mark.line + 1, mark.column + 1, message);
}

Result<void> YamlFile::check_keys(const YAML::Node& map, std::span<const std::string_view> known,
                                  std::string_view what) const {
  if (!map.IsMap()) return at(map, fmt::format("{} must be a map of keys and values", what));
  std::vector<std::string_view> seen;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) return at(entry.first, fmt::format("{}: a key must be a plain word", what));
    const std::string& key = entry.first.Scalar();
    const auto found = std::find(known.begin(), known.end(), key);
    if (found == known.end()) {
      const std::string_view near = nearest(key, known);
      return at(entry.first, near.empty()
                                 ? fmt::format("unknown key {}; {} has: {}", shown(key), what, fmt::join(known, ", "))
                                 : fmt::format("unknown key {}; did you mean '{}'?", shown(key), near));
    }
    if (std::find(seen.begin(), seen.end(), *found) != seen.end()) {
      return at(entry.first, fmt::format("key '{}' appears twice", key));
    }
    seen.push_back(*found);
  }
  return {};
}

Result<std::string> YamlFile::text(const YAML::Node& node, std::string_view key) const {
  if (!node.IsScalar() || node.Scalar().empty()) return at(node, fmt::format("'{}' needs a value", key));
  return node.Scalar();
}

Result<Duration> YamlFile::duration(const YAML::Node& node, std::string_view key, bool may_be_zero) const {
  EBB_ASSIGN_OR_RETURN(const std::string value, text(node, key));
  const auto parsed = value.size() <= kMostShown ? parse_duration(value) : parse_duration("...");
  if (!parsed) return at(node, fmt::format("'{}': {}", key, parsed.error().message));
  if (*parsed == Duration::zero() && !may_be_zero) {
    return at(node, fmt::format("'{}' must be longer than 0", key));
  }
  return *parsed;
}

Result<std::string> YamlFile::path(const YAML::Node& node, std::string_view key) const {
  EBB_ASSIGN_OR_RETURN(const std::string value, text(node, key));
  return (std::filesystem::path(name_).parent_path() / value).lexically_normal().string();
}

}  // namespace ebb::spec
