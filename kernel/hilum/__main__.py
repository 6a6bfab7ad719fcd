"""The thin ``hilum`` script, which lists commands without importing them and runs one.

This module contains only what works even if every plugin is broken: the help, the version and
``hilum plugins``.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` puts the current folder first. Its modules must not take the place of installed
    # ones, because it is often a repository that nobody has checked.
    del sys.path[0]

if __name__ == "__main__":
    # Before anything else is imported, because a fork has everything already.
    from hilum.fork_client import run_in_server

    _forked_code = run_in_server(sys.argv[1:])
    if _forked_code is not None:
        sys.exit(_forked_code)

import gc
import os
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
CHAT = "chat"
"""The command that runs if the user names none."""
_PROGRAM_COMMANDS = (
    "run",
    "bench",
    "chat",
    "config",
    "demo",
    "doctor",
    "init",
    "models",
    "permissions",
    "sessions",
    "trust",
)
_LARGE = (CHAT, "run")
"""The commands that load hundreds of modules, from an archive."""
_KERNEL_ONLY = (
    "Only the kernel (hilum-core) is installed. The whole program comes with: pip install hilum"
)
USAGE = (
    "usage: hilum [-h] [--version] [COMMAND] ...\n\nA coding agent whose every ability is a"
    " plugin. Without a command, it starts a conversation.\n\ncommands:\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``hilum`` and return its exit code (2 for wrong usage)."""
    _replace_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run_command(*_split(given))
        # If Python flushed the output at exit instead, an error would show a traceback.
        _print("", end="")
        if "hilum.module_archive" in sys.modules:
            from hilum.module_archive import save_archive

            save_archive()
        return code
    except HilumError as error:
        from hilum.command import escape_terminal  # needed only for an error

        # The message may contain text from a plugin.
        text = f"hilum: {error.code}: {error.message}\n{error.hint}".rstrip("\n")
        print(escape_terminal(text), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells report a program that Ctrl-C ended.
        return 130
    except BrokenPipeError:
        # The process that reads our output has exited (`hilum … | head`). Python must not report an
        # error when it flushes the output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # 128 + SIGPIPE, as shells report it.
        return 141


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command's name and its arguments.

    Without a command, ``hilum`` starts a conversation. A first argument that is an option, or that
    contains a space as a prompt does, also starts a conversation.
    """
    first = arguments[0] if arguments else ""
    is_option = first.startswith("-") and first not in ("-h", "--help", "-V", "--version")
    if not arguments or is_option or " " in first.strip():
        return CHAT, arguments
    return first, arguments[1:]


def _replace_closed_streams() -> None:
    """Open the null device in place of closed standard streams.

    If a standard stream stayed closed, the next file that is opened would get its descriptor, and
    messages would be written to that file.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while os.open(os.devnull, os.O_RDWR) < 3:
        pass
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _print(text: str, end: str = "\n") -> None:
    """Print to standard output and flush it.

    Raises:
        HilumError: ``"E_FAILED"``: the text cannot be written.
        BrokenPipeError: The process that reads the output has exited.
    """
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        from hilum.command import output_error  # needed only for an error

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise output_error(error) from None


def _run_command(name: str, arguments: list[str]) -> int:
    """Run the named command, or print the version or the help; return the exit code."""
    if name in ("--version", "-V", "version"):
        from hilum import __version__

        _print(f"hilum {__version__}")
        return 0
    commands = all_entry_points("hilum.commands")
    # `hilum plugins` must work even if every plugin is broken, so no plugin can replace it.
    commands["plugins"] = [EntryPoint("plugins", "hilum.inventory:main", "hilum", "")]
    # Without hilum-terminal, for example if only the kernel is installed, the help is shown.
    is_missing = name == CHAT and not arguments and CHAT not in commands
    if name in ("-h", "--help", "help") or is_missing:
        lines = map(_line, sorted(commands.values(), key=_order))
        _print(USAGE + "\n".join(lines) + "\n\nhilum COMMAND --help shows more.")
        return 2 if is_missing else 0
    return _run(_find_command(name, commands), arguments)


def _find_command(name: str, commands: dict[str, list[EntryPoint]]) -> EntryPoint:
    """Return the command with a given name.

    Args:
        name: The name as the user typed it.
        commands: The installed commands by normalized name; several commands under one name clash.

    Raises:
        UsageError: The command does not exist.
        PluginError: Several distributions provide the command.
    """
    points = commands.get(normal(name))
    # A command runs only under its exact name.
    if points and points[0].name == name:
        if len(points) > 1:
            raise PluginError(clash("command", points))
        return points[0]
    from hilum.extras import advice_for_command  # needed only for an error

    advice = advice_for_command(name)
    if not advice and name in _PROGRAM_COMMANDS and "run" not in commands:
        advice = _KERNEL_ONLY
    if advice:
        raise UsageError(f"The command {name!r} is not installed.", hint=advice)
    raise unknown_name_error("command", name, (points[0].name for points in commands.values()))


def _run(point: EntryPoint, arguments: list[str]) -> int:
    """Run a command and return its exit code.

    Raises:
        HilumError: The command failed. If ``HILUM_TRACEBACK`` is set in the environment, an
            unexpected error is raised unchanged.
    """
    try:
        if point.name in _LARGE:
            # Loading modules creates no garbage, so garbage collection would only delay the first
            # request, or the response to the first key, by 15 ms.
            gc.set_threshold(1_000_000, 20, 20)
            from hilum.module_archive import use_archive  # other commands load few modules

            use_archive(point.name)
        command = _load(point)
        if _ENDED_BY_INTERRUPT:
            # trio takes over SIGINT only if Python's own handler is installed.
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        return int(command(arguments) or 0)
    except (HilumError, BrokenPipeError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if os.environ.get(TRACEBACK):
            raise
        if isinstance(error, OSError):
            # The error may come from standard output, whose buffer still contains text.
            _print("", end="")
        if isinstance(error, FileNotFoundError) and not _is_in_folder():
            text = "The current folder no longer exists."
            raise UsageError(text, hint="Change to another folder.") from None
        # The message of a nursery's exception group only states how many exceptions it has, so the
        # first one is shown.
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        hint = (
            f"`hilum plugins` shows what is wrong with plugins; {TRACEBACK}=1 in the environment"
            " shows where it happened."
        )
        from hilum.hooks import describe_error  # needed only for an error

        text = f"The command {point.name} of {point.distribution} failed: {describe_error(error)}."
        raise HilumError(text, code="E_PLUGIN", hint=hint) from None


def _is_in_folder() -> bool:
    """Return whether the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _order(points: list[EntryPoint]) -> tuple[bool, bool, str]:
    """Return a command's sort key for the help.

    `run` comes first, and the commands of other distributions come last.
    """
    point = points[0]
    return point.distribution.lower() not in STANDARD | {"hilum"}, point.name != "run", point.name


def _line(points: list[EntryPoint]) -> str:
    """Return the line that describes a command in the help."""
    point = points[0]
    if len(points) > 1:
        description = clash("command", points)
    else:
        description = summary(point) or f"from {point.distribution}"
    return f"  {point.name:13}{description}"


def _load(point: EntryPoint) -> Any:
    """Import a command's function.

    Raises:
        HilumError: The function cannot be imported.
    """
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
