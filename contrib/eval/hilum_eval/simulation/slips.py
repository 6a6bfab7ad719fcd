"""Makes wrong calls, as models make them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from hilum_eval.simulation.draws import Draws

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]{3,}")
_INDENTATION = re.compile(r"^(?: {4})+", re.MULTILINE)
_TYPOGRAPHIC = {'"': "“", "'": "’", " - ": " – ", "...": "…"}
_WRONG_NAMES = {
    "path": "file",
    "file_path": "path",
    "old_string": "old_text",
    "old_str": "old_string",
    "command": "cmd",
    "pattern": "regex",
    "content": "text",
}


class WrongEdit(NamedTuple):
    """The arguments of a wrong edit."""

    old: str
    new: str


def make_wrong_edit(
    kind: str, old: str, new: str, original: str, draws: Draws, *place: object
) -> WrongEdit:
    """Return an edit with a wrong old text.

    Args:
        kind: ``stale``, ``whitespace``, ``typographic``, ``not_unique`` or ``identical``.
        old: The right old text.
        new: The new text.
        original: The file as the case has it; empty if it is unknown.
        draws: The random numbers.
        place: What the random numbers depend on.
    """
    if kind == "identical":
        return WrongEdit(old, old)
    if kind == "whitespace":
        return _change_whitespace(old, new)
    if kind == "typographic":
        wrong = old
        for plain, typographic in _TYPOGRAPHIC.items():
            wrong = wrong.replace(plain, typographic)
        if wrong != old:
            return WrongEdit(wrong, new)
    if kind == "not_unique":
        short = _find_frequent_part(old, original)
        if short:
            return WrongEdit(short, new)
    return WrongEdit(_misremember(old, draws, *place), new)


def _change_whitespace(old: str, new: str) -> WrongEdit:
    """Return an edit without its common indentation, or with a blank too many."""
    lines = [line for line in old.split("\n") if line.strip()]
    indents = [len(line) - len(line.lstrip()) for line in lines]
    common = min(indents, default=0)
    if common:
        return WrongEdit(_dedent(old, common), _dedent(new, common))
    if any(indents):
        return WrongEdit(_use_tabs(old), _use_tabs(new))
    first, newline, rest = old.partition("\n")
    return WrongEdit(f"{first} {newline}{rest}", new)


def _dedent(text: str, count: int) -> str:
    lines = []
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        lines.append(line[min(indent, count) :])
    return "\n".join(lines)


def _use_tabs(text: str) -> str:
    tabbed: str = _INDENTATION.sub(lambda found: "\t" * (len(found[0]) // 4), text)
    return tabbed


def _find_frequent_part(old: str, original: str) -> str:
    """Return a part of a text that is in the file several times; empty if there is none."""
    candidates: list[str] = [line.strip() for line in old.split("\n")] + _WORD.findall(old)
    for candidate in sorted(filter(None, candidates), key=len, reverse=True):
        if candidate != old and original.count(candidate) > 1:
            return candidate
    return ""


def _misremember(text: str, draws: Draws, *place: object) -> str:
    """Return a text in which one word is another one."""
    words = list(_WORD.finditer(text))
    if not words:
        return f"{text} # as before"
    word = words[int(draws.draw(*place, "word") * len(words))]
    endings = ("_value", "_data", "s", "_old")
    ending = endings[int(draws.draw(*place, "ending") * len(endings))]
    return f"{text[: word.end()]}{ending}{text[word.end() :]}"


def make_wrong_path(path: str, draws: Draws, *place: object) -> str:
    """Return a path with a mistake that models make; the file does not exist there."""
    pure = PurePosixPath(path)
    kinds = ["typo", "suffix", "folder"]
    kind = kinds[int(draws.draw(*place, "path") * len(kinds))]
    if kind == "folder" and len(pure.parts) > 1:
        return str(PurePosixPath(*pure.parts[1:]))
    if kind == "suffix" and pure.suffix in (".js", ".jsx", ".ts"):
        other = {".js": ".ts", ".jsx": ".tsx", ".ts": ".js"}
        return str(pure.with_suffix(other[pure.suffix]))
    stem = pure.stem
    wrong = stem[:-1] if stem.endswith("s") else f"{stem}s"
    return str(pure.with_name(wrong + pure.suffix))


def break_arguments(arguments: Mapping[str, Any], required: list[str], kind: float) -> str:
    """Return arguments, as JSON, that break the schema of a tool.

    Args:
        arguments: The right arguments.
        required: The parameters that the tool needs.
        kind: A number from 0 to 1 that chooses the mistake.
    """
    wrong = dict(arguments)
    names = [name for name in required if name in wrong] or list(wrong)
    main = names[0]
    if kind < 0.35:
        del wrong[names[-1]]
    elif kind < 0.65:
        value = wrong.pop(main)
        wrong = {_WRONG_NAMES.get(main, f"{main}_name"): value, **wrong}
    elif kind < 0.85:
        wrong[main] = [wrong[main]]
    else:
        return json.dumps(wrong, ensure_ascii=False)[:-1]
    return json.dumps(wrong, ensure_ascii=False)
