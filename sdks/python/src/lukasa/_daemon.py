"""Finds the daemon: its address and its token.

A daemon writes its address to a file in the state folder, which commands and hooks read too. Only this user can read
it. A token is sent to the daemon that it belongs to and to no other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lukasa.errors import DaemonUnreachableError, LukasaError

START = "start one with `lukasa serve`"


@dataclass(frozen=True)
class Daemon:
    """The address and the token of a daemon."""

    url: str
    token: str = field(repr=False)
    # The path of the daemon's socket: it stays the same when the daemon restarts on another port.
    socket: str | None = None

    @property
    def shown(self) -> str:
        """The address for messages."""
        return self.socket or self.url


@dataclass(frozen=True)
class _Record:
    """The address of a running daemon, as it wrote it."""

    url: str
    socket: str | None
    token_file: str | None


def find_daemon(url: str | None, token: str | None) -> Daemon:
    """Returns the daemon at `url`, or the one that runs for this user.

    An argument that is `None` is taken from `LUKASA_URL` or `LUKASA_TOKEN`, else from the daemon's own files.

    Raises `DaemonUnreachableError` if no daemon runs, and `LukasaError` if there is no token.
    """
    url = url or os.environ.get("LUKASA_URL") or None
    environment_token = os.environ.get("LUKASA_TOKEN") or None
    state = _state_folder(os.environ)
    record = _read_record(state / "daemon.lock")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise LukasaError(
                "invalid_url", f"the address must begin with http:// or https://: {url}"
            )
        is_own = record is not None and record.url.rstrip("/") == url.rstrip("/")
        token = token or environment_token or (_read_token(record) if is_own and record else None)
        return Daemon(url, _checked(token))
    if record is None:
        raise DaemonUnreachableError(
            f"no daemon runs for {state}: {START}, or set LUKASA_URL and LUKASA_TOKEN"
        )
    # The daemon's own file is right even if the environment has the token of another daemon.
    return Daemon(
        record.url, _checked(token or _read_token(record) or environment_token), record.socket
    )


def _state_folder(environment: Mapping[str, str]) -> Path:
    if home := environment.get("LUKASA_HOME"):
        return Path(home).expanduser().absolute() / "state"
    base = Path(environment.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    if not base.is_absolute():
        base = Path("~/.local/state").expanduser()
    return base / "lukasa"


def _read_record(file: Path) -> _Record | None:
    """Reads the record. It is empty when no daemon runs, and incomplete while one starts."""
    try:
        fields = json.loads(file.read_text())
        return _Record(str(fields["url"]), fields.get("socket"), fields.get("token_file"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_token(record: _Record | None) -> str | None:
    if record is None or record.token_file is None:
        return None
    try:
        return Path(record.token_file).read_text().strip()
    except OSError as error:
        message = f"cannot read the token of the daemon in {record.token_file}: {error.strerror}"
        raise LukasaError("invalid_token", message) from error


def _checked(token: str | None) -> str:
    token = (token or "").strip()
    if not token:
        raise LukasaError(
            "invalid_token", "there is no token: set LUKASA_TOKEN, which `lukasa token` prints"
        )
    if not all("\x20" < character < "\x7f" for character in token):
        raise LukasaError("invalid_token", "the token has characters that no header has")
    return token
