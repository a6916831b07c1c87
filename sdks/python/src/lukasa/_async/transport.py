"""One request and its answer: connection, headers, deadline, errors."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import httpx

from lukasa._call import ANSWER_BYTES_MAX, Call, decode
from lukasa._daemon import START, Daemon
from lukasa.errors import (
    AnswerTooLargeError,
    DaemonUnreachableError,
    DeadlineError,
    LukasaError,
    error_from_response,
)


def connect(daemon: Daemon, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """Returns a pool of connections to a daemon. Opens none yet."""
    if transport is None:
        transport = httpx.AsyncHTTPTransport(uds=daemon.socket)
    # The environment is not trusted: its proxies would get the token of a daemon on this machine.
    return httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        headers={"authorization": f"Bearer {daemon.token}", "accept": "application/json"},
    )


@dataclass(frozen=True)
class AsyncTransport:
    """Sends calls. Copies with other options share the connections."""

    daemon: Daemon
    pool: httpx.AsyncClient
    timeout: float
    workspace: str | None = None
    client_id: str | None = None

    async def value(self, call: Call, timeout: float | None = None) -> Any:
        """Sends a call about the daemon and returns the JSON of the answer."""
        status, body = await self.send(call, timeout)
        return decode(status, body)

    async def workspace_value(self, call: Call) -> Any:
        """Sends a call about this workspace and returns the JSON of the answer."""
        return await self.value(call.with_query(workspace=self.workspace))

    async def send(self, call: Call, timeout: float | None = None) -> tuple[int, bytes]:
        """Sends a call and returns the status and the body of a successful answer."""
        timeout = self.timeout if timeout is None else timeout
        try:
            return await self._exchange(call, timeout)
        except httpx.TimeoutException as error:
            raise DeadlineError(timeout) from error
        except httpx.ConnectError as error:
            message = f"no daemon answers at {self.daemon.shown}: {START}"
            raise DaemonUnreachableError(message) from error
        except httpx.TransportError as error:
            message = f"the connection to the daemon at {self.daemon.shown} broke: {error}"
            raise DaemonUnreachableError(message) from error
        except httpx.InvalidURL as error:
            raise LukasaError("invalid_url", f"{self.daemon.url}: {error}") from error

    async def _exchange(self, call: Call, timeout: float) -> tuple[int, bytes]:
        end = time.monotonic() + timeout
        content, headers = call.body()
        headers.update(call.headers)
        if self.client_id is not None:
            headers["x-lukasa-client-id"] = self.client_id
        async with self.pool.stream(
            call.method,
            self.daemon.url.rstrip("/") + call.path,
            params=call.parameters(),
            headers=headers,
            content=content,
            timeout=timeout,
        ) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > ANSWER_BYTES_MAX:
                    raise AnswerTooLargeError(ANSWER_BYTES_MAX)
                # The timeout of the pool begins again with each part.
                if time.monotonic() > end:
                    raise DeadlineError(timeout)
        if response.is_success:
            return response.status_code, bytes(body)
        retry_after = response.headers.get("retry-after")
        raise error_from_response(response.status_code, bytes(body), retry_after)
