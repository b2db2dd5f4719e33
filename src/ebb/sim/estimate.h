#pragma once

/// A mean with its 95 % confidence interval over independent runs (Student's t).

#include <cstddef>
#include <vector>

namespace ebb::sim {

struct Estimate {
  double mean = 0;
  double low = 0;  ///< of the interval; both equal the mean where there are fewer than two values
  double high = 0;
  std::size_t count = 0;
};

/// mean -+ t s / sqrt(n), with s the standard deviation of the sample.
Estimate estimate_of(const std::vector<double>& values);

/// The 97.5 % point of Student's t with so many degrees of freedom (>= 1), to three decimals.
double student_t(std::size_t degrees);

}  // namespace ebb::sim
