"""The action ``logs``."""

from __future__ import annotations

from argparse import Namespace

from hilum.command import Parser
from trio.to_thread import run_sync as in_thread

from hilum_mcp.commands.context import CommandContext, add_name
from hilum_mcp.server_log import log_file, read_log

DEFAULT_LINES = 40


def add_logs_options(parser: Parser) -> None:
    """Add the options of ``logs``."""
    add_name(parser)
    parser.add_argument(
        "--lines",
        "-n",
        type=int,
        default=DEFAULT_LINES,
        metavar="N",
        help=f"the last N lines ({DEFAULT_LINES})",
    )
    parser.add_argument("--path", action="store_true", help="print only the path of the log")


async def show_logs(options: Namespace, context: CommandContext) -> int:
    """Run ``logs``."""
    entry = await context.find_entry(options.name)
    name = entry.server.prefix
    if options.path:
        context.say(str(log_file(name)))
        return 0
    lines = await in_thread(read_log, name, max(options.lines, 1))
    if not lines:
        context.say(f"{options.name} has written nothing yet ({log_file(name)}).")
    for line in lines:
        context.say(line)
    return 0
