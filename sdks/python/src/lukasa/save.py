"""The answer to a write that leaves a memory.

The API describes one answer for all writes, and a delete leaves no revision. So that a checker of types accepts the
revision of a save, `create` and `save` return this type.
"""

from __future__ import annotations

from typing import TypedDict

from typing_extensions import NotRequired

from lukasa.models import Warning


class SaveResponse(TypedDict):
    """The result of creating or saving a memory."""

    change: NotRequired[int | None]
    """The recorded change; none if nothing had to be written."""
    path: str
    """The path of the memory."""
    revision: str
    """The new revision, which the next save names."""
    warnings: list[Warning]
    """Warnings of screening."""
