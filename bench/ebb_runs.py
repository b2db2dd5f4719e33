"""What the scripts of bench/ share: runs of build/release/bin/ebb, several at once, their figures and their cost."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EBB = ROOT / "build" / "release" / "bin" / "ebb"
PRESETS = ROOT / "scenarios" / "reference"


def data_folder() -> pathlib.Path:
    """$EBB_DATA, the folder with external traces; ends the program if it is not set."""
    folder = os.environ.get("EBB_DATA")
    if not folder:
        sys.exit("set EBB_DATA to the folder that holds traces/ (docs/benchmarks.md says which)")
    return pathlib.Path(folder)


def run(arguments: list[str]) -> dict:
    """`ebb sim run ARGUMENTS --json`: its figures, plus cpu_s and peak_mb of the process. Ends the program on an error."""
    process = subprocess.Popen(
        [str(EBB), "sim", "run", *map(str, arguments), "--json", "--progress", "never"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"ebb sim run {' '.join(map(str, arguments))}\n{err}")
    figures = json.loads(out)
    figures["cpu_s"] = usage.ru_utime + usage.ru_stime
    figures["peak_mb"] = usage.ru_maxrss / 1024
    return figures


def policies() -> list[str]:
    """The names of all policies."""
    listed = subprocess.run([str(EBB), "policies", "--json"], check=True, capture_output=True, text=True).stdout
    return [policy["name"] for policy in json.loads(listed)["policies"]]


def run_all(runs: list[list[str]], jobs: int | None = None) -> list[dict]:
    """The figures of many runs, in order."""
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(run, runs))

