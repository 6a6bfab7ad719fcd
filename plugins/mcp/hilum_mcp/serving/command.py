"""``hilum mcp serve``: opens kernel and session, serves clients, and ends everything it started."""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, Session, ToolFilter, UsageError, open_standard_session, parse_pair
from hilum.errors import E_BAD_ARGS
from hilum.events import PluginFault
from hilum_commandline import Names, Parser, say

from hilum_mcp.serving import tokens
from hilum_mcp.serving.settings import McpServerSettings
from hilum_mcp.serving.work import Desk

if TYPE_CHECKING:
    from mcp.server import Server

    from hilum_mcp.serving.notices import Notices

    Speak = Callable[[Server[Any]], Awaitable[None]]

EPILOG = """\
A client starts it itself and speaks to it over standard input and output:

  {"mcpServers": {"hilum": {"command": "hilum", "args": ["mcp", "serve", "-C", "/path/to/project"]}}}

or you start it, and clients come over HTTP with the token that it prints:

  hilum mcp serve --http 8765
"""
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
# Tools of the loop itself, which make no sense without it.
INNER = ("todo_write", "ask_question", "task", "handover", "get_agent_result")
RISKS = ("read", "write", "execute", "network")


def make_parser() -> Parser:
    """Declare the options."""
    parser = Parser(
        "hilum mcp serve",
        "Offer hilum's tools, agents, skills and sessions to other MCP clients.",
        EPILOG,
    )
    add = parser.add_argument
    add(
        "--http",
        nargs="?",
        type=_port,
        const=0,
        default=None,
        metavar="PORT",
        help=(
            "serve HTTP on this machine, at this port or any free one; without it: standard input"
            " and output"
        ),
    )
    add(
        "--token-file",
        default="",
        metavar="FILE",
        help=(
            f"file that holds the token, made if it is not there (or set {tokens.VARIABLE}; else"
            " one is made and printed)"
        ),
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name under which it is reached, as the Host header has it (through a tunnel)",
    )
    add(
        "--workspace",
        "-C",
        default=".",
        metavar="DIR",
        help="folder to work in (default: the current one)",
    )
    add(
        "--tools",
        action=Names,
        default=None,
        metavar="A,B",
        help=(
            "offer only these tools: names, patterns, or read, write, execute, network; may be"
            " repeated"
        ),
    )
    add(
        "--agents",
        action=Names,
        default=None,
        metavar="A,B",
        help="offer only these agents, by name or pattern; may be repeated",
    )
    add("--no-agents", action="store_true", help="offer no agents")
    add("--no-sessions", action="store_true", help="offer no sessions")
    add("--no-prompts", action="store_true", help="offer no skills as prompts")
    add(
        "--approve",
        default=None,
        choices=("ask_first", "auto", "readonly"),
        help=(
            "calls that change something: ask the client's user (refused if it cannot ask), let"
            " run, or refuse"
        ),
    )
    add("--mode", default=None, help="agent, ask, plan, debug")
    add("--model", default="", metavar="PROVIDER/NAME", help="model of the agents")
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set any setting; may be repeated",
    )
    add(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="load a plugin from a file, too; may be repeated",
    )
    add(
        "--no-plugin",
        action=Names,
        default=[],
        metavar="A,B",
        help="leave these plugins out; may be repeated",
    )
    return parser


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise UsageError(
            f"{text!r} is no port.",
            code=E_BAD_ARGS,
            hint="A port is a number up to 65535; 0 is any free one.",
        )
    return int(text)


