"""The advertised tools, through the converters of the SDKs that hosts build on.

    python schemas.py LUKASA

Starts LUKASA as an MCP server and prints one JSON object: for each tool, what each converter makes of its
schema, or the error that it raises; and what an agent of pydantic-ai hands its model for a call of `view`
and one of `recall`.
"""

import json
import os
import sys
from typing import Any, Callable

import anyio
from agents.strict_schema import ensure_strict_json_schema
from anthropic import transform_schema
from anthropic.lib.tools.mcp import async_mcp_tool
from fastmcp.client.transports import StdioTransport
from google.genai import types
from google.genai._mcp_utils import mcp_to_gemini_tool
from mcp import Client, StdioServerParameters
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

LUKASA = sys.argv[1]


def tried(convert: Callable[[], Any]) -> Any:
    """Returns what a converter makes of a schema, or the error that it raises."""
    try:
        made = convert()
    except Exception as error:  # noqa: BLE001 - any failure of a converter is a result here
        return {"error": f"{type(error).__name__}: {error}"}
    return made if isinstance(made, dict) else made.model_dump(mode="json", exclude_none=True)


def converted(tool: Any, session: Any) -> dict[str, Any]:
    """Returns what each SDK makes of one tool."""
    schema = tool.input_schema

    def copy() -> dict[str, Any]:
        return json.loads(json.dumps(schema))

    return {
        "openai_strict": tried(lambda: ensure_strict_json_schema(copy())),
        "pydantic_ai_openai": tried(lambda: OpenAIJsonSchemaTransformer(copy(), strict=True).walk()),
        "gemini_mcp": tried(lambda: mcp_to_gemini_tool(tool)),
        "gemini_schema": tried(lambda: types.Schema.model_validate(copy())),
        "pydantic_ai_gemini": tried(lambda: GoogleJsonSchemaTransformer(copy()).walk()),
        "anthropic_mcp": tried(lambda: async_mcp_tool(tool, session).to_dict()),
        "anthropic_strict": tried(lambda: transform_schema(copy())),
    }


async def main() -> None:
    server = StdioServerParameters(command=LUKASA, args=["mcp"], env=dict(os.environ))
    seen: dict[str, Any] = {}
    async with Client(server, mode="legacy", cache=None) as client:
        tools = (await client.list_tools()).tools
        seen["tools"] = {tool.name: converted(tool, client.session) for tool in tools}
    async with MCPToolset(StdioTransport(LUKASA, ["mcp"], env=dict(os.environ))) as toolset:
        path = "/memories/global/tea.md"
        create = {"command": "create", "path": path, "file_text": "- Oolong is the tea I like.\n"}
        await toolset.direct_call_tool("memory", create)
        view = {"command": "view", "path": path}
        seen["view"] = await toolset.direct_call_tool("memory", view)
        seen["recall"] = await toolset.direct_call_tool("recall", {"prompt": "Which tea do I like?"})
    print(json.dumps(seen))


anyio.run(main)
