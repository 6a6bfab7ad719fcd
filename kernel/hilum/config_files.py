"""Read configuration files in JSON, TOML and YAML, with the line numbers of their keys.

The files belong to other programs, or were written by people: JSON may contain comments, trailing
commas and a byte order mark.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

__all__ = [
    "FileMistake",
    "LoadedFile",
    "UnreadableFile",
    "kind_of",
    "load_file",
    "read_regular_file",
    "replace_surrogates",
]

MAX_BYTES = 4 << 20
"""Maximum size of a file in bytes."""
MAX_SHOWN_KEY = 80
MAX_DUPLICATES = 20
Report = Callable[..., None]
"""Records a mistake: its reason, its line, and whether a part of the file is lost."""
Lines = dict[tuple[str, ...], int]
# The lines of deeper keys are not recorded, so that a deeply nested file takes little memory.
MAX_DEPTH = 8

_STRING = r'"(?:\\.|[^"\\\n])*"?'  # an unclosed string ends at the end of the line
_COMMENT = rf"(?s)({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)"
_TRAILING_COMMA = rf"({_STRING})|,(?=\s*[}}\]])"
_TOKEN = rf"{_STRING}|[{{}}\[\]:,]|\n"
_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "nothing",
}


class FileMistake(msgspec.Struct, frozen=True):
    """A mistake that does not prevent the rest of a file from being read.

    Attributes:
        reason: The mistake, in one sentence.
        line: The line number; 0 if unknown.
        is_loss: Whether a part of the file is not in the data.
    """

    reason: str
    line: int = 0
    is_loss: bool = False


class UnreadableFile(Exception):
    """A file cannot be read, for the reason in the message.

    Args:
        reason: One sentence.
        line: The line number; 0 if unknown.
    """

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


class LoadedFile(msgspec.Struct):
    """The content of a configuration file.

    Attributes:
        data: The mapping in the file.
        mistakes: Mistakes that do not prevent the rest of the file from being read.
        find_line: A function that returns the line number of the key at a path of keys, or of the
            nearest enclosing key; 0 if neither is known.
    """

    data: dict[str, Any]
    mistakes: list[FileMistake]
    find_line: Callable[[Sequence[str]], int]


def load_file(path: Path, contains: str = "settings", *, merges: bool = False) -> LoadedFile:
    """Read a configuration file. Blocks.

    The file's suffix determines the format: ``.toml``, ``.yaml`` or ``.yml``. All other files are
    read as JSON, which may contain comments, trailing commas and a byte order mark.

    Args:
        path: The file.
        contains: What the file contains, for the message about a file that is not a mapping.
        merges: Whether the lists and mappings of a key that occurs twice are merged, so that nothing
            in them is lost.

    Raises:
        UnreadableFile: The file is missing, too large, malformed, or not a mapping.
    """
    text = _read_text(path)
    mistakes: list[FileMistake] = []

    def report(reason: str, line: int, is_loss: bool = False) -> None:
        mistakes.append(FileMistake(reason, line, is_loss))

    parse, index_lines = _FORMATS.get(path.suffix.lower(), (_parse_json, _index_json_lines))
    if merges and parse is _parse_json:
        parse = _parse_merged_json
    try:
        data = replace_surrogates(parse(text, report))
    except RecursionError:
        raise UnreadableFile("It is nested too deeply.") from None
    if not isinstance(data, dict):
        raise UnreadableFile(f"It contains {kind_of(data)}; a mapping of {contains} is expected.")

    @cache
    def lines() -> Lines:
        return index_lines(text)  # called only if the file has mistakes

    def find_line(keys: Sequence[str]) -> int:
        # A key without a line of its own, as in a list, gets its parent's line number.
        wanted = tuple(keys)
        while wanted and wanted not in lines():
            wanted = wanted[:-1]
        return lines().get(wanted, 0)

    return LoadedFile(data, mistakes, find_line)


def read_regular_file(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a whole file. Blocks, but never waits for a pipe or a device.

    Args:
        path: The file.
        limit: Maximum size in bytes.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a regular file, or is too large.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        # The open file is checked, because the file at the path may be replaced at any time.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"larger than {limit:,} bytes")
    return data


def _read_text(path: Path) -> str:
    try:
        data = read_regular_file(path, MAX_BYTES)
    except OSError as error:
        raise UnreadableFile(f"It cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise UnreadableFile(f"It is {error}.") from None
    # Editors and shells on Windows write UTF-16 and byte order marks.
    is_utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        name = "UTF-16" if is_utf_16 else "UTF-8"
        line = 1 + data.count(b"\n", 0, error.start)
        raise UnreadableFile(f"It is not text in {name}.", line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which JSON can contain but which cannot be printed or sent."""
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_surrogates(item) for item in value]
    if isinstance(value, str) and not value.isascii():
        # In UTF-16, two surrogates that form a pair become one character; only lone surrogates are
        # replaced.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def kind_of(value: object) -> str:
    """Return a user-facing name of a value's type, with an article."""
    return _KINDS.get(type(value), "another value")


