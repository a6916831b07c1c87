from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp
from typing_extensions import TypedDict

from conftest import SECRET, Daemon
from lukasa import ApiError, Client, ConflictError, DaemonUnreachableError, ScreenedError
from lukasa._items import decode_name, encode_name, item_at, path_of
from lukasa.langgraph import FOLDER, ItemError, LukasaStore
from lukasa.models import Memory

USER = ("users", "Ada Lovelace")

# Names that file systems or the daemon treat specially, beside any text.
NAMES = st.text() | st.sampled_from(
    [
        "",
        ".",
        "..",
        "con",
        "CON",
        "memory",
        "MEMORY",
        "a/b",
        "a=2fb",
        "=",
        "=61",
        "é",
        "e\u0301",
        "Ａ",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OVER_HTTP = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def store(lukasa: Client) -> LukasaStore:
    return LukasaStore(lukasa)


@pytest.fixture(scope="module")
def shared_store(shared_daemon: Daemon) -> LukasaStore:
    return LukasaStore(shared_daemon.client())


def file_of(daemon: Daemon, path: str) -> Path:
    return daemon.home / "memory" / path.removeprefix("/memories/global/")


@given(NAMES)
@example("\ud83d\ude00")
def test_a_name_has_one_encoding_which_is_plain(name: str) -> None:
    encoded = encode_name(name)
    assert decode_name(encoded) == name
    assert set(encoded) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_=")
    assert encoded


@given(NAMES, NAMES)
def test_two_names_never_have_the_same_encoding(one: str, other: str) -> None:
    # Compared as a file system does that ignores case.
    assert (encode_name(one).casefold() == encode_name(other).casefold()) == (one == other)


@given(st.text(alphabet="=abcdef0123456789-.A", max_size=8))
def test_a_text_that_is_no_encoding_is_no_name(text: str) -> None:
    name = decode_name(text)
    assert name is None or encode_name(name) == text


@given(st.lists(NAMES, max_size=4).map(tuple), NAMES)
def test_a_path_leads_back_to_namespace_and_key(namespace: tuple[str, ...], key: str) -> None:
    try:
        path = path_of(FOLDER, namespace, key)
    except ItemError:
        return
    assert item_at(FOLDER, path) == (namespace, key)


@OVER_HTTP
@given(
    st.lists(NAMES, min_size=1, max_size=3).map(tuple), NAMES, st.dictionaries(st.text(), VALUES)
)
@example(("con", "=63on"), "../etc", {"a": [1.0, 1, True, None, -0.0, 10**30, "\u2028\x7f\ud800"]})
@example(("a",), "k", {"": {}, "```": "```json\n{}\n```\n---\n"})
def test_any_item_is_refused_or_comes_back_exactly(
    shared_store: LukasaStore, namespace: tuple[str, ...], key: str, value: dict[str, Any]
) -> None:
    try:
        shared_store.batch([PutOp(namespace, key, value)])
    except (ItemError, ScreenedError):
        # Too long, or characters that a reader does not see.
        return
    [item] = shared_store.batch([GetOp(namespace, key)])
    assert item is not None
    assert (item.namespace, item.key) == (namespace, key)  # type: ignore[union-attr]
    # `repr` tells 1 from 1.0 and from True.
    assert repr(item.value) == repr(value)  # type: ignore[union-attr]


def test_an_item_is_a_memory_that_a_person_can_read_and_edit(
    daemon: Daemon, store: LukasaStore
) -> None:
    value = {"text": "Likes tea.\nNo milk.", "tags": ["drinks", "größe"], "rank": 1.5}
    store.put(USER, "tea", value)
    path = f"{FOLDER}/users/=41da=20=4covelace/tea.md"
    [listed] = daemon.client().memories.list()["memories"]
    assert listed["path"] == path
    assert (listed.get("name"), listed["description"]) == ("tea", "Likes tea. No milk.")
    file = file_of(daemon, path)
    text = file.read_text()
    created = store.get(USER, "tea")
    assert created is not None
    assert text == (
        '---\nname: "tea"\ndescription: "Likes tea. No milk."\ntype: "langgraph"\n'
        f"created: {created.created_at.isoformat()}\n---\n\n"
        '```json\n{\n  "text": "Likes tea.\\nNo milk.",\n'
        '  "tags": [\n    "drinks",\n    "größe"\n  ],\n'
        '  "rank": 1.5\n}\n```\n'
    )
    file.write_text(text.replace("Likes tea.\\n", "Likes green tea.\\n").replace("\n", "\r\n"))
    edited = store.get(USER, "tea")
    assert edited is not None
    assert edited.value == {**value, "text": "Likes green tea.\nNo milk."}
    assert edited.created_at == created.created_at
    store.put(USER, "tea", value)
    again = store.get(USER, "tea")
    assert again is not None
    assert (again.value, again.created_at) == (value, created.created_at)
    assert b"\r\n" in file.read_bytes(), "the line ends of the person stay"


def test_a_key_is_never_written_over_by_one_that_differs_in_case(store: LukasaStore) -> None:
    keys = [
        "key",
        "Key",
        "KEY",
        "kEy",
        "ｋey",
        "con",
        "Con",
        "memory",
        "a/b",
        "a",
        "..",
        "é",
        "e\u0301",
    ]
    for number, key in enumerate(keys):
        store.put(("Users",), key, {"number": number})
        store.put(("users",), key, {"number": -number})
    for number, key in enumerate(keys):
        upper, lower = store.get(("Users",), key), store.get(("users",), key)
        assert upper is not None
        assert lower is not None
        assert (upper.value, lower.value) == ({"number": number}, {"number": -number})
    assert len(store.search(("Users",), limit=100)) == len(keys)


def test_times_tell_when_an_item_was_created_and_written(store: LukasaStore) -> None:
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    store.put(USER, "tea", {"text": "Likes tea."})
    first = store.get(USER, "tea")
    store.put(USER, "tea", {"text": "Likes green tea."})
    second = store.get(USER, "tea")
    assert first is not None
    assert second is not None
    assert before < first.created_at == second.created_at
    assert first.updated_at <= second.updated_at < datetime.now(timezone.utc) + timedelta(seconds=1)
    store.delete(USER, "tea")
    store.delete(USER, "tea")
    assert store.get(USER, "tea") is None


def test_a_search_with_a_query_recalls_among_the_items_of_a_namespace(
    daemon: Daemon, store: LukasaStore
) -> None:
    # Memories elsewhere fit better, and take no place.
    for pier in ("north", "south", "east", "west", "old", "new"):
        text = f"- The ferry to Skarholm leaves from the {pier} pier.\n"
        daemon.client().memories.create(f"/memories/global/{pier}.md", text)
    store.put(USER, "winter", {"text": "In winter the crossing to Skarholm takes two hours."})
    store.put(USER, "bread", {"text": "The dough of rye bread rests for eleven hours."})
    store.put(("users", "Bob"), "ferry", {"text": "The ferry to Skarholm is blue."})
    found = store.search(USER, query="Which pier does the ferry to Skarholm leave from?")
    assert [(item.namespace, item.key) for item in found] == [(USER, "winter")]
    assert found[0].score is not None
    assert 0 < found[0].score <= 1
    everyone = store.search(("users",), query="the ferry to Skarholm")
    assert {item.key for item in everyone} == {"winter", "ferry"}
    assert store.search(("users",), query="the ferry to Skarholm", offset=1) == everyone[1:]
    assert store.search(USER, query="What do penguins eat?") == []
    assert store.search(("unknown",), query="the ferry to Skarholm") == []
    assert len(store.search(USER, query="x" * 100_000 + " ferry", limit=1)) <= 1


def test_items_that_say_the_same_are_all_found(store: LukasaStore) -> None:
    for name in ("Ada", "Bob"):
        store.put(("users", name), "tea", {"text": "Drinks Darjeeling at four."})
    found = store.search(("users",), query="Who drinks Darjeeling?")
    assert {item.namespace[1] for item in found} == {"Ada", "Bob"}
    assert len(store.search(("users", "Bob"), query="Who drinks Darjeeling?")) == 1


def test_a_search_without_a_query_lists_the_last_written_first(store: LukasaStore) -> None:
    for number in range(6):
        store.put(("n", str(number % 2)), str(number), {"number": number, "of": {"kind": "n"}})
    numbers = [item.value["number"] for item in store.search(("n",))]
    assert sorted(numbers) == [0, 1, 2, 3, 4, 5]
    updated = [item.updated_at for item in store.search(("n",))]
    assert updated == sorted(updated, reverse=True)
    assert [item.value["number"] for item in store.search(("n",), limit=2, offset=1)] == numbers[
        1:3
    ]
    assert store.search(("n",), offset=6) == []

    def having(conditions: dict[str, Any]) -> list[int]:
        return sorted(item.value["number"] for item in store.search((), filter=conditions))

    assert having({"number": 3}) == [3]
    assert having({"number": {"$gte": 2, "$lt": 4}}) == [2, 3]
    assert having({"number": {"$ne": 0}, "of": {"kind": "n"}}) == [1, 2, 3, 4, 5]
    assert having({"of": {"kind": {"$eq": "x"}}}) == []
    assert having({"number": {"$gt": "text"}}) == []
    assert having({"missing": None, "number": 1}) == [1]
    with pytest.raises(ValueError, match=r"\$near"):
        having({"number": {"$near": 3}})


def test_namespaces_are_listed_by_prefix_suffix_and_depth(store: LukasaStore) -> None:
    for namespace in [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f")]:
        store.put(namespace, "key", {"x": 1})
    assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [
        ("a", "b", "c"),
        ("a", "b", "d"),
    ]
    assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "c", "f")]
    assert store.list_namespaces(suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
    assert store.list_namespaces(prefix=("a", "c"), suffix=("e",)) == []
    assert store.list_namespaces(prefix=("a",) * 9) == []
    assert len(store.list_namespaces()) == 4
    assert store.list_namespaces(limit=1, offset=1) == [("a", "b", "d", "e")]
    store.delete(("a", "c", "f"), "key")
    assert len(store.list_namespaces()) == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": (1, 2)}, "the value['a'] is a tuple"),
        ({"a": [{1: "x"}]}, "the value['a'][0] has the key 1"),
        ({"a": float("nan")}, "the value['a'] is nan"),
        ({"a": datetime.now(timezone.utc)}, "the value['a'] is a datetime"),
        ({"a": "\ud83d\ude00"}, "characters that JSON does not keep"),
        ({"a": 10**5000}, "cannot be written as JSON"),
    ],
)
def test_a_value_that_would_come_back_as_another_is_refused(
    shared_store: LukasaStore, value: dict[str, Any], message: str
) -> None:
    good = PutOp(("refused",), "good", {"x": 1})
    with pytest.raises(ItemError) as refused:
        shared_store.batch([good, PutOp(("refused",), "bad", value)])
    assert message in str(refused.value)
    assert shared_store.search(("refused",)) == [], "nothing of the batch was written"


