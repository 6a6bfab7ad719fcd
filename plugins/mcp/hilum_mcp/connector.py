"""Creates a connected client from a server's configuration.

The connector expands variables, starts the program in its sandbox or opens the URL, and handles the
requests that the server may make. This module imports the MCP SDK, which takes half a second, so it
is loaded in a thread (see ``lazy``).
"""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import hilum_guard
import hilum_web
import mcp
import trio
from hilum import Session, UsageError, home_folder
from hilum import environment as kernel_environment
from mcp.shared.exceptions import MCPDeprecationWarning
from trio.to_thread import run_sync as in_thread

from hilum_mcp import lazy
from hilum_mcp.errors import describe_error
from hilum_mcp.expansion import Values, expand, read_small_file
from hilum_mcp.formatting import redact
from hilum_mcp.inputs import load_answers
from hilum_mcp.launch import cache_folder, choose_sandbox
from hilum_mcp.login import load_auth
from hilum_mcp.server_log import ServerLog
from hilum_mcp.stdio_transport import TERM_TIMEOUT, make_environment, stdio_transport
from hilum_mcp.transport_state import TransportState

if TYPE_CHECKING:
    import httpx2
    from hilum import Process

    from hilum_mcp.server_config import ServerConfig
    from hilum_mcp.server_requests import ServerRequests
    from hilum_mcp.settings import McpSettings

# If the response to the first message has one of these statuses, the server may use the older
# transport.
#
# MCP 2025-03-26, transports, "Backwards Compatibility".
SSE_STATUSES = (400, 404, 405)

# The SDK's warnings and logs must not appear on the terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("client").addHandler(logging.NullHandler())
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)


