"""JSON as people write it, changed at one place: comments, order, indentation and trailing commas
of all else stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

_TOKEN = re.compile(
    r'(?P<gap>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\])*")|(?P<sign>[{}\[\]:,])|(?P<word>[^\s{}\[\]:,"/]+)',
    re.S,
)


class Entry(msgspec.Struct):
    """A member of a mapping, or an element of a list.

    Args:
        name: Its key; empty in a list.
        start: Where it begins, with its key.
        value: Where its value begins.
        end: Where its value ends.
        comma: Where the comma behind it ends; 0 for none.
    """

    name: str
    start: int
    value: int = 0
    end: int = 0
    comma: int = 0


class Box(msgspec.Struct):
    """A mapping or a list: where its inside begins and ends, and what is in it.

    Args:
        start: Behind the bracket that opens it.
        end: Before the one that closes it.
        entries: What is in it.
        filled: Where the last of it ends, comments included.
    """

    start: int
    end: int
    entries: list[Entry]
    filled: int


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value at a path of keys: in the place of the old one, or behind the
    others of its mapping.

    Raises:
        ValueError: The text is none that is understood, or a key on the way holds no mapping.
    """
    box, missing = _find(text, path[:-1])
    name, *inner = [*missing, path[-1]]
    for key in reversed(inner):
        value = {key: value}
    old = next((each for each in reversed(box.entries) if each.name == name), None)
    indent, step = _indent(text, box)
    shown = _shown(value, step, indent)
    if old is not None:
        return text[: old.value] + shown + text[old.end :]
    return _append(text, box, f"{json.dumps(name, ensure_ascii=False)}: {shown}", indent)


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value behind those of a list.

    Raises:
        ValueError: The text is none that is understood, or there is no such list.
    """
    box, missing = _find(text, path)
    if missing:
        raise ValueError(f"there is no list {missing[0]}")
    indent, step = _indent(text, box)
    return _append(text, box, _shown(value, step, indent), indent)


def take(text: str, path: Sequence[str]) -> str:
    """Return the text without a member.

    Raises:
        ValueError: The text is none that is understood, or there is no such member.
    """
    box, missing = _find(text, path[:-1])
    number = next(
        (n for n, each in enumerate(box.entries) if each.name == path[-1] and not missing), None
    )
    if number is None:
        raise ValueError(f"there is no {path[-1]}")
    entry = box.entries[number]
    last = number == len(box.entries) - 1
    start = entry.start
    end = entry.comma or entry.end
    before = text[:start].rstrip(" \t")
    behind = text[end:].lstrip(" \t")
    if before.endswith("\n") and behind.startswith("\n"):  # it had its lines to itself
        start = len(before)
        end = len(text) - len(behind) + 1
    head = text[:start]
    if last and number and not entry.comma:
        comma = box.entries[number - 1].comma
        head = text[: comma - 1] + text[comma:start]
    return head + text[end:]


def _find(text: str, path: Sequence[str]) -> tuple[Box, list[str]]:
    """Find the innermost box on the way to a path of keys, and give it with the keys that are not
    there.
    """
    at = _skip(text, len(text) - len(text.removeprefix("\ufeff")))
    for number, name in enumerate(path):
        box = _box(text, at)
        entry = next((each for each in reversed(box.entries) if each.name == name), None)
        if entry is None:
            return box, list(path[number:])
        at = entry.value
    return _box(text, at), []


def _box(text: str, at: int) -> Box:
    """Read the mapping or list that begins at a place."""
    if text[at : at + 1] not in ("{", "["):
        raise ValueError("no mapping is where one is expected")
    box = Box(at + 1, 0, [], at + 1)
    entry: Entry | None = None
    depth = 1
    named = text[at] == "["
    position = at + 1
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            break
        position = found.end()
        token = found[0]
        if found["gap"]:
            box.filled = position if token.strip() else box.filled
            continue
        if token in "}]":
            depth -= 1
            if not depth:
                box.end = found.start()
                return box
        box.filled = position
        if depth == 1 and token == ",":
            if box.entries:
                box.entries[-1].comma = position
            entry = None
            named = text[at] == "["
        elif depth == 1 and token == ":" and entry is not None and not named:
            named = True
            entry.value = 0
        else:
            if depth == 1 and entry is None and token not in "}]":
                entry = Entry("" if named else json.loads(token), found.start())
                box.entries.append(entry)
                if named:
                    entry.value = found.start()
            elif entry is not None and named and not entry.value:
                entry.value = found.start()
            if entry is not None:
                entry.end = position
        depth += token in "{["
    raise ValueError("it ends too early")


def _skip(text: str, at: int) -> int:
    while (found := _TOKEN.match(text, at)) and found["gap"]:
        at = found.end()
    return at


def _shown(value: Any, step: str | None, indent: str) -> str:
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{indent}")


def _indent(text: str, box: Box) -> tuple[str, str | None]:
    """Return what stands before an entry of a box on its line, and a step inward.

    No step where all is on one line.
    """
    if box.entries and "\n" not in text[box.start : box.end]:
        return "", None
    outer = re.match(r"[ \t]*", text[text.rfind("\n", 0, box.start) + 1 :])
    base = outer[0] if outer else ""
    for entry in box.entries:
        line = text[text.rfind("\n", 0, entry.start) + 1 : entry.start]
        if not line.strip():
            step = line.removeprefix(base) if line.startswith(base) else "  "
            return line, step or "  "
    step = "\t" if base.startswith("\t") else "  "
    return base + step, step


def _append(text: str, box: Box, shown: str, indent: str) -> str:
    if not box.entries:
        base = indent[: -len("\t" if indent.endswith("\t") else "  ")]
        return f"{text[: box.filled]}\n{indent}{shown}\n{base}{text[box.end :]}"
    last = box.entries[-1]
    tail = text[box.filled : box.end]
    if "\n" not in text[box.start : box.end]:  # all on one line
        return f"{text[: last.end]}, {shown}{text[last.comma or last.end :]}"
    comma = "" if last.comma else ","
    end = tail if "\n" in tail else f"\n{indent[:-2]}"
    middle = text[last.end : box.filled]
    return f"{text[: last.end]}{comma}{middle}\n{indent}{shown}{',' if last.comma else ''}{end}{text[box.end :]}"
