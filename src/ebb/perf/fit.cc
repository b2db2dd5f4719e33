// fit_throughput(): the seven parameters from measured step times.
//
// Minimised by NLopt's SLSQP over the logarithms of the parameters, restarted from where it stopped. The loss has kinks
// (a root of squares reaches 0 when few observations are fitted exactly) and parameters that differ by six orders of
// magnitude; over the parameters themselves NLopt's L-BFGS ends far from the minimum in a quarter of all cases.
// Figures: docs/adr/0008-throughput-fit.md. Limits are counts of evaluations, so that the result depends on nothing but
// the input.

#include <nlopt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "ebb/perf/goodput.h"
#include "ebb/perf/network.h"

namespace ebb::perf {
namespace {

constexpr int kMaxEvaluations = 100;  // of one run: more of them follow flat valleys for a gain of a few 1e-4
constexpr int kRuns = 3;              // a restart forgets the curvature learned on the other side of a kink
constexpr double kTolerance = 1e-7;   // relative
constexpr double kWorthARun = 1e-5;   // absolute gain of a run that makes another one worth while
constexpr double kLargest = 1e12;     // stands for "no upper bound" and keeps every loss finite
constexpr double kWeightGamma = 1e-3;
constexpr double kWeightRetrogress = 1e-2;

// In this order everywhere below.
enum Index : std::size_t { alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma, count };
using Vector = std::array<double, count>;

Vector to_vector(const ThroughputParams& p) {
  return {p.alpha_c, p.beta_c, p.alpha_n, p.beta_n, p.alpha_r, p.beta_r, p.gamma};
}
ThroughputParams to_params(const Vector& v) {
  return {v[alpha_c], v[beta_c], v[alpha_n], v[beta_n], v[alpha_r], v[beta_r], v[gamma]};
}

// An observation with what does not depend on the parameters.
struct Row {
  double local;
  double beyond;
  Network network;
  double compute_s;
  double log_compute;
  double log_step;
};

std::vector<Row> rows_of(std::span<const Observation> observations) {
  std::vector<Row> rows;
  rows.reserve(observations.size());
  for (const Observation& o : observations) {
    const double compute_s = std::max(o.step_s - o.sync_s, kNoTime);
    rows.push_back({static_cast<double>(o.local), beyond_two(o.replicas), network_of(o.nodes, o.replicas), compute_s,
                    std::log(compute_s), std::log(std::max(o.step_s, kNoTime))});
  }
  return rows;
}

// Sum of squares and half its gradient; adds the root of their mean to a loss.
struct Squares {
  double sum = 0;
  Vector gradient{};

  double add_root_mean(std::size_t n, Vector* total) const {
    const double root = std::sqrt(sum / static_cast<double>(n));
    if (total != nullptr && root > 0) {
      for (std::size_t i = 0; i < count; ++i) (*total)[i] += gradient[i] / (static_cast<double>(n) * root);
    }
    return root;
  }
};

void add_compute_term(const Row& row, double weight, Squares& squares) {
  squares.gradient[alpha_c] += weight;
  squares.gradient[beta_c] += weight * row.local;
}

void add_network_term(const Row& row, double weight, Squares& squares) {
  if (row.network == Network::none) return;
  const Index alpha = row.network == Network::node ? alpha_r : alpha_n;
  squares.gradient[alpha] += weight;
  squares.gradient[alpha + 1] += weight * row.beyond;
}

// RMSE of both log times + 1e-3 (gamma - 1)^2 + 1e-2 ((beta_n / alpha_n)^2 + (beta_r / alpha_r)^2).
double loss_of(const std::vector<Row>& rows, const Vector& p, Vector* gradient) {
  const ThroughputParams params = to_params(p);
  Squares compute;
  Squares step;
  for (const Row& row : rows) {
    const double tc = params.alpha_c + params.beta_c * row.local;
    const double tn = network_time(params, row.network, row.beyond);
    const double log_tc = std::log(tc);
    const double log_tn = std::log(tn);
    // log (tc^gamma + tn^gamma)^(1/gamma) without the powers; share = of tc in the sum.
    const double ratio = std::exp(-params.gamma * std::fabs(log_tn - log_tc));
    const double larger = 1 / (1 + ratio);
    const double share = log_tc >= log_tn ? larger : ratio * larger;
    const double log_step = std::max(log_tc, log_tn) + std::log1p(ratio) / params.gamma;
    const double compute_error = log_tc - row.log_compute;
    const double step_error = log_step - row.log_step;
    compute.sum += compute_error * compute_error;
    step.sum += step_error * step_error;
    if (gradient == nullptr) continue;
    add_compute_term(row, compute_error / tc, compute);
    add_compute_term(row, step_error * share / tc, step);
    add_network_term(row, step_error * (1 - share) / tn, step);
    step.gradient[gamma] += step_error * (share * log_tc + (1 - share) * log_tn - log_step) / params.gamma;
  }
  const double n = p[beta_n] / p[alpha_n];
  const double r = p[beta_r] / p[alpha_r];
  if (gradient != nullptr) {
    *gradient = {};
    (*gradient)[alpha_n] = -2 * kWeightRetrogress * n * n / p[alpha_n];
    (*gradient)[beta_n] = 2 * kWeightRetrogress * n / p[alpha_n];
    (*gradient)[alpha_r] = -2 * kWeightRetrogress * r * r / p[alpha_r];
    (*gradient)[beta_r] = 2 * kWeightRetrogress * r / p[alpha_r];
    (*gradient)[gamma] = 2 * kWeightGamma * (p[gamma] - 1);
  }
  return compute.add_root_mean(rows.size(), gradient) + step.add_root_mean(rows.size(), gradient) +
         kWeightGamma * (p[gamma] - 1) * (p[gamma] - 1) + kWeightRetrogress * (n * n + r * r);
}

struct Problem {
  std::vector<Row> rows;
  Vector params{0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001};
  Vector low{kNoTime, kNoTime, kNoTime, kNoTime, kNoTime, kNoTime, 1};
  Vector high{kLargest, kLargest, kLargest, kLargest, kLargest, kLargest, 10};
  std::vector<std::size_t> free;  // which of them are fitted
  bool several_nodes = false;
  double best_loss = std::numeric_limits<double>::infinity();
  Vector best{};

