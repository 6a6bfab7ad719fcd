"""The actions of ``hilum mcp`` and ``/mcp``, which run the same code."""

from __future__ import annotations

import shlex

from hilum import UsageError
from hilum.errors import unknown_name_error

from hilum_mcp.commands.add import add, remove
from hilum_mcp.commands.context import Action, CommandContext, HelpShown
from hilum_mcp.commands.login import log_in, log_out
from hilum_mcp.commands.logs import show_logs
from hilum_mcp.commands.manage import approve, disable, enable, list_servers
from hilum_mcp.commands.probe import test_servers

__all__ = ["ACTIONS", "CommandContext", "run", "run_line"]

ABOUT = """\
MCP servers give the agent more tools. Your own are in mcp.json beside your settings. A project's
are in its files, in the format of any client (.mcp.json, .cursor/mcp.json, .vscode/mcp.json …),
and are off until you trust the project and approve them.

"""

# The actions by name, each with a one-line description.
ACTIONS: dict[str, tuple[Action, str]] = {
    "list": (list_servers, "list all servers: state, command or address, configuration file"),
    "enable": (enable, "switch servers on"),
    "disable": (disable, "switch servers off"),
    "approve": (approve, "show what a project wants to start, and approve it"),
    "add": (add, "add a server, or import servers from a file of another client"),
    "remove": (remove, "remove a server from your file, or from .hilum/mcp.json"),
    "test": (test_servers, "start servers and show what they offer"),
    "login": (log_in, "log in to a server in the browser"),
    "logout": (log_out, "remove a log-in"),
    "logs": (show_logs, "show the output of a server that is not part of the protocol"),
}


async def run_line(line: str, context: CommandContext) -> int:
    """Run an action from the text that was typed after ``/mcp``.

    Raises:
        UsageError: The action does not exist or failed.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(
            f"The command cannot be read: {error}.", hint="Close the quotes."
        ) from None
    return await run(words, context)


async def run(argv: list[str], context: CommandContext) -> int:
    """Run an action.

    Args:
        argv: The action's name and arguments. Without a name, the servers are listed.
        context: The context of the action.

    Returns:
        The exit code.

    Raises:
        HilumError: The action does not exist or failed.
    """
    if argv[:1] in (["-h"], ["--help"]):
        context.say(ABOUT + "\n".join(_describe_actions(context)))
        return 0
    name = "list"
    rest = argv
    if argv and not argv[0].startswith("-"):
        name, *rest = argv
    if name not in ACTIONS:
        raise unknown_name_error(
            "action",
            name,
            ACTIONS,
            hint=f"{context.prog} --help lists all actions.",
        )
    action, about = ACTIONS[name]
    try:
        return await action(context.make_parser(name, about), rest, context)
    except HelpShown:
        return 0


def _describe_actions(context: CommandContext) -> list[str]:
    rows = [f"  {context.prog} {name:9} {about}" for name, (_, about) in ACTIONS.items()]
    if context.session is None:
        rows.append(
            f"  {context.prog} serve     offer hilum's tools, agents and sessions to other clients"
        )
    return rows
