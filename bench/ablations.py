#!/usr/bin/env python3
"""Every policy with the same switches: what lending, reclaim, resize cost, true estimates and batch adaptation change.

usage: ablations.py [WORKLOADS]   (default 4: workloads 1 to 4 of testdata/pollux, 160 jobs on 16 x 4 GPUs)

Beside them a service on the second half of the nodes whose demand follows a sine over the day, 5 to 95 % of that half.
Base: pooled, least-loss reclaim, full restarts, learned estimates, batch sizes as asked. Each other column changes one
switch, the last two change resize cost and batch sizes together. Mean training JCT over the workloads and the least share of
requests in target over all runs of the policy; then the change of the mean against the base.
"""

import math
import pathlib
import statistics
import sys
import tempfile

from ebb_runs import ROOT, policies, run_all

BASE = {"--lending": "pooled", "--resize-cost": "restart", "adapt_batch": "off", "oracle": "false"}
SWITCHES = {
    "no lending": {"--lending": "none"},
    "partitioned": {"--lending": "partitioned"},
    "whole nodes": {"reclaim": "node"},
    "random": {"reclaim": "random"},
    "AFE": {"--resize-cost": "afe"},
    "stop-free": {"--resize-cost": "stop-free"},
    "oracle": {"oracle": "true"},
    "adapt batch": {"adapt_batch": "on"},
    "AFE + adapt": {"--resize-cost": "afe", "adapt_batch": "on"},
    "stop-free + adapt": {"--resize-cost": "stop-free", "adapt_batch": "on"},
}
HALF_GPUS = 32
RATE_PER_GPU = 18  # requests/s that one replica carries at 50 ms each, about


def write_services(folder: pathlib.Path) -> pathlib.Path:
    rates = ["start_s,requests_per_s"]
    for hour in range(24 * 7):
        share = 0.5 + 0.45 * math.sin((hour - 9) / 24 * 2 * math.pi)
        rates.append(f"{hour * 3600},{share * HALF_GPUS * RATE_PER_GPU:.1f}")
    (folder / "rates.csv").write_text("\n".join(rates) + "\n")
    services = folder / "services.yaml"
    services.write_text(
        "version: 1\nservices:\n  - name: chat\n    service_time: 50ms\n    target_latency: 200ms\n"
        "    percentile: 99\n    start_delay: 6s\n    requests: rates.csv\n"
    )
    return services


def arguments(policy: str, workload: int, services: pathlib.Path, switches: dict[str, str]) -> list[str]:
    line = ["--policy", policy, "--trace", ROOT / "testdata" / "pollux" / "workloads" / f"workload-{workload}.csv"]
    line += ["--cluster", "16x4", "--services", services, "--round", "60s", "--set", "drain=2s"]
    for key, value in switches.items():
        line += [key, value] if key.startswith("--") else ["--set", f"{key}={value}"]
    return line


def main() -> None:
    workloads = range(1, (int(sys.argv[1]) if len(sys.argv) > 1 else 4) + 1)
    with tempfile.TemporaryDirectory() as folder:
        services = write_services(pathlib.Path(folder))
        print("| policy | base, s | in target |", " | ".join(SWITCHES), "|")
        print("|---" * (len(SWITCHES) + 3) + "|")
        for policy in policies():
            cells = []
            cases = [{}, *SWITCHES.values()]
            runs = [arguments(policy, w, services, {**BASE, **case}) for case in cases for w in workloads]
            got = run_all(runs)
            means = []
            for i in range(len(cases)):
                part = got[i * len(workloads) : (i + 1) * len(workloads)]
                means.append(statistics.fmean(g["training"]["avg_jct_s"] for g in part))
                cells.append(f"{means[i] / means[0] - 1:+.1%}")
            in_target = min(g["inference"]["in_target_share"] for g in got)
            print(f"| {policy} | {means[0]:.0f} | {in_target:.4f} |", " | ".join(cells[1:]), "|", flush=True)


main()
