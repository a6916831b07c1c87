"""Items of a LangGraph store as Markdown memories: their paths and their texts.

A label of a namespace becomes a folder, and a key a file. Two different names never get the same path, also on a file
system that ignores case. An item that would not come back exactly as it was is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

Namespace = tuple[str, ...]

SEGMENT_BYTES_MAX = 255
PATH_BYTES_MAX = 1024
PATH_SEGMENTS_MAX = 16
DESCRIPTION_CHARS_MAX = 160
"""The daemon shows 200 characters of a description, and counts an escaped one differently."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
# Names of devices on Windows, and the list of all memories that the daemon writes by itself.
_RESERVED = frozenset(
    ["aux", "con", "memory", "nul", "prn"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)]
)
_ESCAPE = re.compile(rb"=([0-9a-f]{2})")
_BLOCK = re.compile(r"^```json[ \t]*\r?\n(.*?)^```[ \t]*\r?$", re.MULTILINE | re.DOTALL)
_CREATED = re.compile(r"^created:[ \t]*\"?([^\"\s]+)", re.MULTILINE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class ItemError(ValueError):
    """An item cannot be stored, or a memory in the folder of the store is none."""


@dataclass(frozen=True)
class Stored:
    """An item as it was read from a memory."""

    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


def encode_name(name: str) -> str:
    """Returns the file name for a label or key, without an extension.

    Lower-case letters, digits, `-` and `_` stay; every other byte of UTF-8 becomes `=` and two digits.
    """
    if not name:
        return "="
    encoded = "".join(
        chr(byte) if byte in _PLAIN else f"={byte:02x}"
        for byte in name.encode("utf-8", "surrogatepass")
    )
    if encoded in _RESERVED:
        encoded = f"={ord(encoded[0]):02x}{encoded[1:]}"
    return encoded


def decode_name(encoded: str) -> str | None:
    """Returns the name that has this encoding; `None` if no name has it."""
    if encoded == "=":
        return ""
    try:
        unescaped = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), encoded.encode("ascii"))
        name = unescaped.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return name if name and encode_name(name) == encoded else None


def folder_of(folder: str, namespace: Namespace) -> str:
    """Returns the folder of a namespace."""
    return "/".join([folder, *(encode_name(label) for label in namespace)])


def path_of(folder: str, namespace: Namespace, key: str) -> str:
    """Returns the path of an item. Raises `ItemError` if it is longer or deeper than a path can be."""
    path = f"{folder_of(folder, namespace)}/{encode_name(key)}.md"
    for name, segment in zip(
        (*namespace, key), path.split("/")[-len(namespace) - 1 :], strict=True
    ):
        if len(segment) > SEGMENT_BYTES_MAX:
            raise ItemError(
                f"the name {name[:40]!r}... has {len(segment)} bytes as a file name, at most "
                f"{SEGMENT_BYTES_MAX} are possible: use a shorter one"
            )
    below = path.removeprefix("/memories/")
    if below.count("/") + 1 > PATH_SEGMENTS_MAX:
        deepest = PATH_SEGMENTS_MAX - folder.removeprefix("/memories/").count("/") - 2
        raise ItemError(f"the namespace {namespace!r} has more than {deepest} labels")
    if len(path.encode()) > PATH_BYTES_MAX:
        raise ItemError(
            f"the namespace {namespace!r} and the key {key[:40]!r} make a path of "
            f"{len(path.encode())} bytes, at most {PATH_BYTES_MAX} are possible"
        )
    return path


def item_at(folder: str, path: str) -> tuple[Namespace, str] | None:
    """Returns the namespace and key of a path; `None` if it is not that of an item."""
    below = path.removeprefix(f"{folder}/")
    if below == path or not below.endswith(".md"):
        return None
    *labels, key = (decode_name(segment) for segment in below.removesuffix(".md").split("/"))
    namespace = tuple(label for label in labels if label is not None)
    if key is None or len(namespace) < len(labels):
        return None
    return namespace, key


def render(key: str, value: Mapping[str, Any], created_at: datetime) -> str:
    """Returns the text of an item. Raises `ItemError` if the value would not come back as it is."""
    if type(value) is not dict:
        raise ItemError(f"the value is a {type(value).__name__}, and an item is a dict")
    try:
        _check(value, "the value")
        block = _json(value, indent=2)
    except ItemError:
        raise
    except (ValueError, RecursionError) as error:
        raise ItemError(f"the value cannot be written as JSON: {error}") from error
    fields = {"name": key, "description": _description(value), "type": "langgraph"}
    lines = [f"{name}: {_json(text)}" for name, text in fields.items() if text]
    created = created_at.astimezone(timezone.utc).isoformat()
    head = "\n".join([*lines, f"created: {created}"])
    text = f"---\n{head}\n---\n\n```json\n{block}\n```\n"
    # Two lone surrogates that follow each other would come back as one character.
    if _value_in(text) != value:
        raise ItemError("the value has characters that JSON does not keep")
    return text


def parse(path: str, text: str, modified_at: str) -> Stored:
    """Returns the item in a text. A person may have edited it."""
    value = _value_in(text)
    if not isinstance(value, dict):
        raise ItemError(
            f"{path} has no block of JSON with an object, so it is no item: correct it, or delete it"
        )
    updated_at = _time(modified_at)
    created = _CREATED.search(text)
    try:
        created_at = _time(created[1]) if created else updated_at
    except ValueError:
        created_at = updated_at
    return Stored(value, created_at, updated_at)


def _value_in(text: str) -> Any:
    block = _BLOCK.search(text)
    if block is None:
        return None
    try:
        return json.loads(block[1])
    except (ValueError, RecursionError):
        return None


def _json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    # UTF-8 has no lone surrogates.
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _check(value: Any, where: str) -> None:
    """Raises `ItemError` for a value that comes back from JSON as another one, such as a tuple."""
    if type(value) is dict:
        for name, inner in value.items():
            if type(name) is not str:
                raise ItemError(f"{where} has the key {name!r}, and JSON has only texts as keys")
            _check(inner, f"{where}[{name!r}]")
    elif type(value) is list:
        for index, inner in enumerate(value):
            _check(inner, f"{where}[{index}]")
    elif type(value) is float:
        if not math.isfinite(value):
            raise ItemError(f"{where} is {value}, which JSON does not have")
    elif value is not None and type(value) not in (str, int, bool):
        raise ItemError(
            f"{where} is a {type(value).__name__}, which JSON does not keep: convert it before"
        )


def _description(value: Any) -> str:
    """Returns the first text in a value, on one line."""
    if isinstance(value, str):
        return " ".join(value.split())[:DESCRIPTION_CHARS_MAX].strip()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((text for text in map(_description, inner) if text), "")


def _time(text: str) -> datetime:
    # Python 3.10 does not parse the letter.
    return datetime.fromisoformat(re.sub("Z$", "+00:00", text)).astimezone(timezone.utc)
