"""Find the commands that run code that is not part of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from hilum_guard.commands.verdicts import SimpleCommand
from hilum_guard.dangers.marks import Mark, Rank, show_command
from hilum_guard.effects.file_access import UNKNOWN, CommandEffects
from hilum_guard.programs.program_names import SHELLS

_RUN_TIME = "runs code that is only known at run time ({})"
# Network programs whose output is not a download.
_NO_DOWNLOAD = frozenset(("git", "ssh"))


def mark_unknown_code(
    commands: Sequence[SimpleCommand], effects: Sequence[CommandEffects]
) -> Iterator[Mark]:
    """Yield marks for downloaded code, and for code that is known only at run time.

    Args:
        commands: The commands in a command line, in order.
        effects: Their effects.
    """
    downloader = ""
    downloaded: set[str] = set()
    is_marked = False
    is_unknown = False
    for command, effect in zip(commands, effects, strict=True):
        mark = _mark_runner(command, effect, downloader, downloaded)
        if mark is not None:
            is_marked = True
            yield mark
        elif command.words[:1] == (UNKNOWN,):
            is_unknown = True
        if effect.network and effect.program not in _NO_DOWNLOAD:
            downloader = downloader or effect.program
            for access in effect.files:
                if access.kind == "write":
                    downloaded.add(os.path.normpath(access.path))
    # The shell reader adds an unknown command after the command that runs it, and the latter
    # usually has a mark already.
    if is_unknown and not is_marked:
        yield Mark(Rank.UNKNOWN_CODE, "runs code that is only known at run time")


def _mark_runner(
    command: SimpleCommand, effects: CommandEffects, downloader: str, downloaded: set[str]
) -> Mark | None:
    script = effects.script
    if script is not None and os.path.normpath(script.path) in downloaded:
        return Mark(Rank.UNKNOWN_CODE, "runs a file that it downloads ({})", script.path)
    if _runs_unknown_code(command, effects):
        if downloader:
            names = f"{downloader}, {effects.program}"
            return Mark(Rank.UNKNOWN_CODE, "runs code from the network ({})", names)
        return Mark(Rank.UNKNOWN_CODE, _RUN_TIME, show_command(command))
    is_program_unknown = bool(command.words) and UNKNOWN in command.words[0]
    # A command that is a single unknown word stands for code that another command runs, unless it
    # is in the text.
    if is_program_unknown and show_command(command) != UNKNOWN:
        text = "runs a program that is only known at run time ({})"
        return Mark(Rank.UNKNOWN_CODE, text, show_command(command))
    return None


def _runs_unknown_code(command: SimpleCommand, effects: CommandEffects) -> bool:
    """Return whether an interpreter or `eval` runs code that exists only at run time."""
    if effects.code_origin == "input":
        return command.stdin is None or UNKNOWN in command.stdin
    if effects.script is not None and effects.script.path.startswith("/dev/fd/"):
        return True
    runs_words = effects.code_origin == "words" or effects.program == "eval"
    return runs_words and UNKNOWN in command.words[1:]


def runs_unchecked_code(command: SimpleCommand, effects: CommandEffects) -> bool:
    """Return whether a command contains code in a language that the guard does not parse."""
    if effects.program in SHELLS or not effects.code:
        return False
    if effects.code_origin == "words":
        return UNKNOWN not in command.words[1:]
    return effects.code_origin == "input" and command.stdin is not None
