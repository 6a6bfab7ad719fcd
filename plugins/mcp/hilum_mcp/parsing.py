"""The text of a file of configuration into plain data: JSON as people write it, TOML, YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hilum_mcp.server import Mistake

MOST_BYTES = 4 << 20
DEEPEST = 60


class Unreadable(Exception):
    """A file cannot be read; says why, and where it is known on which line."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


def load(path: Path) -> tuple[dict[str, Any], list[Mistake]]:
    """Read a file by the end of its name: ``.toml``, ``.yaml`` or ``.yml``, all else as JSON.

    JSON may have comments, trailing commas and a byte order mark.

    Returns:
        The mapping that the file is, and what was odd in it.

    Raises:
        Unreadable: It is missing, too large, not of its format, or not a mapping.
    """
    text = _text(path)
    odd: list[Mistake] = []
    read = {".toml": _toml, ".yaml": _yaml, ".yml": _yaml}.get(path.suffix.lower(), _json)
    try:
        data = read(text, lambda reason, line=0: odd.append(Mistake(path, "", reason, line)))
    except RecursionError:
        raise Unreadable("It is nested too deeply.") from None
    if not isinstance(data, dict):
        raise Unreadable(f"It holds {_kind(data)} where a mapping of servers is expected.")
    return data, odd


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"It cannot be read: {error.strerror or error}.") from None
    if len(data) > MOST_BYTES:
        raise Unreadable(f"It is larger than {MOST_BYTES >> 20} MB.")
    for encoding in ("utf-16",) if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            break
    line = 1 + data.count(b"\n", 0, _first_bad(data))
    raise Unreadable("It is not text in UTF-8.", line)


def _first_bad(data: bytes) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "nothing")


Tell = Callable[..., None]


def _json(text: str, tell: Tell) -> Any:
    def pairs(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        found = list(items)
        keys = [key for key, _ in found]
        for key in dict.fromkeys(key for key in keys if keys.count(key) > 1) if len(set(keys)) < len(keys) else ():
            tell(f"The key {key!r} stands twice; the last one holds.")
        return dict(found)

    if not text.strip():
        return {}
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except ValueError as error:
        first = error
    if _depth(text) > DEEPEST:
        raise Unreadable("It is nested too deeply.")
    import json5  # comments, trailing commas: pure Python, for the files that need it

    try:
        return json5.loads(text, object_pairs_hook=pairs, allow_duplicate_keys=True)
    except ValueError as error:
        place = re.search(r"<string>:(\d+)", str(error))
        line = int(place[1]) if place else getattr(first, "lineno", 0)
        reason = re.sub(r"^<string>:\d+ ", "", str(error)).partition(" at column")[0]
        raise Unreadable(f"It is not JSON, not even with comments and trailing commas: {reason}.", line) from None


def _depth(text: str) -> int:
    """The most brackets that are open at once, those in strings included: enough for a bound."""
    deepest = now = 0
    for char in re.findall(r"[\[{\]}]", text):
        now += 1 if char in "[{" else -1
        deepest = max(deepest, now)
    return deepest


def _toml(text: str, tell: Tell) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = re.search(r"\(at line (\d+)", str(error))
        reason = re.sub(r" \(at .*\)$", "", str(error))
        raise Unreadable(f"It is not TOML: {reason}.", int(place[1]) if place else 0) from None


def _yaml(text: str, tell: Tell) -> Any:
    from hilum_frontmatter import read  # within bounds: no tags, no bombs, texts as they are written

    document = read(f"---\n{text.strip(chr(0xFEFF))}\n---\n")
    for problem in document.problems:
        tell(problem.message, max(problem.line - 1, 1))
    return document.fields
