#pragma once

#include "ebb/sched/registry.h"

namespace ebb::policies {

void register_afs(sched::Registry& registry);

}  // namespace ebb::policies
