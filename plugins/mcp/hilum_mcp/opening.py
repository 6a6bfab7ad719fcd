"""From a server's description to a connected client: variables, program or address, sandbox, and
what the server may ask.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import Session, UsageError, config_folder, home_folder
from hilum import cache_folder as user_cache
from hilum import environment as kernel_environment

from hilum_mcp.asked import inputs_of
from hilum_mcp.errors import reason_of
from hilum_mcp.expansion import read_small
from hilum_mcp.http import http_transport
from hilum_mcp.log import Log
from hilum_mcp.login import auth_of
from hilum_mcp.shown import plain
from hilum_mcp.stdio import TERM, Line, environment, stdio_transport

if TYPE_CHECKING:
    import httpx2
    from hilum import Process
    from mcp import Client

    from hilum_mcp.requests import Requests
    from hilum_mcp.server import Server
    from hilum_mcp.settings import McpSettings, Sandbox

FETCHING, FETCH = (
    frozenset(("bunx", "docker", "npx", "pipx", "pnpm", "podman", "uv", "uvx", "yarn")),
    120.0,
)
"""What fetches a server before it starts it, and how many seconds that may take."""

OLD = (400, 404, 405)
"""Status of an answer to the first message that says the server may be one of the first era."""


def _load() -> Any:
    """Import the SDK, which takes half a second; what it logs is no business of the terminal."""
    import warnings

    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("client").addHandler(logging.NullHandler())
    sdk = importlib.import_module("mcp")
    importlib.import_module("mcp.client.streamable_http")
    warnings.filterwarnings(
        "ignore", category=importlib.import_module("mcp.shared.exceptions").MCPDeprecationWarning
    )
    return sdk


class Opening:
    """Connects to one server.

    Args:
        session: For whom.
        server: As it is described.
        settings: As they hold for the session.
        log: The server's log.
        requests: What answers the server's own requests.
        auth: What signs requests; by default what is kept of the user's log-in.
    """

    def __init__(
        self,
        session: Session,
        server: Server,
        settings: McpSettings,
        log: Log,
        requests: Requests,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self.session = session
        self.server = server
        self.settings = settings
        self.log = log
        self.requests = requests
        self.auth = auth

    @asynccontextmanager
    async def __call__(self, line: Line) -> AsyncIterator[Client]:
        """Connect; the block is the life of the connection.

        Args:
            line: Is told when it is over.
        """
        # Nothing waits for these threads when the session closes: an import takes long, and a file
        # may be anything.
        in_thread = functools.partial(trio.to_thread.run_sync, abandon_on_cancel=True)
        self.log.begin()
        self.log.say(f"starts: {plain(self.server, self.server.shown())}")
        try:
            sdk = await in_thread(_load)
            server = await in_thread(filled, self.server, self.session.workspace.root)
            hosts = hosts_of(self.session)
            if server.kind != "stdio":
                from hilum_mcp.addresses import check_address
                from hilum_mcp.elsewhere import proxied

                await check_address(server, hosts, proxied=proxied(server.url))
            auth = self.auth or await in_thread(
                auth_of, server, self.settings.client_metadata_url, hosts
            )
            async with self._client(sdk, server, line, auth) as client:
                yield client
        except Exception as error:
            line.why = line.why or reason_of(error)
            raise
        finally:
            self.log.say("is closed" if not line.why else f"ended: {line.why}")
            with trio.CancelScope(shield=True):
                await self.log.flush()

    @asynccontextmanager
    async def _client(
        self, sdk: Any, server: Server, line: Line, auth: httpx2.Auth | None
    ) -> AsyncIterator[Client]:
        kinds = (False, True) if server.bare and server.kind == "http" else (server.kind == "sse",)
        for sse in kinds:
            yielded = False
            try:
                async with AsyncExitStack() as stack:
                    if server.kind == "stdio":
                        transport = stdio_transport(lambda: self._process(server), self.log, line)
                    else:
                        transport = http_transport(server, line, auth=auth, sse=sse)
                    client = await stack.enter_async_context(
                        sdk.Client(transport, **self.requests.callbacks())
                    )
                    yielded = True
                    line.why = ""
                    client.session.validate_tool_result = _as_it_is
                    yield client
                return
            except* sdk.MCPError:
                # An address that does not say which kind of HTTP it is: SSE, where streamable HTTP
                # is refused.
                if yielded or sse == kinds[-1] or line.status not in OLD or line.lost.is_set():
                    raise

    @asynccontextmanager
    async def _process(self, server: Server) -> AsyncIterator[Process]:
        """Start the program, in the sandbox that the user lets it have."""
        argv = (server.command, *server.args)
        env = environment(
            server.env, None if self._sandbox(server) == "off" else cache_folder(server)
        )
        opened = self.session.processes.open(
            argv, cwd=server.cwd or None, env=env, stdin=True, grace=TERM
        )
        async with AsyncExitStack() as stack:
            with self._widened(argv, server):
                process = await stack.enter_async_context(opened)
            yield process

    def _sandbox(self, server: Server) -> Sandbox:
        return sandbox_of(server, self.settings)

    def _widened(self, argv: tuple[str, ...], server: Server) -> AbstractContextManager[None]:
        from hilum_guard import Guard, Wider

        guard = self.session.half(Guard)
        if guard is None:
            return nullcontext()  # nothing puts processes into a sandbox
        kind = self._sandbox(server)
        names = (*server.env, *server.env_names)
        wider = Wider(
            kind == "network",
            str(cache_folder(server)),
            names,
            off=kind == "off",
            shown=_below_temporary(argv),
        )
        return guard.widen(argv, wider)


def _below_temporary(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of the files that a command line names below the folder of temporary
    files.

    A sandbox has such a folder of its own, in which a server that is kept there would be missing.
    """
    bases = {os.path.realpath(path) for path in ("/tmp", "/var/tmp")}
    found: dict[str, None] = {}
    for word in argv:
        if os.path.isabs(word) and os.path.exists(word):
            path = os.path.realpath(word)
        else:
            path = ""
        if any(path.startswith(f"{base}/") for base in bases):
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            found[path if folder in bases else folder] = None
    return tuple(found)