def run(argv: Sequence[str]) -> int:
    """Run the command; gives its exit code.

    Raises:
        HilumError: The arguments are wrong, or it cannot start.
    """
    try:
        options = make_parser().parse_args(list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    folder = os.path.realpath(os.path.expanduser(options.workspace))
    if not os.path.isdir(folder):
        raise UsageError(
            f"There is no folder {options.workspace}.", hint="Name an existing folder."
        )
    options.workspace = folder
    serving = Serving(options)
    with redirect_stdout(sys.stderr):
        trio.run(serving.main)
    return 128 + serving.signal if serving.signal else 0


class Serving:
    """A server and its end.

    Args:
        options: See ``make_parser``.

    Attributes:
        signal: Number of the signal that ended it, 0 for none.
    """

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self.signal = 0
        self._stop = trio.Event()
        self._scope = trio.CancelScope()

    async def main(self) -> None:
        """Serve until the client is gone, or a signal comes.

        A second one leaves at once, and the warden ends the rest.
        """
        error: BaseException | None = None
        async with trio.open_nursery() as nursery:
            await nursery.start(self._listen)
            try:
                with self._scope:
                    await self._serve()
            except* HilumError as group:
                error = group
            nursery.cancel_scope.cancel()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is not None:
            raise error

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*SIGNALS) as received:
            task_status.started()
            async for number in received:
                if self.signal:
                    os._exit(128 + number)
                self.signal = int(number)
                self._stop.set()
                if self._options.http is None:
                    self._scope.cancel()

    async def _serve(self) -> None:
        speak = self._over_stdio() if self._options.http is None else self._over_http()
        await self._in_session(self._session(), speak)

    def _over_stdio(self) -> Speak:
        from hilum_mcp.serving import stdio

        wire = stdio.claim()  # before any plugin can print
        return lambda server: stdio.serve(server, wire)

    def _over_http(self) -> Speak:
        """Take port and token before anything is opened, so that a mistake costs nothing."""
        from hilum_mcp.serving import http

        options = self._options
        token, source = tokens.find(options.token_file, os.environ)
        listener = http.listen(options.http)
        port = listener.getsockname()[1]

        async def speak(server: Server[Any]) -> None:
            say(f"hilum serves MCP at http://{http.ADDRESS}:{port}{http.PATH}", to=sys.__stdout__)
            say(f"Token: from {source}" if source else f"Token: {token}", to=sys.__stdout__)
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
            await http.serve(
                server, listener, token, http.names(port, options.allow_host), self._stop
            )

        return speak

    def _session(self) -> AbstractAsyncContextManager[Session]:
        options = self._options
        return open_standard_session(
            options.workspace,
            kind="main",
            mode=options.mode,
            model=options.model,
            extra_plugins=[Path(path) for path in options.plugin],
            without=options.no_plugin,
            settings=dict(map(parse_pair, options.set)),
            needs_model=False,
        )

    async def _in_session(self, opened: AbstractAsyncContextManager[Session], speak: Speak) -> None:
        options = self._options
        # In a thread, for the SDK takes half a second to load and signals must be heard meanwhile.
        protocol = await trio.to_thread.run_sync(import_module, "hilum_mcp.serving.protocol")
        async with opened as session, trio.open_nursery() as nursery:
            settings = session.kernel.settings(McpServerSettings)
            session.set(approve=options.approve or settings.approve)
            for fault in session.journal.since(0):
                if isinstance(fault, PluginFault):
                    say(
                        f"hilum: the plugin {fault.plugin} failed in {fault.hook}: {fault.error}",
                        to=sys.stderr,
                    )
            tools = ToolFilter(allow=tuple(options.tools or settings.tools), deny=INNER)
            # From here on what is stopped is logged as stopped; only what clients asked for is
            # cancelled, not the session.
            self._scope = nursery.cancel_scope
            desk = Desk(session, tools, nursery)
            nursery.start_soon(desk.follow)
            agents = () if options.no_agents else options.agents or settings.agents
            made = protocol.Protocol(
                desk,
                agents,
                sessions=settings.sessions and not options.no_sessions,
                prompts=settings.prompts and not options.no_prompts,
            )
            nursery.start_soon(made.notices.watch)
            nursery.start_soon(self._end, desk, made.notices)
            try:
                await speak(made.server())
            finally:
                if not desk.served:
                    session.discard()  # nothing was ever done in it
            nursery.cancel_scope.cancel()

    async def _end(self, desk: Desk, notices: Notices) -> None:
        """End what is under way when the server is to end, so that clients over HTTP are told
        before the connection is gone.
        """
        await self._stop.wait()
        desk.stop()
        notices.close()
