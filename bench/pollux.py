#!/usr/bin/env python3
"""The published results of Pollux's artifact (testdata/pollux): 64 averages of Tiresias and Optimus, and Pollux itself.

usage: pollux.py [exact] [pollux [SEEDS]] [sensitivity [SEEDS]]   (default: exact pollux)
"""

import json
import statistics
import sys

from ebb_runs import ROOT, run_all

DATA = ROOT / "testdata" / "pollux"
LOADS = {"0.5": "workloads-0.5", "1.0": "workloads", "1.5": "workloads-1.5", "2.0": "workloads-2.0"}
WORKLOADS = range(1, 9)


def published(folder: str, name: str) -> list[float]:
    averages = json.loads((DATA / "published_results" / folder / f"{name}.json").read_text())["avgs"]
    return [averages[f"workload-{w}"] for w in WORKLOADS]


def arguments(load: str, workload: int, preset: str, *more: str) -> list[str]:
    trace = DATA / LOADS[load] / f"workload-{workload}.csv"
    return ["--trace", trace, "--cluster", "16x4", "--preset", preset, *more]


def exact() -> None:
    print("preset, load, largest relative difference of the 8 averages, CPU-s of the 8 runs")
    for preset in ("pollux-tiresias", "pollux-optimus"):
        for load in LOADS:
            want = published("results-jobload", f"{preset.removeprefix('pollux-')}-{load}")
            got = run_all([arguments(load, w, preset) for w in WORKLOADS])
            worst = max(abs(g["training"]["avg_jct_s"] / p - 1) for g, p in zip(got, want))
            print(f"{preset} {load} {worst:.1e} {sum(g['cpu_s'] for g in got):.2f}", flush=True)


def mean_over_workloads(load: str, seed: int, *more: str) -> tuple[float, float]:
    got = run_all([arguments(load, w, "pollux", "--seed", seed, *more) for w in WORKLOADS])
    return statistics.fmean(g["training"]["avg_jct_s"] for g in got), max(g["cpu_s"] for g in got)


def pollux(seeds: int) -> None:
    print("load, published mean s, ours by seed, mean, difference, most CPU-s of one workload")
    for load in LOADS:
        want = statistics.fmean(published("results-jobload", f"pollux-{load}"))
        runs = [mean_over_workloads(load, seed) for seed in range(1, seeds + 1)]
        mean = statistics.fmean(jct for jct, _ in runs)
        by_seed = " ".join(f"{jct:.0f}" for jct, _ in runs)
        print(f"{load} {want:.0f} [{by_seed}] {mean:.0f} {mean / want - 1:+.1%} {max(c for _, c in runs):.1f}", flush=True)


def sensitivity(seeds: int) -> None:
    def ours(*more: str) -> float:
        return statistics.fmean(mean_over_workloads("1.0", seed, *more)[0] for seed in range(1, seeds + 1))

    base, published_base = ours(), statistics.fmean(published("results-period", "pollux-1m"))
    print(f"60 s, avoidance on: {base:.0f} s (published {published_base:.0f})")
    no_avoidance = ["--set", "avoid_interference=false"]
    cases = [
        ("round 30 s", ("results-period", "pollux-30s"), ["--round", "30s"]),
        ("round 2 min", ("results-period", "pollux-2m"), ["--round", "120s"]),
        ("round 4 min", ("results-period", "pollux-4m"), ["--round", "240s"]),
        ("round 8 min", ("results-period", "pollux-8m"), ["--round", "480s"]),
        ("avoidance off", ("results-inter", "noavoid"), no_avoidance),
        ("avoidance off, 25 % slowdown", ("results-inter", "inter25"), [*no_avoidance, "--set", "interference=0.25"]),
        ("avoidance off, 50 % slowdown", ("results-inter", "inter50"), [*no_avoidance, "--set", "interference=0.5"]),
    ]
    for name, result, more in cases:
        mean, want = ours(*more), statistics.fmean(published(*result))
        print(
            f"{name}: {mean:.0f} s (published {want:.0f}), {mean / base - 1:+.1%} "
            f"(published {want / published_base - 1:+.1%})",
            flush=True,
        )


def main() -> None:
    words = sys.argv[1:] or ["exact", "pollux"]
    seeds = [int(word) for word in words if word.isdigit()] or [3]
    if "exact" in words:
        exact()
    if "pollux" in words:
        pollux(seeds[0])
    if "sensitivity" in words:
        sensitivity(seeds[0])


main()
