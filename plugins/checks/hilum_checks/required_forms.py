"""Compare a command that ran with one that a rule requires, in each of its usual forms.

``CI=1 pnpm exec nx affected --targets=lint,test`` does what ``npx nx affected -t lint test`` does.
A form counts only if it certainly does the same work: a variable such as ``MAKEFLAGS`` or
``NODE_OPTIONS`` may make a program pretend to work.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

import attrs

from hilum_checks import program_words, variables
from hilum_checks.command_facts import CommandFacts
from hilum_checks.command_matcher import match_command
from hilum_checks.model import Commands, Words

# Programs that do nothing but to run another one, some of them in the environment of a project.
_STARTS = frozenset(
    "time timeout nice env uv uvx poetry pdm hatch pipenv pipx rye npx bunx pnpx npm pnpm yarn bun bundle composer".split()
)
# Options with which these programs run nothing, or perhaps nothing.
_STARTS_NOTHING = re.compile(
    r"--help|-h|--version|-V|--if-present|--filter(?:-prod)?(?:=.*)?|-F.*|--dry-run"
)

_PYTHON = re.compile(r"(?:.*/)?python[\d.]*", re.DOTALL)

# The package managers of a language, with the sub-commands that run a program of the project.
_EXECUTES: dict[str, tuple[str, tuple[str, ...]]] = {
    "npx": ("js", ()),
    "bunx": ("js", ()),
    "pnpx": ("js", ()),
    "npm": ("js", ("exec", "x")),
    "pnpm": ("js", ("exec", "dlx")),
    "yarn": ("js", ("exec", "dlx", "run")),
    "bun": ("js", ("x",)),
    "uvx": ("python", ()),
    "uv": ("python", ("run",)),
    "poetry": ("python", ("run",)),
    "pipenv": ("python", ("run",)),
    "pdm": ("python", ("run",)),
    "hatch": ("python", ("run",)),
    "rye": ("python", ("run",)),
    "bundle": ("ruby", ("exec",)),
    "composer": ("php", ("exec",)),
}
# The folders in which package managers put the programs of a project.
_INSTALLED = {
    "node_modules/.bin": "js",
    ".venv/bin": "python",
    "venv/bin": "python",
    "vendor/bin": "php",
}
# Commands of pnpm and Yarn that are no scripts of the project.
_BUILT_IN = frozenset(
    """
    add audit bin cache config create dedupe deploy dlx env exec fetch import info init install link
    list ls node outdated pack patch prune publish rebuild remove root run server set store unlink
    up update upgrade version why workspace workspaces
    """.split()
)
_NPM_SCRIPTS = frozenset("test start stop".split())
# Short options under their long names.
_LONG_OPTIONS = {
    "pre-commit": {"-a": "--all-files"},
    "pytest": {"-q": "--quiet", "-v": "--verbose", "-x": "--exitfirst"},
}
# Programs that run all the tasks that their operands name, in any order.
_RUNS_ALL = frozenset("make gmake ninja rake invoke inv task gradle gradlew mvn mvnw".split())
_TURBO_VALUED = frozenset(
    """
    --filter -F --concurrency --cache-dir --output-logs --log-order --log-prefix --env-mode --cwd
    --token --team --api --ui --profile --cache-workers
    """.split()
)


# What runs a command in a service of the project's own compose file, and returns its exit code.
_IN_SERVICE = re.compile(
    r"\s*docker(?:-compose| compose) (?:exec|run)(?: (?:-T|-i|-t|-it|--rm|--no-deps|--no-TTY))* [\w.-]+(?=\s)"
)


@lru_cache(1024)
def is_plain_front(text: str, *, any_variables: bool) -> bool:
    """Return whether what precedes a command changes and hides nothing: `CI=1 npx`, `timeout 9`.

    Args:
        text: The variables and runners in front of the command.
        any_variables: Whether variables do not matter that may change what the command does.
    """
    text = variables.spell_folders(text)
    if "$(" in text or "`" in text:
        return False
    text = _IN_SERVICE.sub("", text)
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    assigned = [word for word in words if variables.is_assignment(word)]
    others = [word for word in words if word not in assigned]
    if others[-1:] == ["-m"] and _PYTHON.fullmatch(others[-2] if len(others) > 1 else ""):
        del others[-2:]
    if any(map(_STARTS_NOTHING.fullmatch, others)):
        return False
    if others and others[0] not in _STARTS:
        return False
    return any_variables or all(map(variables.is_harmless, assigned))


def fits_required(needed: Commands, command: CommandFacts) -> bool:
    """Return whether a command is a required one, in any of its usual forms.

    Args:
        needed: The commands of which one is required.
        command: The command.
    """
    return any(_fits_pattern(needed, pattern, command) for pattern in needed.patterns)


def _fits_pattern(needed: Commands, pattern: Words, command: CommandFacts) -> bool:
    for form in _list_forms(pattern, command):
        split = _SPLITTERS.get(form[0])
        # `make lint test` runs both tasks, and so does `make test lint`.
        if split is not None:
            fits = _fits_tasks(needed, form, command, split)
        else:
            fits = all(_matches(needed, part, command) for part in _split_tasks(form))
        if fits:
            return True
    return False


def _list_forms(pattern: Words, command: CommandFacts) -> Iterator[Words]:
    """Yield a pattern, and what it runs if the command was run by such a package manager, too."""
    yield pattern
    language, inner = _read_execution(pattern)
    if inner and language in _list_languages(command):
        yield inner


def _list_languages(command: CommandFacts) -> set[str]:
    """Return the languages whose package managers run or have installed a command's program."""
    programs = [each[0].rpartition("/")[2] for each in command.command.runners]
    found = {_EXECUTES[each][0] for each in programs if each in _EXECUTES}
    folder = command.words[0].removeprefix("./").rpartition("/")[0]
    return found | {_INSTALLED[folder]} if folder in _INSTALLED else found


