"""The files below a folder, in the order of their names, without what is ignored.

Links are not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from .globs import to_regex
from .ignoring import NOTHING, VCS, Chains, above, enter, is_ignored

_Entry = tuple[str, Chains | None]  # a path, and for a folder the rules from above


def walk(base: str, *, ignore: bool, repository: bool, names: list[str]) -> Iterator[str]:
    """Yield the files below a folder, by path; a file instead of a folder is given itself.

    Args:
        base: Folder or file, relative to the current folder; ``.`` for that.
        ignore: Whether ignore files hold.
        repository: Whether ``base`` is in a repository: then the ignore files above it hold too.
        names: Globs, of which the name of a file must match one; empty for all files.
    """
    if not os.path.isdir(base):
        yield base
        return
    if names:
        wanted = re.compile("|".join(f"(?:{to_regex(name)})\\Z" for name in names)).match
    else:
        wanted = None
    chains = above(base) if ignore and repository else NOTHING
    stack = [iter(_look("" if base == "." else f"{base}/", chains, ignore, repository, wanted))]
    while stack:
        for path, below in stack[-1]:
            if below is not None:
                stack.append(iter(_look(path, below, ignore, repository, wanted)))
                break
            yield path
        else:
            stack.pop()


def _look(
    prefix: str,
    chains: Chains,
    ignore: bool,
    repository: bool,
    wanted: Callable[[str], object] | None,
) -> list[_Entry]:
    """List a folder: what is to be searched, sorted.

    ``prefix`` is its path, with a slash at the end.
    """
    try:
        with os.scandir(prefix or ".") as scan:
            entries = sorted(scan, key=_order)
    except OSError:
        return []
    if ignore:
        chains = enter(
            chains, prefix, {entry.name for entry in entries}, bounds=repository, cut=len(prefix)
        )
    plain = not any(chains)
    found: list[_Entry] = []
    for entry in entries:
        name = entry.name
        path = prefix + name
        if entry.is_file(follow_symlinks=False):
            if (not wanted or wanted(name)) and (
                plain or not is_ignored(chains, path, name, False)
            ):
                found.append((path, None))
        elif (
            name not in VCS
            and entry.is_dir(follow_symlinks=False)
            and (plain or not is_ignored(chains, path, name, True))
        ):
            found.append((f"{path}/", chains))
    return found


def _order(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)
