"""What the API says, as values. Times are nanoseconds of UTC since 1970. Keys that are not known are skipped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class EbbError(Exception):
    """The API refused a request, or did not answer.

    `code` is one of the API's error codes; `status` the HTTP status, 0 if there was no answer.
    """

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


class JobStatus(StrEnum):
    """Where a job is in its life."""

    HELD = "held"
    BLOCKED = "blocked"
    BACKING_OFF = "backing_off"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """It will not change any more."""
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


@dataclass(frozen=True)
class Job:
    """A job as lists show it."""

    id: int
    name: str
    tenant: str
    status: JobStatus
    reason: str
    """Why it waits, or how it failed."""
    gpus: int
    """GPUs, or CPU slots, asked for."""
    incarnations: int
    """Starts so far."""
    retries: int
    submitted: int
    started: int | None
    """Of its latest start."""
    ended: int | None
    exit_code: int | None
    """Once it ended: 0, that of the first worker that failed, or 128 + signal."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Job:
        return cls(
            id=value["id"],
            name=value["name"],
            tenant=value["tenant"],
            status=JobStatus(value["status"]),
            reason=value["reason"],
            gpus=value["gpus"],
            incarnations=value["incarnations"],
            retries=value["retries"],
            submitted=value["submitted"],
            started=value.get("started"),
            ended=value.get("ended"),
            exit_code=value.get("exit_code"),
        )


@dataclass(frozen=True)
class WorkerExit:
    """How a worker ended: `cause` is exited, signalled, stopped, timed_out, out_of_memory, fenced, not_started or lost."""

    cause: str
    code: int
    message: str


@dataclass(frozen=True)
class Worker:
    """One process of the latest start of a job."""

    id: str
    rank: int
    node: str
    slots: tuple[int, ...]
    pid: int | None
    exit: WorkerExit | None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Worker:
        ended = value.get("exit")
        return cls(
            id=value["id"],
            rank=value["rank"],
            node=value["node"],
            slots=tuple(value["slots"]),
            pid=value.get("pid"),
            exit=None if ended is None else WorkerExit(ended["cause"], ended.get("code", 0), ended.get("message", "")),
        )


@dataclass(frozen=True)
class JobDetail(Job):
    """A job with its request (the completed job file) and its workers."""

    request: dict[str, Any]
    workers: tuple[Worker, ...]
    resizing: bool
    """Its GPUs are being changed."""
    progress: dict[str, Any] | None
    """As its workers said lately: step, samples, loss and more (docs/reference/openapi.yaml)."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> JobDetail:
        return cls(
            **vars(Job.from_json(value)),
            request=value["request"],
            workers=tuple(Worker.from_json(worker) for worker in value["workers"]),
            resizing=value.get("resizing", False),
            progress=value.get("progress"),
        )


@dataclass(frozen=True)
class Explanation:
    """Why a job waits."""

    job: Job
    code: str
    sentence: str
    position: int | None
    """Among waiting jobs, in order of submission, from 1."""
    expected_start: int | None
    basis: str
    """What the forecast rests on, or why there is none."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Explanation:
        return cls(
            job=Job.from_json(value["job"]),
            code=value["code"],
            sentence=value["sentence"],
            position=value.get("position"),
            expected_start=value.get("expected_start"),
            basis=value.get("basis", ""),
        )


@dataclass(frozen=True)
class Node:
    """A machine of the cluster; `state` is up, draining or down."""

    name: str
    state: str
    gpus: int
    held: int
    gpu_type: str

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Node:
        return cls(value["name"], value["state"], value["gpus"], value["held"], value["gpu_type"])


@dataclass(frozen=True)
class Policy:
    """The scheduling policy in charge, and its options that were set."""

    name: str
    options: dict[str, str]


@dataclass(frozen=True)
class Event:
    """A row of the journal (docs/reference/live-journal.md)."""

    seq: int
    row: dict[str, Any]


@dataclass(frozen=True)
class LogPart:
    """What a worker wrote, from `offset` on; of it nothing is kept before."""

    offset: int
    content: bytes
