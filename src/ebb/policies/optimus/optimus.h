#pragma once

#include "ebb/sched/registry.h"

namespace ebb::policies {

void register_optimus(sched::Registry& registry);

}  // namespace ebb::policies
