"""To change a file of settings: one key of it, and nothing else."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from hilum_settings.errors import ChangeError
from hilum_settings.sources import read


def change(path: Path, key: str | Sequence[str], value: Any | Callable[[Any], Any]) -> Path:
    """Set or remove one key of a TOML file; comments, order and form of everything else stay.

    The result is checked before it is written: it says what the file said, but for this key, and
    has all lines but those of the old value. Changes by several processes come one after another.
    The file is replaced in one step; of a link, the file that it leads to. A new value is written
    on one line. A value with comments in it, an inline table, and what is of another shape (a list
    for a string) are not touched.

    Args:
        path: The file. A new one, and its folder, are for the user only; an old one keeps its mode.
        key: Dotted key, as in ``plugins.block``; or its parts, where one may have a dot in it.
        value: The new value; ``None`` removes the key. Or a function that makes it of the old one,
            ``None`` where there was none; what it raises as ``TypeError`` or ``ValueError`` refuses
            the change.

    Returns:
        The file that was changed.

    Raises:
        ChangeError: It cannot be done safely; the file is as it was.
    """
    path = Path(os.path.realpath(path))
    keys = key.split(".") if isinstance(key, str) else list(key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(path.parent):
            text, data = read(path)
            old = _value(data, keys)
            new = value(old) if callable(value) else value
            if type(old) is not type(new) or old != new:
                _write(path, _changed(text, data, keys, old, new))
    except OSError as error:
        raise ChangeError(path, error.strerror or str(error)) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ChangeError(path, str(error)) from None
    return path


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until nobody else changes files of the folder, and have them wait while the block lasts.
    Blocks.

    Raises:
        OSError: The folder cannot be opened.
    """
    # Windows opens no folder, so a file in it stands for it there; it is left, as others may wait
    # for it.
    windows = sys.platform == "win32"
    if windows:
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    else:
        handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            _lock(handle)
        yield
    finally:
        os.close(handle)


def _value(data: Any, keys: Sequence[str]) -> Any:
    """Return the value of a key, ``None`` where there is none."""
    for name in keys:
        if data is None:
            return None
        if not isinstance(data, dict):
            raise ValueError(f"what {'.'.join(keys)} should stand in is no table")
        data = data.get(name)
    return data


def _changed(text: str, data: dict[str, Any], keys: Sequence[str], old: Any, new: Any) -> str:
    """Return the text with the change in it, checked.

    Raises:
        ValueError: No way leads to it.
    """
    if (
        None not in (old, new)
        and {type(old), type(new)} & {list, dict}
        and type(old) is not type(new)
    ):
        raise ValueError(f"{'.'.join(keys)} is of another kind")
    wanted = new
    for depth in reversed(range(len(keys))):
        table = _value(data, keys[:depth]) or {}
        wanted = {name: v for name, v in (table | {keys[depth]: wanted}).items() if v is not None}
    body = text.removeprefix("\ufeff")
    for changed, lines in _ways(body, keys, old, new):
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            if _pruned(tomllib.loads(changed)) == _pruned(wanted) and _lost(body, changed) <= lines:
                return text[: len(text) - len(body)] + changed
    raise ValueError("its form is unusual")


def _pruned(data: dict[str, Any]) -> dict[str, Any]:
    """Leave out empty tables, which say nothing: removing ``a.b = 1`` leaves no ``a``."""
    inner = {
        name: _pruned(value) if isinstance(value, dict) else value for name, value in data.items()
    }
    return {name: value for name, value in inner.items() if value != {}}


def _lost(old: str, new: str) -> int:
    """Count the lines between the first and the last that are not the same any more."""
    before = old.splitlines()
    after = new.splitlines()
    head = _same(before, after)
    return len(before) - head - _same(before[head:][::-1], after[head:][::-1])


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines at the start that are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _ways(text: str, keys: Sequence[str], old: Any, new: Any) -> Iterator[tuple[str, int]]:
    """Yield the text changed in each way there is, the best first, and how many lines it may lose.

    Some will be wrong.

    What is new comes first in its table, or at the end with a table of its own: ``tomlkit`` would
    put it between the next table and the comment above that.
    """
    import tomlkit

    *tables, name = keys
    if old is None:
        line = tomlkit.dumps({name: new}).rstrip("\n")
        if tables:
            header = f"[{tomlkit.key(tables).as_string()}]"
            yield (
                re.sub(rf"(?m)^{re.escape(header)}.*$", lambda m: f"{m[0]}\n{line}", text, count=1),
                0,
            )
            yield f"{text}\n{header}\n{line}\n".lstrip("\n"), 0
        else:
            yield (
                re.sub(
                    r"(?m)(^[ \t]*#.*\n)*^[ \t]*\[", lambda m: f"{line}\n\n{m[0]}", text, count=1
                ),
                0,
            )
    with suppress(RuntimeError, LookupError, AttributeError):  # what tomlkit cannot do is refused
        yield _edited(text, keys, new)


def _edited(text: str, keys: Sequence[str], new: Any) -> tuple[str, int]:
    """Change the text with tomlkit, which has a bad day now and then: see ``_changed`` for the
    checks.
    """
    import tomlkit
    from tomlkit.items import InlineTable

    *tables, name = keys
    document = tomlkit.parse(text)
    table: Any = document
    for each in tables:
        table = table.setdefault(each, tomlkit.table())
        if isinstance(table, InlineTable):
            raise ValueError(f"{each} is an inline table")
    # tomlkit gives a boolean as a plain one, which stands on one line.
    if name in table:
        shown = getattr(table[name], "as_string", lambda: "true")()
    else:
        shown = ""
    if isinstance(table.get(name), list | dict) and "\n" in shown and "#" in shown:
        raise ValueError(f"{name} has comments in it")
    if new is None:
        del table[name]
    else:
        table[name] = new
    return document.as_string(), shown.count("\n") + 1 if shown else 0


def _write(path: Path, text: str) -> None:
    """Put a whole new file in the place of the old one."""
    exists = path.exists()
    if exists:
        os.close(
            os.open(path, os.O_RDWR)
        )  # a file that may only be read is not to be replaced, either
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(handle)
            if exists:
                os.fchmod(handle, path.stat().st_mode & 0o7777)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
