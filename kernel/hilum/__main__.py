"""The thin ``hilum`` script: it lists commands without importing them, and runs one.

Only what works with every plugin broken stands here: the help, the version, and ``hilum plugins``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from hilum.discovery import EntryPoint, entry_points
from hilum.errors import HilumError, unknown

USAGE = "usage: hilum [-h] [--version] COMMAND ...\n\nA coding agent whose every ability is a plugin.\n\ncommands:\n"
# What is shown of a command before it is imported; commands of other plugins are shown by their distribution.
SUMMARIES = {
    "run": 'work on a task and exit: hilum run "fix the failing test"',
    "demo": "watch a recorded run find, fix and verify a real bug, offline",
    "sessions": "list, show, resume, fork, rename, delete and export sessions",
    "diff": "show what a session changed in files, by call, turn or run",
    "undo": "take back what a call, a turn or a run changed, commands included",
    "memory": "list, show, add, edit and forget what is remembered across sessions",
    "rules": "show the rules that hold here, and which of them are enforced",
    "skills": "add, list, switch, update, remove and check skills",
    "mcp": "add, list, approve, test and log in at MCP servers",
    "agents": "list, run, watch, make and check agents that are defined in files",
    "config": "show every setting, its value and where it came from",
    "permissions": "show, change and test the rules for tool calls",
    "trust": "trust a folder, so that what it brings along may execute",
    "doctor": "show what is enforced and found on this machine, and what to do",
    "plugins": "list plugins with version, state, hooks and tools; allow or block them",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``hilum`` and give its exit code (2 for wrong usage)."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        # A closed one would be the next file that is opened, and messages would be written into that.
        while os.open(os.devnull, os.O_RDWR) < 3:
            pass
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("--version", "-V", "version"):
        from hilum import __version__

        print(f"hilum {__version__}")
        return 0
    commands = entry_points("hilum.commands") | {"plugins": EntryPoint("plugins", "hilum.inventory:main", "hilum", "")}
    if name in ("", "-h", "--help", "help"):
        known = [n for n in {**SUMMARIES, **commands} if n in commands]
        lines = [f"  {n:13}{SUMMARIES.get(n) or f'from {commands[n].distribution}'}" for n in known]
        print(USAGE + "\n".join(lines) + "\n\nhilum COMMAND --help tells more.")
        return 0 if name else 2
    try:
        if name not in commands:
            raise unknown("command", name, commands)
        return int(_load(commands[name])(rest) or 0)
    except HilumError as error:
        print(f"hilum: {error.code}: {error.message}", *([error.hint] if error.hint else []), sep="\n", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read our output went away (`hilum … | head`); Python must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        hint = f"Reinstall {point.distribution}, or take it out; hilum plugins shows what else is wrong."
        text = f"The command {point.name} of {point.distribution} does not load: {error!r}."
        raise HilumError(text, code="E_PLUGIN", hint=hint) from None


if __name__ == "__main__":
    sys.exit(main())
