"""One page in headless chromium, driven over its debugging pipe; standard library only.

Used by tests/report-page and tools/screenshot. The pipe (not a port) leaves nothing open to the network, and lets the
width, the colour scheme and the medium be set exactly.
"""
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-pipe"]


class BrowserError(Exception):
    """What a person at a terminal should read."""


def find_chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    raise BrowserError("no chromium found: install the Debian package chromium (apt-get install chromium)")


def pipe_above_ten():
    """A pipe whose descriptors cannot be mistaken for 3 and 4."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved


class Page:
    """Opens a file in a browser of its own; use as a context manager."""

    def __init__(self, limit_s: float = 60):
        self.limit_s = limit_s
        self.next_id = 0
        self.events = []
        self.session = None

    def __enter__(self):
        program = find_chromium()
        self.profile = tempfile.TemporaryDirectory(prefix="ebb-chromium-", ignore_cleanup_errors=True)
        # Chromium reads commands from descriptor 3 and writes to 4.
        (to_browser, self.out), (self.into, from_browser) = pipe_above_ten(), pipe_above_ten()
        shell = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        try:
            targets = self.call("Target.getTargets")["targetInfos"]
            target = next(t for t in targets if t["type"] == "page")
            self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.close(self.into)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def _message(self, until: float) -> dict:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise BrowserError(f"chromium did not answer within {self.limit_s:.0f} s")
            chunk = os.read(self.into, 1 << 20)
            if not chunk:
                raise BrowserError("chromium ended early; run it by hand with --headless to see why")
            self.buffer += chunk
        raw, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(raw)

    def call(self, method: str, **params):
        self.next_id += 1
        command = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        until = time.monotonic() + self.limit_s
        while True:
            message = self._message(until)
            if message.get("id") == self.next_id:
                if "error" in message:
                    raise BrowserError(f"chromium: {method}: {message['error'].get('message')}")
                return message["result"]
            self.events.append(message)

    def width(self, width: int, height: int = 900, scale: float = 1):
        """The size of the window in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=False)

    def scheme(self, name: str):
        """"light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, path: pathlib.Path):
        """Loads the file and waits until its load event has fired."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + self.limit_s
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message(until))
        self.settle()

    def settle(self):
        """Waits for two frames: layout, observers and canvases are done then."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, expression: str):
        """The value of a JavaScript expression (JSON values only; a promise is awaited)."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details.get("text"))
        return answer["result"].get("value")

    def key(self, key: str):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def problems(self) -> list:
        """Errors of scripts and of the console, and every request besides the file itself."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            method = event.get("method")
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append("script error: " + (details.get("exception", {}).get("description") or details["text"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append("console error: " + params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                found.append("the page asks the network for " + params["request"]["url"])
        return found
