"""Errors, one class for each way to handle them.

Every error is a `LukasaError` with a stable `code`. Errors of the daemon also have a `status` and, if the daemon says
so, `retry_after`. Those that builtin exceptions describe are subclasses of them too: `ConnectionError`, `TimeoutError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from lukasa.models import Task, TaskError, ToolReply


class LukasaError(Exception):
    """The base class of all errors of this package."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        """A stable code, for programs."""
        self.message = message
        """A sentence, for people."""
        self.status = status
        """The HTTP status; none if the daemon did not answer, or its memory tool refused."""
        self.retry_after = retry_after
        """The seconds after which the daemon asks to try again."""

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed: the daemon is unreachable, busy or full."""
        return False


class DaemonUnreachableError(LukasaError, ConnectionError):
    """No daemon runs at this address, or the connection broke.

    A request whose connection broke may have taken effect.
    """

    def __init__(self, message: str) -> None:
        super().__init__("connection", message)

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed."""
        return True


class DeadlineError(LukasaError, TimeoutError):
    """The daemon did not answer in time. The request may have taken effect."""

    def __init__(self, timeout: float) -> None:
        super().__init__("timeout", f"the daemon did not answer within {timeout:g} s")
        self.timeout = timeout

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed."""
        return True


class AnswerTooLargeError(LukasaError):
    """The answer exceeds the limit and was not read. The request has taken effect."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__("answer_too_large", f"the answer is larger than {bytes_max} bytes")
        self.bytes_max = bytes_max


class ProtocolError(LukasaError):
    """The answer does not follow this API: the address may be that of another program."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__("protocol", message, status=status)

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed: a proxy cannot reach the daemon."""
        return self.status in (502, 503, 504)


class ApiError(LukasaError):
    """The daemon refused the request, with one of its codes. Nothing was changed."""

    def __init__(
        self, status: int | None, body: Mapping[str, Any], retry_after: float | None = None
    ) -> None:
        super().__init__(body["code"], body["error"], status=status, retry_after=retry_after)
        self.facts: Mapping[str, Any] = {
            name: value for name, value in body.items() if name not in ("code", "error")
        }
        """Further fields of the error, which depend on the code."""


class UnauthorizedError(ApiError):
    """The token is missing or wrong. `lukasa token` prints it."""


class NotFoundError(ApiError):
    """The object does not exist, or this client may not see it."""


class BusyError(ApiError):
    """The daemon is overloaded, full or shutting down. Try again after `retry_after`."""

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed."""
        return True


class ConflictError(ApiError):
    """The memory was changed since it was read."""

    @property
    def revision(self) -> str | None:
        """The current revision; none if the memory is gone."""
        return cast("str | None", self.facts.get("revision"))


class ScreenedError(ApiError):
    """Screening refused the text: it looks like a secret or an attack on a model."""

    @property
    def rule(self) -> str | None:
        """The id of the screening rule; none if only the message names it."""
        return cast("str | None", self.facts.get("rule"))

    @property
    def line(self) -> int | None:
        """The line, counted from 1."""
        return cast("int | None", self.facts.get("line"))


class UndoBlockedError(ApiError):
    """A change cannot be undone, because its memories were changed since."""

    @property
    def blocked(self) -> list[dict[str, str]]:
        """Those memories: `path`, `why`, and the `diff` of the later changes."""
        return cast("list[dict[str, str]]", self.facts.get("blocked", []))


class TaskFailedError(LukasaError):
    """The task failed or was cancelled. It changed nothing."""

    def __init__(self, task: Task) -> None:
        unknown: TaskError = {"code": "unknown", "message": "The task failed."}
        error = task.get("error") or unknown
        details = error.get("details")
        message = error["message"]
        super().__init__(error["code"], f"{message} {details}" if details else message)
        self.task = task


class TaskUnfinishedError(LukasaError, TimeoutError):
    """The task has not ended within the timeout. It continues."""

    def __init__(self, task: Task, timeout: float) -> None:
        super().__init__("task_unfinished", f"the task has not ended within {timeout:g} s")
        self.task = task
        """The state when it was last polled."""


_BUSY = (408, 429, 503)


def error_from_response(status: int, body: bytes, retry_after: str | None) -> LukasaError:
    """Returns the error for an answer that is no success."""
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not all(
        isinstance(fields.get(name), str) for name in ("code", "error")
    ):
        return ProtocolError(status, f"the answer {status} is none of a Lukasa daemon")
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return _class_of(status, fields)(status, fields, seconds)


def error_from_reply(reply: ToolReply) -> ApiError:
    """Returns the error for a refusal of the memory tool."""
    body = {"code": reply.get("code") or "unknown", "error": reply["text"]}
    return _class_of(None, body)(None, body)


def _class_of(status: int | None, body: Mapping[str, Any]) -> type[ApiError]:
    if body["code"] == "conflict":
        return UndoBlockedError if "blocked" in body else ConflictError
    if body["code"] == "screened":
        return ScreenedError
    if status in _BUSY:
        return BusyError
    if status == 401:
        return UnauthorizedError
    return NotFoundError if status == 404 or body["code"] == "not_found" else ApiError
