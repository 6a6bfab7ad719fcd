"""The action ``logs``."""

from __future__ import annotations

import trio
from hilum.command import Parser

from hilum_mcp.commands.context import CommandContext
from hilum_mcp.server_log import log_file, read_log

DEFAULT_LINES = 40


async def show_logs(parser: Parser, argv: list[str], context: CommandContext) -> int:
    """Run ``logs``."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--lines",
        "-n",
        type=int,
        default=DEFAULT_LINES,
        metavar="N",
        help=f"the last N lines ({DEFAULT_LINES})",
    )
    parser.add_argument("--path", action="store_true", help="print only the path of the log")
    options = context.parse(parser, argv)
    entry = await context.find_entry(options.name)
    name = entry.server.prefix
    if options.path:
        context.say(str(log_file(name)))
        return 0
    lines = await trio.to_thread.run_sync(read_log, name, max(options.lines, 1))
    if not lines:
        context.say(f"{options.name} has written nothing yet ({log_file(name)}).")
    for line in lines:
        context.say(line)
    return 0
