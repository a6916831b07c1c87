from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from conftest import SECRET, Daemon
from lukasa import Client, DaemonUnreachableError
from lukasa.anthropic import AsyncLukasaMemoryTool, LukasaMemoryTool
from model import Model, scripted_model

PATH = "/memories/global/tea.md"
CREATE = {"command": "create", "path": PATH, "file_text": "- Likes tea.\n"}

# Each command, accepted and refused, and arguments that are none.
CALLS: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    CREATE,
    CREATE,
    {"command": "view", "path": PATH, "view_range": [1, 1]},
    {"command": "view", "path": PATH, "view_range": [7, 9]},
    {"command": "str_replace", "path": PATH, "old_str": "tea", "new_str": "green tea 🍵"},
    {"command": "str_replace", "path": PATH, "old_str": "coffee", "new_str": "tea"},
    {"command": "insert", "path": PATH, "insert_line": 1, "insert_text": "- No milk.\n"},
    {"command": "insert", "path": PATH, "insert_line": 99, "insert_text": "x"},
    {"command": "create", "path": "/memories/global/key.md", "file_text": SECRET},
    {"command": "create", "path": "/etc/passwd", "file_text": "x"},
    {"command": "rename", "old_path": PATH, "new_path": "/memories/global/drinks/tea.md"},
    {"command": "rename", "old_path": PATH, "new_path": "/memories/global/x.md"},
    {"command": "delete", "path": "/memories/global/drinks/tea.md"},
    {"command": "delete", "path": PATH},
    {"command": "explode", "path": PATH},
    {"command": "view"},
    {"path": PATH},
    {},
]


@pytest.fixture
def expected(new_daemon: Callable[..., Daemon]) -> list[tuple[str, bool]]:
    """Returns what a daemon answers to the calls: each text, and if it is a refusal."""
    lukasa = new_daemon().start().client()
    replies = [lukasa.memories.tool(call) for call in CALLS]
    texts = [(reply["text"], not reply["ok"]) for reply in replies]
    assert {is_error for _, is_error in texts} == {True, False}
    return texts


def test_the_runner_of_the_sdk_gives_a_model_the_texts_of_the_daemon(
    lukasa: Client, expected: list[tuple[str, bool]]
) -> None:
    tool = LukasaMemoryTool(lukasa, cache_control={"type": "ephemeral"})
    with (
        scripted_model(*CALLS) as model,
        Anthropic(api_key="none", base_url=model.url) as anthropic,
    ):
        runner = anthropic.beta.messages.tool_runner(
            model="scripted",
            max_tokens=100,
            messages=[{"role": "user", "content": "Remember that I like tea."}],
            tools=[tool],
        )
        last = runner.until_done()
    assert last.content[0].type == "text"
    assert model.results() == expected
    declared = {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    assert model.requests[0]["tools"] == [declared]


def test_the_asynchronous_runner_does_the_same(
    daemon: Daemon, expected: list[tuple[str, bool]]
) -> None:
    async def run(model: Model) -> None:
        async with (
            daemon.async_client() as lukasa,
            AsyncAnthropic(api_key="none", base_url=model.url) as anthropic,
        ):
            runner = anthropic.beta.messages.tool_runner(
                model="scripted",
                max_tokens=100,
                messages=[{"role": "user", "content": "Remember that I like tea."}],
                tools=[AsyncLukasaMemoryTool(lukasa)],
            )
            await runner.until_done()

    with scripted_model(*CALLS) as model:
        asyncio.run(run(model))
    assert model.results() == expected


def test_each_command_is_a_method(lukasa: Client) -> None:
    tool = LukasaMemoryTool(lukasa)
    created = tool.create(
        BetaMemoryTool20250818CreateCommand(command="create", path=PATH, file_text="- tea\n")
    )
    assert PATH in created
    tool.str_replace(
        BetaMemoryTool20250818StrReplaceCommand(
            command="str_replace", path=PATH, old_str="tea", new_str="coffee"
        )
    )
    tool.insert(
        BetaMemoryTool20250818InsertCommand(
            command="insert", path=PATH, insert_line=1, insert_text="- milk\n"
        )
    )
    view = BetaMemoryTool20250818ViewCommand(command="view", path=PATH)
    assert "- coffee\n     2\t- milk" in tool.view(view)
    moved = "/memories/global/drinks.md"
    tool.rename(
        BetaMemoryTool20250818RenameCommand(command="rename", old_path=PATH, new_path=moved)
    )
    assert lukasa.memories.read(moved)["text"] == "- coffee\n- milk\n"
    tool.delete(BetaMemoryTool20250818DeleteCommand(command="delete", path=moved))
    with pytest.raises(ToolError) as refused:
        tool.view(view)
    assert refused.value.content == lukasa.memories.tool(view.to_dict())["text"]


def test_an_agent_that_may_only_read_writes_nothing(lukasa: Client) -> None:
    tool = LukasaMemoryTool(lukasa, agent_class="explore")
    assert "/memories/global" in tool.call({"command": "view", "path": "/memories"})
    with pytest.raises(ToolError):
        tool.call(CREATE)
    assert lukasa.memories.list()["total"] == 0


def test_without_a_daemon_a_program_gets_the_error_and_a_model_a_failed_result(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    tool = LukasaMemoryTool(daemon.client())
    daemon.kill()
    with pytest.raises(DaemonUnreachableError, match="lukasa serve"):
        tool.call(CREATE)
    with (
        scripted_model(CREATE) as model,
        Anthropic(api_key="none", base_url=model.url) as anthropic,
    ):
        anthropic.beta.messages.tool_runner(
            model="scripted",
            max_tokens=100,
            messages=[{"role": "user", "content": "Remember that I like tea."}],
            tools=[tool],
        ).until_done()
    [(text, is_error)] = model.results()
    assert is_error
    assert "lukasa serve" in text
    assert [record.levelno for record in caplog.records if "tool" in record.message] == [
        logging.ERROR
    ]
