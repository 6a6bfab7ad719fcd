"""List the options that a command passes, without the values that only look like options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hilum_guard import git_words, parse_options

from hilum_checks import git_options
from hilum_checks.forge_options import read_forge_command
from hilum_checks.model import Words

if TYPE_CHECKING:
    from hilum_checks.command_facts import CommandFacts

_OFF = ("=false", "=False", "=FALSE", "=f", "=F", "=0", "=no", "=off")


def list_passed(command: CommandFacts) -> Words | None:
    """Return the options that a command passes, each long one also with its value.

    Args:
        command: The command.

    Returns:
        The options, or ``None`` if the syntax of the command is unknown.
    """
    program = command.effects.program
    words = git_words(command.words) if program == "git" else command.words
    if words[:2] == ("git", "commit"):
        options = parse_options(words[2:], git_options.COMMIT).options
    elif request := read_forge_command(program, command.words):
        options = request.options
    else:
        return None
    passed: list[str] = []
    for name, value in options:
        passed.append(name)
        if value and name.startswith("--"):
            passed.append(f"{name}={value}")
    return tuple(passed)


def signs_off(command: CommandFacts) -> bool:
    """Return whether a commit is signed off by its text, or keeps the text of an earlier commit.

    Args:
        command: The command.
    """
    words = git_words(command.words) if command.effects.program == "git" else ()
    if words[:2] != ("git", "commit"):
        return False
    options = parse_options(words[2:], git_options.COMMIT).options
    given = {name for name, _ in options}
    texts = [value or "" for name, value in options if name in ("-m", "--message", "--trailer")]
    if any(name in ("-F", "--file") and value in (None, "", "-") for name, value in options):
        texts.append(command.command.stdin or "")
    if any(_SIGNATURE.search(text) for text in texts):
        return True
    # An amended commit keeps its lines.
    return given >= {"--amend", "--no-edit"} and given.isdisjoint(_TEXT_OPTIONS)


_SIGNATURE = re.compile(r"^Signed-off-by[:=][ \t]*\S", re.MULTILINE | re.IGNORECASE)
_TEXT_OPTIONS = frozenset(
    "-m --message -F --file -C --reuse-message -c --reedit-message -t --template --fixup --squash"
    " --reset-author --no-signoff".split()
)


def switches_off(options: Iterable[str], words: Words) -> bool:
    """Return whether words take back one of some options: `--no-signoff`, `--draft=false`."""
    for option in options:
        opposite = f"--no-{option[2:]}" if option.startswith("--") else ""
        if any(word == opposite or word in [option + value for value in _OFF] for word in words):
            return True
    return False
