#!/usr/bin/env python3
"""DeepBoot's reference simulator against the deepboot-* presets, on its own workloads ($EBB_DATA/deepboot/workload).

usage: deepboot.py [rows] [complete]   (default: both)

rows: small_1h under every preset; those that use the throughput fit as the mean of eleven fits from perturbed starts.
complete: small, middle and large under every preset, with CPU seconds and memory.
"""

import statistics
import sys

from ebb_runs import PRESETS, data_folder, run_all

# Average training JCT and mean extra latency of the reference, s, with original placements and multiset comparison.
ROWS = {
    "deepboot-tiresias": (2212, 5.82),
    "deepboot-optimus": (2226, 5.69),
    "deepboot-afs": (1717, 5.82),
    "deepboot-aryl": (2875, 5.82),
    "deepboot-atsi": (1442, 2.3),
    "deepboot-atsi-afe": (1345, 2.1),
    "deepboot-atsi-aryl": (1609, 2.38),
    "deepboot-atsi-random": (1453, 2.86),
}
PERTURBED = ["0.99", "0.995", "0.999", "0.9999", "0.999999", "1", "1.000001", "1.0001", "1.001", "1.005", "1.01"]


def rows() -> None:
    trace = data_folder() / "deepboot" / "workload" / "small_1h.csv"
    print("preset: JCT s (reference, difference), extra latency s (reference, difference), restarts, CPU-s of a run")
    for preset, (jct, extra) in ROWS.items():
        scales = PERTURBED if "atsi" in preset else ["1"]
        got = run_all(
            [["--preset", preset, "--trace", trace, "--cluster", "16x4", "--set", f"fit_scale={s}"] for s in scales]
        )
        jcts = [g["training"]["avg_jct_s"] for g in got]
        extras = [g["inference"]["avg_extra_s"] for g in got]
        spread = f" sd {statistics.stdev(jcts):.0f}" if len(jcts) > 1 else ""
        mean_jct, mean_extra = statistics.fmean(jcts), statistics.fmean(extras)
        print(
            f"{preset}: {mean_jct:.1f}{spread} ({jct}, {mean_jct / jct - 1:+.1%}), "
            f"{mean_extra:.2f} ({extra}, {mean_extra - extra:+.2f}), "
            f"{statistics.fmean(g['restarts'] for g in got):.0f}, {max(g['cpu_s'] for g in got):.2f}",
            flush=True,
        )


def complete() -> None:
    presets = sorted(p.stem for p in PRESETS.glob("deepboot-*.yaml"))
    print("workload, preset: jobs completed of all, JCT s, extra latency s, CPU-s, MB")
    for name in ("small", "middle", "large"):
        trace = data_folder() / "deepboot" / "workload" / f"{name}.csv"
        got = run_all([["--preset", preset, "--trace", trace, "--cluster", "16x4"] for preset in presets])
        for preset, g in zip(presets, got):
            print(
                f"{name} {preset}: {g['jobs_completed']} of {g['jobs_total']}, {g['training']['avg_jct_s']:.0f}, "
                f"{g['inference']['avg_extra_s']:.2f}, {g['cpu_s']:.2f}, {g['peak_mb']:.0f}",
                flush=True,
            )


def main() -> None:
    words = sys.argv[1:] or ["rows", "complete"]
    if "rows" in words:
        rows()
    if "complete" in words:
        complete()


main()
