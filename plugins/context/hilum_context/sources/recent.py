"""Recently edited files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

import trio
from hilum import FileChanges, walk_folders

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.pieces import ContextPiece, cut_text
from hilum_context.texts import FileText, OmittedError

MAX_FILES = 5
MAX_LINES = 50
# Maximum number of tokens for one file, because lines may be long.
MAX_TOKENS = 2_000
# Maximum number of files to try.
MAX_TRIED = 12
DAY = 86_400.0
# Maximum number of files whose modification times are read if there is no Git repository.
MAX_SCANNED = 50_000
# Maximum number of files to take from an untracked folder, which Git reports as a whole.
MAX_IN_FOLDER = 200
# Recordings of hilum's sessions, which users do not edit. A recording that contained its own
# beginning could not be replayed.
_RECORDINGS = ".cassette"
_SKIPPED = frozenset("node_modules __pycache__ venv target build dist".split())


class RecentEdits(ContextSource[list[tuple[FileText, str]]]):
    """The beginnings of the five most recently edited files.

    The face names these files. If it names none, hilum uses its journal and Git, or else
    modification times.
    """

    type = "recent_edit"
    switch = "recent_edits"

    async def find(self, context: GatheredContext) -> list[tuple[FileText, str]]:
        """Return the files, each with the source that reported the edit."""
        reported = context.state.recent_edits
        if reported is None:
            candidates = await self._find_candidates(context)
        else:
            candidates = [
                (edit.path, "editor") for edit in sorted(reported, key=lambda edit: -edit.at)
            ]
        found: dict[str, tuple[FileText, str]] = {}
        for path, source in candidates[:MAX_TRIED]:
            try:
                text = await context.texts.head(path, lines=MAX_LINES)
            except OmittedError as why:
                context.omit(self.type, path, why, named=reported is not None)
                continue
            found.setdefault(text.path, (text, source))
        return list(found.values())

    async def _find_candidates(self, context: GatheredContext) -> list[tuple[str, str]]:
        changes = context.session.plugin(FileChanges)
        root = str(context.session.workspace.root)
        known: dict[str, tuple[str, float]] = {}
        for path, at in changes.recent(MAX_TRIED) if changes else ():
            known[path] = ("journal", at)
        # Files in the journal are sent even if Git does not respond in time.
        # The limit is shorter than the source's own limit, so that the files in the journal are
        # still read.
        with trio.move_on_after(0.8 * context.settings.timeout) as scope:
            status = await context.git.status()
            if status is None:
                source = "times"
                read = partial(_find_newest, root)
            else:
                source = "git"
                read = partial(_read_times, root, [*status.changed, *status.untracked])
            for path, at in await trio.to_thread.run_sync(read, abandon_on_cancel=True):
                # The journal's entry wins: its time is that of the edit, not that of a checkout or
                # a formatter.
                known.setdefault(path, (source, at))
        if scope.cancelled_caught:
            context.omit(self.type, "", "the search for changed files took too long")
        edited = [item for item in known.items() if not item[0].endswith(_RECORDINGS)]
        edited.sort(key=lambda item: -item[1][1])
        return [(path, source) for path, (source, _) in edited]

    def make_pieces(
        self,
        context: GatheredContext,
        found: list[tuple[FileText, str]],
    ) -> Iterator[ContextPiece]:
        """Yield the files that are not sent as open files."""
        fresh = [(text, source) for text, source in found if text.path not in context.covered]
        for text, source in fresh[:MAX_FILES]:
            whole = "\n".join(text.lines)
            shown, lines = cut_text(whole, MAX_TOKENS)
            hashed = text.hash if shown == whole else ""
            yield ContextPiece(self.type, shown, text.path, source=source, lines=lines, hash=hashed)


def _read_times(root: str, paths: list[str]) -> list[tuple[str, float]]:
    """Return paths relative to the workspace with their modification times.

    A folder is replaced with some of its files.
    """
    found = []
    for path in paths:
        names = [path]
        if path.endswith("/"):
            names = list(islice(_walk_files(path), MAX_IN_FOLDER))
        for name in names:
            try:
                modified = os.lstat(name).st_mtime
            except OSError:  # it has since been deleted
                continue
            found.append((os.path.relpath(name, root), modified))
    return found


def _walk_files(top: str) -> Iterator[str]:
    for folder, _, files in walk_folders(top):
        for name in files:
            yield os.path.join(folder, name)


def _find_newest(root: str) -> list[tuple[str, float]]:
    """Return the files that changed within a day.

    If most files changed, the tree was just created or copied, so the result is empty.
    """
    since = time.time() - DAY
    count = 0
    found = []
    for path, modified in islice(_walk(root), MAX_SCANNED):
        count += 1
        if modified > since:
            found.append((os.path.relpath(path, root), modified))
    return found if len(found) <= count / 2 else []


def _walk(root: str) -> Iterator[tuple[str, float]]:
    """Yield the files of a tree with their modification times."""
    folders = [root]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                visible = [entry for entry in entries if _is_visible(entry)]
            for entry in visible:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False).st_mtime
        except OSError:  # it is unreadable or has since been deleted
            continue


def _is_visible(entry: os.DirEntry[str]) -> bool:
    # Tools write to these folders, and the user does not edit files in them.
    return not entry.name.startswith(".") and entry.name not in _SKIPPED
