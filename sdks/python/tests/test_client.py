from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import lukasa._async.transport
import lukasa._sync.transport
from conftest import SECRET, TOKEN, Daemon
from lukasa import (
    AnswerTooLargeError,
    ApiError,
    AsyncClient,
    BusyError,
    Client,
    ConflictError,
    DaemonUnreachableError,
    DeadlineError,
    LukasaError,
    NotFoundError,
    ProtocolError,
    ScreenedError,
    UnauthorizedError,
)


def test_a_write_that_lost_is_a_conflict_that_names_the_winner(lukasa: Client) -> None:
    path = "/memories/global/a b/ä#%+&=.md"
    first = lukasa.memories.create(path, "one\n").get("revision")
    assert first is not None
    with pytest.raises(ConflictError) as taken:
        lukasa.memories.create(path, "two\n")
    assert (taken.value.status, taken.value.code) == (412, "conflict")
    assert taken.value.revision == first
    second = lukasa.memories.save(path, "two\n", first).get("revision")
    writes: list[Callable[[], object]] = [
        lambda: lukasa.memories.save(path, "three\n", first),
        lambda: lukasa.memories.delete(path, first),
    ]
    for late in writes:
        with pytest.raises(ConflictError) as conflict:
            late()
        assert conflict.value.revision == second
    read = lukasa.memories.read(path)
    assert (read["path"], read["text"], read["revision"]) == (path, "two\n", second)
    lukasa.memories.delete(path, second)
    with pytest.raises(NotFoundError) as gone:
        lukasa.memories.read(path)
    assert gone.value.code == "not_found"


def test_all_that_the_store_can_do_is_a_call(daemon: Daemon) -> None:
    assert daemon.client().health()["status"] == "ok"
    lukasa = daemon.client().with_options(workspace=daemon.workspace)
    memories = lukasa.memories
    memories.create("/memories/global/tea.md", "- Likes tea & milk.\n")
    memories.create("project/make.md", "- Builds with make.\n")

    assert memories.pin("/memories/global/tea.md")["changed"]
    recalled = lukasa.recall("Which tea do I like?")
    assert recalled["memories"][0]["path"] == "/memories/global/tea.md"
    assert "Likes tea" in recalled["text"]
    assert recalled["memories"][0]["why"]
    nothing = lukasa.recall("What do penguins eat?")
    assert (nothing["text"], nothing["memories"]) == ("", [])
    assert lukasa.recall("Which tea?", path="/memories/project")["memories"] == []
    context = lukasa.context()
    assert "\n/memories/global/tea.md\n- " in context["text"]
    pinned = [memory["path"] for memory in context["hot"] if memory["pinned"]]
    assert pinned == ["/memories/global/tea.md"]
    assert lukasa.context(bytes_max=10, context_files_loaded=["AGENTS.md"])["parts"] == []

    page = memories.list(scope="global", words="TEA", pinned=True, sort="modified", max=5)
    assert [item["path"] for item in page["memories"]] == ["/memories/global/tea.md"]
    assert memories.unpin("/memories/global/tea.md")["pinned"] is False
    assert memories.list(pinned=True)["total"] == 0
    paths = [item["path"] for item in memories.all()]
    assert paths == ["/memories/global/tea.md", "/memories/project/make.md"]
    found = memories.search("TEA & milk", path="/memories/global", max=5)
    assert [match["line"] for match in found["matches"]] == [1]

    memories.move("/memories/global/tea.md", "/memories/global/drinks.md")
    view = {"command": "view", "path": "/memories/global/drinks.md"}
    assert "tea & milk" in memories.tool(view, "explore")["text"]
    refused = memories.tool({**view, "command": "delete"}, "explore")
    assert (refused["ok"], refused.get("code")) == (False, "read_only")
    revision = memories.read("/memories/global/drinks.md")["revision"]
    assert memories.revision(revision)["text"] == "- Likes tea & milk.\n"

    archive = memories.export_archive()
    memories.batch([{"do": "delete", "path": "/memories/global/drinks.md"}])
    taken = memories.import_archive(archive)
    assert (len(taken["memories"]), len(taken["skipped"])) == (1, 1)
    assert len(memories.import_archive(archive, to="/memories/global/copies")["memories"]) == 2
    assert lukasa.stats()["workspaceId"] == daemon.workspace
    assert daemon.workspace in [one["id"] for one in lukasa.capabilities()["workspaces"]]


