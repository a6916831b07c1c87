"""A client of Lukasa, a memory for AI agents.

It calls a daemon, which `lukasa serve` starts:

    from lukasa import Client

    with Client() as lukasa:
        task = lukasa.remember("I like tea in the morning.")
        print(lukasa.tasks.wait(task)["summary"])

`AsyncClient` has the same calls for `asyncio`. Answers are dictionaries, with the types of `lukasa.models`. Errors are
in `lukasa.errors`. `lukasa.anthropic` and `lukasa.langgraph` connect a daemon with those packages.
"""

from lukasa._async.client import AsyncClient
from lukasa._sync.client import Client
from lukasa.errors import (
    AnswerTooLargeError,
    ApiError,
    BusyError,
    ConflictError,
    DaemonUnreachableError,
    DeadlineError,
    LukasaError,
    NotFoundError,
    ProtocolError,
    ScreenedError,
    TaskFailedError,
    TaskUnfinishedError,
    UnauthorizedError,
    UndoBlockedError,
)
from lukasa.save import SaveResponse
from lukasa.task import Submitted

__all__ = [
    "AnswerTooLargeError",
    "ApiError",
    "AsyncClient",
    "BusyError",
    "Client",
    "ConflictError",
    "DaemonUnreachableError",
    "DeadlineError",
    "LukasaError",
    "NotFoundError",
    "ProtocolError",
    "SaveResponse",
    "ScreenedError",
    "Submitted",
    "TaskFailedError",
    "TaskUnfinishedError",
    "UnauthorizedError",
    "UndoBlockedError",
]
