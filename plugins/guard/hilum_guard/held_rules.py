"""The paths that rules deny, as the sandbox can hold them against commands that nobody can read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard.rules import Rule, fit_path, literal_folder, path_kinds

if TYPE_CHECKING:
    from hilum_guard.sandbox import Held

MAX_ENTRIES = 20_000
"""Entries of the workspace that are compared with a pattern before each command."""


class DeniedPaths(NamedTuple):
    """The existing paths that rules deny.

    Attributes:
        protected: They cannot be written or deleted.
        hidden: They cannot be read.
        complete: Whether all of the workspace was compared.
    """

    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    complete: bool

    def held(self) -> Held:
        """Return them as the sandbox takes them."""
        from hilum_guard.sandbox import Held

        return Held(self.protected, self.hidden)


def denied_paths(rules: Iterable[Rule], root: Path, catalog: Mapping[str, str]) -> DeniedPaths:
    """Return the existing paths that rules deny. Reads the workspace, so it belongs in a thread.

    Args:
        rules: The rules that deny.
        root: Root of the workspace, resolved.
        catalog: The permission categories of the tools, by name.
    """
    protected: list[str] = []
    hidden: list[str] = []
    complete = True
    for rule in rules:
        kinds = path_kinds(rule.tool, catalog) if rule.about_paths else frozenset[str]()
        if not kinds:
            continue
        found, whole = _matching(rule.pattern or "", root)
        complete = complete and whole
        if kinds & {"write", "delete"}:
            protected += found
        if "read" in kinds:
            hidden += found
    return DeniedPaths(tuple(dict.fromkeys(protected)), tuple(dict.fromkeys(hidden)), complete)


def _matching(pattern: str, root: Path) -> tuple[list[str], bool]:
    """Return the topmost existing paths that a pattern is about, and whether all were looked at."""
    folder = literal_folder(pattern)
    base = str(root) if folder is None else os.path.join(root, folder)
    if not os.path.lexists(base):
        return [], True
    relative = os.path.relpath(base, root)
    below = pattern.rstrip("/").endswith(("/**", "/*")) and pattern.count("*") == len(
        pattern
    ) - len(pattern.rstrip("*"))
    if folder is not None and (below or fit_path(pattern, relative, strict=False)):
        return [os.path.realpath(base)], True
    found: list[str] = []
    waiting = [base]
    seen = 0
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > MAX_ENTRIES:
                return found, False
            if entry.path.startswith(f"{root}/"):
                path = entry.path[len(str(root)) + 1 :]
            else:
                path = entry.path
            if fit_path(pattern, path, strict=False):
                found.append(os.path.realpath(entry.path))
            elif entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                waiting.append(entry.path)
    return found, True
