"""Files that were edited last."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

import trio
from hilum_files import Changes

from hilum_context.look import Look, Source
from hilum_context.pieces import Piece, cut
from hilum_context.texts import LeftOut, Text

MOST = 5
LINES = 50
TOKENS = 2_000
"""Tokens that one file may take: lines may be long."""
TRIED = 12
"""Files that are looked at."""
DAY = 86_400.0
SEEN = 50_000
"""Files whose times are looked at, where there is no Git."""
_SKIPPED = frozenset("node_modules __pycache__ venv target build dist".split())


class RecentEdits(Source[list[tuple[Text, str]]]):
    """The beginning of five files: those that the face names, else what hilum and Git know, else
    the newest.
    """

    type = "recent_edit"
    switch = "recent_edits"

    async def find(self, look: Look) -> list[tuple[Text, str]]:
        """Read them, each with what says that it was edited."""
        said = look.state.recent_edits
        if said is None:
            candidates = await self._look_for(look)
        else:
            candidates = [(edit.path, "editor") for edit in sorted(said, key=lambda edit: -edit.at)]
        found: dict[str, tuple[Text, str]] = {}
        for path, source in candidates[:TRIED]:
            try:
                text = await look.texts.head(path, lines=LINES)
            except LeftOut as why:
                look.leave_out(self.type, path, why, said=said is not None)
                continue
            found.setdefault(text.path, (text, source))
        return list(found.values())

    async def _look_for(self, look: Look) -> list[tuple[str, str]]:
        changes = look.session.half(Changes)
        root = str(look.session.workspace.root)
        known = {path: ("journal", at) for path, at in (changes.recent(TRIED) if changes else ())}
        with trio.move_on_after(0.8 * look.settings.timeout) as scope:
            status = await look.git.status()
            if status is None:
                source = "times"
                read = partial(_newest, root)
            else:
                source = "git"
                read = partial(_times, root, [*status.changed, *status.untracked])
            for path, at in await trio.to_thread.run_sync(read, abandon_on_cancel=True):
                known.setdefault(path, (source, at))
        if scope.cancelled_caught:
            look.leave_out(self.type, "", "looking for changed files took too long")
        ordered = sorted(known.items(), key=lambda item: -item[1][1])
        return [(path, source) for path, (source, _) in ordered]

    def give(self, look: Look, found: list[tuple[Text, str]]) -> Iterator[Piece]:
        """Yield those that are not sent already."""
        fresh = [(text, source) for text, source in found if text.path not in look.covered]
        for text, source in fresh[:MOST]:
            whole = "\n".join(text.lines)
            shown, lines = cut(whole, TOKENS)
            hashed = text.hash if shown == whole else ""
            yield Piece(self.type, shown, text.path, source=source, lines=lines, hash=hashed)


def _times(root: str, paths: list[str]) -> list[tuple[str, float]]:
    """Return paths relative to the workspace with their times.

    Of a folder, those of some files in it.
    """
    found = []
    for path in paths:
        names = [path]
        if path.endswith("/"):
            inside = (
                os.path.join(folder, name) for folder, _, files in os.walk(path) for name in files
            )
            names = list(islice(inside, 200))
        for name in names:
            try:
                found.append((os.path.relpath(name, root), os.lstat(name).st_mtime))
            except OSError:  # it has just gone
                continue
    return found


def _newest(root: str) -> list[tuple[str, float]]:
    """Return the files changed within a day, unless they are most of all: then the tree was just
    put there.
    """
    since = time.time() - DAY
    count = 0
    found = []
    folders = [root]
    while folders and count < SEEN:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name in _SKIPPED:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        count += 1
                        at = entry.stat(follow_symlinks=False).st_mtime
                        if at > since:
                            found.append((os.path.relpath(entry.path, root), at))
        except OSError:  # not readable, or it has just gone
            continue
    return found if len(found) <= count / 2 else []
