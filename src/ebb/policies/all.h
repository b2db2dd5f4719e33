#pragma once

#include "ebb/sched/registry.h"

namespace ebb::policies {

/// A registry of every policy of ebb, in the order in which they are listed.
sched::Registry all();

}  // namespace ebb::policies