  void pin(Index i, double value) { params[i] = low[i] = high[i] = value; }

  // What was never observed is pinned: near zero, so that the model is optimistic and the job gets tried there.
  void pin_unobserved(std::span<const Observation> observations) {
    bool several_batches = false;
    bool one_node = false;
    bool more_than_two = false;
    double compute_s = 0;
    for (std::size_t i = 0; i < observations.size(); ++i) {
      several_batches |= observations[i].local != observations[0].local;
      several_nodes |= observations[i].nodes > 1;
      one_node |= rows[i].network == Network::node;
      more_than_two |= observations[i].replicas > 2;
      compute_s += rows[i].compute_s;
    }
    // One batch size cannot tell the constant part from the linear one: half each.
    if (!several_batches) pin(alpha_c, compute_s / static_cast<double>(rows.size()) / 2);
    if (!several_nodes) pin(alpha_n, kNoTime);
    if (!one_node) pin(alpha_r, kNoTime);
    if (!several_nodes || !more_than_two) pin(beta_n, kNoTime);
    if (!one_node || !more_than_two) pin(beta_r, kNoTime);
  }
};

// NLopt's callback: x are the logarithms of the free parameters. Keeps the best point seen: a run that ends at a kink
// or at its limit is not at its best point.
double evaluate(unsigned n, const double* x, double* gradient, void* data) {
  Problem& problem = *static_cast<Problem*>(data);
  Vector p = problem.params;
  for (unsigned i = 0; i < n; ++i) {
    const std::size_t k = problem.free[i];
    p[k] = std::clamp(std::exp(x[i]), problem.low[k], problem.high[k]);  // exp(log(bound)) rounds
  }
  Vector full{};
  const double loss = loss_of(problem.rows, p, gradient == nullptr ? nullptr : &full);
  if (gradient != nullptr) {
    for (unsigned i = 0; i < n; ++i) gradient[i] = full[problem.free[i]] * p[problem.free[i]];
  }
  if (loss < problem.best_loss) {
    problem.best_loss = loss;
    problem.best = p;
  }
  return loss;
}

struct DestroyOptimizer {
  void operator()(nlopt_opt optimizer) const { nlopt_destroy(optimizer); }
};
using Optimizer = std::unique_ptr<std::remove_pointer_t<nlopt_opt>, DestroyOptimizer>;

void minimise(Problem& problem) {
  std::vector<double> low;
  std::vector<double> high;
  for (const std::size_t i : problem.free) {
    low.push_back(std::log(problem.low[i]));
    high.push_back(std::log(problem.high[i]));
  }
  const Optimizer optimizer(nlopt_create(NLOPT_LD_SLSQP, static_cast<unsigned>(problem.free.size())));
  nlopt_set_lower_bounds(optimizer.get(), low.data());
  nlopt_set_upper_bounds(optimizer.get(), high.data());
  nlopt_set_min_objective(optimizer.get(), evaluate, &problem);
  nlopt_set_ftol_rel(optimizer.get(), kTolerance);
  nlopt_set_maxeval(optimizer.get(), kMaxEvaluations);
  problem.best = problem.params;
  std::vector<double> x(problem.free.size());
  for (int run = 0; run < kRuns; ++run) {
    const double before = problem.best_loss;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = std::clamp(std::log(problem.best[problem.free[i]]), low[i], high[i]);
    }
    double loss = 0;
    // Its status says why it stopped; whatever that is, the best point seen is the result.
    static_cast<void>(nlopt_optimize(optimizer.get(), x.data(), &loss));
    if (!(before - problem.best_loss > kWorthARun)) break;
  }
}

}  // namespace

double throughput_loss(std::span<const Observation> observations, const ThroughputParams& params) {
  return loss_of(rows_of(observations), to_vector(params), nullptr);
}

ThroughputParams fit_throughput(std::span<const Observation> observations, const FitOptions& options) {
  Problem problem;
  problem.rows = rows_of(observations);
  problem.pin_unobserved(observations);
  for (std::size_t i = 0; i < count; ++i) {
    if (problem.low[i] == problem.high[i]) continue;
    problem.free.push_back(i);
    problem.params[i] = std::clamp(problem.params[i] * options.start_scale, problem.low[i], problem.high[i]);
  }
  minimise(problem);
  ThroughputParams params = to_params(problem.best);
  if (!problem.several_nodes) {
    // Never seen, but surely not faster than within a node.
    params.alpha_n = std::max(params.alpha_n, 1.1 * params.alpha_r);
    params.beta_n = std::max(params.beta_n, 1.1 * params.beta_r);
  }
  return params;
}

}  // namespace ebb::perf
