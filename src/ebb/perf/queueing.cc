#include "ebb/perf/queueing.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

namespace ebb::perf {
namespace {

// Below this a probability adds nothing to a sum near 1.
constexpr double kNegligible = 1e-20;
// Exponent of a probability that is 0 for our purposes: exp(-40) = 4e-18.
constexpr double kCertain = 40;

// The root above 0 of log(1 + y) = rho y, 0 < rho < 1: how fast the tail of the queue decays. The function is concave,
// so Newton's steps from the right of its maximum at 1/rho - 1 fall towards the root, after at most one step up.
double tail_root(double rho) {
  double y = 2 * (1 / rho - 1);
  for (int i = 0; i < 200; ++i) {
    const double next = y - (std::log1p(y) - rho * y) / (1 / (1 + y) - rho);
    if (std::fabs(next - y) <= 1e-16 * y) break;
    y = next;
  }
  return y;
}

// The number of waiting requests in an M/D/c queue in equilibrium.
//
// At moments D apart it follows Q' = max(Q + A - c, 0), A Poisson distributed with mean rho c (Crommelin 1932): whoever
// was in service has left, the A that came are here. With phi(z) = z^-c exp(rho c (z - 1)), the step's generating
// function, the distribution of Q is K / h+(z), where h+ holds the non-negative powers of z in 1 - phi (Wiener-Hopf).
// 1 - phi has no zero in the ring 1 < |z| < tau, but zeros on both edges, at 1 and tau. They are divided out,
//   1 - phi(z) = (1 - 1/z) (1 - z/tau) h(z),
// and log h, smooth on a much wider ring, is expanded there on a circle: few points, no roots to find, and no
// differences of large numbers however close rho is to 1. Then
//   E z^Q = K b(z) / (1 - z/tau),  b = 1 / exp(the positive powers of log h),
// and P(Q = n) follows from b by P_n = P_n-1 / tau + K b_n. Once b has died out the tail is geometric.
class Waiting {
 public:
  Waiting(double rho, std::int32_t c) : y_(tail_root(rho)), log_tau_(std::log1p(y_)) {
    expand(rho, c);
    // q(1) = 1.
    double sum = 0;
    for (const double value : b_) sum += value;
    const double scale = y_ / (1 + y_) / sum;
    double probability = 0;
    double below = 0;
    at_most_.reserve(b_.size());
    for (const double value : b_) {
      probability = probability / (1 + y_) + scale * value;
      below += probability;
      at_most_.push_back(below);
    }
    // What is left lies in the geometric tail.
    beyond_ = probability / y_;
  }

  /// P(Q <= n), n >= 0 and whole.
  double at_most(double n) const {
    const auto size = static_cast<double>(at_most_.size());
    if (n < size) return at_most_[static_cast<std::size_t>(n)];
    return 1 - beyond_ * std::exp(-(n + 1 - size) * log_tau_);
  }

 private:
  // Fills b_ with the power series b(z).
  void expand(double rho, std::int32_t c) {
    // On the circle through the saddle of phi the next zeros are at a relative distance of at least sqrt(2 pi / c), so
    // powers beyond 37 over that are below 1e-16. Twice as many points keep powers of either sign apart.
    const auto powers = static_cast<std::size_t>(24 + 15 * std::sqrt(static_cast<double>(c)));
    const std::size_t points = 2 * powers;
    const double radius = 1 / rho;
    const double mean = rho * c;
    const double above = radius - 1;
    const double crest = mean * above - c * std::log1p(above);  // log phi(radius), below 0
    std::vector<double> cosines(points);
    std::vector<double> sines(points);
    for (std::size_t j = 0; j < points; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(points);
      cosines[j] = std::cos(angle);
      sines[j] = std::sin(angle);
    }
    // Values at conjugate points are conjugate: half of the circle is enough.
    std::vector<std::complex<double>> values(powers + 1);
    for (std::size_t j = 0; j <= powers; ++j) {
      values[j] = log_h(rho, c, crest, std::numbers::pi * static_cast<double>(j) / static_cast<double>(powers));
    }
    // m times the coefficient of z^m in log h.
    std::vector<double> slope(powers);
    double scale = 1;
    for (std::size_t m = 1; m < powers; ++m) {
      double sum = values[0].real() + (m % 2 == 0 ? values[powers].real() : -values[powers].real());
      std::size_t index = 0;
      for (std::size_t j = 1; j < powers; ++j) {
        index += m;
        if (index >= points) index -= points;
        sum += 2 * (values[j].real() * cosines[index] + values[j].imag() * sines[index]);
      }
      scale /= radius;
      slope[m] = static_cast<double>(m) * sum / static_cast<double>(points) * scale;
    }
    // b' = -(log h)' b, coefficient by coefficient.
    b_.assign(powers, 0);
    b_[0] = 1;
    for (std::size_t n = 1; n < powers; ++n) {
      double sum = 0;
      for (std::size_t m = 1; m <= n; ++m) sum -= slope[m] * b_[n - m];
      b_[n] = sum / static_cast<double>(n);
    }
  }

