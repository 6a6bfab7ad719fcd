"""Change one key of a settings file without affecting the rest of the file."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from hilum.errors import StoreError
from hilum.settings.errors import ChangeError
from hilum.settings.folder_lock import lock_folder
from hilum.settings.sources import read

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def change(path: Path, key: str | Sequence[str], value: Any | Callable[[Any], Any]) -> Path:
    """Set or remove one key in a TOML file; the comments, order and format of the rest are kept.

    Before the result is written, hilum checks that its data differs only in this key, and that all
    lines except those of the old value are the same. If several processes change the file, they do
    so one after another. The file is replaced atomically; if it is a link, its target is replaced.
    A new value is written on one line. The change is rejected if it affects a value with comments
    or an inline table, or if it would replace a value with one of another kind (a list instead of a
    string).

    Args:
        path: The file. A new file and its folder are accessible only to the user; an existing file
            keeps its mode.
        key: A dotted key such as ``plugins.block``, or the list of its parts if a part contains a
            dot.
        value: The new value; ``None`` removes the key. The value can also be a function that
            computes it from the old value (``None`` if there was none). If the function raises a
            ``TypeError`` or ``ValueError``, the change is rejected.

    Returns:
        The file that was changed.

    Raises:
        ChangeError: The file cannot be changed safely, so it was not changed.
        StoreError: No space is left on the device; the file was not changed.
    """
    # A settings file is often a link into a repository of dotfiles, and must stay a link.
    path = Path(os.path.realpath(path))
    keys = key.split(".") if isinstance(key, str) else list(key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_folder(path.parent):
            text, data = read(path)
            old = _value(data, keys)
            new = value(old) if callable(value) else value
            # Types are compared, too, because True == 1 and 1 == 1.0.
            if type(old) is not type(new) or old != new:
                _write(path, _changed(text, data, keys, old, new))
    except OSError as error:
        reason = error.strerror or str(error)
        # A ChangeError would be wrong here, because users are then advised to correct or remove the
        # file.
        if error.errno in _NO_SPACE:
            message = f"{path} cannot be changed: {reason}. It is unchanged."
            raise StoreError(message, hint="Free some space.") from None
        raise ChangeError(path, reason) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ChangeError(path, str(error)) from None
    return path


def _value(data: Any, keys: Sequence[str]) -> Any:
    """Return the value of a key; ``None`` if there is no value."""
    for name in keys:
        if data is None:
            return None
        if not isinstance(data, dict):
            raise ValueError(f"the parent of {'.'.join(keys)} is not a table")
        data = data.get(name)
    return data


def _changed(text: str, data: dict[str, Any], keys: Sequence[str], old: Any, new: Any) -> str:
    """Return the changed text, after checking it.

    Raises:
        ValueError: The text cannot be changed safely.
    """
    if old is not None and new is not None:
        kinds = {type(old), type(new)}
        if len(kinds) == 2 and kinds & {list, dict}:
            raise ValueError(f"{'.'.join(keys)} is of another kind")
    wanted = new
    for depth in reversed(range(len(keys))):
        table = dict(_value(data, keys[:depth]) or {})
        table[keys[depth]] = wanted
        wanted = {name: value for name, value in table.items() if value is not None}
    body = text.removeprefix("\ufeff")
    mark = text[: len(text) - len(body)]
    for changed, lines in _candidates(body, keys, old, new):
        with suppress(ValueError, RecursionError):
            is_wanted = _pruned(tomllib.loads(changed)) == _pruned(wanted)
            if is_wanted and _lost(body, changed) <= lines:
                return mark + changed
    raise ValueError("its form is unusual")


def _pruned(data: dict[str, Any]) -> dict[str, Any]:
    """Return data without empty tables, because removing ``a.b`` may leave an empty ``a``."""
    pruned = {}
    for name, value in data.items():
        inner = _pruned(value) if isinstance(value, dict) else value
        if inner != {}:
            pruned[name] = inner
    return pruned


def _lost(old: str, new: str) -> int:
    """Count the lines from the first to the last that differ between an old and a new text."""
    before = old.splitlines()
    after = new.splitlines()
    head = _same(before, after)
    tail = _same(before[head:][::-1], after[head:][::-1])
    return len(before) - head - tail


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the leading lines that are the same in both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _candidates(text: str, keys: Sequence[str], old: Any, new: Any) -> Iterator[tuple[str, int]]:
    """Yield candidates for the changed text, best first; some of them may be wrong.

    A new key is inserted at the beginning of its table, or in a new table at the end: ``tomlkit``
    would insert the key between the next table and the comment above it.

    Yields:
        The text, and how many lines of the original it may change.
    """
    import tomlkit

    *tables, name = keys
    if old is None:
        line = tomlkit.dumps({name: new}).rstrip("\n")
        if tables:
            header = f"[{tomlkit.key(tables).as_string()}]"
            first_line = rf"(?m)^{re.escape(header)}.*$"
            yield re.sub(first_line, lambda match: f"{match[0]}\n{line}", text, count=1), 0
            yield f"{text}\n{header}\n{line}\n".lstrip("\n"), 0
        else:
            # Insert before the first table, and before the comment above it.
            first_table = r"(?m)(^[ \t]*#.*\n)*^[ \t]*\["
            yield re.sub(first_table, lambda match: f"{line}\n\n{match[0]}", text, count=1), 0
    with suppress(RuntimeError, LookupError, AttributeError):  # tomlkit fails on some valid files
        yield _edited(text, keys, new)


def _edited(text: str, keys: Sequence[str], new: Any) -> tuple[str, int]:
    """Change the text with tomlkit, whose result ``_changed`` must check."""
    import tomlkit
    from tomlkit.items import InlineTable

    *tables, name = keys
    document = tomlkit.parse(text)
    table: Any = document
    for each in tables:
        table = table.setdefault(each, tomlkit.table())
        if isinstance(table, InlineTable):
            raise ValueError(f"{each} is an inline table")
    shown = ""
    if name in table:
        # For a boolean, tomlkit returns a Python bool, whose text takes one line.
        shown = getattr(table[name], "as_string", lambda: "true")()
    if isinstance(table.get(name), list | dict) and "\n" in shown and "#" in shown:
        raise ValueError(f"{name} contains comments")
    if new is None:
        del table[name]
    else:
        table[name] = new
    return document.as_string(), shown.count("\n") + 1 if shown else 0


def _write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    exists = path.exists()
    if exists:
        os.close(os.open(path, os.O_RDWR))  # opening fails if the file is read-only
    # The new file is in the same folder, because replacing is atomic only within one file system.
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            # The data is synced before the file is renamed; otherwise the file could be empty after
            # a power failure.
            os.fsync(handle)
            if exists:
                os.fchmod(handle, path.stat().st_mode & 0o7777)
        # Readers see either the old file or the new one, never a partial one.
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