def _read_execution(words: Words) -> tuple[str, Words]:
    """Return the language of a package manager, and the command that it executes, if any."""
    language, verbs = _EXECUTES.get(words[0].rpartition("/")[2], ("", ()))
    rest = _skip_options(words[1:])
    if not language:
        return "", ()
    if verbs and rest[:1] and rest[0] in verbs:
        return language, _skip_options(rest[1:])
    # `pnpm nx lint` is `pnpm exec nx lint`, unless the project has a script of this name.
    is_local = words[0] in ("pnpm", "yarn") and rest[:1] == ("nx",)
    return (language, rest) if not verbs or is_local else ("", ())


def _skip_options(words: Words) -> Words:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 1
    return words[at:]


def _matches(needed: Commands, pattern: Words, command: CommandFacts) -> bool:
    """Return whether a command, in another spelling, certainly matches one pattern."""
    pattern, words = _join_values(_spell(pattern), _spell(command.words))
    # `ruff check` checks the working folder.
    if pattern[0] == "ruff" and pattern[-1] == ".":
        pattern = pattern[:-1]
    if words != command.words:
        command = _change_words(command, words)
    return match_command(attrs.evolve(needed, patterns=(pattern,)), command) == "yes"


def _spell(words: Words) -> Words:
    """Return words as most rules spell them: `npm test`, `python manage.py`, `--all-files`."""
    long = _LONG_OPTIONS.get(words[0].rpartition("/")[2], {})
    return _spell_script(tuple(long.get(word, word) for word in words))


def _change_words(command: CommandFacts, words: Words) -> CommandFacts:
    changed = attrs.evolve(command.command, words=words)
    return CommandFacts(changed, command.effects, command.previous)


def _join_values(pattern: Words, words: Words) -> tuple[Words, Words]:
    """Return a pattern and words with the values that both give to an option as `--x=y`."""
    for option, value in pairwise((*pattern, "")):
        if not option.startswith("-") or value.startswith("-"):
            continue
        joined = option if "=" in option else f"{option}={value}"
        words = _join(joined, words)
        if joined in words:
            pattern = _join(joined, pattern)
    return pattern, words


def _join(joined: str, words: Words) -> Words:
    """Return words with `--x y` as `--x=y`."""
    name, _, value = joined.partition("=")
    for at, pair in enumerate(pairwise(words)):
        if pair == (name, value):
            return (*words[:at], joined, *words[at + 2 :])
    return words


def _spell_script(words: Words) -> Words:
    """Return `npm run test` and `npm t` as `npm test`, `pnpm run lint` as `pnpm lint`, and so on."""
    program, *others = words
    rest = tuple(others)
    # `python3 manage.py test` and `./manage.py test` run the same script.
    if _PYTHON.fullmatch(program) and rest and rest[0].endswith(".py"):
        return ("python", rest[0].removeprefix("./"), *rest[1:])
    if program.endswith(".py"):
        return ("python", program.removeprefix("./"), *rest)
    if program not in ("npm", "pnpm", "yarn"):
        return words
    has_run = rest[:1] in (("run",), ("run-script",))
    if not has_run:
        return (program, "test", *rest[1:]) if rest[:1] in (("t",), ("tst",)) else words
    name = rest[1] if len(rest) > 1 else ""
    is_command = name in _NPM_SCRIPTS if program == "npm" else name and name not in _BUILT_IN
    return (program, *rest[1:]) if is_command else words


def _split_tasks(pattern: Words) -> list[Words]:
    """Return a pattern for each task that a required command runs."""
    program, *tasks = pattern
    if program.rpartition("/")[2] not in _RUNS_ALL or any(task.startswith("-") for task in tasks):
        return [pattern]
    return [(program, task) for task in tasks] or [pattern]


def _fits_tasks(needed: Commands, pattern: Words, command: CommandFacts, split: _Splitter) -> bool:
    """Return whether a command of Nx or Turborepo runs at least the tasks of a pattern."""
    if command.effects.program != pattern[0]:
        return False
    wanted, pattern = split(pattern)
    given, words = split(command.words)
    return wanted <= given and _matches(needed, pattern, _change_words(command, words))


def _split_turbo(words: Words) -> tuple[frozenset[str], Words]:
    """Return the tasks that `turbo run lint test` names, and the other words without `run`."""
    tasks: set[str] = set()
    rest = list(words[:1])
    is_value = False
    for word in words[1:]:
        if is_value or word.startswith("-"):
            rest.append(word)
        elif word != "run":
            tasks.add(word)
        is_value = not is_value and word in _TURBO_VALUED
    return frozenset(tasks), tuple(rest)


_Splitter = Callable[[Words], tuple[frozenset[str], Words]]
_SPLITTERS: dict[str, _Splitter] = {"nx": program_words.split_nx_targets, "turbo": _split_turbo}