  // log h at the point of this angle on the circle |z| = 1/rho. Each factor lies in the right half plane there, so its
  // principal logarithm is the continuous one.
  std::complex<double> log_h(double rho, double c, double crest, double angle) const {
    const double half = std::sin(angle / 2);
    const double lost = 2 * half * half;  // 1 - cos
    const double sine = std::sin(angle);
    const double radius = 1 / rho;
    const double above = radius - 1;
    // phi = exp(log_size + i turn); 1 - phi without cancelling where phi is near 1.
    const double log_size = crest - c * lost;
    const double turn = c * (sine - angle);
    const double half_turn = std::sin(turn / 2);
    const double size = std::exp(log_size);
    const std::complex<double> rest(-std::expm1(log_size) + 2 * size * half_turn * half_turn, -size * std::sin(turn));
    // 1 - 1/z, 1/z = rho (cos - i sin).
    const std::complex<double> inner((1 - rho) + rho * lost, rho * sine);
    // 1 - z/tau, tau = 1 + y_.
    const double tau = 1 + y_;
    const std::complex<double> outer((y_ - above + radius * lost) / tau, -radius * sine / tau);
    return {std::log(std::norm(rest) / (std::norm(inner) * std::norm(outer))) / 2,
            std::arg(rest) - std::arg(inner) - std::arg(outer)};
  }

  double y_;        // tau - 1
  double log_tau_;  // tau: the zero of 1 - phi beyond 1
  std::vector<double> b_;
  std::vector<double> at_most_;
  double beyond_ = 0;  // P(Q >= at_most_.size())
};

// Franx (2001): P(wait <= x) = sum over j of P(A = j) P(Q <= k c - 1 - j), k = floor(x / D) + 1, A Poisson distributed
// with mean rate (k D - x). All terms are positive. They are summed outwards from the largest and divided by their
// weights' sum, so that nothing underflows.
double franx(const Waiting& waiting, double mean, double last) {
  const double top = std::floor(mean);
  double weights = 0;
  double sum = 0;
  const auto add = [&](double j, double weight) {
    weights += weight;
    if (j <= last) sum += weight * waiting.at_most(last - j);
  };
  add(top, 1);
  double weight = 1;
  for (double j = top + 1; weight > kNegligible; ++j) add(j, weight *= mean / j);
  weight = 1;
  for (double j = top; j >= 1 && weight > kNegligible; --j) add(j - 1, weight *= j / mean);
  return std::clamp(sum / weights, 0.0, 1.0);
}

}  // namespace

double mdc_wait_within(double rate_per_s, Duration service_time, std::int32_t c, Duration x) {
  if (x < Duration::zero()) return 0;
  const double rho = rate_per_s * to_seconds(service_time) / c;
  if (!(rho < 1)) return 0;
  // Chernoff: even the chance that anybody waits is below exp(-40).
  if (rho <= 0 || c * (rho - 1 - std::log(rho)) > kCertain) return 1;
  const Duration::rep whole = x / service_time;
  const Duration left = service_time - x % service_time;
  const double last = (static_cast<double>(whole) + 1) * c - 1;
  return franx(Waiting(rho, c), rate_per_s * to_seconds(left), last);
}

std::int32_t mdc_replicas(double rate_per_s, Duration service_time, Duration target, double percentile,
                          std::int32_t most) {
  if (!(rate_per_s > 0)) return 0;
  const double load = rate_per_s * to_seconds(service_time);
  if (!(load < most)) return most;
  const auto enough = [&](std::int32_t c) {
    return mdc_wait_within(rate_per_s, service_time, c, target - service_time) >= percentile;
  };
  // The least c is mostly a few sqrt(load) above the load: look there with doubling steps, then halve.
  std::int32_t few = static_cast<std::int32_t>(load);  // too few: not above the load
  std::int32_t step = std::max(1, static_cast<std::int32_t>(std::sqrt(load) / 2));
  std::int32_t many = few;
  do {
    few = many;
    if (few >= most) return most;
    many = few + std::min(step, most - few);
    step = step > most / 2 ? most : 2 * step;
  } while (!enough(many));
  while (many - few > 1) {
    const std::int32_t middle = few + (many - few) / 2;
    (enough(middle) ? many : few) = middle;
  }
  return many;
}

}  // namespace ebb::perf
