"""History: changes, their diffs, runs and undo; and proposals, which wait for a person's decision."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable
from typing import cast

from lukasa._async.transport import AsyncTransport
from lukasa._call import Call, without_none
from lukasa.models import (
    Change,
    ChangePage,
    ChangeWithDiffs,
    Decision,
    Decisions,
    ModelRunPage,
    PendingPage,
    PendingProposal,
    RunPage,
    UndoResponse,
)


class AsyncChanges:
    """The recorded changes of a workspace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        path: str | None = None,
        task: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        since: str | None = None,
        until: str | None = None,
        cursor: str | None = None,
        max: int | None = None,
    ) -> ChangePage:
        """Returns one page of changes, newest first."""
        call = Call("GET", "/v1/changes").with_query(
            path=path,
            task=task,
            session=session,
            actor=actor,
            since=since,
            until=until,
            cursor=cursor,
            max=max,
        )
        return cast("ChangePage", await self._transport.workspace_value(call))

    async def all(
        self,
        *,
        path: str | None = None,
        task: str | None = None,
        session: str | None = None,
        actor: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncIterator[Change]:
        """Iterates over all changes, newest first."""
        cursor: str | None = None
        while True:
            page = await self.list(
                path=path,
                task=task,
                session=session,
                actor=actor,
                since=since,
                until=until,
                cursor=cursor,
            )
            for change in page["changes"]:
                yield change
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    async def get(self, change: int) -> ChangeWithDiffs:
        """Returns a change, with its diff for each memory."""
        call = Call("GET", f"/v1/changes/{change}")
        return cast("ChangeWithDiffs", await self._transport.workspace_value(call))

    async def undo(self, change: int, *, dry_run: bool = False) -> UndoResponse:
        """Undoes a change, as a new change. A dry run only returns what would happen.

        Raises `UndoBlockedError` if any of its memories was changed since.
        """
        call = Call("POST", f"/v1/changes/{change}/undo").with_query(dryRun=dry_run or None)
        return cast("UndoResponse", await self._transport.workspace_value(call))

    async def undo_several(
        self,
        *,
        changes: Iterable[int] | None = None,
        task: str | None = None,
        session: str | None = None,
        since: str | None = None,
        until: str | None = None,
        dry_run: bool = False,
    ) -> UndoResponse:
        """Undoes several changes as one new change: the given ones, or all of a task, a session or a time span.

        Raises `UndoBlockedError` if any of their memories was changed since; nothing is undone then.
        """
        numbers = None if changes is None else [*changes]
        body = without_none(changes=numbers, task=task, session=session, since=since, until=until)
        call = Call("POST", "/v1/undo", json=body).with_query(dryRun=dry_run or None)
        return cast("UndoResponse", await self._transport.workspace_value(call))

    async def runs(self, *, cursor: str | None = None, max: int | None = None) -> RunPage:
        """Returns one page of changes grouped by task and session, latest first."""
        call = Call("GET", "/v1/runs").with_query(cursor=cursor, max=max)
        return cast("RunPage", await self._transport.workspace_value(call))

    async def model_runs(
        self, *, cursor: str | None = None, max: int | None = None
    ) -> ModelRunPage:
        """Returns one page of the model runs for tasks, newest first, with outcome and usage."""
        call = Call("GET", "/v1/runs/models").with_query(cursor=cursor, max=max)
        return cast("ModelRunPage", await self._transport.workspace_value(call))


class AsyncPending:
    """The proposals of a workspace."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, cursor: str | None = None, max: int | None = None) -> PendingPage:
        """Returns one page of open proposals, oldest first."""
        call = Call("GET", "/v1/pending").with_query(cursor=cursor, max=max)
        return cast("PendingPage", await self._transport.workspace_value(call))

    async def all(self) -> AsyncIterator[PendingProposal]:
        """Iterates over all open proposals, oldest first."""
        cursor: str | None = None
        while True:
            page = await self.list(cursor=cursor)
            for proposal in page["proposals"]:
                yield proposal
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    async def get(self, proposal: int) -> PendingProposal:
        """Returns an open proposal, with its current diff for each memory."""
        call = Call("GET", f"/v1/pending/{proposal}")
        return cast("PendingProposal", await self._transport.workspace_value(call))

    async def accept(self, *proposals: int) -> builtins.list[Decision]:
        """Accepts proposals, each on its own: a decision says if it was done, and why not."""
        return await self._decide("accept", proposals)

    async def reject(self, *proposals: int) -> builtins.list[Decision]:
        """Rejects proposals, each on its own: the same ones are not made again."""
        return await self._decide("reject", proposals)

    async def _decide(self, decision: str, proposals: Iterable[int]) -> builtins.list[Decision]:
        call = Call("POST", f"/v1/pending/{decision}", json={"ids": [*proposals]})
        answer = cast("Decisions", await self._transport.workspace_value(call))
        return answer["decisions"]
