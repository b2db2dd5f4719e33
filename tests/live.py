"""What the tests share that run `ebb up` as a process. Each puts `sys.dont_write_bytecode = True` before its import."""
import json
import os
import signal
import subprocess
import time

DEADLINE_S = 300  # only ends a run that hangs

# A cluster that the caller's shell uses is none of a test's business.
os.environ.pop("EBB_API", None)


class Failed(Exception):
    """What is not as it should be."""


def expect(condition, text):
    if not condition:
        raise Failed(text)


def wait_for(condition, what="it did not come to be"):
    """Returns what the condition gives, once it gives something. `what`: a text, or a function that gives one then."""
    end = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited too long: {what() if callable(what) else what}")
        time.sleep(0.02)


class Cluster:
    """`ebb up` on a data folder, as a process that may be killed. `flags`: further ones."""

    def __init__(self, bin_folder, folder, slots=4, flags=()):
        self.ebb, self.bin, self.folder, self.process = str(bin_folder / "ebb"), bin_folder, folder, None
        self.flags = ["--slots", str(slots), *flags]
        self.log = folder.parent / "up.log"

    def up(self, *flags):
        api = self.folder / "api.json"
        before = api.stat().st_mtime_ns if api.exists() else 0
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.ebb, "up", "--data", self.folder, *self.flags, *flags],
                                            stdout=log, stderr=log)
        wait_for(lambda: (api.exists() and api.stat().st_mtime_ns != before) or self.process.poll() is not None, "start")
        expect(self.process.poll() is None, f"ebb up ended with {self.process.returncode}: {self.output()}")

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        return self.process.wait(DEADLINE_S)

    def output(self):
        return self.log.read_text(encoding="utf-8")

    def port(self):
        return json.loads((self.folder / "api.json").read_text(encoding="utf-8"))["port"]

    def token(self):
        return (self.folder / "token").read_text(encoding="utf-8").strip()

    def run(self, *args, stdin=None):
        return subprocess.run([self.ebb, *args, "--data", self.folder], input=stdin, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def json(self, *args):
        done = self.run(*args, "--json")
        expect(done.returncode == 0, f"ebb {' '.join(args)}: {done.stderr}")
        return json.loads(done.stdout)

    def submit(self, spec):
        return self.run("submit", "-", "--json", stdin=json.dumps({"version": 1, **spec}))

    def job(self, number):
        return self.json("describe", str(number))

    def jobs(self):
        return self.json("ps", "--all")["jobs"]


def ended(job):
    return job["status"] in ("completed", "failed", "cancelled")
