"""Reads from the log which files the calls of a session have changed.

The journal finds what a program has written, whatever the arguments of its call say.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hilum.events import AnyEvent, PluginEvent

CHANGED = "files.changed"
"""The event with the files that a call has changed."""
# Folders whose contents are no part of a project.
_CACHES = (
    ".git/ .hilum/ __pycache__/ .pytest_cache/ .mypy_cache/ .ruff_cache/ .hypothesis/ .tox/ .nox/"
    " .venv/ venv/ node_modules/ .cache/ *.pyc .coverage .DS_Store"
).split()


class ChangedFiles(NamedTuple):
    """Files that a call has changed.

    Attributes:
        call_id: The id of the call.
        paths: The paths, relative to the workspace.
    """

    call_id: str
    paths: list[str]


def read_changed_files(events: Iterable[AnyEvent], root: Path) -> Iterator[ChangedFiles]:
    """Yield the files that calls have changed, except caches and what Git ignores. Blocks.

    Args:
        events: Events of the session's log.
        root: The root of the workspace.
    """
    found = [event for event in events if isinstance(event, PluginEvent) and event.name == CHANGED]
    if not found:
        return
    from hilum_checks.ignored_files import read_patterns
    from hilum_guard import is_tracked
    from pathspec import GitIgnoreSpec

    ignored = GitIgnoreSpec.from_lines([*read_patterns(root), *_CACHES])
    has_index = os.path.isfile(root / ".git" / "index")
    for event in found:
        paths = []
        for path in _list_paths(event):
            # A file in Git's index belongs to the project, whatever the patterns say.
            is_own = has_index and is_tracked(str(root / path), str(root))
            is_ignored = ignored.match_file(path) or ignored.match_file(f"{path}/")
            # The files in a folder are reported as well.
            if is_own or not (is_ignored or os.path.isdir(root / path)):
                paths.append(path)
        if paths:
            yield ChangedFiles(str(event.data.get("call", "")), paths)


def _list_paths(event: PluginEvent) -> Iterator[str]:
    """Yield the paths in an event, of which another version of hilum may have written any data."""
    changes = event.data.get("changes")
    for change in changes if isinstance(changes, list | tuple) else ():
        path = change[0] if isinstance(change, list | tuple) and change else None
        # A path that is not valid Unicode is in another form, which begins with a null character.
        if isinstance(path, str) and path and not path.startswith(".git/"):
            yield path.replace("\0", "?")
