"""Runs a server: its sessions, its streams, its door and its port."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import UsageError
from hilum.command import escape_terminal
from hilum.errors import E_BAD_ARGS
from hilum.listening import allowed_hosts, format_host
from hilum.store import SharedStore, Store

from hilum_serve import http_server
from hilum_serve.app import App
from hilum_serve.door import Door
from hilum_serve.forwarding import Forwarder
from hilum_serve.hub import Hub
from hilum_serve.logouts import Logouts
from hilum_serve.page_files import PageFiles
from hilum_serve.peer_checks import check_own_address, watch_other_keys
from hilum_serve.peer_group import PeerGroup
from hilum_serve.settings import ServeSettings
from hilum_serve.streams import SOCKET, STREAM, Streams
from hilum_serve.token_watch import TokenWatch
from hilum_serve.tokens import Tokens


@attrs.frozen(kw_only=True)
class ServerOptions:
    """How to run a server.

    Attributes:
        listeners: The listening sockets.
        host: The address that it listens on.
        port: The port.
        workspaces: The real paths of the folders that it works in.
        tokens: The accepted tokens.
        hosts: Further allowed values of the Host header.
        user_header: Name of the header in which a reverse proxy names the user; empty for none.
        settings: The settings.
        session_options: Further arguments of ``open_standard_session``.
        group: The group of servers that this one belongs to, if any.
        environ: The environment of the sessions.
    """

    listeners: Sequence[socket.socket]
    host: str
    port: int
    workspaces: Sequence[Path]
    tokens: Tokens
    hosts: Sequence[str] = ()
    user_header: str = ""
    settings: ServeSettings = attrs.field(factory=ServeSettings)
    session_options: Mapping[str, Any] = attrs.field(factory=dict)
    group: PeerGroup | None = None
    environ: Mapping[str, str] = attrs.field(factory=lambda: os.environ)


@attrs.frozen
class RunningServer:
    """A server that runs.

    Attributes:
        hub: Its sessions.
        streams: Its event streams.
        tokens: The tokens that it accepts.
        port: Its port.
        host: The address that it listens on.
        stop: Function that ends all streams, and closes the port and all connections.
    """

    hub: Hub
    streams: Streams
    tokens: Tokens
    port: int
    host: str
    stop: Callable[[], Awaitable[None]]

    def make_url(self, token: str) -> str:
        """Return the address that logs a browser in on this machine."""
        host = format_host("::1" if self.host == "::1" else "127.0.0.1")
        return f"http://{host}:{self.port}/login?token={token}"


def make_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(32)


@asynccontextmanager
async def run_server(store: Store, options: ServerOptions) -> AsyncIterator[RunningServer]:
    """Run a server within the block. At its end, readers receive the reason, and all sessions are closed.

    Args:
        store: The store that lists the sessions.
        options: How to run it.
    """
    async with trio.open_nursery() as nursery:
        # Sessions end after everything that uses them.
        sessions = await nursery.start(_keep_nursery)
        settings = options.settings
        group = options.group
        forwarder: Forwarder | None = None
        logouts: Logouts | None = None
        watch = TokenWatch(options.tokens)
        hub = Hub(
            sessions,
            store,
            options.workspaces,
            options=options.session_options,
            idle_seconds=settings.idle_minutes * 60,
            environ=options.environ,
            note_error=print_error,
            group=group,
        )
        if group is not None:
            shared = require_shared_store(store)
            forwarder = Forwarder(hub, group, shared, watch, print_note)
            logouts = Logouts(group, shared, options.tokens, watch.check)
            await nursery.start(logouts.follow)
        streams = Streams(hub, watch, settings.connections_per_user)
        pages = PageFiles()
        app = App(
            hub,
            {SOCKET: streams.serve_socket, STREAM: streams.serve_events},
            pages,
            print_error,
            forwarder,
        )
        hosts = [*options.hosts, *(group.hosts if group is not None else ())]
        door = Door(
            app,
            options.tokens,
            allowed_hosts(options.host, options.port, hosts),
            # The port is in the name, because cookies ignore ports.
            f"hilum-{options.port}" if group is None else group.cookie,
            is_public=pages.has,
            requests_per_minute=settings.requests_per_minute,
            user_header=options.user_header,
            note_error=print_error,
            group=group,
            on_logout=logouts.end if logouts is not None else None,
        )
        stop = trio.Event()
        served = trio.Event()

        async def serve_http() -> None:
            try:
                await http_server.serve(
                    door, list(options.listeners), stop, max_connections=settings.connections
                )
            finally:
                # Also when the server is cancelled, which ends it without a warning.
                served.set()

        nursery.start_soon(streams.run)
        nursery.start_soon(watch.run)
        nursery.start_soon(serve_http)
        if group is not None:
            nursery.start_soon(check_own_address, group, print_note)
            nursery.start_soon(watch_other_keys, group, require_shared_store(store), print_note)

        async def end() -> None:
            await streams.end_all("restart")
            stop.set()
            await served.wait()

        try:
            yield RunningServer(hub, streams, options.tokens, options.port, options.host, end)
        finally:
            with trio.CancelScope(shield=True):
                await end()
                await hub.close_all()
            nursery.cancel_scope.cancel()


def require_shared_store(store: Store) -> SharedStore:
    """Return a store in which servers find each other.

    Raises:
        UsageError: The store is not one.
    """
    if isinstance(store, SharedStore):
        return store
    raise UsageError(
        "serve.peer_url needs a store that the servers share.",
        code=E_BAD_ARGS,
        hint="Set postgres.url, or leave serve.peer_url out.",
    )


async def _keep_nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()


def print_note(text: str) -> None:
    """Print a sentence for whoever runs the server."""
    print(escape_terminal(f"hilum serve: {text}"), file=sys.stderr, flush=True)


def print_error(error: BaseException) -> None:
    """Print an unexpected error for whoever runs the server."""
    text = "".join(traceback.format_exception(error))
    print(escape_terminal(f"hilum serve: unexpected error\n{text}"), file=sys.stderr, flush=True)
