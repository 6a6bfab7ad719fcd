"""Decide what kind of work a command does: whether it shows, tests, checks, formats or only pretends to.

Only the name of an installed program, or a whole target of a program that runs tasks, shows what is
done. The name of a script proves nothing: an agent may write `update_tests.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from hilum_checks import command_tables as tables
from hilum_checks.model import Commands, Words

if TYPE_CHECKING:
    from hilum_guard import FileAccess

    from hilum_checks.call_facts import CallFacts
    from hilum_checks.command_facts import CommandFacts

# Folders of installed programs.
_INSTALLED = re.compile(
    r"/(?:usr|bin|opt|nix)/.*|(?:.*/)?(?:\.?v?env[\w.-]*|\.tox/[\w.-]+|\.nox/[\w.-]+)/bin/[^/]+"
    r"|(?:.*/)?(?:node_modules/\.bin|vendor/bin)/[^/]+"
)


def only_shows(words: Words) -> bool:
    """Return whether a command certainly only shows something: ``pip list``, ``node -v``.

    Args:
        words: The program and its arguments.
    """
    if words[1:3] == ("-m", "pip"):
        words = words[2:]
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    arguments = words[1:]
    if len(arguments) == 1 and arguments[0] in tables.VERSION_OPTIONS.get(program, "").split():
        return True
    return tables.SHOWING.contains(program, arguments)


def list_shown_files(facts: CallFacts) -> list[FileAccess]:
    """Return the accesses of a call, without those of commands that show nothing of a file.

    Args:
        facts: The call.
    """
    silent: set[FileAccess] = set()
    shown: set[FileAccess] = set()
    for command in facts.commands:
        found = silent if _shows_no_contents(command) else shown
        found.update(command.effects.files)
    return [access for access in facts.accesses if access in shown or access not in silent]


def _shows_no_contents(command: CommandFacts) -> bool:
    """Return whether a command may read a file, but shows nothing of what is in it."""
    program = command.effects.program
    if program in tables.SHOWS_NO_CONTENTS:
        return True
    is_quiet = not tables.QUIET_OPTIONS.isdisjoint(command.words[1:])
    return is_quiet and program in tables.SEARCHES


def checks_only(command: CommandFacts) -> bool:
    """Return whether a command certainly only tests or checks: `pytest`, `make test`, `black --check`.

    Args:
        command: The command.
    """
    if not _runs_installed(command):
        return False
    if any(map(tables.CHANGING_OPTIONS.fullmatch, command.words[1:])):
        return False
    program = command.effects.program
    # Both update snapshots with `-u`.
    if program in ("jest", "vitest") and "-u" in command.words:
        return False
    if not tables.CHECKING_OPTIONS.isdisjoint(command.words[1:]):
        return True
    if only_shows(command.words) or _checks_project(command.words):
        return True
    targets = list(_list_targets(command))
    if targets:
        return all(map(_is_check, targets))
    # `uv run test.py` names a script.
    return "." not in program and _is_check(program)


def _checks_project(words: Words) -> bool:
    """Return whether a command is one of the programs that only check, or runs one."""
    program = words[0].rpartition("/")[2]
    arguments = words[1:]
    if _only_checks(program, arguments):
        return True
    if program not in tables.PACKAGE_MANAGERS:
        return False
    if arguments and arguments[0] in tables.EXECUTING_COMMANDS:
        arguments = arguments[1:]
    if not arguments or arguments[0] in tables.PACKAGE_MANAGERS:
        return False
    return _only_checks(arguments[0], arguments[1:])


def _only_checks(program: str, arguments: Words) -> bool:
    """Return whether a program only checks with the given arguments."""
    listing = tables.LISTING_OPTIONS.get(program, frozenset())
    if not listing.isdisjoint(arguments):
        return not any(word.startswith(("-w", "-write")) for word in arguments)
    return tables.CHECKING.contains(program, arguments)


def is_formatter(command: CommandFacts) -> bool:
    """Return whether a command formats or repairs code in place: ``gofmt -w``, ``eslint --fix``.

    Args:
        command: The command.
    """
    if not _runs_installed(command):
        return False
    if any(access.generated and access.existing for access in command.effects.files):
        return True
    names = [command.effects.program, *_list_targets(command)]
    if any(map(tables.FORMATTERS.fullmatch, names)):
        return True
    return not tables.FIXING_OPTIONS.isdisjoint(command.words[1:])


def _runs_installed(command: CommandFacts) -> bool:
    """Return whether a command runs an installed program, and neither a script nor code."""
    if not command.words or command.effects.code:
        return False
    script = command.effects.script
    return script is None or (
        script.position == 0 and _INSTALLED.fullmatch(script.path) is not None
    )


def _is_check(name: str) -> bool:
    """Return whether the name of a program or target consists of words about checks."""
    parts = set(filter(None, re.split(r"[:_./-]|(?<=[a-z])(?=[A-Z])", name.removesuffix("..."))))
    parts = {part.lower() for part in parts if not part.isdigit()}
    checking = parts & tables.CHECK_WORDS
    return bool(checking) and parts - checking <= tables.NEUTRAL_WORDS


def _list_targets(command: CommandFacts) -> Iterator[str]:
    """Yield the targets that a program which runs tasks is given, without options."""
    program = tables.SAME_PROGRAM.get(command.effects.program, command.effects.program)
    if program not in tables.RUNS_ALL_TARGETS | tables.RUNS_ONE_TASK:
        return
    is_value = False
    for word in command.words[1:]:
        if is_value or word.startswith("-") or "=" in word:
            is_value = not is_value and word in tables.VALUED_OPTIONS
            continue
        # `make test:run` names a target, and so does `just run`.
        may_run = program == "turbo" or program not in tables.RUNS_ALL_TARGETS
        if may_run and word in tables.RUNNING_COMMANDS:
            continue
        yield word
        if program not in tables.RUNS_ALL_TARGETS:
            return


@cache
def _find_idle(program: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return a pattern for the idle options of a program, and the names of the long ones."""
    name = tables.SAME_PROGRAM.get(program, program)
    pattern = tables.OWN_IDLE_OPTIONS.get(name, "")
    if not pattern:
        more = tables.MORE_IDLE_OPTIONS.get(name, "")
        pattern = f"{tables.IDLE_OPTIONS}|{more}" if more else tables.IDLE_OPTIONS
    return re.compile(pattern), frozenset(re.findall(r"--[a-z][\w-]{4,}", pattern))


def does_its_work(command: CommandFacts, needed: Commands) -> bool:
    """Return whether a command has no option with which its program only pretends to work.

    Args:
        command: The command.
        needed: The commands that are required; an option in them is the work.
    """
    named = {word for pattern in needed.patterns for word in pattern}
    arguments = [word for word in command.words[1:] if word not in named]
    idle, longs = _find_idle(command.effects.program)
    for word in arguments:
        # Many programs accept the beginning of a long option.
        is_cut = len(word) > 6 and any(each.startswith(word) for each in longs)
        if is_cut or idle.fullmatch(word):
            return False
    if command.effects.program not in ("make", "gmake"):
        return True
    return all(tables.MAKE_ARGUMENTS.fullmatch(word) for word in arguments)
