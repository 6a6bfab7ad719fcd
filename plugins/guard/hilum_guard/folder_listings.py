"""Remember the names in folders for as long as the folders do not change.

The search for what a test runner loads lists hundreds of folders before each run of the tests.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

MAX_FOLDERS = 20_000
"""Maximum number of folders to remember."""
# Number of names up to which a search through all of them is quick.
_MAX_TUPLE = 50
_TICK = 0.1
"""How old a change must be, in seconds, for the next one to get another time stamp."""


class Listing(NamedTuple):
    """The names in a folder.

    Attributes:
        names: All names; none if the folder cannot be read. A few are a tuple, which takes a tenth
            of the memory of a set.
        folders: The names of folders, also through links, in the order of the disk.
        files: The names of everything else, in the order of the disk.
        links: The names of links, and whether each leads to a folder.
    """

    names: Collection[str] = ()
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    links: tuple[tuple[str, bool], ...] = ()


class Selected(NamedTuple):
    """What a search finds in one folder.

    Attributes:
        files: The paths of the files whose names match, in the order of the disk.
        folders: The paths of the folders to search next, in the reverse order of the disk.
        examined: The number of names.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    examined: int


_listings: dict[str, tuple[tuple[int, ...], Listing]] = {}


def list_folder(folder: str) -> Listing:
    """Return the names in a folder. Reads the disk.

    The same object is returned while nothing in the folder changes.

    Args:
        folder: The absolute path of the folder.
    """
    try:
        status = os.stat(folder)
    except (OSError, ValueError):
        return _NOTHING
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
    known = _listings.get(folder)
    if known is not None and known[0] == stamp and _are_current(folder, known[1]):
        return known[1]
    listing = _read(folder)
    # A change within the same tick of the clock would not show.
    if time.time() - max(status.st_mtime, status.st_ctime) > _TICK:
        if len(_listings) >= MAX_FOLDERS:
            _listings.clear()
        _listings[folder] = (stamp, listing)
    return listing


_NOTHING = Listing()


def _are_current(folder: str, listing: Listing) -> bool:
    """Return whether the links in a folder lead where they led; the folder does not show it."""
    return all(
        os.path.isdir(os.path.join(folder, name)) == is_folder for name, is_folder in listing.links
    )


def _read(folder: str) -> Listing:
    folders: list[str] = []
    files: list[str] = []
    links: list[tuple[str, bool]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = _is_folder(entry)
                (folders if is_folder else files).append(entry.name)
                if entry.is_symlink():
                    links.append((entry.name, is_folder))
    except OSError:
        return _NOTHING
    names: Collection[str] = (*folders, *files)
    if len(names) > _MAX_TUPLE:
        names = frozenset(names)
    return Listing(names, tuple(folders), tuple(files), tuple(links))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


# What searches have found, as long as the same listing is current.
_selected: dict[tuple[str, tuple[str, ...]], tuple[Listing, Selected]] = {}


def select_names(
    folder: str, listing: Listing, patterns: tuple[str, ...], skipped: frozenset[str]
) -> Selected:
    """Return the files in a folder whose names match, and its folders.

    Hidden folders, and those behind links, are not searched.

    Args:
        folder: The absolute path of the folder.
        listing: The names in it.
        patterns: Patterns, one of which the name of a file matches.
        skipped: The names of folders that are not searched, which are always the same.
    """
    known = _selected.get((folder, patterns))
    if known is not None and known[0] is listing:
        return known[1]
    expression = _compile_patterns(patterns)
    links = {name for name, _ in listing.links}
    folders = [name for name in listing.folders if not name.startswith(".") and name not in skipped]
    selected = Selected(
        tuple(os.path.join(folder, name) for name in listing.files if expression.match(name)),
        tuple(os.path.join(folder, name) for name in reversed(folders) if name not in links),
        len(folders) + len(listing.files),
    )
    if len(_selected) >= MAX_FOLDERS:
        _selected.clear()
    _selected[folder, patterns] = (listing, selected)
    return selected


@lru_cache(16)
def _compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))
