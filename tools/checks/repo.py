"""What the checks look at: the files of the repository, and which of them changed."""
import dataclasses
import hashlib
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
JOBS = 2


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing to mend: where, what, and what to do. A warning is shown and fails nothing."""
    path: str
    line: int
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'warning: ' if self.warning else ''}{self.message}"


def git(*args: str):
    """Standard output of a git command, or None where it fails (no such commit, no repository)."""
    done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def all_files() -> list[str]:
    """Tracked files and new ones that git does not ignore, as paths from the root."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        skipped = {"build", ".cache", ".venv", "node_modules", ".git"}
        files = (p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file())
        return sorted(p.as_posix() for p in files if not skipped & set(p.parts))
    return sorted({f for f in listed.split("\0") if f and (ROOT / f).is_file()})


def changed_files() -> list[str]:
    """Files that differ from where this branch left origin/main; on main itself, from the commit before; in a clone
    with one commit, the files of that commit. New files count."""
    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main")
    if base is None or base == head:
        base = git("rev-parse", "--verify", "-q", "HEAD~1")
    if base is None:
        changed = git("ls-tree", "-r", "--name-only", "HEAD") or ""
    else:
        changed = git("diff", "--name-only", "--diff-filter=d", base.strip()) or ""
    new = git("ls-files", "--others", "--exclude-standard") or ""
    return sorted({f for f in (changed + new).splitlines() if (ROOT / f).is_file()})


INCLUDE = re.compile(rb'^\s*#\s*include\s*"(ebb/[^"]+)"', re.MULTILINE)


class Fingerprints:
    """Hashes of a file together with all headers of ebb that it reaches: equal hash, equal result of a check."""

    def __init__(self, salt: str):
        self._salt = salt.encode()
        self._includes: dict[str, tuple[bytes, list[str]]] = {}

    def _read(self, path: str) -> tuple[bytes, list[str]]:
        if path not in self._includes:
            file = ROOT / path
            data = file.read_bytes() if file.is_file() else b""
            self._includes[path] = (data, ["src/" + name.decode() for name in INCLUDE.findall(data)])
        return self._includes[path]

    def of(self, path: str) -> str:
        digest = hashlib.sha256(self._salt)
        seen, todo = set(), [path]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            todo += self._read(current)[1]
        for name in sorted(seen):
            digest.update(name.encode() + b"\0" + self._read(name)[0] + b"\0")
        return digest.hexdigest()


class Passed:
    """Remembers, in .cache/lint, which fingerprints a check has passed."""

    def __init__(self, check: str):
        self._file = ROOT / ".cache" / "lint" / check
        self._known = set(self._file.read_text().split()) if self._file.is_file() else set()

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._known

    def add(self, fingerprints) -> None:
        self._known |= set(fingerprints)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("\n".join(sorted(self._known)[-20000:]) + "\n")
