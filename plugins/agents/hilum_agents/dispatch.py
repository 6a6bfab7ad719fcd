"""The common dispatcher for ``hilum agents`` and ``/agents``."""

from __future__ import annotations

import shlex
from contextlib import redirect_stdout

from hilum import UsageError
from hilum.command import Parser
from hilum.errors import unknown_name_error

from hilum_agents import file_actions
from hilum_agents.command_context import CommandContext
from hilum_agents.runs import actions as run_actions

ABOUT = """\
Agents are defined in Markdown files that describe their purpose, tools and limits. The files are in
.hilum/agents in a project (once you trust it), in the agents folder next to your settings.toml, and
in the folders of Claude Code, Gemini CLI, opencode, Copilot, Cursor and Codex. Five agents are \
built in.
"""
ACTIONS = {**file_actions.ACTIONS, **run_actions.ACTIONS}


async def run_line(line: str, context: CommandContext) -> int:
    """Run an action typed by the user after ``/agents``.

    Raises:
        UsageError: The line cannot be parsed, or the action failed.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(
            f"The command cannot be parsed: {error}.", hint="Close the quotes."
        ) from None
    return await run(words, context)


async def run(argv: list[str], context: CommandContext) -> int:
    """Run an action.

    Args:
        argv: Name and arguments of the action; if empty, the action ``list`` runs.
        context: The context of the action.

    Returns:
        The exit code.

    Raises:
        UsageError: There is no such action, or the action failed.
    """
    if argv[:1] in (["-h"], ["--help"]):
        context.say(ABOUT)
        for name, action in ACTIONS.items():
            context.say(f"  {context.prog} {name:9} {action.about}")
        return 0
    if argv and not argv[0].startswith("-"):
        name, *rest = argv
    else:
        name, rest = "list", argv
    if name not in ACTIONS:
        raise unknown_name_error(
            "action",
            name,
            ACTIONS,
            hint=f"`{context.prog} --help` lists the actions.",
        )
    action = ACTIONS[name]
    parser = Parser(f"{context.prog} {name}", action.about)
    for argument in action.arguments:
        parser.add_argument(*argument.names, **argument.options)
    try:
        # argparse prints help to standard output, but in a session, the help belongs in the reply.
        with redirect_stdout(context.out):
            options = parser.parse_intermixed_args(rest)
    except SystemExit:  # --help
        return 0
    return await action.run(options, context)
