"""The text of a file of configuration into plain data: JSON as people write it, TOML, YAML.

And the lines of its keys.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hilum_mcp.server import Mistake

MOST_BYTES = 4 << 20
LONGEST_WORD = 80
MOST_TOLD = 20
Tell = Callable[..., None]
Lines = Callable[[Sequence[str]], int]

_STRING = r'"(?:\\.|[^"\\\n])*"?'  # one that is not closed ends with its line
# Compiled at first use, which most files do not come to.
_COMMENT = rf"(?s)({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)"
_COMMA = rf"({_STRING})|,(?=\s*[}}\]])"
_TOKEN = rf"{_STRING}|[{{}}\[\]:,]|\n"


class Unreadable(Exception):
    """A file cannot be read; says why, and where it is known on which line."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


class Loaded(msgspec.Struct):
    """A file that was read.

    Args:
        data: The mapping that it is.
        odd: What was read otherwise than it is written.
        line: Gives the line of a path of keys; 0 where it is not known.
    """

    data: dict[str, Any]
    odd: list[Mistake]
    line: Lines


def load(path: Path) -> Loaded:
    """Read a file by the end of its name: ``.toml``, ``.yaml`` or ``.yml``, all else as JSON.

    JSON may have comments, trailing commas and a byte order mark.

    Raises:
        Unreadable: It is missing, too large, not of its format, or not a mapping.
    """
    text = _text(path)
    odd: list[Mistake] = []
    read, lines = {
        ".toml": (_toml, _toml_lines),
        ".yaml": (_yaml, _yaml_lines),
        ".yml": (_yaml, _yaml_lines),
    }.get(path.suffix.lower(), (_json, _json_lines))
    try:
        data = whole(read(text, lambda reason, line=0: odd.append(Mistake(path, "", reason, line))))
    except RecursionError:
        raise Unreadable("It is nested too deeply.") from None
    if not isinstance(data, dict):
        raise Unreadable(f"It holds {_kind(data)} where a mapping of servers is expected.")
    return Loaded(data, odd, lines(text))


def parse(text: str) -> Any:
    """Read JSON that may have comments, trailing commas and a byte order mark.

    Raises:
        Unreadable: It is none.
    """
    return whole(_json(text.removeprefix("\ufeff"), lambda *_: None))


def _text(path: Path) -> str:
    try:
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable("It is no plain file.")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"It cannot be read: {error.strerror or error}.") from None
    if len(data) > MOST_BYTES:
        raise Unreadable(f"It is larger than {MOST_BYTES >> 20} MB.")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise Unreadable(
            f"It is not text in {encoding.removesuffix('-sig').upper()}.", line
        ) from None


def whole(value: Any) -> Any:
    """Make half characters (JSON can write them) into such as can be printed, hashed and sent."""
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _kind(value: object) -> str:
    names = {
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "nothing")


# --- JSON -----------------------------------------------------------------------------------------


