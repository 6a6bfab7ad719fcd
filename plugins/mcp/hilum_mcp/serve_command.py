"""Implements ``hilum mcp serve``: opens a kernel and a session, serves clients, and cleans up."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, Session, ToolFilter, open_standard_session, read_session_options
from hilum.command import Names, Parser, add_session_options, say
from hilum.errors import describe_fault
from hilum.events import PluginFault
from hilum.hooks import find_first_error
from hilum.listening import allowed_hosts, listen, parse_port, receive_stop_signals
from trio.to_thread import run_sync as in_thread

from hilum_mcp.command import find_workspace
from hilum_mcp.serving import access_token
from hilum_mcp.serving.request_runner import RequestRunner
from hilum_mcp.serving.settings import McpServerSettings
from hilum_mcp.serving.standard_streams import claim_stdio

if TYPE_CHECKING:
    from mcp.server import Server

    from hilum_mcp.serving.notifications import Notifications

    Serve = Callable[[Server[Any]], Awaitable[None]]

EPILOG = """\
A client can start it and use standard input and output:

  {"mcpServers": {"hilum": {"command": "hilum", "args": ["mcp", "serve", "-C", "/path/to/project"]}}}

Or you start it, and clients connect over HTTP with the token that it prints:

  hilum mcp serve --http 8765
