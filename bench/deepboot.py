#!/usr/bin/env python3
"""DeepBoot's reference simulator against the deepboot-* presets, on its own workloads ($EBB_DATA/deepboot/workload).

usage: deepboot.py [rows] [complete]   (default: both)

rows: small_1h under every preset; those that use the throughput fit as the mean of eleven fits from perturbed starts.
complete: small, middle and large under every preset, with CPU seconds and memory.
"""

import csv
import pathlib
import statistics
import sys
import tempfile

from ebb_runs import PRESETS, data_folder, run, run_all

# Average training JCT and mean extra latency of the reference, s, with original placements and multiset comparison.
ORIGINAL = {
    "deepboot-tiresias": (2212, 5.82),
    "deepboot-optimus": (2226, 5.69),
    "deepboot-afs": (1717, 5.82),
    "deepboot-aryl": (2875, 5.82),
    "deepboot-atsi": (1442, 2.3),
    "deepboot-atsi-afe": (1345, 2.1),
    "deepboot-atsi-aryl": (1609, 2.38),
    "deepboot-atsi-random": (1453, 2.86),
}
# The same of rows that were measured with copied placements and lists compared in order alone (shared as
# deepboot/reference_results.csv beside the workloads).
COPIED = {
    "deepboot-atsi-afe-p8": (1436, 0.39),
    "deepboot-tiresias-atsi": (2201, 0.91),
    "deepboot-tiresias-atsi-afe": (2199, 0.91),
    "deepboot-optimus-atsi-afe": (2196, 1.38),
    "deepboot-afs-atsi-afe": (1670, 2.89),
    "deepboot-aryl-atsi": (2954, 2.06),
    "deepboot-aryl-atsi-afe": (2937, 2.03),
    "deepboot-pollux": (1468, 5.69),
}
ROWS = ORIGINAL | COPIED
# Those that decide without a fit are equal job by job: finish second of each training job, in order of submission.
FINISHES = {
    "deepboot-tiresias": "1054 4280 252 2795 866 912 1212 1392 2028 1572 2532 30081 2822 3192 3746 4286 2617 4243 2652 "
    "2712 3012 3612",
    "deepboot-optimus": "1009 4519 252 4487 989 912 1212 1392 3927 1572 4046 22050 4116 4292 4276 4334 2532 4465 2532 "
    "2712 2952 3612",
    "deepboot-afs": "889 3173 295 3582 889 955 1255 1375 2467 1686 2437 22887 2574 2937 2919 3084 2431 3363 2526 2706 "
    "2946 3606",
}
# The throughput fit is chaotic: presets that decide by it are run from several starts.
FITTED = {preset for preset in ROWS if preset.startswith("deepboot-atsi") or preset == "deepboot-pollux"}
PERTURBED = ["0.99", "0.995", "0.999", "0.9999", "0.999999", "1", "1.000001", "1.0001", "1.001", "1.005", "1.01"]


def equal_finishes(preset: str, trace: pathlib.Path) -> str:
    """How many training jobs end in the second in which they end in the reference."""
    if preset not in FINISHES:
        return ""
    with tempfile.TemporaryDirectory() as out:
        run(["--preset", preset, "--trace", trace, "--cluster", "16x4", "--out", f"{out}/run"])
        with open(f"{out}/run/jobs.csv", encoding="utf-8") as table:
            jobs = [job for job in csv.DictReader(table) if job["kind"] == "training"]
    jobs.sort(key=lambda job: float(job["submit_s"]))
    wanted = [float(second) for second in FINISHES[preset].split()]
    equal = sum(float(job["end_s"]) == second for job, second in zip(jobs, wanted, strict=True))
    return f", finish seconds equal: {equal} of {len(wanted)}"


def rows() -> None:
    trace = data_folder() / "deepboot" / "workload" / "small_1h.csv"
    print("preset: JCT s (reference, difference), extra latency s (reference, difference), restarts, CPU-s of a run")
    for preset, (jct, extra) in ROWS.items():
        scales = PERTURBED if preset in FITTED else ["1"]
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
            f"{statistics.fmean(g['restarts'] for g in got):.0f}, {max(g['cpu_s'] for g in got):.2f}"
            f"{equal_finishes(preset, trace)}",
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
