"""Find the paths that the sandbox protects against programs that hilum cannot analyze."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hilum import walk_folders
from hilum_guard import FileAccess, fit_path, resolve_links

from hilum_checks.model import EVERYTHING, Paths
from hilum_checks.path_matcher import PathMatcher
from hilum_checks.verdicts import EnforcedRule, parts_of

MAX_NAMES = 40_000
"""Maximum number of names to examine for patterns that may match several paths."""
MAX_PROTECTED = 400
"""Maximum number of protected paths: each one needs a mount when a command starts."""
_SKIPPED = frozenset(
    """
    .git node_modules .venv venv __pycache__ .tox .mypy_cache .pytest_cache .ruff_cache target
    """.split()
)


def find_protected_paths(
    rules: Iterable[EnforcedRule], root: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths that commands must not write to, and those they must not read. Blocks.

    The sandbox can protect only existing paths. Paths for which only manual editing is forbidden
    are left out, because it is not known which programs may write them. If a rule allows new files
    in a folder, the existing files in it are protected.

    Args:
        rules: The rules.
        root: The root of the workspace.
    """
    matcher = PathMatcher(root)
    constraints = [
        matcher.anchor(constraint)
        for _, effect, constraint in parts_of(rules)
        if effect == "deny" and isinstance(constraint, Paths)
    ]
    constraints = [each for each in constraints if not each.outside and each.patterns != EVERYTHING]
    # Constraints must forbid changes and deletion, because the sandbox can only make a path
    # read-only as a whole.
    written = [
        each for each in constraints if each.actions >= {"change", "delete"} and not each.by_hand
    ]
    read = [each for each in constraints if "read" in each.actions]
    return tuple(_find_existing(written, matcher)), tuple(_find_existing(read, matcher))


def name_protecting_rules(
    rules: Iterable[EnforcedRule], root: Path, paths: Iterable[str]
) -> dict[str, str]:
    """Return the file and line of the rule because of which the sandbox protects each path. Blocks.

    Args:
        rules: The rules.
        root: The root of the workspace.
        paths: The protected paths.
    """
    matcher = PathMatcher(root)
    constraints = [
        (f"{rule.path}:{rule.line}", matcher.anchor(constraint))
        for rule, effect, constraint in parts_of(rules)
        if effect == "deny" and isinstance(constraint, Paths)
    ]
    named = {}
    for path in paths:
        accesses = (
            FileAccess("read", path, existing=True),
            FileAccess("write", path, existing=True),
            FileAccess("delete", path, existing=True),
        )
        for place, constraint in constraints:
            if any(matcher.match(constraint, access) == "yes" for access in accesses):
                named[path] = place
                break
    return named


class _Pattern(NamedTuple):
    """A pattern, with the constraint to which it belongs."""

    text: str
    constraint: Paths

    def means(self, path: str) -> bool:
        """Return whether the pattern matches a path, ignoring exceptions."""
        return fit_path(self.text, path, strict=False) and not any(
            fit_path(each, path, strict=False) for each in self.constraint.unless
        )


def _find_existing(constraints: list[Paths], matcher: PathMatcher) -> list[str]:
    found: dict[str, None] = {}
    patterns: list[_Pattern] = []
    for constraint in constraints:
        for pattern in constraint.patterns:
            place = _find_place(pattern, matcher)
            # A pattern without wildcards needs no search of the workspace.
            if place is None or constraint.unless:
                patterns.append(_Pattern(pattern, constraint))
            elif os.path.lexists(place):
                found |= dict.fromkeys(_list_protected(resolve_links(place), constraint))
    for path in _search(patterns, matcher) if patterns else ():
        constraint = _find_constraint(path, patterns, matcher)
        found |= dict.fromkeys(_list_protected(path, constraint))
    return list(found)[:MAX_PROTECTED]


def _find_constraint(path: str, patterns: list[_Pattern], matcher: PathMatcher) -> Paths:
    access = FileAccess("write", path, existing=True)
    for _, constraint in patterns:
        if "read" in constraint.actions or matcher.match(constraint, access):
            return constraint
    return patterns[0].constraint


def _list_protected(path: str, constraint: Paths) -> list[str]:
    """Return a path, or the files in the folder if the constraint allows new files in it."""
    allows_new = not {"read", "create"} & constraint.actions
    if not allows_new or not os.path.isdir(path):
        return [path]
    files = (os.path.join(base, name) for base, _, names in walk_folders(path) for name in names)
    return list(islice(files, MAX_PROTECTED))


def _find_place(pattern: str, matcher: PathMatcher) -> str | None:
    """Return the only path that a pattern matches; ``None`` if it may match several."""
    bare = pattern.removesuffix("/**")
    if any(char in bare for char in "*?["):
        return None
    if pattern.startswith("//"):
        return bare[1:]
    if pattern.startswith("~/"):
        return os.path.expanduser(bare)
    if "/" in bare.rstrip("/"):
        return os.path.join(matcher.real_root, bare.lstrip("/"))
    return None


def _search(patterns: list[_Pattern], matcher: PathMatcher) -> list[str]:
    """Return the files and folders in the workspace that match patterns."""
    last_names = {each.text.removesuffix("/**").rstrip("/").rpartition("/")[2] for each in patterns}
    is_likely = _likely_names(patterns, last_names)
    found: list[str] = []
    seen = 0
    for base, folders, files in walk_folders(matcher.real_root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED or name in last_names)
        seen += len(folders) + len(files)
        for name in filter(is_likely, [*folders, *files]):
            path = os.path.join(base, name)
            is_folder = name in folders
            if _is_protected(os.path.relpath(path, matcher.real_root), patterns, is_folder):
                found.append(resolve_links(path))
                if is_folder:
                    # A protected folder protects everything in it, so nothing below it needs a
                    # separate mount.
                    folders.remove(name)
        # Every call is still judged by the rules; the sandbox only adds protection.
        if seen > MAX_NAMES or len(found) >= MAX_PROTECTED:
            break
    return found


def _likely_names(patterns: list[_Pattern], last_names: set[str]) -> Callable[[str], object]:
    """Return a fast test that rules out most names.

    The test compares only the last part of a name, which is a hundred times as fast as matching all
    patterns. If there are exceptions, files below a matched folder are examined one by one.
    """
    if any(each.constraint.unless for each in patterns):
        return lambda name: True
    translated = "|".join(fnmatch.translate(name) for name in last_names)
    return re.compile(translated, re.IGNORECASE).match


def _is_protected(path: str, patterns: list[_Pattern], is_folder: bool) -> bool:
    meant = [each for each in patterns if each.means(path)]
    # An exception may be in the folder, so its files are protected one by one.
    return bool(meant) and not (is_folder and all(each.constraint.unless for each in meant))
