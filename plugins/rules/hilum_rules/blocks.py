"""Markdown into blocks: headings, list items, rows of tables, paragraphs, code; each with its line.

Only the structure of lines matters here, and no line may get lost, whatever it looks like: each one
that is not blank ends up in exactly one block. (A parser for the whole of Markdown drops what is
nested too deep, and takes longer to import than this takes for a hundred files.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import Literal, NamedTuple

from hilum_rules.comments import Fences

Kind = Literal["heading", "item", "row", "text", "code", "tag", "line"]

# No expression here looks at a part of a line twice (``*+`` gives nothing back): a line may be as
# long as the whole file.
_HEADING = re.compile(r" {0,3}(#{1,6})(?:(?=[ \t]|$)|(?<=##)(?=[^#\s!])|(?=[\u3000-\U0010ffff]))")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_LINE = re.compile(r"[ \t]*+(?:([-*_])(?:[ \t]*+\1){2,}+|=+)[ \t]*+$")
_ITEM = re.compile(
    r"([ \t]*)((?:[-*+•‣◦·–]|\d{1,9}[.)]|[a-zA-Z][)])(?=[ \t]|$)|\d{1,3}(?:[、．）]|，"
    r"(?!\d))|[（(]\d{1,3}[）)])([ \t]*)(.*)$"
)
_ROW = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_TAG = re.compile(r"[ \t]*<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?(/?)>[ \t]*$")
_QUOTE = re.compile(r" {0,3}>[ ]?")
_LABEL = re.compile(r"(\*\*|__)[^*_\n]{1,60}(?:[:：]\1|\1[ \t]*[:：])")
_VOID = frozenset(
    {
        "br",
        "hr",
        "img",
        "p",
        "div",
        "center",
        "summary",
        "details",
        "a",
        "b",
        "i",
        "picture",
        "source",
        "sub",
    }
)
SHORT_HEADING = 80


class Block(NamedTuple):
    """A piece of a text.

    ``level`` is the depth of a heading (1 to 6) or of a list item (from 0); with a tag 1 for one
    that opens and -1 for one that closes. ``text`` has no list marks, and of a row the cells, named
    by the head of the table.
    """

    kind: Kind
    line: int
    text: str
    level: int = 0
    head: str = ""


def blocks(lines: Sequence[str]) -> list[Block]:
    """Take a text apart.

    Args:
        lines: Its lines, without comments.

    Returns:
        The blocks in order, lines counted from 1.
    """
    return list(_Reader(lines).read())


class _Reader:
    """One pass over the lines.

    What is open is ``part``: the lines of a paragraph or of a list item.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.fences = Fences()
        self.quoted = 0  # how deep in quotations the fence stands
        self.in_item = False  # the fence stands in a list item
        self.code: list[str] = []
        self.code_at = 0
        self.part: list[str] = []
        self.part_at = 0
        self.indents: list[int] = []  # of the list items that are open, outermost first
        self.blank = True
        self.head: list[str] = []  # the cells of the head of a table
        self.head_at = 0  # its line, 0 once a row follows

    def read(self) -> Iterator[Block]:
        for number, given in enumerate(self.lines, 1):
            line = _unquoted(given, self.quoted if self.fences.mark else 99)
            if self.fences.code(line):
                if self.code:
                    self.quoted = self.quoted
                else:
                    self.quoted = given[: len(given) - len(line)].count(">")
                yield from self.fence(number, line)
            elif not line.strip():
                yield from self.end_table()
                self.blank = True
                if not self.indents:
                    yield from self.close()
            else:
                yield from self.plain(number, line)
                self.blank = False
        yield from self.end_table()
        yield from self.close()
        if self.code:
            yield Block("code", self.code_at, "\n".join(self.code), -1)

    def close(self) -> Iterator[Block]:
        """End the open paragraph or list item."""
        if self.part:
            first = self.part[0].strip()
            rest = dedent("\n".join(self.part[1:]))
            kind: Kind = "item" if self.indents else "text"
            yield Block(
                kind, self.part_at, f"{first}\n{rest}".strip(), max(len(self.indents) - 1, 0)
            )
        self.part = []

    def end_table(self) -> Iterator[Block]:
        """End the table that is open; its head stands for itself if there are no rows."""
        if self.head and self.head_at:
            yield Block("text", self.head_at, "; ".join(filter(None, self.head)))
        self.head = []

    def leave(self) -> Iterator[Block]:
        """End the list that is open."""
        yield from self.close()
        self.indents = []

    def fence(self, number: int, line: str) -> Iterator[Block]:
        """Take a line of fenced code. Code in a list item stays in its text."""
        if not self.code:
            self.code_at = number
            yield from self.end_table()
            self.in_item = bool(self.indents) and (_width(line) > self.indents[0] or not self.blank)
            if not self.in_item:
                yield from self.leave()
        self.code.append(line)
        if not self.fences.mark:
            if self.in_item:
                self.part.append(_dedent(self.code))
            else:
                yield Block("code", self.code_at, _dedent(self.code))
            self.code = []
        self.blank = False

    def plain(self, number: int, line: str) -> Iterator[Block]:
        """A line outside of code that is not blank."""
        following = _unquoted(self.lines[number]) if number < len(self.lines) else ""
        if self.head:
            if "|" in line:
                if not (_ROW.match(line) and "-" in line) and (
                    row := _named(self.head, _cells(line))
                ):
                    self.head_at = 0
                    yield Block("row", number, row)
                return
            yield from self.end_table()
        if "|" in line and "|" in following and _ROW.match(following) and not _ITEM.match(line):
            yield from self.leave()
            self.head = _cells(line)
            self.head_at = number
            yield Block("line", number, line.strip())
        elif match := _HEADING.match(line):
            yield from self.leave()
            title = _title(line[match.end() :])
            yield (
                Block("heading", number, title, len(match[1]))
                if title
                else Block("line", number, line.strip())
            )
        elif self.underlined(line):
            yield Block("heading", self.part_at, self.part[0].strip(), 1 if "=" in line else 2)
            self.part = []
        elif _LINE.match(line):
            yield from self.leave()
            yield Block("line", number, line.strip())
        elif (tag := _TAG.match(line)) and tag[2].lower() not in _VOID:
            yield from self.leave()
            yield Block("tag", number, tag[2], -1 if tag[1] else 0 if tag[3] else 1)
        elif item := _ITEM.match(line):
            yield from self.item(number, item)
        else:
            yield from self.text(number, line)

    def underlined(self, line: str) -> bool:
        """Return whether this line makes a heading of the paragraph above it."""
        alone = len(self.part) == 1 and not self.indents and not self.blank
        return alone and bool(_UNDERLINE.match(line)) and len(self.part[0]) <= SHORT_HEADING

    def item(self, number: int, match: re.Match[str]) -> Iterator[Block]:
        """A list item begins."""
        indent = _width(match[1])
        if (
            not self.indents and indent >= 4 and self.part and not self.blank
        ):  # the wrapped line of a paragraph
            self.part.append(match[0].rstrip())
            return
        yield from self.close()
        while self.indents and indent < self.indents[-1] + 2:
            self.indents.pop()
        self.indents.append(indent)
        self.part = [match[4]]
        self.part_at = number

    def text(self, number: int, line: str) -> Iterator[Block]:
        """A line of a paragraph, of its own or of a list item."""
        if self.indents and self.blank and _width(line) <= self.indents[-1]:
            yield from self.close()
            while self.indents and _width(line) <= self.indents[-1]:
                self.indents.pop()
            if self.indents:
                # It goes on with an item further out, whose text is given already: an item of its
                # own at that depth.
                self.part = [line]
                self.part_at = number
                return
        if not self.part:
            self.part_at = number
        elif self.blank:
            self.part.append("")
        elif not self.indents and _LABEL.match(line) and _LABEL.match(self.part[0]):
            yield from self.close()  # "**Do**: this", and on the next line "**Ask**: that"
            self.part_at = number
        self.part.append(line.rstrip())


def _title(text: str) -> str:
    """The text of a heading, without the marks that may close it: ``## Title ##``."""
    text = text.strip()
    open_end = text.rstrip("#")
    if not open_end or open_end[-1] in " \t":
        return open_end.rstrip()
    return text


def _unquoted(line: str, most: int = 99) -> str:
    """A line without the marks of ``most`` quotations."""
    while most and (match := _QUOTE.match(line)):
        line = line[match.end() :]
        most = most - 1
    return line


def _width(line: str) -> int:
    """How far a line is indented, in columns."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def _dedent(lines: Sequence[str]) -> str:
    """Code without the indentation of its fence."""
    indent = len(lines[0]) - len(lines[0].lstrip(" \t"))
    return "\n".join(
        line[indent:] if not line[:indent].strip() else line.lstrip() for line in lines
    )


def _cells(line: str) -> list[str]:
    return [
        cell.replace(r"\|", "|").strip()
        for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    ]


def _named(head: list[str], cells: list[str]) -> str:
    """Write a row with the names of its columns."""
    names = [*head, *[""] * (len(cells) - len(head))]
    return "; ".join(
        f"{name}: {cell}" if name else cell
        for name, cell in zip(names, cells, strict=False)
        if cell
    )
