# Generated from src/lukasa/_async by scripts/generate.py.
"""Memories: listed, read, written with a precondition, moved, pinned, searched.

A memory is named by its path, `/memories/<scope>/...`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

from lukasa._call import Call, encode_id, if_match, path_call
from lukasa._sync.transport import Transport
from lukasa.models import (
    BatchResponse,
    BatchStep,
    ImportOutcome,
    Memory,
    MemoryItem,
    MemoryPage,
    Pin,
    RevisionText,
    SearchResponse,
    ToolReply,
    WriteResponse,
)
from lukasa.save import SaveResponse

AgentClass = Literal["exec", "plan", "explore"]
"""What an agent may write: everything, everything but project memories, or nothing."""

Scope = Literal["global", "project", "workspace"]
"""The owner of a memory: the person, the project, or one worktree."""


class Memories:
    """The memories of a workspace."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        scope: Scope | None = None,
        words: str | None = None,
        pinned: bool | None = None,
        sort: Literal["path", "modified", "uses", "bytes"] | None = None,
        cursor: str | None = None,
        max: int | None = None,
    ) -> MemoryPage:
        """Returns one page of memories.

        `words` selects those whose path, name or description contains the text, ignoring case.
        """
        call = Call("GET", "/v1/memories").with_query(
            scope=scope, q=words, pinned=pinned, sort=sort, cursor=cursor, max=max
        )
        return cast("MemoryPage", self._transport.workspace_value(call))

    def all(
        self,
        *,
        scope: Scope | None = None,
        words: str | None = None,
        pinned: bool | None = None,
        sort: Literal["path", "modified", "uses", "bytes"] | None = None,
    ) -> Iterator[MemoryItem]:
        """Iterates over all memories, page by page."""
        cursor: str | None = None
        while True:
            page = self.list(scope=scope, words=words, pinned=pinned, sort=sort, cursor=cursor)
            for item in page["memories"]:
                yield item
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    def read(self, path: str) -> Memory:
        """Reads a memory, with the revision to name in a later write."""
        return cast("Memory", self._at("GET", path))

    def create(self, path: str, text: str) -> SaveResponse:
        """Creates a memory.

        Raises `ConflictError` with the current revision if the path is taken.
        """
        headers = {"if-none-match": "*"}
        written = self._at("PUT", path, json={"text": text}, headers=headers)
        return cast("SaveResponse", written)

    def save(self, path: str, text: str, revision: str) -> SaveResponse:
        """Replaces a memory if it still has this revision.

        Raises `ConflictError` with the current revision if it has another one.
        """
        written = self._at("PUT", path, json={"text": text}, headers=if_match(revision))
        return cast("SaveResponse", written)

    def delete(self, path: str, revision: str | None = None) -> WriteResponse:
        """Deletes a memory, or a folder with its contents; an undo restores them.

        Raises `ConflictError` if a revision is given and the memory has another one.
        """
        deleted = self._at("DELETE", path, headers=if_match(revision))
        return cast("WriteResponse", deleted)

    def move(self, source: str, target: str) -> WriteResponse:
        """Moves a memory or folder within its scope."""
        call = Call("POST", "/v1/memories/move", json={"from": source, "to": target})
        return cast("WriteResponse", self._transport.workspace_value(call))

    def batch(self, steps: Iterable[BatchStep]) -> BatchResponse:
        """Deletes or moves several memories as one change: all of them or none.

        Raises `ConflictError` if a memory is not at the revision that its step names.
        """
        call = Call("POST", "/v1/batch", json={"steps": [*steps]})
        return cast("BatchResponse", self._transport.workspace_value(call))

    def pin(self, path: str) -> Pin:
        """Pins a memory: agents get it whole in their context."""
        call = path_call("PUT", "/v1/pins", path)
        return cast("Pin", self._transport.workspace_value(call))

    def unpin(self, path: str) -> Pin:
        """Unpins a memory."""
        call = path_call("DELETE", "/v1/pins", path)
        return cast("Pin", self._transport.workspace_value(call))

    def search(
        self, text: str, *, path: str | None = None, max: int | None = None
    ) -> SearchResponse:
        """Searches the lines of memories for a text, ignoring case.

        `path` limits the search to a memory, folder or scope.
        """
        call = Call("GET", "/v1/search").with_query(q=text, path=path, max=max)
        return cast("SearchResponse", self._transport.workspace_value(call))

    def revision(self, revision: str, *, against: str | None = None) -> RevisionText:
        """Reads the text of an earlier revision, while history keeps it.

        `against` adds the diff from that revision to this one.
        """
        route = f"/v1/revisions/{encode_id('the revision', revision)}"
        call = Call("GET", route).with_query(against=against)
        return cast("RevisionText", self._transport.workspace_value(call))

    def tool(self, arguments: object, agent_class: AgentClass = "exec") -> ToolReply:
        """Calls the memory tool as a model does, with the arguments of a command.

        A refusal is a reply for the model, with `ok` false.
        """
        headers = {"x-lukasa-agent-class": agent_class}
        call = Call("POST", "/v1/tool", json=arguments, headers=headers)
        return cast("ToolReply", self._transport.workspace_value(call))

    def export_archive(self) -> bytes:
        """Returns all memories as a tar archive, with a folder for each scope."""
        call = Call("GET", "/v1/export").with_query(workspace=self._transport.workspace)
        _, archive = self._transport.send(call)
        return archive

    def import_archive(self, archive: bytes, *, to: str | None = None) -> ImportOutcome:
        """Imports the Markdown files of a tar archive as one change.

        They go into the scope or folder `to`, or into the scopes that the top folders name. Existing memories are
        left unchanged and listed in the result.
        """
        call = Call("POST", "/v1/import", archive=archive).with_query(to=to)
        return cast("ImportOutcome", self._transport.workspace_value(call))

    def _at(self, method: str, path: str, **parts: Any) -> Any:
        call = path_call(method, "/v1/memories", path, **parts)
        return self._transport.workspace_value(call)
