"""A server that answers as Anthropic's API does, from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Model:
    """A scripted model and the requests that it got."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)

    def results(self) -> list[tuple[str, bool]]:
        """Returns the results of tools that the model read: their text, and if they are errors.

        A request has those since the one before.
        """
        blocks = [
            block
            for request in self.requests
            for message in request["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        return [(_text(block["content"]), bool(block.get("is_error"))) for block in blocks]


@contextmanager
def scripted_model(*calls: dict[str, Any]) -> Iterator[Model]:
    """Serves a model that calls the memory tool with these arguments, one at a time, and then ends its turn."""
    model = Model("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            model.requests.append(json.loads(self.rfile.read(length)))
            turn = len(model.requests) - 1
            body = json.dumps(_message(turn, calls)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _message(turn: int, calls: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    is_last = turn >= len(calls)
    content: dict[str, Any] = {"type": "text", "text": "Done."}
    if not is_last:
        content = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": "memory",
            "input": calls[turn],
        }
    return {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [content],
        "stop_reason": "end_turn" if is_last else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)