@pytest.mark.parametrize("value", [[1], "text", 5, 1.5, True, (), [], OrderedDict(a=1)])
def test_a_value_that_is_no_dict_is_refused(shared_store: LukasaStore, value: Any) -> None:
    with pytest.raises(ItemError, match=f"the value is a {type(value).__name__},"):
        shared_store.put(("no-dict",), "key", value)
    assert shared_store.get(("no-dict",), "key") is None
    shared_store.put(("no-dict",), "key", {})
    item = shared_store.get(("no-dict",), "key")
    assert item is not None
    assert item.value == {}
    shared_store.delete(("no-dict",), "key")


def test_a_deeply_nested_value_is_refused(shared_store: LukasaStore) -> None:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}
    with pytest.raises(ItemError, match="JSON"):
        shared_store.put(("deep",), "key", value)
    while value:
        value = value.popitem()[1]


def test_names_that_no_path_can_have_are_refused(shared_store: LukasaStore) -> None:
    with pytest.raises(ItemError, match="255"):
        shared_store.put(("a",), "k" * 300, {})
    with pytest.raises(ItemError, match="255"):
        shared_store.get(("a" * 300,), "k")
    with pytest.raises(ItemError, match="13 labels"):
        shared_store.put(("a",) * 14, "k", {})
    with pytest.raises(ItemError, match="1024"):
        shared_store.put(("a" * 200,) * 5, "k" * 200, {})
    shared_store.put(("a",) * 13, "k", {"x": 1})
    assert shared_store.get(("a",) * 13, "k") is not None
    with pytest.raises(InvalidNamespaceError):
        shared_store.put((), "k", {})
    with pytest.raises(ValueError, match="/memories"):
        LukasaStore(shared_store._client, folder="/etc")


