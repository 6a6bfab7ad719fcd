"""Find the files and folders that a command line uses, as far as its text shows.

The rules of a nested folder hold for the first command that uses the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard import UNKNOWN, judge_command, read_effects, search

from hilum_checks.code_texts import find_paths, read_texts

if TYPE_CHECKING:
    from hilum_guard import CommandEffects, FileAccess, SimpleCommand

# Where a path begins to be known only at run time.
_UNCERTAIN = re.compile(rf"[*?\[{{{UNKNOWN}]")


class UsedPath(NamedTuple):
    """A path that a command line uses.

    Attributes:
        path: The absolute path.
        deep: Whether the command line may also change files below the path that it does not name.
    """

    path: str
    deep: bool = False


def find_used_paths(text: str, root: Path, folder: Path) -> Iterator[UsedPath]:
    """Yield the paths that a command line names, also in its code, and the folders it runs in. Blocks.

    Args:
        text: The command line.
        root: The root of the workspace.
        folder: The folder in which the command line starts.
    """
    for command in judge_command(text, workspace=root, folder=folder).all_commands:
        effects = read_effects(command)
        folders = dict.fromkeys(command.cwds or (command.cwd,))
        for cwd in folders:
            for word in (".", *_find_words(command, effects)):
                yield _join(cwd, word, root)._replace(deep=False)
        for access in effects.files:
            yield from _paths_of(access, root)
        yield from _search_files(effects, root)


def _find_words(command: SimpleCommand, effects: CommandEffects) -> Iterator[str]:
    """Yield the words of a command and of its code that may be paths."""
    for word in command.words[1:]:
        yield word
        yield word.rpartition("=")[2]
    for text in read_texts(effects, command.cwd):
        # Other words of a program's text are rather names than paths.
        yield from (path for path in find_paths(text) if "/" in path)


def _paths_of(access: FileAccess, root: Path) -> Iterator[UsedPath]:
    changes = access.kind not in ("read", "any")
    for cwd in access.cwds:
        used = _join(cwd, access.path, root)
        goes_down = used.deep or bool(access.deep) or access.existing
        yield used._replace(deep=changes and goes_down)


def _search_files(effects: CommandEffects, root: Path) -> Iterator[UsedPath]:
    """Yield the folders of the files that a search finds for a command."""
    for found in effects.found:
        findings = search(found.query)
        if findings is None:
            yield UsedPath(found.query.cwd or str(root), deep=True)
            continue
        paths = (entry.path for entry, _ in findings.entries)
        yield from map(UsedPath, dict.fromkeys(map(os.path.dirname, paths)))


def _join(cwd: str | None, word: str, root: Path) -> UsedPath:
    """Return the path of a word as far as it is known, and whether it is only a part of the path."""
    path = os.path.join(cwd or root, os.path.expanduser(word))
    known = _UNCERTAIN.split(path)[0]
    if known == path:
        return UsedPath(os.path.normpath(path), deep=cwd is None)
    # The last part may be only the beginning of a name.
    return UsedPath(os.path.normpath(os.path.dirname(known)), deep=True)