def test_texts_of_any_script_come_back_byte_for_byte(lukasa: Client) -> None:
    for index, text in enumerate(["ä ö ü ß\n", "日本語のメモ", "\r\nשלום\r\n", "😀 👍🏽\n\n", ""]):
        path = f"/memories/global/文書 {index}.md"
        lukasa.memories.create(path, text)
        assert lukasa.memories.read(path)["text"] == text
    assert lukasa.memories.search("日本語")["matches"][0]["path"] == "/memories/global/文書 1.md"


def test_text_that_may_not_be_written_is_refused_with_rule_and_line(lukasa: Client) -> None:
    with pytest.raises(ScreenedError) as refused:
        lukasa.memories.create("/memories/global/key.md", f"- fine\n- {SECRET}\n")
    assert (refused.value.status, refused.value.code) == (422, "screened")
    assert refused.value.rule is not None
    assert refused.value.rule.startswith("secrets.")
    assert refused.value.line == 2
    assert SECRET not in str(refused.value)
    assert lukasa.memories.list()["total"] == 0


def test_paths_that_a_url_would_lead_elsewhere_are_not_sent(lukasa: Client) -> None:
    nowhere = ["", "/memories", "/memories/"]
    for path in [
        *nowhere,
        "/memories/global/../../pins/x.md",
        "/memories/./x.md",
        "..",
        "\ud800.md",
    ]:
        with pytest.raises(LukasaError, match=r"path") as refused:
            lukasa.memories.delete(path)
        assert (refused.value.code, refused.value.status) == ("invalid_path", None)
    for path in ["/memories/global/%2e%2e/x.md", "/memories/nowhere/x.md", "x?y#z"]:
        with pytest.raises(ApiError) as answered:
            lukasa.memories.create(path, "x")
        assert answered.value.code == "invalid_path", path
    with pytest.raises(LukasaError, match="JSON") as unsendable:
        lukasa.memories.create("global/x.md", "\ud800")
    assert unsendable.value.code == "invalid_arguments"