def test_items_do_not_expire(shared_store: LukasaStore) -> None:
    with pytest.raises(NotImplementedError, match="TTL"):
        shared_store.put(("a",), "ttl", {}, ttl=5)
    with pytest.raises(NotImplementedError, match="ttl"):
        shared_store.batch([PutOp(("a",), "ttl", {}, ttl=5)])
    assert shared_store.get(("a",), "ttl") is None


def test_text_that_looks_like_a_secret_is_not_written(store: LukasaStore) -> None:
    store.put(USER, "key", {"text": "none"})
    with pytest.raises(ScreenedError) as refused:
        store.put(USER, "key", {"text": SECRET})
    assert "secrets.github-token" in str(refused.value)
    assert SECRET not in str(refused.value)
    item = store.get(USER, "key")
    assert item is not None
    assert item.value == {"text": "none"}


def test_what_the_daemon_refuses_is_an_error_with_its_code(lukasa: Client) -> None:
    store = LukasaStore(lukasa)
    with pytest.raises(ApiError) as large:
        store.put(USER, "large", {"text": "large " * 20_000})
    assert (large.value.code, large.value.status) == ("too_large", None)
    store.put(USER, "key", {"x": 1})
    reader = LukasaStore(lukasa, agent_class="explore")
    for value in ({"x": 2}, None):
        with pytest.raises(ApiError) as refused:
            reader.batch([PutOp(USER, "key", value)])
        assert refused.value.code == "read_only"
    item = reader.get(USER, "key")
    assert item is not None
    assert item.value == {"x": 1}
    # The folder differs only in case from one that exists.
    with pytest.raises(ApiError) as taken:
        LukasaStore(lukasa, folder=FOLDER.replace("langgraph", "LangGraph")).put(USER, "k", {})
    assert taken.value.code == "already_exists"


