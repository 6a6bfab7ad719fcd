"""Globs as regular expressions: those of ignore files and those of the tools' ``glob``.

The rules are ripgrep's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAGIC = frozenset("*?[{\\")


def to_regex(glob: str) -> str:
    """Write a glob as a regular expression for a whole path with forward slashes.

    ``*`` and ``?`` stay within a name, ``**`` crosses folders, ``{a,b}`` are alternatives, ``[!a]``
    is a class.

    Raises:
        ValueError: A bracket or brace is not closed, or a class is upside down.
    """
    out: list[str] = []
    depth = at = 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            stars = re.compile(r"\*+").match(glob, at)
            piece, at = _stars(glob, at, stars.end() if stars else at + 1, out)
            out.append(piece)
            continue
        at += 1
        if char == "?":
            out.append("[^/]")
        elif char == "[":
            piece, at = _class(glob, at)
            out.append(piece)
        elif char == "{":
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        else:
            if char == "\\" and at < len(glob):
                char = glob[at]
                at = at + 1
            out.append(re.escape(char))
    if depth:
        raise ValueError("a brace { is not closed")
    return "".join(out)


def _stars(glob: str, begin: int, end: int, out: list[str]) -> tuple[str, int]:
    """Translate a run of stars; ``out`` may lose the slash before it."""
    opens = begin == 0 or glob[begin - 1] == "/"
    closes = end == len(glob) or glob[end] == "/"
    if end - begin != 2 or not opens or not closes:
        return "[^/]*", end
    if end == len(glob):
        return ".*", end
    if begin == 0:
        return "(?:.*/)?", end + 1
    out.pop()
    return "/(?:.*/)?", end + 1


def _class(glob: str, at: int) -> tuple[str, int]:
    negated = glob[at : at + 1] in ("!", "^")
    begin = at + negated
    end = glob.find("]", begin + 1)
    if end < 0:
        raise ValueError("a bracket [ is not closed")
    items = re.sub(r"([\\\[\]^&~|])", r"\\\1", glob[begin:end])
    if items.startswith("-"):
        items = "\\" + items
    piece = f"(?!/)[{'^' * negated}{items}]"
    try:
        re.compile(piece)
    except re.error as error:
        raise ValueError(str(error)) from None
    return piece, end + 1


def split_list(text: str) -> list[str]:
    """Split at commas outside of braces: ``*.ts, *.{js,jsx}`` are two globs."""
    parts = [""]
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}" and depth > 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def fixed_folders(glob: str) -> str:
    """Return the folders that a glob names plainly at its beginning: ``src/lib`` of
    ``src/lib/**/*.py``.
    """
    *folders, _ = glob.split("/")
    plain = []
    for folder in folders:
        if MAGIC & set(folder):
            break
        plain.append(folder)
    return "/".join(plain) or ("/" if plain else "")


def last_name(glob: str) -> str:
    """Return the part of a glob that names files, if it is plain enough to mean the same
    everywhere; else nothing.
    """
    name = glob.rpartition("/")[2]
    braces_whole = name.count("{") == name.count("}") == glob.count("{") == glob.count("}")
    if braces_whole and "**" not in name and re.fullmatch(r"[\w.*{},+@-]+", name, re.ASCII):
        return name
    return ""


def matcher(globs: list[str]) -> Callable[[str], bool]:
    """Return a test for paths: whether any glob matches, and none of those that begin with ``!``.

    A glob without a slash is for the name alone, wherever the file is. Where all begin with ``!``,
    the rest is meant.

    Raises:
        ValueError: One of them is no glob.
    """

    def joined(chosen: list[str]) -> re.Pattern[str]:
        regexes = [
            to_regex(glob.removeprefix("/") if "/" in glob else f"**/{glob}") for glob in chosen
        ]
        return re.compile("|".join(f"(?:{regex})\\Z" for regex in regexes), re.DOTALL)

    wanted = joined([glob for glob in globs if not glob.startswith("!")] or ["**"])
    unwanted = joined([glob[1:] for glob in globs if glob.startswith("!")] or ["//"])
    return lambda path: bool(wanted.match(path)) and not unwanted.match(path)
