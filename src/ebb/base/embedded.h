#pragma once

/// Files compiled into the program (CMake: ebb_embed), so that presets, profiles and the report's chart library
/// are found from any folder.

#include <span>
#include <string_view>

namespace ebb {

struct EmbeddedFile {
  std::string_view name;   ///< file name, with the folders below BASE of ebb_embed if it has one
  std::string_view bytes;  ///< content, owned by the program
};

/// The file called `name`, or nullptr.
inline const EmbeddedFile* find_embedded(std::span<const EmbeddedFile> files, std::string_view name) {
  for (const EmbeddedFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace ebb
