# Generated from src/lukasa/_async by scripts/generate.py.
"""The client: connection options, and the parts of the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, cast

import httpx

from lukasa._call import TIMEOUT, Call, without_none
from lukasa._daemon import find_daemon
from lukasa._sync.history import Changes, Pending
from lukasa._sync.memories import Memories
from lukasa._sync.tasks import Tasks, task_route
from lukasa._sync.transport import Transport, connect
from lukasa.models import (
    Capabilities,
    ContextMode,
    DreamResult,
    ExplainedContext,
    ForgetResult,
    Health,
    RecalledBlock,
    RememberResult,
    Stats,
    TargetScope,
    Task,
    TaskKind,
)
from lukasa.task import Submitted


class Client:
    """A client of one daemon. Constructing it sends no request.

    Without arguments it finds the daemon that runs for this user, or takes `LUKASA_URL` and `LUKASA_TOKEN` from the
    environment. `with` closes its connections at the end.

    `workspace` is the id of a workspace in `capabilities()`; by default it is the daemon's first one. `client_id` is
    that of a registered client, which alone sees its tasks. `timeout` is the deadline of a call in seconds. `transport`
    sends the requests instead of a connection to the daemon, for a proxy or for tests.

    Raises `DaemonUnreachableError` if no daemon is found, and `LukasaError` if there is no token.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        workspace: str | None = None,
        client_id: str | None = None,
        timeout: float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        daemon = find_daemon(url, token)
        pool = connect(daemon, transport)
        self._use(Transport(daemon, pool, timeout, workspace, client_id))

    def _use(self, transport: Transport) -> None:
        self._transport = transport
        self.memories = Memories(transport)
        """Single memories: read, write, search."""
        self.tasks = Tasks(transport)
        """Tasks: wait, list, cancel."""
        self.changes = Changes(transport)
        """History, runs and undo."""
        self.pending = Pending(transport)
        """Proposals that wait for a person's decision."""

    def with_options(
        self,
        *,
        workspace: str | None = None,
        client_id: str | None = None,
        timeout: float | None = None,
    ) -> Client:
        """Returns a client with other options, which shares the connections of this one."""
        options = without_none(workspace=workspace, client_id=client_id, timeout=timeout)
        client = object.__new__(type(self))
        client._use(replace(self._transport, **options))
        return client

    def close(self) -> None:
        """Closes the connections, also those of clients that share them."""
        self._transport.pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def health(self) -> Health:
        """Returns whether the daemon works. Needs no valid token."""
        return cast("Health", self._transport.value(Call("GET", "/health")))

    def capabilities(self) -> Capabilities:
        """Returns what the daemon supports, and the workspaces that it serves."""
        return cast("Capabilities", self._transport.value(Call("GET", "/capabilities")))

    def stats(self) -> Stats:
        """Returns the counts of the workspace."""
        return cast("Stats", self._transport.workspace_value(Call("GET", "/v1/stats")))

    def remember(
        self,
        content: str,
        *,
        scope: TargetScope | None = None,
        context_mode: ContextMode | None = None,
    ) -> Submitted[RememberResult]:
        """Submits a text to remember. `tasks.wait` returns the result.

        Without a scope the text decides. Raises `BusyError` if too many tasks wait.
        """
        body = without_none(content=content, scope=scope, contextMode=context_mode)
        return Submitted[RememberResult](self._submit("remember", body))

    def forget(
        self, query: str, *, scope: TargetScope | None = None, path: str | None = None
    ) -> Submitted[ForgetResult]:
        """Submits a request to forget, in a person's words. `tasks.wait` returns the result.

        `path` names the only memory to search. Raises `BusyError` if too many tasks wait.
        """
        body = without_none(query=query, scope=scope, filePath=path)
        return Submitted[ForgetResult](self._submit("forget", body))

    def dream(self) -> Submitted[DreamResult]:
        """Submits a dream, which merges duplicates and proposes changes.

        Raises `BusyError` if too many tasks wait.
        """
        return Submitted[DreamResult](self._submit("dream", {}))

    def recall(self, prompt: str, *, path: str | None = None) -> RecalledBlock:
        """Finds the memories that fit a prompt, best first, with a score and the reason for each.

        There are at most five, all of them below the folder `path` if that is given. `text` is what a model is shown.
        It is empty if none fits.
        """
        call = Call("GET", "/v1/recall").with_query(q=prompt, path=path)
        return cast("RecalledBlock", self._transport.workspace_value(call))

    def context(
        self, *, bytes_max: int | None = None, context_files_loaded: Iterable[str] = ()
    ) -> ExplainedContext:
        """Returns the context that a new session of a model begins with.

        It has facts, context files and, of many memories, an index. `context_files_loaded` names
        the files that the host itself shows to its model.
        """
        loaded = ",".join(context_files_loaded) or None
        call = Call("GET", "/v1/context").with_query(bytesMax=bytes_max, contextFilesLoaded=loaded)
        return cast("ExplainedContext", self._transport.workspace_value(call))

    def _submit(self, kind: TaskKind, body: dict[str, Any]) -> Task:
        call = Call("POST", task_route(self._transport, kind), json=body)
        return cast("Task", self._transport.value(call))
