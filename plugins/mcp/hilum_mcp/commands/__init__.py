"""Runs the actions of ``hilum mcp`` and ``/mcp``, which share their code."""

from __future__ import annotations

import shlex

from hilum import UsageError
from hilum.command import Parser
from hilum.errors import unknown_name_error

from hilum_mcp.commands import add, login, logs, manage, probe
from hilum_mcp.commands.context import Action, CommandContext, add_name

__all__ = ["ACTIONS", "CommandContext", "run", "run_line"]

ABOUT = """\
MCP servers give the agent more tools. Your own servers are in mcp.json, next to your settings.toml.
A project's servers are in its own files, in the format of any client (.mcp.json, .cursor/mcp.json,
.vscode/mcp.json …), and are off until you trust the project and approve them.

"""

ACTIONS = {
    "list": Action(
        manage.list_servers,
        "list all servers: state, command or URL, configuration file",
        manage.add_list_options,
    ),
    "enable": Action(manage.enable, "switch servers on", manage.add_names),
    "disable": Action(manage.disable, "switch servers off", manage.add_names),
    "approve": Action(
        manage.approve,
        "show what a project wants to start, and approve it",
        manage.add_approve_options,
    ),
    "add": Action(
        add.add,
        "add a server, or import servers from a file of another client",
        add.add_options,
        takes_command=True,
    ),
    "remove": Action(
        add.remove, "remove a server from your file, or from .hilum/mcp.json", add_name
    ),
    "test": Action(
        probe.test_servers, "start servers and show what they offer", probe.add_test_options
    ),
    "login": Action(login.log_in, "log in to a server in the browser", login.add_login_options),
    "logout": Action(login.log_out, "remove a login", add_name),
    "logs": Action(
        logs.show_logs,
        "show a server's output that is not part of the protocol",
        logs.add_logs_options,
    ),
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
        argv: The action's name and arguments. Without a name, the action ``list`` runs.
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
    action = ACTIONS[name]
    about = f"{action.about[:1].upper()}{action.about[1:]}."
    parser = Parser(f"{context.prog} {name}", about)
    action.add_options(parser)
    command: list[str] = []
    if action.takes_command and "--" in rest:
        # The server's command is removed first; otherwise, argparse would parse the command's
        # options as hilum's own.
        end = rest.index("--")
        command = rest[end + 1 :]
        rest = rest[:end]
    options = context.parse(parser, rest)
    if options is None:
        return 0
    options.command = command
    return await action.run(options, context)


def _describe_actions(context: CommandContext) -> list[str]:
    rows = [f"  {context.prog} {name:9} {action.about}" for name, action in ACTIONS.items()]
    if context.session is None:
        rows.append(
            f"  {context.prog} serve     offer hilum's tools, agents and sessions to other clients"
        )
    return rows