"""
# HTTP is served on this machine only, not on the network.
ADDRESS = "127.0.0.1"
# Tools that are useful only in hilum's own agent loop.
LOOP_TOOLS = ("todo_write", "ask_question", "task", "handover", "get_agent_result")


def make_parser() -> Parser:
    """Create the parser of the options."""
    parser = Parser(
        "hilum mcp serve",
        "Offer hilum's tools, agents, skills and sessions to other MCP clients.",
        EPILOG,
    )
    add = parser.add_argument
    add(
        "--http",
        nargs="?",
        type=parse_port,
        const=0,
        metavar="PORT",
        help=(
            "serve HTTP on this machine, on this port or, without a port, on any free one; without"
            " this option, standard input and output are used"
        ),
    )
    add(
        "--token-file",
        default="",
        metavar="FILE",
        help=(
            f"file with the token, created if it does not exist (or set {access_token.VARIABLE};"
            " otherwise a token is created and printed)"
        ),
    )
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another allowed value of the Host header, for a tunnel",
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
        metavar="A,B",
        help=(
            "offer only these tools: names, patterns, or read, write, execute, network; may be"
            " repeated"
        ),
    )
    add(
        "--agents",
        action=Names,
        metavar="A,B",
        help="offer only these agents, by name or pattern; may be repeated",
    )
    add("--no-agents", action="store_true", help="offer no agents")
    add("--no-sessions", action="store_true", help="offer no sessions")
    add("--no-prompts", action="store_true", help="offer no skills as prompts")
    add(
        "--approve",
        choices=("ask_first", "auto", "readonly"),
        help=(
            "calls that change something: ask the client's user (refused if the client cannot"
            " ask), run, or refuse"
        ),
    )
    add("--mode", help="agent, ask, plan, debug")
    add("--model", default="", metavar="PROVIDER/NAME", help="model of the agents")
    add_session_options(parser)
    return parser


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code.

    Raises:
        HilumError: The arguments are wrong, or the server cannot start.
    """
    try:
        options = make_parser().parse_args(list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    options.workspace = find_workspace(options.workspace)
    program = ServeProgram(options)
    # Standard output may carry the protocol, which would break if a plugin printed to it.
    with redirect_stdout(sys.stderr):
        trio.run(program.main)
    # The exit code that shells use for a process that a signal ended.
    return 128 + program.signal if program.signal else 0


class ServeProgram:
    """One invocation of ``hilum mcp serve``.

    Args:
        options: The options of ``make_parser``.

    Attributes:
        signal: The signal that ended the server; 0 for none.
    """

    def __init__(self, options: Namespace) -> None:
        self.signal = 0
        self._options = options
        self._stop = trio.Event()
        self._scope = trio.CancelScope()

    async def main(self) -> None:
        """Serve until the client disconnects or a signal arrives.

        A second signal ends the process immediately, and the warden ends its child processes.
        """
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            # Signals are handled before anything is opened that a signal would have to close.
            await nursery.start(receive_stop_signals, self._note_signal)
            try:
                with self._scope:
                    await self._serve()
            except* HilumError as group:
                failure = find_first_error(group)
            nursery.cancel_scope.cancel()
        # The error is raised outside the `except*` block, which would wrap the error in a group
        # again.
        if failure is not None:
            raise failure

    def _note_signal(self, number: int) -> None:
        self.signal = number
        self._stop.set()
        # An HTTP server stops after `_stop` is set. A server on standard input must be cancelled
        # instead.
        if self._options.http is None:
            self._scope.cancel()

    async def _serve(self) -> None:
        # The port, the token and the file descriptors are claimed before anything is opened.
        serve = self._prepare_stdio() if self._options.http is None else self._prepare_http()
        # The import runs in a thread, because it takes half a second, during which signals must
        # still be handled.
        protocol = await in_thread(import_module, "hilum_mcp.serving.protocol")
        await self._serve_session(protocol, serve)

    def _prepare_stdio(self) -> Serve:
        wire = claim_stdio()

        async def serve(server: Server[Any]) -> None:
            await import_module("hilum_mcp.serving.stdio_wire").serve(server, wire)

        return serve

    def _prepare_http(self) -> Serve:
        options = self._options
        token, source = access_token.find_token(options.token_file, os.environ)
        listener = listen(ADDRESS, options.http, option="--http")
        port = listener.getsockname()[1]
        hosts = allowed_hosts(ADDRESS, port, options.allow_host)

        async def serve(server: Server[Any]) -> None:
            http_server = import_module("hilum_mcp.serving.http_server")
            address = f"http://{ADDRESS}:{port}{http_server.PATH}"
            say(f"hilum serves MCP at {address}", to=sys.__stdout__)
            say(f"Token: from {source}" if source else f"Token: {token}", to=sys.__stdout__)
            # The output is flushed, because a program that started hilum may wait for these lines.
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
            await http_server.serve(server, listener, token, hosts, self._stop)

        return serve

    def _open_session(self) -> AbstractAsyncContextManager[Session]:
        options = self._options
        return open_standard_session(
            options.workspace,
            kind="main",
            mode=options.mode,
            model=options.model,
            **read_session_options(options),
            # Many clients use only the tools, for which no model is needed.
            needs_model=False,
        )

    async def _serve_session(self, protocol: Any, serve: Serve) -> None:
        options = self._options
        async with self._open_session() as session, trio.open_nursery() as nursery:
            settings = session.kernel.settings(McpServerSettings)
            session.set(approve=options.approve or settings.approve)
            _report_faults(session)
            tools = ToolFilter(allow=tuple(options.tools or settings.tools), deny=LOOP_TOOLS)
            # From here on, a signal cancels the clients' requests but not the session, so that the
            # log records the requests as stopped.
            self._scope = nursery.cancel_scope
            runner = RequestRunner(session, tools, nursery)
            nursery.start_soon(runner.follow_events)
            handler = protocol.Protocol(
                runner,
                () if options.no_agents else options.agents or settings.agents,
                sessions=settings.sessions and not options.no_sessions,
                prompts=settings.prompts and not options.no_prompts,
            )
            nursery.start_soon(handler.notifications.watch)
            nursery.start_soon(self._stop_requests, runner, handler.notifications)
            try:
                await serve(handler.make_server())
            finally:
                if not runner.count:
                    session.discard()  # the session was never used
            nursery.cancel_scope.cancel()

    async def _stop_requests(self, runner: RequestRunner, notifications: Notifications) -> None:
        """When the server ends, stop all requests before the connections to clients close."""
        await self._stop.wait()
        runner.stop()
        notifications.close()


def _report_faults(session: Session) -> None:
    for event in session.journal.since(0):
        if isinstance(event, PluginFault):
            sentence = describe_fault(event.plugin, event.hook, event.error)
            say(f"hilum: {sentence}", to=sys.stderr)
