"""Checks of files as text: size, machine paths, links of the docs, what every module must have."""
import pathlib
import re
import subprocess

from .repo import Finding, ROOT

HARD_LIMIT, SOFT_LIMIT, README_LIMIT = 1000, 600, 40
WRITTEN = {".h", ".cc", ".py", ".sh", ".cmake", ".md", ".ts", ".js", ".svelte", ".css", ".html", ".proto"}
DATA = ("testdata/", "fuzz/corpus/", "third_party/")


def read(path: str) -> str:
    """The file's text; "" for a binary one."""
    data = (ROOT / path).read_bytes()
    return "" if b"\0" in data[:4096] else data.decode("utf-8", errors="replace")


def is_script(path: str) -> bool:
    """A file without a suffix that starts with #!."""
    file = ROOT / path
    if file.suffix:
        return False
    with file.open("rb") as stream:
        return stream.read(2) == b"#!"


def check_size(files: list[str]) -> list[Finding]:
    found = []
    for path in files:
        suffix = pathlib.PurePosixPath(path).suffix
        if path.startswith(DATA) or "/golden/" in path or not (suffix in WRITTEN or is_script(path)):
            continue
        lines = read(path).count("\n")
        if lines > HARD_LIMIT:
            found.append(Finding(path, HARD_LIMIT + 1, f"{lines} lines; split it, {HARD_LIMIT} is the most"))
        elif lines > SOFT_LIMIT:
            found.append(Finding(path, SOFT_LIMIT + 1, f"{lines} lines; think about splitting it", warning=True))
    return found


# Written in pieces so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(?:work|root|home)/[\w.-]|\.\./" + "shared" + r"\b")


def check_paths(files: list[str]) -> list[Finding]:
    """No path of somebody's machine."""
    found = []
    for path in files:
        for number, line in enumerate(read(path).splitlines(), 1):
            match = MACHINE_PATH.search(line)
            if match:
                found.append(Finding(path, number, f"'{match.group()}' is a path of one machine; write it relative to the "
                                     "repository, or $EBB_DATA/... for data that is not in it"))
    return found


FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?[^)\n]*\)|^\[[^\]\n]+\]:\s*(\S+)", re.M)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)


def blank(match: re.Match) -> str:
    """As many lines, without text."""
    return "\n" * match.group().count("\n")


def anchors(text: str) -> set[str]:
    """The anchors of a Markdown file's headings, as GitHub makes them."""
    found = set()
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (unique := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(unique)
    return found


def check_links(files: list[str], root: pathlib.Path = ROOT) -> list[Finding]:
    """Relative links of Markdown files lead to files (and headings) that exist."""
    found = []
    for path in files:
        if not path.endswith(".md"):
            continue
        text = CODE.sub("", FENCE.sub(blank, (root / path).read_text(encoding="utf-8")))
        for match in LINK.finditer(text):
            target = match.group(1) or match.group(2)
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            goal = (root / path).parent / name if name else root / path
            number = text.count("\n", 0, match.start()) + 1
            if not goal.exists():
                found.append(Finding(path, number, f"the link '{target}' leads nowhere"))
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text(encoding="utf-8")):
                found.append(Finding(path, number, f"the link '{target}' names a heading that is not there"))
    return found


def check_modules(files: list[str]) -> list[Finding]:
    """Every module has a short README; every policy has one too, and a line in policies/all.cc and the table."""
    present = set(files)
    found = []
    parts = [f.split("/") for f in files if f.startswith("src/ebb/")]
    for module in sorted({p[2] for p in parts if len(p) > 3}):
        readme = f"src/ebb/{module}/README.md"
        if readme not in present:
            found.append(Finding(readme, 1, "missing: say what the module does, where to start reading, what it may include"))
        elif (lines := len(read(readme).splitlines())) > README_LIMIT:
            found.append(Finding(readme, README_LIMIT + 1, f"{lines} lines; {README_LIMIT} is the most"))
    policies = sorted({p[3] for p in parts if p[2] == "policies" and len(p) > 4})
    for policy in policies:
        if f"src/ebb/policies/{policy}/README.md" not in present:
            found.append(Finding(f"src/ebb/policies/{policy}/README.md", 1,
                                 "missing: paper, assumptions, formulas, deviations of the policy"))
        for table in ("src/ebb/policies/all.cc", "src/ebb/policies/README.md"):
            if table in present and not re.search(rf"\b{policy}\b", read(table)):
                found.append(Finding(table, 1, f"the policy '{policy}' is not listed here"))
    return found


def check_shell(files: list[str]) -> list[Finding]:
    scripts = [f for f in files if f.endswith(".sh") or (is_script(f) and b"sh\n" in (ROOT / f).read_bytes()[:64])]
    if not scripts:
        return []
    done = subprocess.run(["shellcheck", "-x", "-f", "gcc", *scripts], capture_output=True, text=True, cwd=ROOT, check=False)
    found = []
    for line in done.stdout.splitlines():
        path, number, _, message = line.split(":", 3)
        found.append(Finding(path, int(number), message.strip()))
    return found