def test_a_file_that_is_no_item_is_neither_hidden_nor_written_over(
    daemon: Daemon, store: LukasaStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(USER, "good", {"x": 1})
    store.put(USER, "bad", {"x": 2})
    broken = "---\nname: bad\n---\n\nMy own notes.\n"
    file = file_of(daemon, path_of(FOLDER, USER, "bad"))
    file.write_text(broken)
    daemon.client().memories.create(f"{FOLDER}/users/Notes.md", "- Of a person.\n")
    uses: list[Callable[[], object]] = [
        lambda: store.get(USER, "bad"),
        lambda: store.put(USER, "bad", {"x": 3}),
    ]
    for use in uses:
        with pytest.raises(ItemError, match=r"bad\.md"):
            use()
    assert file.read_text() == broken
    with caplog.at_level(logging.WARNING, "lukasa.langgraph"):
        assert [item.key for item in store.search(())] == ["good"]
    assert ["bad.md" in record.message for record in caplog.records] == [True]
    assert store.list_namespaces() == [USER]


def test_writers_of_the_same_item_do_not_disturb_each_other(
    daemon: Daemon, store: LukasaStore
) -> None:
    def write(number: int) -> None:
        store.put(USER, "shared", {"number": number})
        store.put(USER, f"own-{number}", {"number": number})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    shared = store.get(USER, "shared")
    assert shared is not None
    assert shared.value["number"] in range(24)
    assert len(store.search(USER, limit=100)) == 25
    changes = daemon.client().changes.list(path=path_of(FOLDER, USER, "shared"), max=100)
    assert {change["actor"] for change in changes["changes"]} == {"agent"}
    assert {change["trust"] for change in changes["changes"]} == {"agent"}


def test_stores_of_the_same_item_do_not_disturb_each_other(daemon: Daemon) -> None:
    # They share no lock, as in several processes.
    stores = [LukasaStore(daemon.client()) for _ in range(8)]

    def write(store: LukasaStore) -> None:
        for number in range(12):
            store.put(USER, "shared", {"number": number})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, stores))
    shared = stores[0].get(USER, "shared")
    assert shared is not None
    assert shared.value == {"number": 11}