def sandbox_of(server: Server, settings: McpSettings) -> Sandbox:
    """Return the sandbox that a server runs in: what the user set for it, else what its description
    calls for.

    A project's own program gets no network. A program that is fetched first cannot start without,
    and the description says so.
    """
    if server.name in settings.sandbox:
        return settings.sandbox[server.name]
    fetched = PurePath(server.command).name in FETCHING
    if fetched or server.file.is_relative_to(config_folder()):
        return "network"
    return "closed"


async def _as_it_is(name: str, result: Any) -> None:
    """Take a result as it is: checking it against a schema that a server chose could take for ever,
    and on the loop.
    """


def start_seconds(server: Server, settings: McpSettings) -> float:
    """Return how long a server may take to start: longer where it is fetched first."""
    if server.start_seconds:
        return server.start_seconds
    fetched = PurePath(server.command).name in FETCHING
    if fetched:
        return max(settings.start_seconds, FETCH)
    return settings.start_seconds


def hosts_of(session: Session) -> frozenset[str]:
    """Return the hosts of the user's network that a server may name for logging in: those that
    pages are fetched from.
    """
    from hilum_web import Web, WebSettings

    if session.half(Web) is not None:
        return frozenset(session.settings(WebSettings).hosts)
    return frozenset()


def cache_folder(server: Server) -> Path:
    """Return the folder for the caches of a server's tools: of this server alone, so that no server
    reaches what others run.
    """
    return user_cache() / "mcp" / server.prefix


def filled(server: Server, workspace: Path) -> Server:
    """Fill in the variables of a description, and those of its file of variables. Blocks.

    Raises:
        UsageError: One has no value, or the file cannot be read.
    """
    from hilum_mcp.expansion import Values, expand

    full = expand(server, Values(kernel_environment(), workspace, home_folder(), inputs_of(server)))
    if full.env_file:
        full = msgspec.structs.replace(
            full, env={**_env_file(Path(workspace, full.env_file).expanduser()), **full.env}
        )
    if full.cwd:
        full = msgspec.structs.replace(full, cwd=str(Path(workspace, Path(full.cwd).expanduser())))
    if full.kind == "stdio" and full.command.startswith("~"):
        full = msgspec.structs.replace(full, command=str(Path(full.command).expanduser()))
    return full


def _env_file(path: Path) -> dict[str, str]:
    """Read a file of ``NAME=value`` lines.

    Quotes around a value are taken off, and nothing in it is run or filled in.
    """
    try:
        text = read_small(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The file of variables {path} cannot be read: {error}.", hint="Mend or remove envFile."
        ) from None
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[name.strip()] = value[1:-1] if quoted else value
    return found
