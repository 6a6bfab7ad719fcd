"""The command ``hilum acp``, which an editor starts."""

from __future__ import annotations

import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout

import trio
from hilum import UsageError, load_command, read_session_options
from hilum.command import Parser, add_session_options, escape_terminal, say
from hilum.errors import E_NOT_INSTALLED
from hilum.listening import receive_stop_signals

from hilum_acp.agent import Agent
from hilum_acp.json_rpc import Connection
from hilum_acp.stdio import claim_stdio

GRACE_SECONDS = 1.0
"""How long requests may still run when the editor has closed standard input."""
CLOSE_SECONDS = 20.0
MAX_LOG_MESSAGE = 4_000
"""Maximum number of characters of a message on standard error."""
EPILOG = """\
An editor starts this command and speaks the Agent Client Protocol with it, over standard input and
output. In Zed's settings, for example:

  {"agent_servers": {"hilum": {"type": "custom", "command": "hilum", "args": ["acp"]}}}
"""


def make_parser() -> Parser:
    """Create the parser of the options."""
    parser = Parser("hilum acp", "Serve an editor over the Agent Client Protocol.", EPILOG)
    add = parser.add_argument
    add(
        "--setup",
        action="store_true",
        help="open hilum in the terminal to set up a model, as editors do for a login",
    )
    add("--model", default="", metavar="PROVIDER/NAME", help="model of new sessions")
    add("--mode", help="mode of new sessions: agent, ask, plan, debug")
    add(
        "--approve",
        choices=("ask_first", "auto", "readonly"),
        help="calls that change something: ask, run, or refuse",
    )
    add_session_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Serve an editor over the Agent Client Protocol.

    Returns:
        The exit code.

    Raises:
        HilumError: The arguments are wrong.
    """
    try:
        options = make_parser().parse_args(list(argv))
    except SystemExit as error:  # --help
        return int(error.code or 0)
    if options.setup:
        return _set_up()
    if sys.stdin.isatty():
        say(
            "hilum acp waits for the messages of an editor, which starts it (--help).",
            to=sys.stderr,
        )
    _escape_log()
    program = AcpProgram(options)
    # Standard output carries the protocol, which would break if a plugin printed to it.
    with redirect_stdout(sys.stderr):
        trio.run(program.main)
    # The exit code that shells use for a process that a signal ended.
    return 128 + program.signal if program.signal else 0


class _LogFormatter(logging.Formatter):
    """Formats messages for standard error, which editors show as text or in a terminal.

    Messages quote what the editor has sent, which may contain anything of any length.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a message without harmful characters, and without the middle of a long one."""
        text = super().format(record)
        if len(text) > MAX_LOG_MESSAGE:
            half = MAX_LOG_MESSAGE // 2
            text = f"{text[:half]}…{text[-half:]}"
        return escape_terminal(text)


def _escape_log() -> None:
    """Write what plugins log to standard error, escaped."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_LogFormatter())
    logging.getLogger().addHandler(handler)


def _set_up() -> int:
    """Open the terminal, which guides a user without a model through the set-up."""
    chat = load_command("chat")
    if chat is None:
        raise UsageError(
            "The terminal of hilum is not installed.",
            code=E_NOT_INSTALLED,
            hint="pip install hilum-terminal; or keep a key: hilum models key PROVIDER",
        )
    return chat([])


class AcpProgram:
    """One invocation of ``hilum acp``.

    Args:
        options: The options of ``make_parser``.

    Attributes:
        signal: The signal that ended the program; 0 for none.
    """

    def __init__(self, options: Namespace) -> None:
        self.signal = 0
        self._options = options
        self._agent: Agent | None = None
        self._scope = trio.CancelScope()

    async def main(self) -> None:
        """Serve the editor until it closes standard input, or a signal arrives."""
        receive, send = claim_stdio()
        async with trio.open_nursery() as signals:
            await signals.start(receive_stop_signals, self._note_signal)
            connection = Connection(receive, send)
            async with trio.open_nursery() as sessions:
                agent = self._agent = Agent(connection, sessions, self._make_session_options())
                try:
                    with self._scope:
                        await connection.run(grace=GRACE_SECONDS)
                finally:
                    # The log must record how the runs ended.
                    with trio.move_on_after(CLOSE_SECONDS, shield=True):
                        await agent.close()
                    sessions.cancel_scope.cancel()
            signals.cancel_scope.cancel()

    def _note_signal(self, number: int) -> None:
        # An editor that is closed sends a signal; it did not interrupt anything.
        self.signal = 0 if number == signal.SIGTERM else number
        # The runs are interrupted, as at the end of standard input, so that they can be continued.
        if self._agent is not None:
            self._agent.interrupt()
        self._scope.cancel()

    def _make_session_options(self) -> dict[str, object]:
        options = self._options
        return {
            "model": options.model,
            "mode": options.mode,
            "approve": options.approve,
            **read_session_options(options),
            "environ": os.environ,
        }
