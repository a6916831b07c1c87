"""Finding the daemon without arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import TOKEN, Daemon
from lukasa import Client, DaemonUnreachableError, LukasaError
from lukasa._daemon import find_daemon

URL = "http://127.0.0.1:4999"


def written(state: Path, **fields: object) -> None:
    """Writes the files of a daemon that is said to run."""
    state.mkdir(parents=True, exist_ok=True)
    token_file = state / "token"
    token_file.write_text("token-of-the-file\n")
    record = {"pid": 1, "url": URL, "socket": None, "token_file": str(token_file), **fields}
    (state / "daemon.lock").write_text(json.dumps(record))


def test_a_running_daemon_is_found_with_its_token(
    new_daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = new_daemon(token=None).start()
    monkeypatch.setenv("LUKASA_HOME", str(daemon.home))
    # The variable has the token of another daemon.
    monkeypatch.setenv("LUKASA_TOKEN", TOKEN)
    with Client() as lukasa:
        assert lukasa._transport.daemon.socket == str(daemon.home / "state/daemon.sock")
        assert lukasa.stats()["workspaceId"] == daemon.workspace
    monkeypatch.delenv("LUKASA_TOKEN")
    with Client(url=daemon.url) as lukasa:
        assert lukasa.stats()["workspaceId"] == daemon.workspace
    daemon.stop()
    with pytest.raises(DaemonUnreachableError, match="lukasa serve"):
        Client()


def test_a_daemon_that_was_killed_is_an_error_that_says_how_to_start_one(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUKASA_HOME", str(daemon.home))
    monkeypatch.setenv("LUKASA_TOKEN", TOKEN)
    daemon.kill()
    with (
        Client() as lukasa,
        pytest.raises(DaemonUnreachableError, match="lukasa serve"),
    ):
        lukasa.stats()


def test_arguments_come_before_the_environment_and_that_before_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LUKASA_HOME", str(tmp_path))
    written(tmp_path / "state")
    found = find_daemon(None, None)
    assert (found.url, found.token, found.socket) == (URL, "token-of-the-file", None)
    assert find_daemon(None, "mine").token == "mine"
    monkeypatch.setenv("LUKASA_TOKEN", "of-the-environment")
    assert find_daemon(None, None).token == "token-of-the-file"
    monkeypatch.setenv("LUKASA_URL", "https://memory.example/")
    found = find_daemon(None, None)
    assert (found.url, found.token) == ("https://memory.example/", "of-the-environment")
    found = find_daemon("http://127.0.0.1:1", "mine")
    assert (found.url, found.token) == ("http://127.0.0.1:1", "mine")


def test_the_token_of_this_machine_is_not_sent_to_another_daemon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LUKASA_HOME", str(tmp_path))
    written(tmp_path / "state")
    assert find_daemon(f"{URL}/", None).token == "token-of-the-file"
    with pytest.raises(LukasaError, match="LUKASA_TOKEN"):
        find_daemon("https://memory.example", None)


def test_the_state_folder_is_that_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LUKASA_HOME")
    folders = {
        ".local/state/lukasa": {},
        "elsewhere/lukasa": {"XDG_STATE_HOME": "~/elsewhere"},
        "absolute/lukasa": {"XDG_STATE_HOME": str(tmp_path / "absolute")},
        "own/state": {"LUKASA_HOME": "~/own"},
    }
    for folder, variables in folders.items():
        written(tmp_path / folder, url=f"http://127.0.0.1/{folder}")
        for name in ("XDG_STATE_HOME", "LUKASA_HOME"):
            monkeypatch.setenv(name, variables.get(name, ""))
        assert find_daemon(None, None).url == f"http://127.0.0.1/{folder}"
    monkeypatch.setenv("LUKASA_HOME", "")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert find_daemon(None, None).url.endswith("/.local/state/lukasa")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"x"', "null"])
def test_a_file_without_an_address_is_no_daemon(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LUKASA_HOME", str(tmp_path))
    (tmp_path / "state").mkdir()
    (tmp_path / "state/daemon.lock").write_text(text)
    with pytest.raises(DaemonUnreachableError, match="lukasa serve"):
        find_daemon(None, None)


def test_what_is_missing_is_an_error_that_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LUKASA_HOME", str(tmp_path))
    written(tmp_path / "state", token_file=str(tmp_path / "gone"))
    with pytest.raises(LukasaError, match="gone"):
        find_daemon(None, None)
    written(tmp_path / "state", token_file=None)
    with pytest.raises(LukasaError, match="lukasa token"):
        find_daemon(None, None)
    for url in ("127.0.0.1:4170", "ftp://127.0.0.1"):
        with pytest.raises(LukasaError, match="http://"):
            find_daemon(url, "mine")
