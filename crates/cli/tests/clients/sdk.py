"""The client of the PyPI package `mcp`, as a host application uses it.

    python sdk.py LUKASA REVISION FILE < CALLS

LUKASA is the program to start, or the URL of a daemon whose token LUKASA_TOKEN has. Prints what it saw as
one JSON object. CALLS is a JSON list of the tool's arguments; FILE is the
memory that is changed from outside once it is subscribed to.
"""

import json
import os
import sys
from pathlib import Path

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ResourceUpdatedNotification

LUKASA, REVISION, FILE = sys.argv[1:]
NEWEST = "2026-07-28"


async def main() -> None:
    updates, updated = anyio.create_memory_object_stream[str](16)

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await updates.send(str(message.params.uri))

    if LUKASA.startswith("http://"):
        headers = {"Authorization": f"Bearer {os.environ['LUKASA_TOKEN']}"}
        server = streamable_http_client(LUKASA, http_client=httpx2.AsyncClient(headers=headers))
    else:
        server = StdioServerParameters(command=LUKASA, args=["mcp"], env=dict(os.environ))
    mode = NEWEST if REVISION == NEWEST else "legacy"
    seen: dict[str, object] = {}
    async with Client(server, mode=mode, message_handler=hear, cache=None) as client:
        seen["revision"] = client.session.protocol_version
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["calls"] = [await call(client, arguments) for arguments in json.load(sys.stdin)]
        resources = (await client.list_resources()).resources
        seen["resources"] = [str(resource.uri) for resource in resources]
        uri = seen["resources"][0]
        seen["read"] = (await client.read_resource(uri)).contents[0].text
        if REVISION == NEWEST:
            async with client.listen(resource_subscriptions=[uri]) as subscription:
                Path(FILE).write_text("edited outside\n")
                seen["updated"] = (await anext(subscription)).uri
        else:
            await client.subscribe_resource(uri)
            Path(FILE).write_text("edited outside\n")
            seen["updated"] = await updated.receive()
        seen["readAgain"] = (await client.read_resource(uri)).contents[0].text
    print(json.dumps(seen))


async def call(client: Client, arguments: dict[str, object]) -> dict[str, object]:
    result = await client.call_tool("memory", arguments)
    return {
        "ok": result.meta["lukasa"]["ok"],
        "code": result.meta["lukasa"].get("code"),
        "isError": result.is_error,
        "text": result.content[0].text,
    }


anyio.run(main)
