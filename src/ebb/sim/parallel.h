#pragma once

/// Independent pieces of work on several threads.

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace ebb::sim {

/// Calls work(i) once for every i below `count`, on up to `threads` threads, this one among them, in order of i as
/// threads come free; returns when all are done.
template <typename Work>
void parallel_for(std::size_t count, unsigned threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < threads && t < count; ++t) others.emplace_back(run);
  run();
}

}  // namespace ebb::sim
