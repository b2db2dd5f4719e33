"""Checks of C++ that need the compiler's tools: format, headers that compile alone, clang-tidy on what changed."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

from . import repo
from .repo import Finding, ROOT

CLANG_FORMAT = "clang-format-19"
CLANG_TIDY = "clang-tidy-19"
CLANG = "clang++-19"
TIDY_BUILD = ROOT / "build" / "tidy"
# clang-tidy parses whole translation units; a change of more files than this is looked at in part.
TIDY_LIMIT = 40
DIAGNOSTIC = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\d+: (?:fatal )?(?:error|warning): (?P<message>.*)$", re.M)


def run(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, input=stdin, check=False)


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(max_workers=int(os.environ.get("EBB_JOBS", repo.JOBS))) as pool:
        return list(pool.map(function, items))


def findings_of(output: str, advice: str, fallback: str) -> list[Finding]:
    """The diagnostics in a tool's output; if there are none to be read, one finding with the output as it is."""
    found = []
    for match in DIAGNOSTIC.finditer(output):
        path = os.path.relpath(match["path"], ROOT) if os.path.isabs(match["path"]) else match["path"]
        found.append(Finding(path, int(match["line"]), f"{match['message']}{advice}"))
    return list(dict.fromkeys(found)) or [Finding(fallback, 1, output.strip()[:2000] or "the tool failed without a word")]


def cpp_files(files: list[str], *suffixes: str) -> list[str]:
    return [f for f in files if f.endswith(suffixes or (".h", ".cc")) and not f.startswith("third_party/")]


def check_format(files: list[str], fix: bool = False) -> list[Finding]:
    sources = cpp_files(files)
    options = ["-i"] if fix else ["--dry-run", "-Werror"]
    chunks = [sources[i::repo.JOBS] for i in range(repo.JOBS)]
    found = []
    for done in in_parallel(lambda chunk: run(CLANG_FORMAT, *options, *chunk), [c for c in chunks if c]):
        if done.returncode != 0:
            found += findings_of(done.stderr, "; run ./run lint --fix", sources[0])
    first_of_file = {}
    for finding in found:
        first_of_file.setdefault(finding.path, finding)
    return list(first_of_file.values())


def check_headers(files: list[str]) -> list[Finding]:
    """Every header compiles alone and survives being included twice."""
    headers = [f for f in cpp_files(files, ".h") if f.startswith("src/")]
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Isrc", f"-I{TIDY_BUILD}/generated"]
    fingerprints = repo.Fingerprints(" ".join(flags[:-1]))
    passed = repo.Passed("headers")

    def compile_alone(header: str):
        fingerprint = fingerprints.of(header)
        if fingerprint in passed:
            return fingerprint, []
        include = f'#include "{header.removeprefix("src/")}"\n'
        done = run(CLANG, *flags, "-x", "c++", "-", stdin=include * 2)
        if done.returncode == 0:
            return fingerprint, []
        return None, findings_of(done.stderr, " (the header must compile alone: include what it uses)", header)

    results = in_parallel(compile_alone, headers)
    passed.add(fingerprint for fingerprint, _ in results if fingerprint)
    return [finding for _, found in results for finding in found]


def compile_commands() -> set[str]:
    """The files of the compile database, as paths from the root."""
    database = json.loads((TIDY_BUILD / "compile_commands.json").read_text())
    return {pathlib.Path(os.path.relpath(entry["file"], ROOT)).as_posix() for entry in database}


def tidy_units(changed: list[str], known: set[str]) -> list[str]:
    """The translation units that show clang-tidy the changed files: the files, and for a header x.h its x.cc or
    x_test.cc."""
    units = set()
    for file in cpp_files(changed):
        stem = file.rsplit(".", 1)[0]
        candidates = [file] if file.endswith(".cc") else [stem + ".cc", stem + "_test.cc"]
        units.update([c for c in candidates if c in known][:1])
    return sorted(units)


def check_tidy(changed: list[str]) -> list[Finding]:
    if not (TIDY_BUILD / "compile_commands.json").is_file():
        return [Finding("tools/lint", 1, "there is no build/tidy; run cmake --preset tidy, or ./run lint")]
    units = tidy_units(changed, compile_commands())
    fingerprints = repo.Fingerprints((ROOT / ".clang-tidy").read_text())
    passed = repo.Passed("tidy")
    todo = [u for u in units if fingerprints.of(u) not in passed]
    found = []
    if len(todo) > TIDY_LIMIT:
        found.append(Finding(todo[TIDY_LIMIT], 1, f"clang-tidy looks at {TIDY_LIMIT} of {len(todo)} changed files a run; "
                             "run ./run lint again for the next", warning=True))
        todo = todo[:TIDY_LIMIT]

    def tidy(unit: str):
        done = run(CLANG_TIDY, "--quiet", "-p", str(TIDY_BUILD), unit)
        if done.returncode == 0 and not DIAGNOSTIC.search(done.stdout):
            return unit, []
        return unit, findings_of(done.stdout or done.stderr, "", unit)

    results = in_parallel(tidy, todo)
    passed.add(fingerprints.of(unit) for unit, result in results if not result)
    # A header's findings come from every file that includes it.
    return found + list(dict.fromkeys(finding for _, result in results for finding in result))
