#pragma once

#include "ebb/sched/registry.h"

namespace ebb::policies {

void register_deepboot(sched::Registry& registry);

}  // namespace ebb::policies
