#pragma once

/// Threads of libraries and daemons.

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace ebb {

/// A thread that takes no signals: those of the program are for its other threads.
template <typename Run>
std::thread thread_without_signals(Run run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace ebb