def test_of_writers_who_read_the_same_one_wins_each_time(daemon: Daemon) -> None:
    path = "/memories/global/shared.md"
    lukasa = daemon.client()
    lukasa.memories.create(path, "- start\n")

    def add(line: str) -> None:
        while True:
            memory = lukasa.memories.read(path)
            try:
                lukasa.memories.save(path, f"{memory['text']}- {line}\n", memory["revision"])
                return
            except ConflictError:
                continue

    lines = [f"line {number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, lines))
    text = lukasa.memories.read(path)["text"]
    assert sorted(text.splitlines()) == sorted(f"- {line}" for line in [*lines, "start"])


def test_another_token_is_refused_and_not_shown(daemon: Daemon) -> None:
    stranger = daemon.client(token="not-the-token-at-all")
    with pytest.raises(UnauthorizedError) as refused:
        stranger.capabilities()
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")
    assert not refused.value.is_temporary
    assert stranger.health()["status"] == "ok"
    assert TOKEN not in repr(daemon.client()._transport)
    for token in ["a\nb", "ä", " "]:
        with pytest.raises(LukasaError) as invalid:
            daemon.client(token=token)
        assert invalid.value.code == "invalid_token"


def test_a_rate_limit_says_when_to_try_again(
    new_daemon: Callable[..., Daemon],
) -> None:
    lukasa = new_daemon().start("--rate-limit", "1").client()
    with ThreadPoolExecutor(4) as pool, pytest.raises(BusyError) as busy:
        list(pool.map(lambda _: lukasa.stats(), range(50)))
    assert (busy.value.status, busy.value.code) == (429, "rate_limited")
    assert busy.value.retry_after == 1.0
    assert busy.value.is_temporary


def test_a_daemon_that_is_gone_is_an_error_that_says_how_to_start_one(daemon: Daemon) -> None:
    lukasa = daemon.client()
    assert lukasa.health()["status"] == "ok"
    daemon.kill()
    with pytest.raises(DaemonUnreachableError, match="lukasa serve") as gone:
        lukasa.stats()
    assert isinstance(gone.value, ConnectionError)
    assert (gone.value.code, gone.value.status) == ("connection", None)
    assert gone.value.is_temporary
    assert daemon.url in str(gone.value)


def test_a_peer_that_says_nothing_or_too_slowly_is_given_up(peer: Callable[..., str]) -> None:
    silent = peer(closes=False)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    slow = peer(head, *([b" "] * 100), pause=0.05)
    for url in (silent, slow):
        with (
            Client(url=url, token=TOKEN, timeout=0.2) as lukasa,
            pytest.raises(DeadlineError) as late,
        ):
            lukasa.stats()
        assert isinstance(late.value, TimeoutError)
        assert late.value.timeout == 0.2
        assert late.value.is_temporary


def test_a_peer_that_is_no_daemon_is_recognized_by_its_answer(peer: Callable[..., str]) -> None:
    def answered(answer: bytes) -> LukasaError:
        with (
            Client(url=peer(answer), token=TOKEN) as lukasa,
            pytest.raises(LukasaError) as error,
        ):
            lukasa.stats()
        return error.value

    assert isinstance(answered(b"220 mail.example ESMTP\r\n"), DaemonUnreachableError)
    half = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{")
    assert isinstance(half, DaemonUnreachableError)
    page = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
    assert isinstance(page, ProtocolError)
    assert not page.is_temporary
    proxy = answered(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nno!")
    assert isinstance(proxy, ProtocolError)
    assert (proxy.status, proxy.is_temporary) == (502, True)
    moved = answered(
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    )
    assert isinstance(moved, ProtocolError), "the token is not taken elsewhere"


def test_an_answer_that_is_too_large_is_not_read(
    peer: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lukasa._sync.transport, "ANSWER_BYTES_MAX", 9)
    monkeypatch.setattr(lukasa._async.transport, "ANSWER_BYTES_MAX", 9)
    url = peer(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 11)
    with Client(url=url, token=TOKEN) as client, pytest.raises(AnswerTooLargeError) as large:
        client.stats()
    assert (large.value.bytes_max, large.value.is_temporary) == (9, False)


def test_a_base_path_and_a_transport_of_ones_own_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"status": "ok"})

    with Client(
        url="https://gateway.example/lukasa/",
        token=TOKEN,
        client_id="me",
        transport=httpx.MockTransport(answer),
    ) as lukasa:
        lukasa.health()
    assert str(seen[0].url) == "https://gateway.example/lukasa/health"
    assert seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert seen[0].headers["x-lukasa-client-id"] == "me"


def test_proxies_of_the_environment_do_not_get_the_token(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert daemon.client().stats()["workspaceId"] == daemon.workspace


def test_the_asynchronous_client_does_the_same(daemon: Daemon) -> None:
    async def run() -> None:
        async with daemon.async_client() as lukasa:
            texts = [f"- Fact {number} of many.\n" for number in range(20)]
            paths = [f"/memories/global/fact-{number}.md" for number in range(20)]
            await asyncio.gather(*map(lukasa.memories.create, paths, texts))
            assert [item["path"] async for item in lukasa.memories.all()] == sorted(paths)
            read = await asyncio.gather(*map(lukasa.memories.read, paths))
            assert [memory["text"] for memory in read] == texts
            task = await lukasa.remember("I like tea in the morning.")
            result = await lukasa.tasks.wait(task)
            assert len(result["filesTouched"]) == 1
            recalled = await lukasa.recall("Which tea do I like in the morning?")
            assert recalled["memories"][0]["path"] == result["filesTouched"][0]
            with pytest.raises(ScreenedError):
                await lukasa.memories.create("/memories/global/key.md", SECRET)
            daemon.kill()
            with pytest.raises(DaemonUnreachableError, match="lukasa serve"):
                await lukasa.stats()

    asyncio.run(run())


def test_a_cancelled_call_ends_at_once_and_the_client_goes_on(
    daemon: Daemon, peer: Callable[..., str]
) -> None:
    async def run() -> None:
        async with daemon.async_client(url=peer(closes=False)) as silent:
            waiting = asyncio.create_task(silent.stats())
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with daemon.async_client() as lukasa:
            calls = [asyncio.create_task(lukasa.context()) for _ in range(10)]
            await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert (await lukasa.health())["status"] == "ok"

    asyncio.run(run())


def test_both_clients_have_the_same_calls() -> None:
    def calls(client: type) -> dict[str, list[str]]:
        public = inspect.getmembers(client, inspect.isfunction)
        return {
            name.replace("aclose", "close"): list(inspect.signature(call).parameters)
            for name, call in public
            if not name.startswith("_")
        }

    assert calls(AsyncClient) == calls(Client)

    def parts(client: Any) -> dict[str, dict[str, list[str]]]:
        named = ("memories", "tasks", "changes", "pending")
        return {name: calls(type(getattr(client, name))) for name in named}

    address = {"url": "http://127.0.0.1:1", "token": TOKEN}
    with Client(**address) as one:  # type: ignore[arg-type]
        assert parts(AsyncClient(**address)) == parts(one)  # type: ignore[arg-type]
