"""Daemons in temporary homes, and peers that are none."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lukasa import AsyncClient, Client

TOKEN = "a-token-for-tests-only"
PATIENCE = 30.0
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

# The program that is named, or that of a plain build.
PROGRAM = os.environ.get(
    "LUKASA_PROGRAM", str(Path(__file__).resolve().parents[3] / "target/debug/lukasa")
)


class Daemon:
    """A home, a checkout, and a daemon that may start there repeatedly."""

    def __init__(self, folder: Path, token: str | None = TOKEN) -> None:
        self.home = folder / "home"
        self.checkout = folder / "app"
        self.token = token
        self.url = ""
        self.workspace = ""
        self._child: subprocess.Popen[str] | None = None
        self._clients: list[Client] = []
        self.home.mkdir()
        self.checkout.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=self.checkout, check=True)

    def environment(self) -> dict[str, str]:
        """The environment of programs that use this home."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return {**environment, "LUKASA_HOME": str(self.home)}

    def start(self, *arguments: str) -> Daemon:
        environment = self.environment()
        if self.token is not None:
            environment["LUKASA_TOKEN"] = self.token
        self._child = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", "--json", *arguments],
            cwd=self.checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, f"the daemon did not start: {PROGRAM}"
        said = json.loads(line)
        self.url = said["url"]
        self.workspace = said["workspaces"][0]["id"]
        return self

    def kill(self) -> None:
        """Kills the daemon as `kill -9` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Asks the daemon to end."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(number)
        child.wait(PATIENCE)
        assert child.stdout is not None
        child.stdout.close()

    def client(self, **options: Any) -> Client:
        client = Client(**{"url": self.url, "token": self.token, **options})
        self._clients.append(client)
        return client

    def async_client(self, **options: Any) -> AsyncClient:
        return AsyncClient(**{"url": self.url, "token": self.token, **options})

    @contextmanager
    def held_lane(self) -> Iterator[None]:
        """Holds the lock of the lane, so that tasks wait. The lane must have run a task before."""
        lock = self.home / "state/locks" / f"lane-{self.workspace}.lock"
        holder = subprocess.Popen(
            ["flock", str(lock), "sh", "-c", "echo held; cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.communicate(timeout=PATIENCE)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.kill()


@pytest.fixture(autouse=True)
def _no_daemon_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LUKASA_URL", "LUKASA_TOKEN", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LUKASA_HOME", str(tmp_path / "no-home"))


@contextmanager
def daemons() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons that are not started, and removes them at the end."""
    with ExitStack() as stack:

        def new(**options: Any) -> Daemon:
            # The path of a socket has at most 100 bytes, so pytest's own folders are too long.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lukasa-"))
            daemon = Daemon(Path(folder), **options)
            stack.callback(daemon.close)
            return daemon

        yield new


@pytest.fixture
def new_daemon() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons that are not started."""
    with daemons() as new:
        yield new


@pytest.fixture
def daemon(new_daemon: Callable[..., Daemon]) -> Daemon:
    """Returns a running daemon."""
    return new_daemon().start()


@pytest.fixture
def lukasa(daemon: Daemon) -> Client:
    """Returns a client of a running daemon."""
    return daemon.client()


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    """Returns a daemon that the tests of a module share."""
    with daemons() as new:
        yield new().start()


@pytest.fixture
def peer() -> Iterator[Callable[..., str]]:
    """Returns the address of a server that answers every connection with the same bytes.

    It sends them in the given parts, with a pause between them, and then closes or says nothing more.
    """
    ends: list[Callable[[], None]] = []

    def start(*parts: bytes, pause: float = 0.0, closes: bool = True) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        stopped = threading.Event()

        def answer(connection: socket.socket) -> None:
            with connection:
                connection.recv(65_536)
                for part in parts:
                    try:
                        connection.sendall(part)
                    except OSError:
                        return
                    if stopped.wait(pause):
                        return
                if not closes:
                    stopped.wait(PATIENCE)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=answer, args=(connection,)))
                threads[-1].start()

        threads = [threading.Thread(target=serve)]
        threads[0].start()

        def end() -> None:
            stopped.set()
            # Closing alone does not wake the thread that accepts.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            for thread in threads:
                thread.join(PATIENCE)

        ends.append(end)
        port: int = listener.getsockname()[1]
        return f"http://127.0.0.1:{port}"

    yield start
    for end in ends:
        end()
