#pragma once

/// Seeded random numbers. Every draw in ebb comes from a Random made from the run's seed and a stream name, so that
/// one more draw in one place changes nothing elsewhere. std::mt19937_64 underneath; the distributions are spelled out
/// here because those of the standard library differ between implementations.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string_view>

namespace ebb {

class Random {
 public:
  Random(std::uint64_t seed, std::string_view stream) : engine_(mix(seed, stream)) {}

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

  /// Uniform in [0, n), n >= 1 (unbiased, by rejection).
  std::uint64_t below(std::uint64_t n) {
    const std::uint64_t limit = n * (UINT64_MAX / n);
    std::uint64_t draw = engine_();
    while (draw >= limit) draw = engine_();
    return draw % n;
  }

  /// Exponential with the given mean.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }

  /// Standard normal, by two uniform draws (Box and Muller).
  double normal() {
    const double radius = std::sqrt(exponential(2));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  // FNV-1a over the stream's name, then SplitMix64's finaliser.
  static std::uint64_t mix(std::uint64_t seed, std::string_view stream) {
    std::uint64_t h = 0xcbf29ce484222325ULL ^ seed;
    for (const char c : stream) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    return h ^ (h >> 31);
  }

  std::mt19937_64 engine_;
};

}  // namespace ebb
