"""What `git clean` may remove: the names in a folder that the index of the repository does not
have.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hilum_rules.checks.effects import operands
from hilum_rules.checks.finds import MOST, Entry, Reach
from hilum_rules.checks.touches import Touch

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand

_LARGEST = 50_000_000


def cleaned(command: SimpleCommand, rest: tuple[str, ...], paths: list[str]) -> Iterator[Touch]:
    """`git clean`: what is not tracked goes; of it what is ignored only with `-x`. Blocks.

    Args:
        command: The command.
        rest: Its words behind `clean`.
        paths: Those behind `--`.
    """
    named = paths or operands(rest, "e") or ["."]
    kept = any(re.match(r"-[a-zA-Z]*[eiX]|--(?:exclude|interactive)", word) for word in rest)
    reach = untracked(
        named, command.cwd, sure=not kept and any(re.match(r"-[a-zA-Z]*x", word) for word in rest)
    )
    if reach is not None:
        yield Touch("{}", "delete", command.cwd, by_hand=False, reach=reach)
    else:
        yield from (Touch(path, "delete", None, by_hand=False) for path in named)


def untracked(paths: Iterable[str], cwd: str | None, *, sure: bool) -> Reach | None:
    """Return the files below some paths that are not tracked. Blocks.

    Args:
        paths: Files and folders.
        cwd: Folder that they are written from.
        sure: Whether all of them go; else some of them may be left, such as ignored ones.

    Returns:
        None where that cannot be told: no repository, an index that is not read here, too many
        names.
    """
    real = Path(os.path.realpath(cwd or "/"))
    top = next((folder for folder in (real, *real.parents) if (folder / ".git").exists()), None)
    tracked = _index(top / ".git/index") if cwd and top else None
    if tracked is None or top is None:
        return None
    found: list[tuple[Entry, bool]] = []
    left = MOST
    waiting = [os.path.realpath(os.path.join(real, path)) for path in paths]
    while waiting:
        path = waiting.pop()
        left = left - 1
        if left < 0 or "…" in path:
            return None
        if os.path.isdir(path) and not os.path.islink(path):
            try:
                waiting += [os.path.join(path, name) for name in os.listdir(path) if name != ".git"]
            except OSError:
                continue
        elif os.path.lexists(path) and os.path.relpath(path, top) not in tracked:
            found.append((Entry(path, path, False, False), sure))
    return Reach(tuple(found), str(real))


def _index(path: Path) -> set[str] | None:
    """Read the names in an index (versions 2 and 3 of gitformat-index).

    None where that cannot be done.
    """
    try:
        if path.stat().st_size > _LARGEST:
            return None
        data = path.read_bytes()
        sign, version, count = struct.unpack_from(">4sII", data)
        if sign != b"DIRC" or version not in (2, 3):
            return None
        names = set()
        at = 12
        for _ in range(count):
            begin = at + 62 + 2 * bool(data[at + 60] & 0x40)
            end = data.index(b"\0", begin)
            names.add(os.fsdecode(data[begin:end]))
            at += (end - at + 8) // 8 * 8
        return names
    except FileNotFoundError:
        return set()
    except (OSError, struct.error, ValueError, IndexError):
        return None
