"""Requests and answers without a connection: the part that both clients share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from lukasa.errors import LukasaError, ProtocolError

TIMEOUT = 30.0
"""The default deadline of a call, in seconds: only a large import takes longer."""

ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""The limit of an answer, in bytes: only a huge export has more."""

Value = str | int | bool | None


@dataclass(frozen=True)
class Call:
    """A request, without an address and credentials."""

    method: str
    path: str
    query: Mapping[str, Value] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    # At most one of the two.
    json: Any = None
    archive: bytes | None = None

    def with_query(self, **query: Value) -> Call:
        """Returns the call with further parameters. Those that are `None` are left out."""
        return replace(self, query={**self.query, **query})

    def with_headers(self, headers: Mapping[str, str]) -> Call:
        """Returns the call with further headers."""
        return replace(self, headers={**self.headers, **headers})

    def parameters(self) -> dict[str, str]:
        """Returns the parameters as they are sent."""
        sent = {name: value for name, value in self.query.items() if value is not None}
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in sent.items()
        }

    def body(self) -> tuple[bytes | None, dict[str, str]]:
        """Returns the body and its headers."""
        if self.archive is not None:
            return self.archive, {"content-type": "application/x-tar"}
        if self.json is not None:
            try:
                return _encode(self.json), {"content-type": "application/json"}
            except (TypeError, ValueError) as error:
                message = f"the arguments cannot be sent as JSON: {error}"
                raise LukasaError("invalid_arguments", message) from error
        return None, {}


def path_call(method: str, route: str, path: str, **parts: Any) -> Call:
    """Returns a call about one memory or folder, named with or without `/memories/`."""
    below = path.removeprefix("/memories/")
    if below in ("", "/memories"):
        raise LukasaError("invalid_path", f"the path {path!r} names no scope and no memory")
    return Call(method, f"{route}/{encode_path(below)}", **parts)


def encode_id(name: str, value: str) -> str:
    """Encodes an id as one segment of a URL. An empty one is refused: a URL without it is that of another route."""
    if not value:
        raise LukasaError("invalid_id", f"{name} is empty")
    return encode_path(value).replace("/", "%2F")


def encode_path(path: str) -> str:
    """Encodes a path for a URL. Segments of dots are refused: a URL with them leads elsewhere."""
    segments = path.split("/")
    if any(segment in (".", "..") for segment in segments):
        raise LukasaError("invalid_path", f"a path must not contain `.` or `..`: {path}")
    try:
        return "/".join(quote(segment, safe="") for segment in segments)
    except UnicodeEncodeError as error:
        message = f"the path {path!a} is not valid Unicode"
        raise LukasaError("invalid_path", message) from error


def if_match(revision: str | None) -> dict[str, str]:
    """Returns the precondition of a write that replaces a revision; none without one."""
    return {} if revision is None else {"if-match": f'"{revision}"'}


def without_none(**fields: Any) -> dict[str, Any]:
    """Returns the fields that are set."""
    return {name: value for name, value in fields.items() if value is not None}


def decode(status: int, body: bytes) -> Any:
    """Returns the JSON of an answer."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise ProtocolError(status, "the answer is not JSON, so it is none of a daemon") from error


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