def _json(text: str, tell: Tell) -> Any:
    told = set[str]()

    def pairs(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        found = list(items)
        kept = dict(found)
        if len(kept) < len(found):
            for key, count in Counter(key for key, _ in found).items():
                if count > 1 and key not in told and len(told) < MOST_TOLD:
                    told.add(key)
                    tell(
                        f"The key {key[:LONGEST_WORD]!r} stands twice in one mapping; the last one"
                        " holds."
                    )
        return kept

    if not text.strip():
        return {}
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError:
        stripped = re.sub(_COMMA, lambda found: found[1] or " ", re.sub(_COMMENT, _blank, text))
    except ValueError as error:  # a number of thousands of digits
        raise Unreadable(f"It is not JSON: {error}.") from None
    try:
        if stripped.strip():
            return json.loads(stripped, object_pairs_hook=pairs)
        return {}
    except json.JSONDecodeError as error:
        if stripped.lstrip().startswith('"'):
            raise Unreadable("It is a part of a JSON file: { and } go around it.") from None
        reason = "It is not JSON, not even with comments and trailing commas"
        raise Unreadable(f"{reason}: {error.msg}.", error.lineno) from None
    except ValueError as error:
        raise Unreadable(f"It is not JSON: {error}.") from None


def _blank(found: re.Match[str]) -> str:
    """Replace a comment by what it takes in lines."""
    return found[1] or " " + "\n" * found[0].count("\n")


def _json_lines(text: str) -> Lines:
    def line(path: Sequence[str]) -> int:
        return _scan(re.sub(_COMMENT, _blank, text), list(path))

    return line


def _scan(text: str, wanted: list[str]) -> int:
    """Return the line of the key that a path leads to.

    Of keys that stand twice the last one is meant, as in reading.
    """
    at: list[str | None] = []  # the key that is open at each depth; None in a list
    number = 1
    where = 0
    found = 0
    word = ""
    for match in re.finditer(_TOKEN, text):
        token = match[0]
        if token == "\n":
            number += 1
        elif token in "{[":
            at.append("" if token == "{" else None)
        elif token in "}]":
            if at:
                at.pop()
        elif token == ":":
            if at and at[-1] is not None:
                at[-1] = word
                if at == wanted:
                    found = where
        elif token != ",":
            where = number
            try:
                word = json.loads(token)
            except ValueError:
                word = token
    return found


# --- TOML -----------------------------------------------------------------------------------------


def _toml(text: str, tell: Tell) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = re.search(r"\(at line (\d+)", str(error))
        reason = re.sub(r" \(at .*\)$", "", str(error))
        raise Unreadable(f"It is not TOML: {reason}.", int(place[1]) if place else 0) from None


def _toml_lines(text: str) -> Lines:
    def line(path: Sequence[str]) -> int:
        """The line of a table's header.

        Of a key in a table the line of the key, where it stands on one of its own.
        """
        inside: list[str] = []
        header = 0
        for number, row in enumerate(text.split("\n"), 1):
            match = re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", row)
            if match:
                inside = _toml_keys(match[1])
                if inside == list(path) or (not header and inside[: len(path)] == list(path)):
                    header = number
                else:
                    header = header
            elif (match := re.match(r"\s*([\w.\"' -]+?)\s*=", row)) and [
                *inside,
                *_toml_keys(match[1]),
            ] == list(path):
                return number
        return header

    return line


def _toml_keys(text: str) -> list[str]:
    found = re.findall(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)", text)
    return [one or two or three for one, two, three in found]


# --- YAML -----------------------------------------------------------------------------------------


def _yaml(text: str, tell: Tell) -> Any:
    from hilum_frontmatter import (
        read,
    )  # within bounds: no tags, no bombs, texts as they are written

    inner = text.strip("\ufeff")
    shift = 1
    opening = re.match(r"(?:\s*(?:#[^\n]*)?\n)*---[ \t]*\n", inner)
    if opening:
        shift -= inner.count("\n", 0, opening.end())
        inner = inner[opening.end() :]
    if not inner.strip():
        return {}
    document = read(f"---\n{inner}\n---\n")
    for problem in document.problems:
        tell(problem.message, max(problem.line - shift, 1))
    if document.body.strip():
        tell(
            "What follows a line --- is another document, and was left out.", document.line - shift
        )
    return document.fields


def _yaml_lines(text: str) -> Lines:
    def line(path: Sequence[str]) -> int:
        """By indentation: block style only, which is how these files are written."""
        open_keys: list[tuple[int, str]] = []
        for number, row in enumerate(text.split("\n"), 1):
            match = re.match(r"( *)([\"']?)([^\s\"'#:-][^\"':]*?)\2\s*:(?:\s|$)", row)
            if match:
                depth = len(match[1])
                while open_keys and open_keys[-1][0] >= depth:
                    open_keys.pop()
                open_keys.append((depth, match[3]))
                if [key for _, key in open_keys] == list(path):
                    return number
        return 0

    return line
