#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/perf/profile.h"
#include "ebb/perf/profile_files.h"
#include "ebb/perf/profile_tables.h"

namespace ebb::perf {

const ProfileSet& ProfileSet::built_in() {
  static const ProfileSet set = [] {
    ProfileSet made;
    for (ProfileFiles& files : built_in_profile_files()) {
      Result<std::shared_ptr<const ProfileTables>> tables = read_profile_tables(std::move(files));
      EBB_CHECK(tables.has_value() && *tables != nullptr);
      made.profiles_.push_back(Profile(std::move(*tables)));
    }
    return made;
  }();
  return set;
}

Result<ProfileSet> ProfileSet::read(const std::filesystem::path& folder) {
  EBB_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(folder));
  ProfileSet set;
  for (const std::string& name : names) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder / name, error)) continue;
    EBB_ASSIGN_OR_RETURN(ProfileFiles files, load_profile_files(folder / name));
    if (!files.any()) continue;
    EBB_ASSIGN_OR_RETURN(std::shared_ptr<const ProfileTables> tables, read_profile_tables(std::move(files)));
    if (tables) set.profiles_.push_back(Profile(std::move(tables)));
  }
  if (set.profiles_.empty()) {
    return fail(ErrorCode::not_found, "{}: no profile in it; it needs one folder an application, with placements.csv",
                folder.string());
  }
  return set;
}

const Profile* ProfileSet::find(std::string_view application) const {
  const auto found = std::find_if(profiles_.begin(), profiles_.end(),
                                  [&](const Profile& profile) { return profile.name() == application; });
  return found == profiles_.end() ? nullptr : &*found;
}

std::vector<std::string> ProfileSet::names() const {
  std::vector<std::string> names;
  for (const Profile& profile : profiles_) names.push_back(profile.name());
  return names;
}

}  // namespace ebb::perf
