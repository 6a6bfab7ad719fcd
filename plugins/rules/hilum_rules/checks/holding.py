"""Paths that the sandbox should hold against programs that no reader can look into."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hilum_rules.checks.model import Paths
from hilum_rules.checks.touches import Ground, Touch

if TYPE_CHECKING:
    from hilum_rules.checks.judging import Ruled

MAX_NAMES = 40_000
"""Names that are looked at for patterns without a fixed place."""
MAX_HELD = 400
"""Paths that are held; each costs the start of a command a mount."""
_PASSED_OVER = frozenset(
    ".git node_modules .venv venv __pycache__ .tox .mypy_cache .pytest_cache .ruff_cache target".split()
)


def guard_paths(rules: Iterable[Ruled], root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths that commands must not be able to write, and those they must not be able to
    read. Blocks.

    Only what exists can be held, and not what is only meant by hand: the programs that may write it
    are not known. Where files may be made, those that are there are held.

    Args:
        rules: The rules.
        root: Root of the workspace.
    """
    bans = [
        ban
        for rule in rules
        for effect, ban in (rule.check.parts if rule.check else ())
        if effect == "deny" and isinstance(ban, Paths)
    ]
    held = [
        ban
        for ban in bans
        if ban.actions >= {"change", "delete"}
        and not ban.by_hand
        and not ban.outside
        and ban.patterns != ("**",)
    ]
    hidden = [
        ban for ban in bans if "read" in ban.actions and not ban.outside and ban.patterns != ("**",)
    ]
    if not held and not hidden:
        return (), ()
    ground = Ground(root)
    return tuple(_existing(held, ground)), tuple(_existing(hidden, ground))


def _existing(bans: list[Paths], ground: Ground) -> list[str]:
    found: dict[str, None] = {}
    loose: list[tuple[str, tuple[str, ...], Paths]] = []
    for ban in bans:
        for pattern in ban.patterns:
            place = _place(pattern, ground)
            if place is None:
                loose.append((pattern, ban.unless, ban))
            elif os.path.lexists(place) and not ban.unless:
                found |= dict.fromkeys(_parts(os.path.realpath(place), ban))
            elif ban.unless:
                loose.append((pattern, ban.unless, ban))
    if loose:
        for path in _matching([(pattern, unless) for pattern, unless, _ in loose], ground):
            ban = next(
                (
                    ban
                    for pattern, _, ban in loose
                    if ground.fit(ban, Touch(path, "change", "/")) or "read" in ban.actions
                ),
                bans[0],
            )
            found |= dict.fromkeys(_parts(path, ban))
    return list(found)[:MAX_HELD]


def _parts(path: str, ban: Paths) -> list[str]:
    """Return a path; or, where files may be made in it, those that are there."""
    if "read" in ban.actions or "create" in ban.actions or not os.path.isdir(path):
        return [path]
    return [os.path.join(base, name) for base, _, files in os.walk(path) for name in files][
        :MAX_HELD
    ]


def _place(pattern: str, ground: Ground) -> str | None:
    """Return the one place that a pattern means; ``None`` if it means any of several."""
    bare = pattern.removesuffix("/**")
    if any(char in bare for char in "*?["):
        return None
    if pattern.startswith("//"):
        return bare[1:]
    if pattern.startswith("~/"):
        return os.path.expanduser(bare)
    if "/" in bare.rstrip("/"):
        return os.path.join(ground.real, bare.lstrip("/"))
    return None


def _matching(loose: list[tuple[str, tuple[str, ...]]], ground: Ground) -> list[str]:
    from hilum_guard import fit_path

    lasts = {pattern.removesuffix("/**").rstrip("/").rpartition("/")[2] for pattern, _ in loose}
    # Most names are told apart by their last part alone, which is a hundred times as fast.
    likely = re.compile("|".join(fnmatch.translate(last) for last in lasts), re.IGNORECASE)
    bounded = any(unless for _, unless in loose)
    found: list[str] = []
    seen = 0
    for base, folders, files in os.walk(ground.real):
        folders[:] = sorted(name for name in folders if name not in _PASSED_OVER or name in lasts)
        seen += len(folders) + len(files)
        for name in (*list(folders), *files):
            shown = os.path.relpath(os.path.join(base, name), ground.real)
            if not (bounded or likely.match(name)):
                continue
            meant = [
                unless
                for pattern, unless in loose
                if fit_path(pattern, shown, strict=False)
                and not any(fit_path(each, shown, strict=False) for each in unless)
            ]
            if not meant or (name in folders and all(meant)):
                continue  # what is excepted may be in this folder: its files are held one by one
            if name in folders:
                folders.remove(name)
            found.append(os.path.realpath(os.path.join(base, name)))
        if seen > MAX_NAMES or len(found) >= MAX_HELD:
            break
    return found
