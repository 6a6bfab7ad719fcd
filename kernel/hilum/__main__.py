"""The thin ``hilum`` script: it lists commands without importing them, and runs one.

Only what works with every plugin broken stands here: the help, the version, and ``hilum plugins``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum.discovery import EntryPoint

USAGE = """usage: hilum [-h] [--version] COMMAND ...

A coding agent whose every ability is a plugin.

commands:
"""
# What is shown of a command before it is imported; commands of other plugins are shown by their distribution.
SUMMARIES = {
    "run": 'work on a task and exit: hilum run "fix the failing test"',
    "demo": "watch a recorded run find, fix and verify a real bug, offline",
    "sessions": "list, show, resume, fork, rename, delete and export sessions",
    "config": "show every setting, its value and where it came from",
    "plugins": "list plugins with version, state, hooks and tools; allow or block them",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``hilum`` and give its exit code (2 for wrong usage)."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        # A closed one would be the next file that is opened, and messages would be written into that.
        while os.open(os.devnull, os.O_RDWR) < 3:
            pass
    args = list(sys.argv[1:] if arguments is None else arguments)
    if args and args[0] in ("--version", "-V", "version"):
        from hilum import __version__

        print(f"hilum {__version__}")
        return 0
    from hilum.discovery import entry_points

    commands = {point.name: point for point in entry_points() if point.group == "hilum.commands"}
    if not args or args[0] in ("-h", "--help", "help"):
        print(_help(commands))
        return 0 if args else 2
    name, rest = args[0], args[1:]
    if name == "plugins":
        from hilum.inventory import main as inventory

        return _run(inventory, rest)
    if name not in commands:
        from hilum.errors import unknown

        print(f"hilum: {unknown('command', name, [*commands, 'plugins'])}", file=sys.stderr)
        return 2
    try:
        command = commands[name].load()
    except KeyboardInterrupt:
        return 130
    except (Exception, SystemExit) as error:
        point = commands[name]
        print(f"hilum: the command {name} of {point.distribution} does not load: {error!r}", file=sys.stderr)
        print(
            f"Reinstall {point.distribution}, or take it out; hilum plugins shows what else is wrong.", file=sys.stderr
        )
        return 1
    return _run(command, rest)


def _run(command: object, rest: list[str]) -> int:
    from hilum.errors import HilumError

    assert callable(command)
    try:
        return int(command(rest) or 0)
    except HilumError as error:
        print(f"hilum: {error.code}: {error.message}", *([error.hint] if error.hint else []), sep="\n", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read our output went away (`hilum … | head`); Python must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _help(commands: Mapping[str, EntryPoint]) -> str:
    known = list(SUMMARIES)
    names = sorted(
        {*commands, "plugins"},
        key=lambda name: (name not in SUMMARIES, known.index(name) if name in known else 0, name),
    )
    lines = [f"  {name:12}{SUMMARIES.get(name) or f'from {commands[name].distribution}'}" for name in names]
    return USAGE + "\n".join(lines) + "\n\nhilum COMMAND --help tells more."


if __name__ == "__main__":
    sys.exit(main())
