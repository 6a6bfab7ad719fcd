"""A client with which a program drives a remote hilum as it drives an embedded one.

::

    async with hilum_serve.client.connect("http://127.0.0.1:8722", token) as server:
        async with server.open_session("/home/me/project") as session:
            print((await session.run("Fix the failing test")).text)

Sessions have the methods of ``hilum.Session``. The client follows the session's event stream, and
reconnects automatically after a lost connection: no event is missed, and none arrives twice. A
change whose response was lost is sent again under the same id, and the server carries it out only
once.

``connect`` is for trio, ``connect_asyncio`` for asyncio, and ``connect_blocking`` for synchronous
programs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
from hilum.hosts import aio, blocking

from hilum_serve.remote_run import RemoteRun
from hilum_serve.remote_server import RemoteServer
from hilum_serve.remote_session import RemoteJournal, RemoteSession
from hilum_serve.server_connection import read_error

__all__ = [
    "RemoteJournal",
    "RemoteRun",
    "RemoteServer",
    "RemoteSession",
    "connect",
    "connect_asyncio",
    "connect_blocking",
    "read_error",
]
REQUEST_SECONDS = 90.0
"""Seconds to wait for a response; the server itself waits up to 60 seconds for a run."""


@asynccontextmanager
async def connect(url: str, token: str) -> AsyncIterator[RemoteServer]:
    """Connect to a server; leaving the block ends the connection, and nothing else.

    Args:
        url: The address of the server, such as ``http://127.0.0.1:8722``.
        token: A token, as ``hilum serve token add`` prints it.

    Raises:
        HilumError: The server cannot be reached, or refuses the token.
    """
    base = url.rstrip("/")
    limits = httpx.Limits(max_connections=64)
    async with (
        # A proxy of the environment must not see the token of a server on this machine.
        httpx.AsyncClient(
            base_url=base,
            headers={"authorization": f"Bearer {token}"},
            timeout=REQUEST_SECONDS,
            limits=limits,
            trust_env=False,
        ) as client,
    ):
        server = RemoteServer(base, client)
        await server.start()
        yield server


_WRAPS = (RemoteServer, RemoteSession, RemoteRun)
connect_asyncio = aio.hosted(connect, wraps=_WRAPS, name="hilum client")
connect_blocking = cast(Any, blocking.hosted(connect, wraps=_WRAPS, name="hilum client"))
