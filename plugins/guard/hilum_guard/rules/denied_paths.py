"""Find the paths that rules deny; the sandbox protects them from commands with unknown effects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hilum_guard.file_names import resolve_links
from hilum_guard.rules.matching import Rule, path_kinds

MAX_ENTRIES = 20_000
"""Maximum number of workspace entries matched against a pattern before each command."""


class DeniedPaths(NamedTuple):
    """The existing paths that rules deny.

    Attributes:
        protected: Paths that cannot be written or deleted.
        hidden: Paths that cannot be read.
        complete: Whether the whole workspace was searched.
        rules: The first rule that denies each path.
    """

    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    complete: bool
    rules: dict[str, Rule]


def find_denied_paths(
    rules: Iterable[Rule], roots: Sequence[Path], catalog: Mapping[str, str]
) -> DeniedPaths:
    """Return the existing paths that rules deny. Reads the workspace, so run it in a thread.

    Args:
        rules: The deny rules.
        roots: The root of the workspace and its extra roots, resolved.
        catalog: The permission categories of the tools, by name.
    """
    protected: dict[str, None] = {}
    hidden: dict[str, None] = {}
    complete = True
    denying: dict[str, Rule] = {}
    for rule in rules:
        is_enforced = rule.about_paths and rule.hides
        kinds = path_kinds(rule.tool, catalog) if is_enforced else frozenset[str]()
        if not kinds:
            continue
        found, is_complete = _find_matching(rule, roots[0])
        for extra_root in roots[1:]:
            more, is_all = _find_matching_below(rule, extra_root)
            found += more
            is_complete = is_complete and is_all
        complete = complete and is_complete
        if kinds & {"write", "delete"}:
            protected |= dict.fromkeys(found)
        if "read" in kinds:
            hidden |= dict.fromkeys(found)
        denying = dict.fromkeys(found, rule) | denying
    return DeniedPaths(tuple(protected), tuple(hidden), complete, denying)


def _find_matching(rule: Rule, root: Path) -> tuple[list[str], bool]:
    """Return the topmost paths that match a rule, and whether all entries were checked."""
    folder = rule.literal_folder
    base = str(root) if folder is None else os.path.join(root, folder)
    if not os.path.lexists(base):
        return [], True
    if folder is not None:
        relative = os.path.relpath(base, root)
        if _is_everything_below(rule.pattern or "") or rule.fits_path(relative):
            return [resolve_links(base)], True
    return _walk_matching(rule, base, f"{root}/")


def _find_matching_below(rule: Rule, extra_root: Path) -> tuple[list[str], bool]:
    """Return the topmost paths below an extra root that match a pattern, as ``_find_matching``."""
    # Rules see these paths as absolute ones.
    return _walk_matching(rule, str(extra_root), "")


def _walk_matching(rule: Rule, base: str, prefix: str) -> tuple[list[str], bool]:
    """Return the topmost paths in a folder that match a rule.

    Args:
        rule: The rule, which denies.
        base: The folder.
        prefix: The beginning of paths that the rule does not see.
    """
    found: list[str] = []
    walk = _Walk(base)
    for seen, entry in enumerate(walk, 1):
        if seen > MAX_ENTRIES:
            return found, False
        path = entry.path.removeprefix(prefix)
        if rule.fits_path(path):
            # Protecting a path also protects everything below it.
            found.append(resolve_links(entry.path))
        # The `.git` folder is protected by other means and contains too many files.
        elif entry.is_dir(follow_symlinks=False) and entry.name != ".git":
            walk.enter(entry.path)
    return found, True


def _is_everything_below(pattern: str) -> bool:
    """Return whether a pattern matches everything below its folder: ``docs/**``, ``docs/*``."""
    stars = len(pattern) - len(pattern.rstrip("*"))
    return pattern.rstrip("/").endswith(("/**", "/*")) and pattern.count("*") == stars


class _Walk:
    """An iterator over the entries of a folder and of the subfolders that the caller enters."""

    def __init__(self, folder: str) -> None:
        self._waiting = [folder]

    def enter(self, folder: str) -> None:
        self._waiting.append(folder)

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        while self._waiting:
            try:
                entries = list(os.scandir(self._waiting.pop()))
            except OSError:  # the folder vanished, or this user may not list it
                continue
            yield from entries
