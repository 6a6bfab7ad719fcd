"""List other spellings of a command, as a rule may name it: `rake db:drop` is `rails db:drop`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from hilum_checks.model import Words

# The commands of Composer with their aliases.
_COMPOSER = {"i": "install", "r": "require", "u": "update", "upgrade": "update", "rm": "remove"}
_COMPOSER |= {"uninstall": "remove"}
# What `sail` runs under its own name.
_IN_SAIL = frozenset("bun bunx composer npm npx php pnpm yarn".split())
# A task of Rails on all databases, or on one of several.
_ON_DATABASE = re.compile(r"(db:(?:drop|reset|purge|setup|schema:load|structure:load)):\w+")


def list_spellings(program: str, words: Words) -> Iterator[Words]:
    """Yield other spellings of a command with a sub-command, and the commands that it runs.

    Args:
        program: The name of the program.
        words: The program and its arguments.
    """
    arguments = words[1:]
    if program == "iex" and ("-S", "mix") in pairwise(arguments):
        at = arguments.index("mix")
        yield arguments[at:]
        yield from _list_mix_tasks(arguments[at:])
    elif program == "mix":
        yield from _list_mix_tasks(words)
    elif program in ("rails", "rake"):
        yield from _list_rails_tasks(words)
    elif program == "spring" and len(arguments) > 1:
        yield from _list_rails_tasks(arguments)
    elif program == "adb" and "shell" in arguments:
        at = arguments.index("shell")
        yield ("adb", "shell", *_split(" ".join(arguments[at + 1 :])))
    elif program == "xcrun":
        names = [word for word in arguments if word.startswith("xcode")]
        if names:
            yield arguments[arguments.index(names[0]) :]
    else:
        yield from _list_php_commands(program, words)


def _split(text: str) -> list[str]:
    """Return the words that the shell of a device reads."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _list_mix_tasks(words: Words) -> Iterator[Words]:
    """Yield each task of `mix do A, B + C`."""
    if words[1:2] != ("do",):
        return
    task: list[str] = []
    for word in (*words[2:], "+"):
        name = word.rstrip(",")
        if name and word != "+":
            task.append(name)
        if word == "+" or word.endswith(","):
            yield ("mix", *task)
            task = []


def _list_rails_tasks(words: Words) -> Iterator[Words]:
    """Yield the tasks of Rails, which `rake` runs, too."""
    tasks = [word for word in words[1:] if ":" in word and not word.startswith("-")]
    for task in tasks:
        for name in (task, _ON_DATABASE.sub(r"\1", task)):
            yield ("rails", name)
            yield ("rake", name)


def _list_php_commands(program: str, words: Words) -> Iterator[Words]:
    """Yield the commands that PHP, a script, or Laravel's `sail` runs."""
    arguments = words[1:]
    program = re.sub(r"^php[\d.]+$", "php", program)
    first = os.path.basename(arguments[0]) if arguments else ""
    if program == "artisan":
        yield ("php", "artisan", *arguments)
    elif program == "php" and first == "artisan":
        yield ("php", "artisan", *arguments[1:])
    elif program == "php" and first in ("composer", "composer.phar"):
        yield from _list_composer(arguments)
    elif program == "sail" and first in ("artisan", "art"):
        yield ("php", "artisan", *arguments[1:])
    elif program == "sail" and first in _IN_SAIL:
        yield arguments
    elif program in ("composer", "composer.phar"):
        yield from _list_composer(words)


def _list_composer(words: Words) -> Iterator[Words]:
    """Yield a command of Composer under its full name."""
    rest = list(words[1:])
    at = next((at for at, word in enumerate(rest) if not word.startswith("-")), None)
    if at is not None:
        rest[at] = _COMPOSER.get(rest[at], rest[at])
    yield ("composer", *rest)
