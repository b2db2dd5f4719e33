#include "ebb/control/recovery.h"

#include "ebb/control/clock.h"

namespace ebb::control {
namespace {

constexpr std::size_t kRowsAtOnce = 10'000;

Result<void> check_settings(const Beginning& began, const ClusterSettings& settings) {
  if (began.cluster != settings.cluster) {
    return fail(ErrorCode::failed_precondition,
                "this journal began with {} nodes and {} GPUs, now there are {} and {}: start with the same, or with "
                "another data folder",
                began.cluster.nodes.size(), began.cluster.total_gpus(), settings.cluster.nodes.size(),
                settings.cluster.total_gpus());
  }
  return {};
}

}  // namespace

Result<void> Replayer::take(const Row& row) {
  EBB_ASSIGN_OR_RETURN(last_, time_of(row.json));
  if (!expected_.empty()) {
    if (expected_.front() != row.json) return differs(row);
    expected_.pop_front();
    return {};
  }
  if (is_input(row.json)) {
    EBB_ASSIGN_OR_RETURN(const Input input, decode_input(row.json));
    if (const auto* set = std::get_if<PolicySet>(&input)) EBB_RETURN_IF_ERROR(ledger_.check_policy(*set));
    ledger_.apply(last_, input);
    return {};
  }
  Consequences consequences;
  EBB_RETURN_IF_ERROR(ledger_.step(last_, consequences));
  expected_.assign(consequences.rows.begin(), consequences.rows.end());
  if (expected_.empty() || expected_.front() != row.json) return differs(row);
  expected_.pop_front();
  return {};
}

Result<void> Replayer::complete() const {
  // A step is one append: all of its rows are there or none.
  if (expected_.empty()) return {};
  return fail(ErrorCode::internal, "the journal ends in the middle of a step");
}

Result<void> Replayer::differs(const Row& row) const {
  return fail(ErrorCode::internal,
              "row {} of the journal is not what this ebb decides: the journal says {}, it would be {}", row.seq,
              row.json, expected_.empty() ? "nothing" : expected_.front());
}

Result<Recovered> recover(Store& store, const ClusterSettings& settings, const sched::Registry& registry) {
  if (store.last_seq() == 0) {
    Beginning beginning{Clock::utc_now(), settings.cluster, settings.policy.value_or("backfill"), settings.options};
    EBB_ASSIGN_OR_RETURN(Ledger ledger, Ledger::begin(beginning, registry));
    std::vector<Row> rows{{0, encode(beginning)}};
    EBB_RETURN_IF_ERROR(store.append(rows));
    return Recovered{std::move(ledger), {}};
  }
  std::optional<Ledger> ledger;
  std::optional<Replayer> replayer;
  const auto take = [&](const Row& row) -> Result<void> {
    if (replayer) return replayer->take(row);
    EBB_ASSIGN_OR_RETURN(Beginning beginning, decode_beginning(row.json));
    EBB_RETURN_IF_ERROR(check_settings(beginning, settings));
    EBB_ASSIGN_OR_RETURN(ledger, Ledger::begin(std::move(beginning), registry));
    replayer.emplace(*ledger);
    return {};
  };
  for (std::uint64_t after = 0; after < store.last_seq(); after += kRowsAtOnce) {
    EBB_RETURN_IF_ERROR(store.read(after, kRowsAtOnce, take));
  }
  EBB_RETURN_IF_ERROR(replayer->complete());
  if (settings.policy &&
      (*settings.policy != ledger->policy().policy || settings.options != ledger->policy().options)) {
    return fail(
        ErrorCode::failed_precondition,
        "policy '{}' is in charge of this cluster, not '{}', or with other options: leave out --policy, and use "
        "`ebb policy set` once it runs",
        ledger->policy().policy, *settings.policy);
  }
  return Recovered{std::move(*ledger), replayer->last()};
}

}  // namespace ebb::control
