#!/usr/bin/env python3
"""What lending gives at the headline (`ebb sim lending`), on ebb's own day and on the shape of a production trace.

usage: lending.py [headline] [parts] [SEEDS]   (default: both, 10 seeds)

Jobs: testdata/pollux/workloads/workload-1.csv on 16 x 4 GPUs. Shapes: testdata/lending/day.csv, and the image-generation
requests of $EBB_DATA/traces/alibaba-genai-2026/qps.tar.gz: the rows "Generative Requests", summed over the containers for
each sample of 57 s (a sample without a row: no requests), means of 23 hours, the last of which lasts two. Both at g = 1.

headline: JCT change and share of requests in target where jobs wait as long as they run without lending; and the same with
the least headroom at which the share is no smaller than without lending.
parts: at that load, what each part of DeepBoot's lending changes alone, against neither lending nor cheap resizes nor
batches that adapt; everything together; and everything with each kind of reclaim. Changes by seed, means over the seeds.
"""

import collections
import csv
import io
import json
import pathlib
import statistics
import sys
import tarfile
import tempfile

from ebb_runs import ROOT, data_folder, run

SAMPLE_S = 57
HOURS = 23  # the last one is not whole
TRACE = ROOT / "testdata" / "pollux" / "workloads" / "workload-1.csv"
OWN_DAY = ROOT / "testdata" / "lending" / "day.csv"
BASE = {"lending": False, "--resize-cost": "restart", "adapt_batch": "off"}
ALL = {"lending": True, "--resize-cost": "afe", "adapt_batch": "on"}
ALONE = {
    "pooling": {"lending": True},
    "AFE": {"--resize-cost": "afe"},
    "batch adaptation": {"adapt_batch": "on"},
    "AFE and batch adaptation": {"--resize-cost": "afe", "adapt_batch": "on"},
    "all, reclaim least_loss": ALL,
    "all, reclaim node": {**ALL, "reclaim": "node"},
    "all, reclaim random": {**ALL, "reclaim": "random"},
    "all, reclaim first_fit": {**ALL, "reclaim": "first_fit"},
    "all, stop-free resizes": {**ALL, "--resize-cost": "stop-free"},
}


def production_hours() -> list[float]:
    packed = data_folder() / "traces" / "alibaba-genai-2026" / "qps.tar.gz"
    with tarfile.open(packed) as tar:
        text = io.TextIOWrapper(tar.extractfile("qps.csv"), encoding="utf-8")
        rows = [(float(r["timestamp_anon"]), float(r["value"]), r["request_type"]) for r in csv.DictReader(text)]
    start = min(at for at, _, _ in rows)
    end = max(at for at, _, _ in rows) + SAMPLE_S
    sums = collections.Counter()
    for at, value, kind in rows:
        if kind == "Generative Requests":
            sums[int((at - start) // 3600)] += value
    if int((end - start) // 3600) != HOURS - 1:
        sys.exit(f"{packed}: {(end - start) / 3600:.1f} hours of samples; expected 22 to 23")
    return [sums[hour] * SAMPLE_S / (min(end, start + 3600 * (hour + 1)) - start - 3600 * hour) for hour in range(HOURS)]


def write_production_day(folder: pathlib.Path) -> pathlib.Path:
    hours = production_hours()
    rows = [f"{3600 * hour},{value:.6g}" for hour, value in enumerate([*hours, hours[-1]])]
    path = folder / "genai.csv"
    path.write_text("\n".join(["start_s,value", *rows]) + "\n")
    return path


def study(series: pathlib.Path, seeds: int, *more: object) -> dict:
    return run(
        ["--trace", TRACE, "--cluster", "16x4", "--series", series, "--shape-power", 1, "--seeds", seeds, *more],
        command="lending",
    )


def interval(estimate: dict) -> str:
    return f"{estimate['mean']:+.1%} ({estimate['low']:+.1%} to {estimate['high']:+.1%})"


def headline(name: str, series: pathlib.Path, seeds: int) -> float:
    got = study(series, seeds, "--equal-share")
    at = got["headline"]
    equal = at["equal_share"]
    print(f"{name}: serving mean {at['serving_mean']:.1%}, load {at['load']}, wait / run {at['wait_over_run']:.3f}")
    for what, cell in [("no headroom", at), (f"headroom {equal['headroom']}, reached {equal['reached']}", equal)]:
        print(
            f"  {what}: mean JCT {interval(cell['jct_change'])}; in target {cell['in_target_lending']['mean']:.3%} with, "
            f"{cell['in_target_none']['mean']:.3%} without; {cell['freed_gpu_h']['mean']:.0f} of "
            f"{cell['idle_gpu_h']['mean']:.0f} idle GPU-h freed; reclaim p99 {cell['reclaim_p99_s']:.1f} s"
        )
    print(f"  {got['cpu_s']:.0f} CPU-s", flush=True)
    return at["load"]


def by_seed(series: pathlib.Path, seeds: int, load: float, switches: dict) -> dict[bool, list[dict]]:
    """The runs without and with lending under these switches, by seed."""
    line = ["--loads", load, "--no-headline"]
    for key, value in switches.items():
        if key != "lending":
            line += [key, value] if key.startswith("--") else ["--set", f"{key}={value}"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        study(series, seeds, *line, "--out", out)
        rows = list(csv.DictReader((out / "runs.csv").read_text().splitlines()))
    return {lends: [row for row in rows if (row["lending"] != "none") == lends] for lends in (False, True)}


def parts(name: str, series: pathlib.Path, seeds: int, load: float) -> None:
    known: dict[str, dict[bool, list[dict]]] = {}

    def runs(changes: dict) -> list[dict]:
        switches = {**BASE, **changes}
        key = json.dumps({k: v for k, v in switches.items() if k != "lending"}, sort_keys=True)
        if key not in known:
            known[key] = by_seed(series, seeds, load, switches)
        return known[key][switches["lending"]]

    def mean(rows: list[dict], figure: str) -> float:
        return statistics.fmean(float(row[figure]) for row in rows)

    base = runs({})
    print(f"{name}, load {load}: mean JCT against the base, s; change; in target; restarts")
    print(f"  base: {mean(base, 'mean_jct_s'):.0f}; {mean(base, 'in_target_share'):.3%}; {mean(base, 'restarts'):.0f}")
    for what, changes in ALONE.items():
        rows = runs(changes)
        change = statistics.fmean(float(a["mean_jct_s"]) / float(b["mean_jct_s"]) - 1 for a, b in zip(rows, base))
        print(
            f"  {what}: {mean(rows, 'mean_jct_s'):.0f}; {change:+.1%}; {mean(rows, 'in_target_share'):.3%}; "
            f"{mean(rows, 'restarts'):.0f}",
            flush=True,
        )


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.isdigit()] or ["headline", "parts"]
    seeds = int(next((word for word in sys.argv[1:] if word.isdigit()), 10))
    with tempfile.TemporaryDirectory() as folder:
        shapes = {"built-in day": OWN_DAY, "production day": write_production_day(pathlib.Path(folder))}
        for name, series in shapes.items():
            if "headline" in words:
                load = headline(name, series, seeds)
            else:
                load = study(series, seeds)["headline"]["load"]
            if "parts" in words:
                parts(name, series, seeds, load)


main()
