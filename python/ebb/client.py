"""The client: one method a request."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import secrets
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ebb.types import EbbError, Event, Explanation, Job, JobDetail, JobStatus, LogPart, Node, Policy

_PAGE = 1000
_LOG_BYTES = 1 << 20
_POLL_S = 0.2


class Client:
    """Talks to one cluster. Each request uses a connection of its own: call it from any thread."""

    def __init__(self, url: str, token: str, timeout_s: float = 60) -> None:
        """`url`: as "http://127.0.0.1:8080"."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None or parts.port is None:
            raise ValueError(f"'{url}' is no address of an API; it has the form http://127.0.0.1:8080")
        self._host, self._port = parts.hostname, parts.port
        self._token, self._timeout_s = token, timeout_s

    @classmethod
    def local(cls, data_folder: str | os.PathLike[str] | None = None) -> Client:
        """The cluster that the command line would use: EBB_API and EBB_TOKEN, if both are set and no folder is given;
        else that of a data folder (default: EBB_HOME, XDG_STATE_HOME/ebb or ~/.local/state/ebb).
        """
        url, token = os.environ.get("EBB_API"), os.environ.get("EBB_TOKEN")
        if data_folder is None and url and token:
            return cls(url, token)
        folder = pathlib.Path(data_folder) if data_folder is not None else _default_folder()
        try:
            where = json.loads((folder / "api.json").read_text())
            secret = (folder / "token").read_text().strip()
        except OSError as error:
            raise EbbError("unavailable", f"no cluster runs with the data folder {folder}: {error}") from error
        return cls(f"http://{where['address']}:{where['port']}", secret)

    # --- jobs

    def submit(self, job: Mapping[str, Any], key: str | None = None) -> list[int]:
        """Submits a job file (docs/reference/job.md) as a mapping; `version` may be left out. The numbers of the jobs,
        several of an array. With one `key` (made up if not given) a job is submitted once, however often it is tried:
        a request whose answer was lost is repeated.
        """
        body = json.dumps({"version": 1, **job}).encode()
        headers = {"Idempotency-Key": key or f"python-{secrets.token_hex(16)}", "Content-Type": "application/json"}
        for patience in (0.1, 0.5, 2.0, None):
            try:
                return cast(list[int], self._json("POST", "/v1/jobs", body, headers)["jobs"])
            except EbbError as error:
                if error.code != "unavailable" or patience is None:
                    raise
                time.sleep(patience)
        raise AssertionError("not reached")

    def jobs(self, *, active: bool = False, status: JobStatus | None = None, tenant: str | None = None) -> Iterator[Job]:
        """All of them, page by page, in order of their numbers."""
        query: dict[str, str] = {"limit": str(_PAGE)}
        if active:
            query["active"] = "true"
        if status is not None:
            query["status"] = status.value
        if tenant is not None:
            query["tenant"] = tenant
        while True:
            page = [Job.from_json(job) for job in self._json("GET", _with("/v1/jobs", query))["jobs"]]
            yield from page
            if len(page) < _PAGE:
                return
            query["after"] = str(page[-1].id)

    def job(self, job: int) -> JobDetail:
        return JobDetail.from_json(self._json("GET", f"/v1/jobs/{job}"))

    def explain(self, job: int) -> Explanation:
        return Explanation.from_json(self._json("GET", f"/v1/jobs/{job}/explain"))

    def cancel(self, job: int) -> None:
        self._json("POST", f"/v1/jobs/{job}/cancel")

    def hold(self, job: int) -> None:
        self._json("POST", f"/v1/jobs/{job}/hold")

    def release(self, job: int) -> None:
        self._json("POST", f"/v1/jobs/{job}/release")

    def resize(self, job: int, workers: int) -> None:
        """Runs a job on another number of workers, of the range in its job file."""
        self._json("POST", f"/v1/jobs/{job}/resize", json.dumps({"workers": workers}).encode())

    def wait(self, job: int, timeout_s: float | None = None) -> JobDetail:
        """Returns once the job has ended. Raises TimeoutError."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            detail = self.job(job)
            if detail.status.ended:
                return detail
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"job {job} is still {detail.status} after {timeout_s} s")
            time.sleep(_POLL_S)

    def log(self, job: int, rank: int = 0, stream: str = "stdout", offset: int = 0) -> LogPart:
        """A part of what a worker of the latest start wrote, up to 1 MiB; empty at the end."""
        query = {"rank": str(rank), "stream": stream, "offset": str(offset), "max_bytes": str(_LOG_BYTES)}
        reply = self._send("GET", _with(f"/v1/jobs/{job}/log", query))
        try:
            return LogPart(int(reply.headers["X-Log-Offset"]), reply.read())
        finally:
            reply.close()

    def follow_log(self, job: int, rank: int = 0, stream: str = "stdout") -> Iterator[bytes]:
        """What a worker wrote and writes, until the job ends."""
        offset = 0
        while True:
            # Asked before reading: what was written until the end is read after it.
            ended = self.job(job).status.ended
            while True:
                try:
                    part = self.log(job, rank, stream, offset)
                except EbbError as error:
                    if error.code == "not_found" and not ended:
                        break  # it has not started yet
                    raise
                if not part.content:
                    break
                yield part.content
                offset = part.offset + len(part.content)
            if ended:
                return
            time.sleep(_POLL_S)

    # --- cluster

    def nodes(self) -> list[Node]:
        return [Node.from_json(node) for node in self._json("GET", "/v1/nodes")["nodes"]]

    def drain(self, node: str) -> None:
        self._json("POST", f"/v1/nodes/{urllib.parse.quote(node, safe='')}/drain")

    def undrain(self, node: str) -> None:
        self._json("POST", f"/v1/nodes/{urllib.parse.quote(node, safe='')}/undrain")

    def policy(self) -> Policy:
        policy = self._json("GET", "/v1/policy")
        return Policy(policy["name"], policy["options"])

    def set_policy(self, name: str, options: Mapping[str, str] | None = None) -> None:
        """Lets another policy decide from now on."""
        self._json("PUT", "/v1/policy", json.dumps({"name": name, "options": dict(options or {})}).encode())

    def events(self, after: int = 0, follow: bool = False) -> Iterator[Event]:
        """Rows of the journal after number `after`; with `follow` also those to come, for ever: once connected, it
        connects again whenever the cluster was away.
        """
        while not follow:
            page = self._json("GET", _with("/v1/events", {"after": str(after), "limit": str(_PAGE)}))["events"]
            for row in page:
                yield Event(row["seq"], row["event"])
            if not page:
                return
            after = page[-1]["seq"]
        connected = False
        while True:
            try:
                reply = self._send("GET", _with("/v1/events/stream", {"after": str(after)}))
            except EbbError as error:
                if not connected or error.code != "unavailable":
                    raise
                time.sleep(_POLL_S)
                continue
            connected = True
            try:
                for event in _events_of(reply):
                    after = event.seq
                    yield event
            except (OSError, http.client.HTTPException):
                time.sleep(_POLL_S)  # cut off: go on after the last one
            finally:
                reply.close()

    def metrics(self) -> str:
        """In the text format of Prometheus."""
        reply = self._send("GET", "/metrics")
        try:
            return reply.read().decode()
        finally:
            reply.close()

    # --- requests

    def _json(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        reply = self._send(method, target, body, headers or {})
        try:
            return cast(dict[str, Any], json.loads(reply.read()))
        except (OSError, http.client.HTTPException) as error:
            raise EbbError("unavailable", f"the answer of the cluster broke off: {error}") from error
        finally:
            reply.close()

    def _send(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(
                method,
                target,
                body,
                {"Authorization": f"Bearer {self._token}", "Connection": "close", **(headers or {})},
            )
            reply = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise EbbError("unavailable", f"{self._host}:{self._port} does not answer: {error}") from error
        if reply.status < 300:
            return reply
        text = reply.read()
        reply.close()
        raise _error_of(reply.status, text)


def _default_folder() -> pathlib.Path:
    if home := os.environ.get("EBB_HOME"):
        return pathlib.Path(home)
    if state := os.environ.get("XDG_STATE_HOME"):
        return pathlib.Path(state) / "ebb"
    return pathlib.Path.home() / ".local" / "state" / "ebb"


def _with(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urllib.parse.urlencode(query)}"


def _error_of(status: int, text: bytes) -> EbbError:
    try:
        error = json.loads(text)["error"]
        return EbbError(error["code"], error["message"], status)
    except (ValueError, KeyError, TypeError):
        return EbbError("internal", f"the API answered {status}", status)


def _events_of(reply: http.client.HTTPResponse) -> Iterator[Event]:
    """Of a text/event-stream: lines `id: N` and `data: JSON`, then an empty one."""
    seq = 0
    for line in reply:
        text = line.decode().rstrip("\n")
        if text.startswith("id: "):
            seq = int(text.removeprefix("id: "))
        elif text.startswith("data: "):
            yield Event(seq, json.loads(text.removeprefix("data: ")))