def test_a_write_that_others_always_overtake_is_a_conflict(
    store: LukasaStore, lukasa: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = LukasaStore(lukasa)
    numbers = count()
    rival.put(USER, "key", {"rival": next(numbers)})
    path = path_of(FOLDER, USER, "key")
    read = store._memory

    def overtaken(path: str) -> Memory | None:
        memory = read(path)
        rival.put(USER, "key", {"rival": next(numbers)})
        return memory

    monkeypatch.setattr(store, "_memory", overtaken)
    monkeypatch.setattr("lukasa.langgraph.WRITE_TIMEOUT", 0.2)
    with pytest.raises(ConflictError) as late:
        store.put(USER, "key", {"number": 1})
    assert (late.value.code, late.value.status) == ("conflict", None)
    assert str(late.value) == f"others changed {path} for 0.2 s, nothing was written: try again"
    monkeypatch.undo()
    item = store.get(USER, "key")
    assert item is not None
    assert item.value == {"rival": next(numbers) - 1}


def test_a_batch_reads_before_it_writes_and_the_last_write_counts(store: LukasaStore) -> None:
    store.put(USER, "key", {"n": 0})
    results = store.batch(
        [
            PutOp(USER, "key", {"n": 1}),
            GetOp(USER, "key"),
            PutOp(USER, "key", {"n": 2}),
            SearchOp(USER),
            PutOp(USER, "gone", {"n": 3}),
            PutOp(USER, "gone", None),
        ]
    )
    assert results[0] is results[2] is results[4] is results[5] is None
    assert results[1].value == {"n": 0}  # type: ignore[union-attr]
    assert [item.value for item in results[3]] == [{"n": 0}]  # type: ignore[union-attr]
    [after, gone] = store.batch([GetOp(USER, "key"), GetOp(USER, "gone")])
    assert after.value == {"n": 2}  # type: ignore[union-attr]
    assert gone is None
    with pytest.raises(ValueError, match="unknown operation"):
        store.batch(["get"])  # type: ignore[list-item]


def test_a_store_works_in_any_event_loop(store: LukasaStore) -> None:
    async def write(number: int) -> None:
        await store.aput(USER, f"key-{number}", {"number": number})

    async def run() -> None:
        await asyncio.gather(*map(write, range(10)))
        item = await store.aget(USER, "key-7")
        assert item is not None
        assert item.value == {"number": 7}
        assert len(await store.asearch(USER, limit=20)) == 10
        assert await store.alist_namespaces() == [USER]
        await store.adelete(USER, "key-7")

    asyncio.run(run())
    asyncio.run(write(7))
    assert len(store.search(USER, limit=20)) == 10


def test_a_store_in_the_project_has_the_folder_that_it_is_given(
    daemon: Daemon, lukasa: Client
) -> None:
    store = LukasaStore(lukasa, folder="/memories/project/Agent notes/")
    store.put(("a",), "b", {"x": 1})
    assert [item["path"] for item in lukasa.memories.all()] == [
        "/memories/project/Agent notes/a/b.md"
    ]
    assert store.search(()) == store.search(("a",))
    assert (daemon.checkout / ".lukasa/memory/Agent notes/a/b.md").exists()
    assert LukasaStore(lukasa).search(()) == []


def test_without_a_daemon_a_store_is_an_error(daemon: Daemon, store: LukasaStore) -> None:
    daemon.kill()
    calls: list[Callable[[], object]] = [
        lambda: store.get(USER, "a"),
        lambda: store.put(USER, "a", {}),
    ]
    for call in calls:
        with pytest.raises(DaemonUnreachableError, match="lukasa serve"):
            call()


class State(TypedDict):
    user: str
    said: str
    known: list[str]


def test_the_nodes_of_a_graph_keep_what_they_learn(store: LukasaStore) -> None:
    def learn(state: State, runtime: Runtime[None]) -> dict[str, Any]:
        assert runtime.store is not None
        namespace = ("users", state["user"])
        runtime.store.put(namespace, "said", {"text": state["said"]})
        found = runtime.store.search(namespace, query="What does the user drink?")
        return {"known": [item.value["text"] for item in found]}

    builder = StateGraph(State)
    builder.add_node("learn", learn)
    builder.add_edge(START, "learn")
    builder.add_edge("learn", END)
    graph = builder.compile(store=store)
    said = "I drink tea in the morning."
    answer = graph.invoke({"user": "Ada", "said": said, "known": []})
    assert answer["known"] == [said]
    asynchronous = asyncio.run(graph.ainvoke({"user": "Bob", "said": said, "known": []}))
    assert asynchronous["known"] == [said]
    assert store.list_namespaces() == [("users", "Ada"), ("users", "Bob")]
    assert json.loads(json.dumps(store.search(("users", "Ada"))[0].dict()))["key"] == "said"
