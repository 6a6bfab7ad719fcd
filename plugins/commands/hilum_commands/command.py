"""The command ``hilum commands``. The command needs neither a model nor an API key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hilum import UsageError
from hilum.command import Parser, say, say_json
from hilum.errors import unknown_name_error
from hilum.settings import load

from hilum_commands.catalog import CommandCatalog, CommandEntry
from hilum_commands.expansion import describe_shell_inserts
from hilum_commands.session_commands import list_fixed_names
from hilum_commands.settings import CommandsSettings

ABOUT = """\
Custom commands are prompts in files: /NAME ARGUMENTS sends the text of a file. They come from
.hilum/commands in a project, from the folder commands next to your settings.toml, and from the files of
Claude Code, Gemini CLI, opencode, Copilot, Cursor and Codex.

  hilum commands                        all commands, where they come from, what is wrong with them
  hilum commands show NAME              one command: its file, arguments, shell inserts and limits
"""


def main(argv: Sequence[str]) -> int:
    """List the custom commands (/NAME), and show one.

    Returns:
        The exit code: 1 if a file is wrong.
    """
    parser = Parser("hilum commands", ABOUT)
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=("list", "show"),
        metavar="ACTION",
        help="list, show",
    )
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="a command")
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    parser.add_argument("--json", action="store_true", help="as JSON")
    try:
        options = parser.parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    root = Path(options.workspace).resolve()
    settings = load([CommandsSettings], workspace=root, known=None).get(CommandsSettings)
    catalog = CommandCatalog(root, others=settings.folders)
    catalog.refresh(list_fixed_names())
    if options.action == "show":
        return _show(catalog, options.name.removeprefix("/"), as_json=options.json)
    return _list(catalog, as_json=options.json)


def _list(catalog: CommandCatalog, *, as_json: bool) -> int:
    problems = catalog.describe_problems()
    is_broken = any(entry.state == "broken" for entry in catalog.entries)
    if as_json:
        say_json(
            {"commands": [_describe(entry) for entry in catalog.entries], "problems": problems}
        )
        return int(is_broken)
    usable = catalog.usable()
    if not catalog.entries:
        say("There are no custom commands. /NAME of .hilum/commands/NAME.md would be one.")
    for entry in usable:
        usage = f"/{entry.name} {entry.file.hint}".rstrip()
        say(f"{usage}  ({entry.file.source.shown})")
        if entry.file.summary:
            say(f"    {entry.file.summary}")
    if problems:
        say("")
    for problem in problems:
        say(problem)
    return int(is_broken)


def _show(catalog: CommandCatalog, name: str, *, as_json: bool) -> int:
    if not name:
        raise UsageError("hilum commands show takes the name of a command.")
    entry = catalog.find(name)
    if entry is None:
        names = sorted(each.name for each in catalog.usable())
        raise unknown_name_error("command", name, names)
    if as_json:
        say_json(_describe(entry))
        return int(entry.state == "broken")
    facts = _describe(entry)
    for key, value in facts.items():
        if value not in ("", None, [], False):
            shown = ", ".join(value) if isinstance(value, list) else value
            say(f"{key:<12} {shown}")
    return int(entry.state == "broken")


def _describe(entry: CommandEntry) -> dict[str, object]:
    command = entry.file
    return {
        "name": entry.name,
        "state": entry.state,
        "reason": entry.reason,
        "file": str(command.path),
        "format": command.dialect,
        "scope": command.source.scope,
        "description": command.summary,
        "arguments": command.hint,
        "model": command.model,
        "agent": command.agent,
        "subtask": command.is_subtask,
        "tools": None if command.tools is None else list(command.tools),
        "shell": list(describe_shell_inserts(command)),
        "problems": command.describe_problems(),
    }
