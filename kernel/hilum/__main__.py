"""The thin ``hilum`` script: it lists commands without importing them, and runs one.

This module contains only what works even if every plugin is broken: the help, the version and
``hilum plugins``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from hilum import _ENDED_BY_INTERRUPT
from hilum.discovery import STANDARD, EntryPoint, all_entry_points, clash, normal, summary
from hilum.errors import HilumError, PluginError, UsageError, unknown_name_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # signal itself imports enum

TRACEBACK = "HILUM_TRACEBACK"
_PROGRAM_COMMANDS = ("run", "demo", "doctor", "sessions", "config", "permissions", "trust")
_KERNEL_ONLY = (
    "Only the kernel (hilum-core) is installed. The whole program comes with: pip install hilum"
)
USAGE = (
    "usage: hilum [-h] [--version] COMMAND ...\n\nA coding agent whose every ability is a"
    " plugin.\n\ncommands:\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``hilum`` and return its exit code (2 for wrong usage)."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        # The next file that is opened would get the number of a closed stream, and messages would
        # be written into it.
        while os.open(os.devnull, os.O_RDWR) < 3:
            pass
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("--version", "-V", "version"):
        from hilum import __version__

        print(f"hilum {__version__}")
        return 0
    commands = all_entry_points("hilum.commands")
    # This command must work even if every plugin is broken, so no plugin can replace it.
    commands["plugins"] = [EntryPoint("plugins", "hilum.inventory:main", "hilum", "")]
    if name in ("", "-h", "--help", "help"):
        lines = map(_line, sorted(commands.values(), key=_order))
        print(USAGE + "\n".join(lines) + "\n\nhilum COMMAND --help shows more.")
        return 0 if name else 2
    try:
        points = commands.get(normal(name))
        # Commands are indexed by their normal form, so that clashes are found, but a command is
        # called by its exact name.
        if not points or points[0].name != name:
            from hilum.extras import advice_for_command  # only where something went wrong

            advice = advice_for_command(name)
            if advice:
                raise UsageError(f"The command {name!r} is not installed.", hint=advice)
            if name in _PROGRAM_COMMANDS and "run" not in commands:
                raise UsageError(f"The command {name!r} is not installed.", hint=_KERNEL_ONLY)
            raise unknown_name_error(
                "command", name, (points[0].name for points in commands.values())
            )
        if len(points) > 1:
            raise PluginError(clash("command", points))
        return _run(points[0], rest)
    except HilumError as error:
        from hilum.command import escape_terminal  # only where something went wrong

        # The message may quote a plugin.
        text = f"hilum: {error.code}: {error.message}\n{error.hint}".rstrip("\n")
        print(escape_terminal(text), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells report a program that Ctrl-C ended.
        return 130
    except BrokenPipeError:
        # The reader of our output is gone (`hilum … | head`); Python must not report an error when
        # it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # 128 + SIGPIPE, as shells report it.
        return 141


def _run(point: EntryPoint, arguments: list[str]) -> int:
    """Run a command. An unexpected error becomes a message, or a traceback on request."""
    try:
        command = _load(point)
        if _ENDED_BY_INTERRUPT:
            # trio takes over SIGINT only if Python's own handler is installed.
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        return int(command(arguments) or 0)
    except (HilumError, BrokenPipeError):
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if os.environ.get(TRACEBACK):
            raise
        # The text of a nursery's group only counts its members, so the first member is shown.
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        hint = (
            f"`hilum plugins` shows what is wrong with plugins; {TRACEBACK}=1 in the environment"
            " shows where it happened."
        )
        from hilum.hooks import describe_error  # only where something went wrong

        text = f"The command {point.name} of {point.distribution} failed: {describe_error(error)}."
        raise HilumError(text, code="E_PLUGIN", hint=hint) from None


def _order(points: list[EntryPoint]) -> tuple[bool, bool, str]:
    """Order the commands in the help: `run` first, those of other distributions last."""
    point = points[0]
    return point.distribution.lower() not in STANDARD | {"hilum"}, point.name != "run", point.name


def _line(points: list[EntryPoint]) -> str:
    if len(points) > 1:
        return f"  {points[0].name:13}{clash('command', points)}"
    return f"  {points[0].name:13}{summary(points[0]) or f'from {points[0].distribution}'}"


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        hint = (
            f"Reinstall {point.distribution}, or uninstall it; hilum plugins shows what else is"
            " wrong."
        )
        text = f"The command {point.name} of {point.distribution} does not load: {error!r}."
        raise HilumError(text, code="E_PLUGIN", hint=hint) from None


if __name__ == "__main__":
    sys.exit(main())
