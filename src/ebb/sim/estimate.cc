#include "ebb/sim/estimate.h"

#include <array>
#include <cmath>

namespace ebb::sim {

double student_t(std::size_t degrees) {
  static constexpr std::array kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (degrees >= 1 && degrees <= kTable.size()) return kTable[degrees - 1];
  // Expansion in 1/n around the normal distribution's point (Fisher and Cornish).
  constexpr double kNormal = 1.959963984540054;
  const double n = static_cast<double>(degrees);
  const double z3 = kNormal * kNormal * kNormal;
  const double z5 = z3 * kNormal * kNormal;
  const double z7 = z5 * kNormal * kNormal;
  return kNormal + (z3 + kNormal) / (4 * n) + (5 * z5 + 16 * z3 + 3 * kNormal) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * kNormal) / (384 * n * n * n);
}

Estimate estimate_of(const std::vector<double>& values) {
  Estimate estimate;
  estimate.count = values.size();
  if (values.empty()) return estimate;
  const double n = static_cast<double>(values.size());
  for (const double value : values) estimate.mean += value / n;
  estimate.low = estimate.high = estimate.mean;
  if (values.size() < 2) return estimate;
  double squares = 0;
  for (const double value : values) squares += (value - estimate.mean) * (value - estimate.mean);
  const double half = student_t(values.size() - 1) * std::sqrt(squares / (n - 1) / n);
  estimate.low -= half;
  estimate.high += half;
  return estimate;
}

}  // namespace ebb::sim
