#include "ebb/policies/all.h"

#include "ebb/policies/afs/afs.h"
#include "ebb/policies/backfill/backfill.h"
#include "ebb/policies/deepboot/deepboot.h"
#include "ebb/policies/drf/drf.h"
#include "ebb/policies/fifo/fifo.h"
#include "ebb/policies/lyra/lyra.h"
#include "ebb/policies/optimus/optimus.h"
#include "ebb/policies/pollux/pollux.h"
#include "ebb/policies/srtf/srtf.h"
#include "ebb/policies/tiresias/tiresias.h"

namespace ebb::policies {

sched::Registry all() {
  sched::Registry registry;
  register_fifo(registry);
  register_backfill(registry);
  register_srtf(registry);
  register_tiresias(registry);
  register_drf(registry);
  register_optimus(registry);
  register_afs(registry);
  register_lyra(registry);
  register_deepboot(registry);
  register_pollux(registry);
  return registry;
}

}  // namespace ebb::policies