class Connector:
    """A connector to one server.

    Args:
        session: The session that uses the server.
        server: The server's configuration.
        settings: The settings of the session.
        log: The server's log.
        requests: The handler for the server's requests.
        auth: The authentication for requests; by default, the user's stored login.
    """

    def __init__(
        self,
        session: Session,
        server: ServerConfig,
        settings: McpSettings,
        log: ServerLog,
        requests: ServerRequests,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self._session = session
        self._server = server
        self._settings = settings
        self._log = log
        self._requests = requests
        self._auth = auth

    @asynccontextmanager
    async def connect(self, state: TransportState) -> AsyncIterator[mcp.Client]:
        """Connect to the server. The connection lasts until the end of the block.

        Args:
            state: The transport's state, which is updated when the connection is lost.
        """
        # Closing the session does not wait for these threads, because a configured path may refer
        # to a file that takes forever to read.
        run = functools.partial(in_thread, abandon_on_cancel=True)
        self._log.restart()
        self._log.note(f"starts: {redact(self._server, self._server.target)}")
        try:
            server = await run(expand_server, self._server, self._session.workspace.root)
            hosts = allowed_hosts(self._session)
            # The variables are expanded first, because the URL may contain some.
            if server.kind != "stdio":
                await run(lazy.load, "address_check", "http_transport")
                await lazy.address_check.check_address(server, hosts)
            auth = self._auth
            if auth is None:
                url = self._settings.client_metadata_url
                auth = await run(load_auth, server, url, hosts)
            async with self._open_client(server, state, auth) as client:
                yield client
        except Exception as error:
            state.reason = state.reason or describe_error(error)
            raise
        finally:
            self._log.note(f"ended: {state.reason}" if state.reason else "is closed")
            # The last lines of output often name the cause of a failure, so they are logged even if
            # the session is cancelled.
            with trio.CancelScope(shield=True):
                await self._log.flush()

    @asynccontextmanager
    async def _open_client(
        self,
        server: ServerConfig,
        state: TransportState,
        auth: httpx2.Auth | None,
    ) -> AsyncIterator[mcp.Client]:
        attempts = [server.kind == "sse"]
        # If the file specifies a transport, no other transport is tried, even if that one fails.
        if server.kind_guessed and server.kind == "http":
            attempts = [False, True]
        for sse in attempts:
            is_open = False
            try:
                async with AsyncExitStack() as stack:
                    transport = self._make_transport(server, state, auth, sse)
                    client = mcp.Client(transport, **self._requests.callbacks())
                    await stack.enter_async_context(client)
                    is_open = True
                    # The refusal of an earlier attempt must not be reported as the reason for a
                    # later failure.
                    state.reason = ""
                    # Validating a result against a server's schema could take forever.
                    session = client.session
                    session.validate_tool_result = _skip_validation  # type: ignore[method-assign]
                    yield client
                return
            except* mcp.MCPError:
                may_be_sse = state.status in SSE_STATUSES and not state.lost.is_set()
                if is_open or sse == attempts[-1] or not may_be_sse:
                    raise

    def _make_transport(
        self,
        server: ServerConfig,
        state: TransportState,
        auth: httpx2.Auth | None,
        sse: bool,
    ) -> Any:
        if server.kind == "stdio":
            return stdio_transport(lambda: self._start(server), self._log, state)
        return lazy.http_transport.http_transport(server, state, auth=auth, sse=sse)

    @asynccontextmanager
    async def _start(self, server: ServerConfig) -> AsyncIterator[Process]:
        """Start the program in its sandbox."""
        argv = (server.command, *server.args)
        has_sandbox = choose_sandbox(server, self._settings) != "off"
        env = make_environment(server.env, cache_folder(server) if has_sandbox else None)
        process = self._session.processes.open(
            argv,
            cwd=server.cwd or None,
            env=env,
            stdin=True,
            grace=TERM_TIMEOUT,
            purpose="service",
        )
        async with AsyncExitStack() as stack:
            # The sandbox is wider only while this command starts, so that no other command gets the
            # wider sandbox.
            with self._widen_sandbox(argv, server):
                opened = await stack.enter_async_context(process)
            yield opened

    def _widen_sandbox(
        self,
        argv: tuple[str, ...],
        server: ServerConfig,
    ) -> AbstractContextManager[None]:
        guard = self._session.plugin(hilum_guard.Guard)
        if guard is None:
            return nullcontext()  # no sandbox is in use
        sandbox = choose_sandbox(server, self._settings)
        wider = hilum_guard.ExtraAccess(
            sandbox == "network",
            str(cache_folder(server)),
            (*server.env, *server.inherited_env),
            off=sandbox == "off",
            shown=_temporary_paths(argv),
        )
        return guard.widen(argv, wider)


async def _skip_validation(name: str, result: Any) -> None:
    """Accept a result without checking it."""


def _temporary_paths(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the temporary folders that contain the paths in a command line.

    A sandbox has its own temporary folder, in which the program would be missing.
    """
    bases = {os.path.realpath(path) for path in ("/tmp", "/var/tmp")}
    found: dict[str, None] = {}
    for word in argv:
        if not os.path.isabs(word) or not os.path.exists(word):
            continue
        path = os.path.realpath(word)
        if not any(path.startswith(f"{base}/") for base in bases):
            continue
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        # For a file directly in /tmp, only the file is shared, not all of /tmp.
        found[path if folder in bases else folder] = None
    return tuple(found)


def allowed_hosts(session: Session) -> frozenset[str]:
    """Return the hosts on the user's network that a server may name for a login.

    The hosts are the same as those from which web pages may be fetched.
    """
    if session.plugin(hilum_web.Web) is None:
        return frozenset()
    return frozenset(session.settings(hilum_web.WebSettings).hosts)


def expand_server(server: ServerConfig, workspace: Path) -> ServerConfig:
    """Expand the variables in a configuration, and read its environment file. Blocks.

    Raises:
        UsageError: A variable has no value, or the file cannot be read.
    """
    values = Values(kernel_environment(), workspace, home_folder(), load_answers(server))
    expanded = expand(server, values)
    if expanded.env_file:
        variables = _read_env_file(Path(workspace, os.path.expanduser(expanded.env_file)))
        expanded = attrs.evolve(expanded, env={**variables, **expanded.env})
    if expanded.cwd:
        cwd = str(Path(workspace, os.path.expanduser(expanded.cwd)))
        expanded = attrs.evolve(expanded, cwd=cwd)
    if expanded.command.startswith("~"):
        expanded = attrs.evolve(expanded, command=os.path.expanduser(expanded.command))
    return expanded


def _read_env_file(path: Path) -> dict[str, str]:
    """Read a file of ``NAME=value`` lines.

    Quotes around a value are removed. Nothing in the value is executed or expanded.
    """
    try:
        text = read_small_file(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The environment file {path} cannot be read: {error}.",
            hint="Fix or remove envFile.",
        ) from None
    variables = {}
    for line in text.splitlines():
        # Files that a shell can also read begin lines with `export`.
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            variables[name.strip()] = _unquote(value.strip())
    return variables


def _unquote(value: str) -> str:
    for quote in ("'", '"'):
        if len(value) > 1 and value.startswith(quote) and value.endswith(quote):
            return value[1:-1]
    return value
