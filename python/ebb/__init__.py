"""Client of the ebb API: submit, watch and control jobs on a shared pool of GPUs.

    import ebb

    client = ebb.Client.local()
    [job] = client.submit({"command": ["python3", "train.py"], "workers": 2})
    for part in client.follow_log(job):
        print(part.decode(), end="")
    print(client.job(job).status)

Standard library only. What a job file may hold: docs/reference/job.md; the API below: docs/reference/openapi.yaml.
"""

from ebb.client import Client
from ebb.types import (
    EbbError,
    Event,
    Explanation,
    Job,
    JobDetail,
    JobStatus,
    LogPart,
    Node,
    Policy,
    Worker,
    WorkerExit,
)

__all__ = [
    "Client",
    "EbbError",
    "Event",
    "Explanation",
    "Job",
    "JobDetail",
    "JobStatus",
    "LogPart",
    "Node",
    "Policy",
    "Worker",
    "WorkerExit",
]
