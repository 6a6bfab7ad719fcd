"""Recognise redirections that store what a program generates: ``uv export > requirements.lock``.

Rules about editing by hand do not cover them.
"""

from __future__ import annotations

import os

from hilum_guard import UNKNOWN, FileAccess

from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts

# Programs that print a list of packages, with the sub-commands that do.
_PRINT_PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "uv": (("export",), ("pip", "compile"), ("pip", "freeze")),
    "pip": (("freeze",),),
    "pip3": (("freeze",),),
    "poetry": (("export",),),
    "pdm": (("export",),),
}
# Programs that run scripts, and print nothing themselves.
_INTERPRETERS = frozenset("python python3 node bun deno tsx ts-node ruby php perl".split())


def is_generated(access: FileAccess, facts: CallFacts) -> bool:
    """Return whether a redirection stores what a program generates. Blocks.

    The program prints a list of packages (`uv export > requirements.lock`), or the output of a script that Git
    tracks and that was not changed (`python scripts/dump.py > openapi.json`).

    Args:
        access: The access.
        facts: The call.
    """
    commands = [each for each in facts.commands if access in each.effects.files]
    return bool(commands) and all(
        access.path in each.command.writes and _generates(each, facts) for each in commands
    )


def _generates(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether a command prints what it generates, and not text that the call contains."""
    has_input = command.command.stdin is not None or bool(command.command.reads)
    if has_input or any(UNKNOWN in word for word in command.words) or _is_piped(command, facts):
        return False
    inner = [each for each in facts.commands if each.command.runners[:1] == (command.words,)]
    if inner:
        return all(_generates(each, facts) for each in inner)
    words = command.words[1:]
    verbs = _PRINT_PACKAGES.get(command.effects.program, ())
    if any(words[: len(verb)] == verb for verb in verbs):
        return True
    script = command.effects.script
    if script is None or command.effects.program not in _INTERPRETERS or command.effects.code:
        return False
    path = os.path.join(command.cwd or "/", script.path)
    is_own = command.cwd is not None and os.path.isfile(path)
    return is_own and not facts.runs_new_script(command) and not facts.writes_file(script.path)


def _is_piped(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether a command may read what another one prints."""
    return any("|" in text.replace("||", "") for text in facts.command_texts)
