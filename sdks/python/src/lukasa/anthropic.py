"""The memory tool of Anthropic's SDK, with the memories of a daemon.

    from anthropic import Anthropic
    from lukasa.anthropic import LukasaMemoryTool

    runner = Anthropic().beta.messages.tool_runner(..., tools=[LukasaMemoryTool()])

The model reads exactly the text that the daemon answers. A refused command is a `ToolError` with that text, which
the SDK's runner passes to the model as a failed result. An unreachable daemon is a `LukasaError`.

It needs `pip install 'lukasa[anthropic]'`.
"""

from __future__ import annotations

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from lukasa._async.client import AsyncClient
from lukasa._async.memories import AgentClass
from lukasa._sync.client import Client
from lukasa.models import ToolReply

__all__ = ["AsyncLukasaMemoryTool", "LukasaMemoryTool"]


class LukasaMemoryTool(BetaAbstractMemoryTool):
    """The memory tool of a daemon.

    Without a client it finds the daemon as `Client` does. The agent class `plan` may not write project memories, and
    `explore` may write nothing.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        agent_class: AgentClass = "exec",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._client = client or Client()
        self._agent_class: AgentClass = agent_class

    def call(self, input: object) -> str:
        """Runs a command with the arguments of a model.

        They go to the daemon as they are, so that a malformed command also gets the daemon's explanation.
        """
        return _text_of(self._client.memories.tool(input, self._agent_class))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Shows a memory with line numbers, or a folder."""
        return self.call(command.to_dict())

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Creates a memory that does not exist yet."""
        return self.call(command.to_dict())

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replaces a text that occurs exactly once."""
        return self.call(command.to_dict())

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Adds lines after a line."""
        return self.call(command.to_dict())

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Deletes a memory, or a folder with its contents."""
        return self.call(command.to_dict())

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Moves a memory or folder within its scope."""
        return self.call(command.to_dict())


class AsyncLukasaMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool of a daemon, for `AsyncAnthropic`. See `LukasaMemoryTool`."""

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        agent_class: AgentClass = "exec",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._client = client or AsyncClient()
        self._agent_class: AgentClass = agent_class

    async def call(self, input: object) -> str:
        """Runs a command with the arguments of a model, as they are."""
        return _text_of(await self._client.memories.tool(input, self._agent_class))

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Shows a memory with line numbers, or a folder."""
        return await self.call(command.to_dict())

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Creates a memory that does not exist yet."""
        return await self.call(command.to_dict())

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replaces a text that occurs exactly once."""
        return await self.call(command.to_dict())

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Adds lines after a line."""
        return await self.call(command.to_dict())

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Deletes a memory, or a folder with its contents."""
        return await self.call(command.to_dict())

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Moves a memory or folder within its scope."""
        return await self.call(command.to_dict())


def _text_of(reply: ToolReply) -> str:
    if not reply["ok"]:
        raise ToolError(reply["text"])
    return reply["text"]
