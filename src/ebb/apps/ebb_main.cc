#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <thread>

#include "ebb/apps/up.h"
#include "ebb/base/output_folder.h"
#include "ebb/cli/cli.h"
#include "ebb/control/store.h"
#include "ebb/policies/all.h"

namespace {

// Told to stop (Ctrl-C, kill, a closed terminal): nothing half-written is left, and the exit code says which signal.
void stop_cleanly_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // in every thread started from here on
  std::thread([signals] {
    int signal = 0;
    sigwait(&signals, &signal);
    // A cluster stops in order; a second signal ends it at once.
    if (ebb::stop_cluster()) sigwait(&signals, &signal);
    ebb::OutputFolder::abandon_all();
    std::fputs("\nebb: interrupted; nothing was written\n", stderr);
    _exit(128 + signal);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  stop_cleanly_on_signals();
  try {
    return ebb::cli::run({argv + 1, argv + argc}, ebb::policies::all(), {stdout, stderr},
                         {ebb::run_cluster, ebb::control::backup, ebb::control::restore, ebb::control::verify});
  } catch (const std::bad_alloc&) {
    std::fputs("ebb: out of memory\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ebb: internal error: %s\n", e.what());
  }
  return ebb::cli::kExitFailed;
}
