"""List other spellings of a command, as a rule may name it: `rake db:drop` is `rails db:drop`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from hilum_guard import make_option_syntax, parse_options

from hilum_checks.model import Words
from hilum_checks.program_words import find_build_tool

# The commands of Composer with their aliases.
_COMPOSER = {"i": "install", "r": "require", "u": "update", "upgrade": "update", "rm": "remove"}
_COMPOSER |= {"uninstall": "remove"}
# What `sail` runs under its own name.
_IN_SAIL = frozenset("bun bunx composer npm npx php pnpm yarn".split())
# What Docker offers under the name of the object, too: `docker image push`.
_OF_OBJECTS = {
    "image": frozenset("build history import load pull push save tag".split()),
    "container": frozenset(
        """
        attach commit cp create diff exec export kill logs pause port rename restart rm run start
        stats stop top unpause update wait
        """.split()
    ),
}
_COMPOSE = frozenset("compose buildx".split())
_DOCKER_VALUED = make_option_syntax(
    valued="fpHclt",
    long_options="file= project-name= profile= env-file= project-directory= context= host= builder=",
)
# The commands of Turborepo that run no tasks.
_OF_TURBO = frozenset(
    """
    bin boundaries clone completion config daemon devtools docs gen generate info link login logout
    ls prune query scan telemetry unlink
    """.split()
)
_TURBO_OPTIONS = make_option_syntax(
    valued="F",
    long_options=(
        "filter= concurrency= cache-dir= cache= output-logs= log-order= log-prefix= env-mode= cwd="
        " token= team= api= ui= profile= cache-workers= root-turbo-json= remote-cache-timeout="
    ),
)
_FLYWAY_TASK = re.compile(r"flyway(?::|(?=[A-Z]))(\w+)")
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
    elif program in ("docker", "docker-compose", "podman"):
        yield from _list_docker_commands(program, arguments)
    elif program == "terragrunt":
        yield from _list_terragrunt_commands(arguments)
    elif program == "turbo":
        yield from _list_turbo_tasks(arguments)
    elif find_build_tool(program):
        # The plugins of Maven and Gradle do what Flyway's own program does.
        for task in filter(None, map(_FLYWAY_TASK.fullmatch, arguments)):
            yield ("flyway", task[1].lower())
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


def _list_docker_commands(program: str, arguments: Words) -> Iterator[Words]:
    """Yield the shorter names of Docker's commands, and the push that a build ends with."""
    operands = parse_options(arguments, _DOCKER_VALUED).operands
    first = "".join(operands[:1])
    if program == "docker-compose" or first in _COMPOSE:
        words = operands if program == "docker-compose" else operands[1:]
        if words[:1] == ("push",):
            yield (program.partition("-")[0], "push", *words[1:])
    elif operands[1:2] and operands[1] in _OF_OBJECTS.get(first, ()):
        rest = list(arguments)
        rest.remove(first)
        yield (program, *rest)
    elif first in {verb for verbs in _OF_OBJECTS.values() for verb in verbs}:
        # A rule may name the longer form.
        at = arguments.index(first)
        for holder, verbs in _OF_OBJECTS.items():
            if first in verbs:
                yield (program, *arguments[:at], holder, *arguments[at:])
    pushes = "--push" in arguments or "--push=true" in arguments
    if pushes and {"build", "bake"} & set(operands[:2]):
        yield (program.partition("-")[0], "push", *operands)


def _list_terragrunt_commands(arguments: Words) -> Iterator[Words]:
    """Yield the command of Terraform that Terragrunt runs, in one folder or in all."""
    rest = list(arguments)
    at = next((at for at, word in enumerate(rest) if not word.startswith("-")), None)
    if at is None:
        return
    verb = rest[at]
    if verb == "stack" and rest[at + 1 : at + 2] == ["run"]:
        del rest[at : at + 2]
    elif verb in ("run", "run-all"):
        del rest[at]
    elif verb.endswith("-all"):
        rest[at] = verb.removesuffix("-all")
    else:
        return
    yield ("terragrunt", *(word for word in rest if word not in ("--all", "--graph", "--")))


def _list_turbo_tasks(arguments: Words) -> Iterator[Words]:
    """Yield each task that Turborepo runs, with and without `run`."""
    parsed = parse_options(arguments, _TURBO_OPTIONS)
    tasks = parsed.operands
    if tasks[:1] and tasks[0] in _OF_TURBO:
        return
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = tuple(word for word in arguments[:end] if word.startswith("-"))
    for task in tasks:
        if task in ("run", "watch") or task in arguments[end:]:
            continue
        for name in dict.fromkeys((task, task.rpartition("#")[2])):
            yield ("turbo", "run", name, *options)
            yield ("turbo", name, *options)


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
