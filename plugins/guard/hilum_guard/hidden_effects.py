"""Find what a call does although its arguments do not say so.

After the user's answer, the kernel compares these effects with those that were found before the
question, so that an answer never covers what a script contained only later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import attrs

from hilum_guard.call_reader import CheckedCall
from hilum_guard.commands.project_scripts import describe_version
from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand
from hilum_guard.dangers import command_dangers
from hilum_guard.dangers.marks import Mark, Rank
from hilum_guard.effects.interpreted_code import find_script

# Marks up to this rank are dangerous for the comparison of an edited call.
_NOTABLE = Rank.SECRET


def find_hidden_effects(
    call: CheckedCall, *, is_asked: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """Return a call's effects that its arguments do not show, and the dangerous ones of these.

    Reads the disk.

    Args:
        call: The call.
        is_asked: Whether the user is asked about the call, so that the dangers matter.
    """
    command_verdict = call.facts.command
    if command_verdict is None:
        # Links decide which file a path means.
        return frozenset(f"uses {path}" for path, _ in call.paths), frozenset()
    effects = set(_describe_implied(command_verdict))
    if not is_asked:
        return frozenset(effects), frozenset()
    root = str(call.root)
    effects.update(_describe_marks(command_dangers.find_marks(command_verdict, [root])))
    implied = attrs.evolve(command_verdict, kind="ask", commands=(), complete=True)
    if not implied.implied:
        return frozenset(effects), frozenset()
    marks = command_dangers.find_marks(implied, [root])
    dangers = set(_describe_marks(mark for mark in marks if mark.rank <= _NOTABLE))
    return frozenset(effects | dangers), frozenset(dangers)


def _describe_implied(command_verdict: CommandVerdict) -> Iterator[str]:
    """Yield a text for each command that the text runs without naming it."""
    for command in command_verdict.implied:
        yield f"runs {attrs.astuple(command, recurse=False)!r}"
    for unresolved in command_verdict.unresolved:
        yield f"may run {unresolved.words!r}"
    for unread in command_verdict.unread:
        yield f"runs the script {unread}"
    for command in command_verdict.all_commands:
        yield from _describe_foreign_scripts(command)


def _describe_foreign_scripts(command: SimpleCommand) -> Iterator[str]:
    """Yield a text for the script in another language that a command runs, if it runs one."""
    script = find_script(command) if command.words else None
    # `project_scripts` reads shell scripts and describes other programs in the workspace.
    if script is None or script.shell or script.position == 0:
        return
    for cwd in command.cwds or (command.cwd,):
        if cwd is not None:
            version = describe_version(os.path.join(cwd, os.path.expanduser(script.path)))
            yield f"runs the file {version}"


def _describe_marks(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in marks:
        yield f"{mark.rank.name} {mark.text} {mark.name}"
