"""Read which goals `make` and `just` build before another one: `check: lint test`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from hilum_guard import UNKNOWN, is_new_file

from hilum_checks.code_texts import read_text
from hilum_checks.model import Words

_MAKES = frozenset(("make", "gmake"))
_FILES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
}
# Options that do not change which goals are built, nor hide that one has failed.
_PLAIN_OPTION = re.compile(r"-j\d*|-s|--silent|--no-print-directory|--quiet|-q")
_MAKE_RULE = r"^{goal}[ \t]*:(?![:=])[ \t]*([^=;#\n]*?)[ \t]*(?:[;#].*)?$"
_JUST_RULE = r"^@?{goal}[ \t]*:(?!=)[ \t]*([^=#\n]*?)[ \t]*(?:#.*)?$"
# What makes it uncertain which rules there are, or whether a failure counts.
_UNCERTAIN = re.compile(
    r"^[ \t]*(?:-?include|sinclude|ifn?eq|ifn?def|else|endif|define|MAKEFLAGS|\.IGNORE|import|mod)\b|\\$",
    re.MULTILINE,
)
_NAME = re.compile(r"[\w.-]+")
MAX_GOALS = 50


def list_prerequisites(words: Words, cwd: str | None, root: str) -> Iterator[Words]:
    """Yield `make lint` and `make test` for `make check`, which certainly builds both. Blocks.

    Only a file of the project that has not changed says so.

    Args:
        words: The program and its arguments.
        cwd: The folder in which it runs.
        root: The root of the workspace.
    """
    program = os.path.basename(words[0]) if words else ""
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