# --- JSON -----------------------------------------------------------------------------------------


def _parse_merged_json(text: str, report: Report) -> Any:
    return _parse_json(text, report, merges=True)


def _parse_json(text: str, report: Report, *, merges: bool = False) -> Any:
    # The text may be parsed twice, but each duplicate is reported once.
    reported: dict[bool, set[str]] = {True: set(), False: set()}

    def build(items: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(items)
        lost = set(mapping)
        if merges and len(mapping) < len(items):
            mapping, lost = _merge_items(items)
        if len(mapping) < len(items):
            _report_duplicates(items, lost, reported, text, report)
        return mapping

    plain = text
    try:
        # The strict parser is the fastest, and most files have no comments.
        try:
            return json.loads(text, object_pairs_hook=build)
        except json.JSONDecodeError:
            plain = _without_comments(text)
        if not plain.strip():
            return {}
        return json.loads(plain, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        if plain.lstrip().startswith('"'):
            reason = "It is only a part of a JSON file. Enclose it in { and }."
            raise UnreadableFile(reason) from None
        reason = "It is not JSON, not even with comments and trailing commas"
        raise UnreadableFile(f"{reason}: {error.msg}.", error.lineno) from None
    except ValueError as error:  # raised for a number with thousands of digits
        raise UnreadableFile(f"It is not JSON: {error}.") from None


def _merge_items(items: list[tuple[str, Any]]) -> tuple[dict[str, Any], set[str]]:
    """Return a mapping with the values of equal keys merged, and the keys that lose a value."""
    mapping: dict[str, Any] = {}
    lost: set[str] = set()
    for key, value in items:
        before = mapping.get(key, value)
        is_first = key not in mapping
        mapping[key] = value
        if is_first:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            mapping[key], inner = _merge_items([*before.items(), *value.items()])
            lost |= {key} if inner else set()
        elif isinstance(before, list) and isinstance(value, list):
            mapping[key] = [*before, *value]
        elif before != value:
            lost.add(key)
    return mapping, lost


def _report_duplicates(
    items: list[tuple[str, Any]],
    lost: set[str],
    reported: dict[bool, set[str]],
    text: str,
    report: Report,
) -> None:
    """Report the keys that occur twice.

    Args:
        items: The items of a mapping.
        lost: The keys of which only the last value is used.
        reported: The keys that have been reported, by whether a value of them is lost.
        text: The file.
        report: Records a mistake.
    """
    lines: dict[str, int] = {}
    counts = Counter(key for key, _ in items)
    for key, count in counts.items():
        is_lost = key in lost
        known = reported[is_lost]
        if count > 1 and key not in known and len(known) < MAX_DUPLICATES:
            known.add(key)
            shown = key[:MAX_SHOWN_KEY]
            lines = lines or _index_repeated_keys(text)
            line = lines.get(key, 0)
            used = "the last one is used" if is_lost else "all its values are used"
            reason = f"The key {shown!r} occurs twice in one mapping; {used}."
            report(reason, line, is_lost)


def _index_repeated_keys(text: str) -> dict[str, int]:
    """Return the keys that occur twice in one mapping, each with the line of the second one."""
    open_keys: list[set[str]] = []  # the keys so far of each open mapping or list
    line = 1
    key_line = 0
    key = ""
    found: dict[str, int] = {}
    for match in re.finditer(_TOKEN, re.sub(_COMMENT, _blank_comment, text)):
        token = match[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            open_keys.append(set())
        elif token in "}]":
            del open_keys[-1:]
        elif token == ":" and open_keys:
            if key in open_keys[-1]:
                found.setdefault(key, key_line)
            open_keys[-1].add(key)
        elif token not in ":,":
            key_line = line
            key = _decode_string(token)
    return found


def _without_comments(text: str) -> str:
    text = re.sub(_COMMENT, _blank_comment, text)
    return re.sub(_TRAILING_COMMA, lambda found: found[1] or " ", text)


def _blank_comment(found: re.Match[str]) -> str:
    """Return a string unchanged, and a comment as its line breaks, to preserve line numbers."""
    return found[1] or " " + "\n" * found[0].count("\n")


def _index_json_lines(text: str) -> Lines:
    """Return the line number of each key; as in the parser, the last duplicate counts."""
    open_keys: list[str | None] = []  # the current key at each depth; None for a list
    line = 1
    key_line = 0
    lines: Lines = {}
    key = ""
    for match in re.finditer(_TOKEN, re.sub(_COMMENT, _blank_comment, text)):
        token = match[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            open_keys.append("" if token == "{" else None)
        elif token in "}]":
            del open_keys[-1:]
        elif token == ":" and open_keys and open_keys[-1] is not None:
            open_keys[-1] = key
            if len(open_keys) <= MAX_DEPTH and None not in open_keys:
                lines[tuple(map(str, open_keys))] = key_line
        elif token not in ":,":
            key_line = line
            key = _decode_string(token)
    return lines


def _decode_string(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


# --- TOML -----------------------------------------------------------------------------------------


def _parse_toml(text: str, report: Report) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = re.search(r"\(at line (\d+)", str(error))
        reason = re.sub(r" \(at .*\)$", "", str(error))
        line = int(place[1]) if place else 0
        raise UnreadableFile(f"It is not TOML: {reason}.", line) from None


def _index_toml_lines(text: str) -> Lines:
    """Return the line number of each key and table.

    A table without its own header gets the line number of its first subtable.
    """
    table: list[str] = []
    lines: Lines = {}
    headers: Lines = {}
    outer_tables: Lines = {}
    for number, row in enumerate(text.split("\n"), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", row)
        if header:
            table = _split_toml_key(header[1])
            headers[tuple(table)] = number
            for depth in range(1, min(len(table), MAX_DEPTH)):
                outer_tables.setdefault(tuple(table[:depth]), number)
            continue
        key = re.match(r"\s*+([\w.\"' -]+?)\s*=", row)
        if key:
            lines.setdefault((*table, *_split_toml_key(key[1])), number)
    # Later mappings take precedence, because a key's own line is more precise than its table's.
    return {**outer_tables, **headers, **lines}


def _split_toml_key(text: str) -> list[str]:
    found = re.findall(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)", text)
    return [double or single or plain for double, single, plain in found]


# --- YAML -----------------------------------------------------------------------------------------


def _parse_yaml(text: str, report: Report) -> Any:
    from hilum.frontmatter import read as read_front_matter

    # The front matter reader allows neither tags nor aliases that expand without limit, and it
    # reads `no` and `1.10` as strings.
    inner = text.strip("\ufeff")
    first_line = 1
    opening = re.match(r"(?:[^\S\n]*+(?:#[^\n]*)?\n)*+---[ \t]*\n", inner)
    if opening:
        first_line -= inner.count("\n", 0, opening.end())
        inner = inner[opening.end() :]
    if not inner.strip():
        return {}
    document = read_front_matter(f"---\n{inner}\n---\n")
    for problem in document.problems:
        report(problem.message, max(problem.line - first_line, 1))
    if document.body.strip():
        line = document.line - first_line
        report("The text after a `---` line is another document and was left out.", line)
    return document.fields


def _index_yaml_lines(text: str) -> Lines:
    """Return the line number of each key, found by its indentation, except in YAML's flow style."""
    open_keys: list[tuple[int, str]] = []
    lines: Lines = {}
    for number, row in enumerate(text.split("\n"), 1):
        match = re.match(r"( *)([\"']?)([^\s\"'#:-][^\"':]*?)\2\s*:(?:\s|$)", row)
        if not match:
            continue
        depth = len(match[1])
        while open_keys and open_keys[-1][0] >= depth:
            open_keys.pop()
        open_keys.append((depth, match[3]))
        if len(open_keys) <= MAX_DEPTH:
            lines.setdefault(tuple(key for _, key in open_keys), number)
    return lines


_FORMATS = {
    ".toml": (_parse_toml, _index_toml_lines),
    ".yaml": (_parse_yaml, _index_yaml_lines),
    ".yml": (_parse_yaml, _index_yaml_lines),
}
