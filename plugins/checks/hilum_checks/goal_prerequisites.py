"""Read what a goal needs: `check: lint test`, or `"check": "npm run lint && npm test"`."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator

from hilum_guard import UNKNOWN, is_new_file

from hilum_checks.code_texts import read_text
from hilum_checks.model import Words
from hilum_checks.success_order import read_order

_SCRIPT_RUNNERS = frozenset("npm pnpm yarn bun".split())
_MAKES = frozenset(("make", "gmake"))
_FILES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
}
# Options that do not change which goals are built, nor hide that one has failed.
_PLAIN_OPTION = re.compile(r"-j\d*|-s|--silent|--no-print-directory|--quiet|-q")
_MAKE_RULE = r"^{goal}[ \t]*:(?![:=])[ \t]*([^=;#\n]*?)[ \t]*(?:[;#].*)?$"
_JUST_RULE = r"^@?{goal}[ \t]*:(?!=)[ \t]*([^=#\n]*?)[ \t]*(?:#.*)?$"
# Lines that may add or change rules, or make failures count for nothing.
_UNCERTAIN = re.compile(
    r"^[ \t]*(?:-?include|sinclude|ifn?eq|ifn?def|else|endif|define|MAKEFLAGS|\.IGNORE|import|mod)\b|\\$",
    re.MULTILINE,
)
_NAME = re.compile(r"[\w.-]+")
MAX_GOALS = 50
"""Maximum number of goals or scripts to follow."""


def list_prerequisites(words: Words, cwd: str | None, root: str) -> Iterator[Words]:
    """Yield `make lint` and `make test` for `make check`, which certainly runs both. Blocks.

    A file that an agent may have changed proves nothing.

    Args:
        words: The program and its arguments.
        cwd: The folder in which it runs.
        root: The root of the workspace.
    """
    program = os.path.basename(words[0]) if words else ""
    if program in _SCRIPT_RUNNERS:
        yield from _list_script_commands(words, cwd, root)
        return
    kind = "make" if program in _MAKES else program
    goals = [word for word in words[1:] if not _PLAIN_OPTION.fullmatch(word)]
    if kind not in _FILES or cwd is None or len(goals) != 1 or not _NAME.fullmatch(goals[0]):
        return
    paths = [os.path.join(cwd, name) for name in _FILES[kind]]
    path = next(filter(os.path.isfile, paths), "")
    if not path or UNKNOWN in cwd or is_new_file(path, root):
        return
    text = read_text(path)
    if _UNCERTAIN.search(text):
        return
    rule = _MAKE_RULE if kind == "make" else _JUST_RULE
    waiting = goals
    found: set[str] = set()
    while waiting and len(found) < MAX_GOALS:
        pattern = re.compile(rule.format(goal=re.escape(waiting.pop())), re.MULTILINE)
        for named in pattern.findall(text):
            needed = [goal for goal in named.split() if _NAME.fullmatch(goal)]
            waiting += [goal for goal in needed if goal not in found]
            found.update(needed)
    for goal in sorted(found):
        yield (words[0], goal)


def _list_script_commands(words: Words, cwd: str | None, root: str) -> Iterator[Words]:
    """Yield the commands that have certainly succeeded if a script of `package.json` has."""
    path = os.path.join(cwd or "", "package.json")
    if cwd is None or UNKNOWN in cwd or not os.path.isfile(path) or is_new_file(path, root):
        return
    try:
        scripts = json.loads(read_text(path))["scripts"]
    except (ValueError, KeyError, TypeError):
        return
    if not isinstance(scripts, dict):
        return
    waiting = [_read_script_name(words)]
    seen: set[str] = set()
    while waiting and len(seen) < MAX_GOALS:
        name = waiting.pop()
        text = scripts.get(name)
        if not name or name in seen or not isinstance(text, str):
            continue
        seen.add(name)
        order = read_order(text)
        for at in order.list_after_success():
            try:
                command = tuple(shlex.split(order.commands[at]))
            except ValueError:
                continue
            if command and "$" not in order.commands[at]:
                yield command
                waiting.append(_read_script_name(command))


def _read_script_name(words: Words) -> str:
    """Return the script that `npm run NAME` runs; empty for other commands."""
    names = [word for word in words[1:] if word not in ("-s", "--silent")]
    if names[:1] in (["run"], ["run-script"]):
        names = names[1:]
    elif names != ["test"]:
        return ""
    is_script = os.path.basename(words[0]) in _SCRIPT_RUNNERS and len(names) == 1
    return names[0] if is_script and not names[0].startswith("-") else ""
