"""A LangGraph store whose items are memories of a daemon.

    from lukasa.langgraph import LukasaStore

    graph = builder.compile(store=LukasaStore())

An item is a Markdown file that a person can read and edit: frontmatter, and the value as a block of JSON. Its path is
`<folder>/<namespace>/<key>.md`. Labels and keys may be any text; `lukasa._items` encodes them as file names.

It needs `pip install 'lukasa[langgraph]'`.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from lukasa._async.memories import AgentClass, Scope
from lukasa._items import (
    ItemError,
    Namespace,
    Stored,
    folder_of,
    item_at,
    parse,
    path_of,
    render,
)
from lukasa._sync.client import Client
from lukasa.errors import ApiError, ConflictError, NotFoundError, error_from_reply
from lukasa.models import Memory

__all__ = ["ItemError", "LukasaStore"]

FOLDER = "/memories/global/langgraph"
"""The default folder: memories of this person, in all projects."""

QUERY_CHARS_MAX = 2_000
"""The part of a query that counts. A longer one would not fit into an address."""

WRITE_TIMEOUT = 30.0
"""How long a write tries to replace an item that others write at the same time, in seconds."""

WRITE_PAUSE_MAX = 0.1
"""The longest pause between two attempts, in seconds."""

CREATE_ATTEMPTS_MAX = 10
"""The number of attempts in a row to create an item at a path that is taken and has no memory."""

WRITE_LOCKS = 64
"""The number of locks that writers in this process share. Items with the same lock wait for each other."""

_SCOPES = ("global", "project", "workspace")
_log = logging.getLogger(__name__)


class LukasaStore(BaseStore):
    """A store in a folder of memories.

    Without a client it finds the daemon as `Client` does. `folder` is a memory path below a scope. The agent class
    `plan` may not write project memories, and `explore` may write nothing.

    - A write is recorded in history, as one of an agent, and screened: text that looks like a secret raises
      `ScreenedError`.
    - A value must be JSON and comes back exactly as it was. Others raise `ItemError`, and nothing is written.
    - `search` with a query recalls: at most five items, best first, with a score; none if none fits. Without a query
      it returns all items, the last written first. `index` of an item has no effect.
    - Items do not expire: `put` with a `ttl` raises `NotImplementedError`.
    - The operations of a batch that read run before those that write. Writes are separate changes.
    - Of several writers of one item the last one wins. `put` raises `ConflictError` if others change the item for as
      long as 30 seconds; it has written nothing then.
    - `abatch` and the other asynchronous methods use threads, so that a store works in any event loop.
    """

    supports_ttl = False

    def __init__(
        self,
        client: Client | None = None,
        *,
        folder: str = FOLDER,
        agent_class: AgentClass = "exec",
    ) -> None:
        super().__init__()
        self._client = client or Client()
        self._agent_class: AgentClass = agent_class
        self._write_locks = [threading.Lock() for _ in range(WRITE_LOCKS)]
        self._folder = folder.rstrip("/")
        if not self._folder.startswith("/memories/"):
            raise ValueError(f"the folder must be below /memories, such as {FOLDER}: {folder}")
        scope = self._folder.split("/")[2]
        # A daemon with a flat layout has no scopes.
        self._scope = cast("Scope", scope) if scope in _SCOPES else None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes operations: first those that read, then those that write."""
        ops = list(ops)
        # The last write of an item counts. All are checked before the first one is made.
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for put in puts.values():
            self._check_put(put)
        results = [None if isinstance(op, PutOp) else self._read(op) for op in ops]
        for put in puts.values():
            self._put(put)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes operations in a thread. One that was begun is completed even if its task is cancelled."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op.namespace, op.key)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise ValueError(f"unknown operation: {op!r}")

    def _get(self, namespace: Namespace, key: str) -> Item | None:
        stored = self._load(path_of(self._folder, namespace, key))
        if stored is None:
            return None
        return Item(
            value=stored.value,
            key=key,
            namespace=namespace,
            created_at=stored.created_at,
            updated_at=stored.updated_at,
        )

    def _load(self, path: str) -> Stored | None:
        memory = self._memory(path)
        return memory and parse(path, memory["text"], memory["modifiedAt"])

    def _memory(self, path: str) -> Memory | None:
        try:
            return self._client.memories.read(path)
        except NotFoundError as error:
            if error.code == "not_found":
                return None
            raise

    def _check_put(self, op: PutOp) -> None:
        if op.ttl is not None:
            raise NotImplementedError("items of Lukasa do not expire: leave out `ttl`")
        path_of(self._folder, op.namespace, op.key)
        if op.value is not None:
            render(op.key, op.value, datetime.now(timezone.utc))

    def _put(self, op: PutOp) -> None:
        path = path_of(self._folder, op.namespace, op.key)
        if op.value is None:
            self._command({"command": "delete", "path": path}, "not_found")
            return
        # Threads that write one item would make each other retry, so they wait for their turn.
        with self._write_locks[hash(path) % WRITE_LOCKS]:
            self._replace(path, op.key, op.value)

    def _replace(self, path: str, key: str, value: Mapping[str, Any]) -> None:
        """Writes an item. Another process may be faster: the last one wins, as in other stores."""
        end = time.monotonic() + WRITE_TIMEOUT
        pause = 0.001
        creations = 0
        while (refusal := self._write(path, key, value)) is not None:
            # A folder whose name differs only in case takes the path, too. No retry helps then.
            creations = creations + 1 if refusal.code == "already_exists" else 0
            if creations == CREATE_ATTEMPTS_MAX:
                raise refusal
            if time.monotonic() >= end:
                message = (
                    f"others changed {path} for {WRITE_TIMEOUT:g} s, nothing was written: try again"
                )
                raise ConflictError(None, {"code": "conflict", "error": message}) from refusal
            pause = min(pause * 2, WRITE_PAUSE_MAX)
            time.sleep(random.uniform(0, pause))

    def _write(self, path: str, key: str, value: Mapping[str, Any]) -> ApiError | None:
        """Tries to write an item. Returns the refusal if another writer was faster.

        The commands are those of agents, so that history does not name a person as the author.
        """
        memory = self._memory(path)
        if memory is None:
            text = render(key, value, datetime.now(timezone.utc))
            create = {"command": "create", "path": path, "file_text": text}
            return self._command(create, "already_exists")
        # A memory that is no item raises here: what a person wrote is not replaced.
        created_at = parse(path, memory["text"], memory["modifiedAt"]).created_at
        text = render(key, value, created_at)
        if text == memory["text"]:
            return None
        # The whole text occurs once in itself, so this replaces what was read and nothing else.
        replace = {"command": "str_replace", "path": path}
        replace.update(old_str=memory["text"], new_str=text)
        return self._command(replace, "text_not_found", "not_found")

    def _command(self, arguments: dict[str, str], *expected: str) -> ApiError | None:
        """Runs a command of the memory tool. Returns an expected refusal, and raises others."""
        reply = self._client.memories.tool(arguments, self._agent_class)
        if reply["ok"]:
            return None
        refusal = error_from_reply(reply)
        if refusal.code in expected:
            return refusal
        raise refusal

    def _search(self, op: SearchOp) -> list[SearchItem]:
        query = (op.query or "").strip()
        found = self._recalled(op.namespace_prefix, query) if query else self._all(op)
        items = self._loaded(found)
        if op.filter:
            conditions = op.filter
            items = (item for item in items if _matches(item.value, conditions))
        page: list[SearchItem] = []
        for index, item in enumerate(items):
            if index >= op.offset + op.limit:
                break
            if index >= op.offset:
                page.append(item)
        return page

    def _recalled(self, prefix: Namespace, query: str) -> Iterator[tuple[str, float | None]]:
        folder = folder_of(self._folder, prefix)
        block = self._client.recall(query[:QUERY_CHARS_MAX], path=folder)
        for memory in block["memories"]:
            # Items that say the same are one result of a recall.
            for path in (memory["path"], *memory.get("alsoIn", [])):
                if path.startswith(f"{folder}/"):
                    yield path, memory["score"]

    def _all(self, op: SearchOp) -> Iterator[tuple[str, float | None]]:
        yield from ((path, None) for path in self._paths(op.namespace_prefix))

    def _paths(self, prefix: Namespace) -> Iterator[str]:
        """Returns the paths of all items below a namespace, the last written first."""
        folder = f"{folder_of(self._folder, prefix)}/"
        listed = self._client.memories.all(scope=self._scope, words=folder, sort="modified")
        return (memory["path"] for memory in listed if memory["path"].startswith(folder))

    def _loaded(self, found: Iterable[tuple[str, float | None]]) -> Iterator[SearchItem]:
        for path, score in found:
            named = item_at(self._folder, path)
            if named is None:
                continue
            try:
                stored = self._load(path)
            except (ItemError, ApiError) as error:
                # One file that a person broke must not hide all others.
                _log.warning("skipped: %s", error)
                continue
            if stored is not None:
                namespace, key = named
                yield SearchItem(
                    namespace=namespace,
                    key=key,
                    value=stored.value,
                    created_at=stored.created_at,
                    updated_at=stored.updated_at,
                    score=score,
                )

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        named = (item_at(self._folder, path) for path in self._paths(()))
        namespaces = {item[0] for item in named if item is not None}
        conditions = op.match_conditions or ()
        matching = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if all(_fits(namespace, condition) for condition in conditions)
        }
        return sorted(matching)[op.offset : op.offset + op.limit]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    labels = condition.path
    if len(labels) > len(namespace):
        return False
    part = namespace[: len(labels)]
    if condition.match_type == "suffix":
        part = namespace[len(namespace) - len(labels) :]
    return all(wanted in ("*", label) for wanted, label in zip(labels, part, strict=True))


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _matches(value: Any, condition: Any) -> bool:
    """Checks a condition of a filter: a value, operators, or fields with conditions of their own."""
    if not isinstance(condition, dict):
        return bool(value == condition)
    if not any(name.startswith("$") for name in condition):
        return isinstance(value, dict) and all(
            _matches(value.get(name), inner) for name, inner in condition.items()
        )
    for name, wanted in condition.items():
        compare = _OPERATORS.get(name)
        if compare is None:
            raise ValueError(f"unknown operator {name}; known are {', '.join(_OPERATORS)}")
        try:
            if not compare(value, wanted):
                return False
        except TypeError:
            # Values of different types have no order.
            return False
    return True
