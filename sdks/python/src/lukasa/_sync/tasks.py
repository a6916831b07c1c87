# Generated from src/lukasa/_async by scripts/generate.py.
"""Tasks: get, list, cancel, wait. The client submits them."""

from __future__ import annotations

import builtins
import time
from typing import TypeVar, cast, overload

from lukasa._call import Call, encode_id
from lukasa._sync.transport import Transport
from lukasa.errors import (
    DeadlineError,
    LukasaError,
    NotFoundError,
    TaskFailedError,
    TaskUnfinishedError,
)
from lukasa.models import ListedTask, Task, TaskKind, TaskResult
from lukasa.task import Submitted

ResultT = TypeVar("ResultT")

POLL_MIN = 0.002
"""The pause after the first poll, in seconds. Rules take a few milliseconds."""

POLL_MAX = 0.5
"""The longest pause between two polls. A model takes seconds."""

WAIT_TIMEOUT = 310.0
"""The default wait: a little longer than the daemon lets a task run."""


class Tasks:
    """The tasks of a workspace."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, task: str | Submitted[ResultT]) -> Task:
        """Returns the state of a task. Raises `NotFoundError` for an id that no task has."""
        return self._state("GET", task)

    def list(self, *, kind: TaskKind | None = None) -> builtins.list[ListedTask]:
        """Lists the tasks that this client may see, latest first."""
        call = Call("GET", "/v1/tasks").with_query(kind=kind)
        answer = self._transport.workspace_value(call)
        return cast("builtins.list[ListedTask]", answer["tasks"])

    def cancel(self, task: str | Submitted[ResultT]) -> Task:
        """Cancels a task. One that has ended is not changed; the returned state says which."""
        return self._state("DELETE", task)

    @overload
    def wait(self, task: Submitted[ResultT], *, timeout: float = ...) -> ResultT: ...
    @overload
    def wait(self, task: str, *, timeout: float = ...) -> TaskResult: ...

    def wait(
        self, task: str | Submitted[ResultT], *, timeout: float = WAIT_TIMEOUT
    ) -> ResultT | TaskResult:
        """Waits until a task is completed and returns its result.

        Polls with growing pauses, also while the daemon is unreachable, full or restarting: tasks survive a restart.

        Raises `TaskFailedError` if the task failed or was cancelled, and `TaskUnfinishedError` after `timeout` seconds;
        the task continues then. Raises the last error if no poll was answered.
        """
        end = time.monotonic() + timeout
        pause = POLL_MIN
        latest: Task | None = None
        failure: LukasaError = DeadlineError(timeout)
        while (left := end - time.monotonic()) > 0:
            wanted = 0.0
            try:
                latest = self._state("GET", task, min(left, self._transport.timeout))
                if latest["status"] == "completed":
                    return cast("ResultT", latest.get("result"))
                if latest["status"] == "failed":
                    raise TaskFailedError(latest)
            except LukasaError as error:
                if not error.is_temporary:
                    raise
                wanted = error.retry_after or 0.0
                # A poll that the end of the wait cut short says less than the error before it.
                if not isinstance(error, DeadlineError):
                    failure = error
            time.sleep(max(0.0, min(max(pause, wanted), end - time.monotonic())))
            pause = min(pause * 2, POLL_MAX)
        if latest is None:
            raise failure
        raise TaskUnfinishedError(latest, timeout)

    def _state(
        self, method: str, task: str | Submitted[ResultT], timeout: float | None = None
    ) -> Task:
        """Sends a call about one task and returns the state. The id of a task begins with its kind."""
        task_id = task if isinstance(task, str) else task.task_id
        encoded = encode_id("the id of the task", task_id)
        kind = task_id.split("-", 1)[0] or task_id
        call = Call(method, f"{task_route(self._transport, kind)}/{encoded}")
        try:
            return cast("Task", self._transport.value(call, timeout))
        except NotFoundError as error:
            if error.code != "route_not_found":
                raise
            # The kind is a part of the route.
            message = f"no task has the id {task_id!r}: ids begin with a kind, such as `remember-`"
            body = {"code": "task_not_found", "error": message}
            raise NotFoundError(error.status, body) from error


def task_route(transport: Transport, kind: str) -> str:
    """Returns the route for tasks of a kind in the workspace of a client."""
    of_kind = f"memory/{encode_id('the kind of the task', kind)}"
    if transport.workspace is None:
        return f"/workspace/{of_kind}"
    return f"/workspaces/{encode_id('the id of the workspace', transport.workspace)}/{of_kind}"
