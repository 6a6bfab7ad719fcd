"""Splits Markdown into blocks: headings, list items, table rows, paragraphs and code.

Only the line structure matters here, and no line may get lost: each non-blank line belongs to
exactly one block. A full Markdown parser drops deeply nested content, and takes longer to import
than this module takes to split a hundred files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from textwrap import dedent
from typing import Literal, NamedTuple

from hilum_rules.comments import FenceTracker

MAX_HEADING = 80
"""Maximum length of an underlined line that is a heading."""
BlockKind = Literal["heading", "item", "row", "text", "code", "tag", "line"]

# No regular expression examines a part of a line twice (``*+`` does not backtrack), because a line
# may be as long as the whole file.
_HEADING = re.compile(r" {0,3}(#{1,6})(?:(?=[ \t]|$)|(?<=##)(?=[^#\s!])|(?=[\u3000-\U0010ffff]))")
_CLOSING_MARKS = re.compile(r"(?:^|(?<=[ \t]))#++$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_LINE = re.compile(r"[ \t]*+(?:([-*_])(?:[ \t]*+\1){2,}+|=+)[ \t]*+$")
_ITEM = re.compile(
    r"([ \t]*)((?:[-*+•‣◦·–]|\d{1,9}[.)]|[a-zA-Z][)])(?=[ \t]|$)|\d{1,3}(?:[、．）]|，"
    r"(?!\d))|[（(]\d{1,3}[）)])([ \t]*)(.*)$"
)
_DIVIDER = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_TAG = re.compile(r"[ \t]*<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?(/?)>[ \t]*$")
# At most three spaces, as in CommonMark 5.1: with four, the line is code.
_QUOTE = re.compile(r" {0,3}>[ ]?")
_LABEL = re.compile(r"(\*\*|__)[^*_\n]{1,60}(?:[:：]\1|\1[ \t]*[:：])")
# HTML tags that do not name a section.
_PLAIN_TAGS = frozenset("br hr img p div center summary details a b i picture source sub".split())


class Block(NamedTuple):
    """A part of a Markdown text.

    Attributes:
        kind: The kind of block.
        line: The line on which the block begins, from 1.
        text: The text without a list item's marker. In a table row, each cell is preceded by the
            name of its column.
        level: The depth of a heading (from 1) or of a list item (from 0); 1 for an opening tag, -1
            for a closing tag; -1 for unclosed code.
    """

    kind: BlockKind
    line: int
    text: str
    level: int = 0


def split_blocks(lines: Sequence[str]) -> list[Block]:
    """Split a text into blocks, in order.

    Args:
        lines: The lines, without comments.
    """
    splitter = _Splitter(lines)
    splitter.split()
    return splitter.blocks


class _Splitter:
    """A pass over all lines. ``open_lines`` are those of the open paragraph or list item."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.blocks: list[Block] = []
        self.fences = FenceTracker()
        self.quotes = 0  # the depth of the block quote that contains the fence
        self.in_item = False  # whether the fence is in a list item
        self.code: list[str] = []
        self.code_at = 0
        self.open_lines: list[str] = []
        self.open_at = 0
        self.indents: list[int] = []  # indents of the open list items, outermost first
        self.after_blank = True
        self.head: list[str] = []  # the cells of a table's header row
        self.head_at = 0  # the line of the header row; 0 once another row follows

    def split(self) -> None:
        for number, given in enumerate(self.lines, 1):
            # Inside code, the marker of a deeper block quote is part of the code.
            line = _unquote(given, self.quotes if self.fences.mark else 99)
            if self.fences.is_code(line):
                if not self.code:
                    self.quotes = given[: len(given) - len(line)].count(">")
                self.read_code(number, line)
            elif not line.strip():
                self.end_table()
                self.after_blank = True
                if not self.indents:
                    self.end_text()
            else:
                self.read_line(number, line)
                self.after_blank = False
        self.end_table()
        self.end_text()
        if self.code:
            # Code that is never closed is kept and reported, because it affects everything below
            # it.
            self.add("code", self.code_at, "\n".join(self.code), -1)

    def add(self, kind: BlockKind, line: int, text: str, level: int = 0) -> None:
        self.blocks.append(Block(kind, line, text, level))

    def end_text(self) -> None:
        """End the open paragraph or list item."""
        if self.open_lines:
            rest = dedent("\n".join(self.open_lines[1:]))
            text = f"{self.open_lines[0].strip()}\n{rest}".strip()
            if self.indents:
                self.add("item", self.open_at, text, len(self.indents) - 1)
            else:
                self.add("text", self.open_at, text)
        self.open_lines = []

    def end_table(self) -> None:
        """End the open table. A header without rows is a paragraph."""
        if self.head and self.head_at:
            self.add("text", self.head_at, "; ".join(filter(None, self.head)))
        self.head = []

    def end_list(self) -> None:
        """End the open list."""
        self.end_text()
        self.indents = []

    def read_code(self, number: int, line: str) -> None:
        """Read a line of fenced code. Code in a list item is part of its text."""
        if not self.code:
            self.code_at = number
            self.end_table()
            follows_item = bool(self.indents) and not self.after_blank
            self.in_item = follows_item or _indent(line) > min(self.indents, default=999)
            if not self.in_item:
                self.end_list()
        self.code.append(line)
        if not self.fences.mark:
            if self.in_item:
                self.open_lines.append(_dedent(self.code))
            else:
                self.add("code", self.code_at, _dedent(self.code))
            self.code = []
        self.after_blank = False

    def read_line(self, number: int, line: str) -> None:
        """Read a non-blank line outside code."""
        # Table rows are checked first, because a row may look like a list item or a heading.
        if self.head and "|" in line:
            self.read_row(number, line)
            return
        self.end_table()
        for read in (
            self.read_table_head,
            self.read_heading,
            self.read_underline,
            self.read_rule,
            self.read_tag,
            self.read_item,
        ):
            if read(number, line):
                return
        self.read_text(number, line)

    def read_row(self, number: int, line: str) -> None:
        # Each row must be understandable on its own, because it becomes a separate rule.
        row = "" if _DIVIDER.match(line) else _name_cells(self.head, _cells(line))
        if row:
            self.head_at = 0
            self.add("row", number, row)

    def read_table_head(self, number: int, line: str) -> bool:
        following = _unquote(self.lines[number]) if number < len(self.lines) else ""
        is_table = "|" in line and "|" in following and _DIVIDER.match(following)
        if not is_table or _ITEM.match(line):
            return False
        self.end_list()
        self.head = _cells(line)
        self.head_at = number
        self.add("line", number, line.strip())
        return True

    def read_heading(self, number: int, line: str) -> bool:
        found = _HEADING.match(line)
        if found is None:
            return False
        self.end_list()
        # Closing marks are optional: ``## Title ##``.
        title = _CLOSING_MARKS.sub("", line[found.end() :].strip()).rstrip()
        if title:
            self.add("heading", number, title, len(found[1]))
        else:
            self.add("line", number, line.strip())
        return True

    def read_underline(self, number: int, line: str) -> bool:
        """Read an underline that makes the line above it a heading."""
        is_open = len(self.open_lines) == 1 and not self.indents and not self.after_blank
        if not is_open or len(self.open_lines[0]) > MAX_HEADING or not _UNDERLINE.match(line):
            return False
        level = 1 if "=" in line else 2
        self.add("heading", self.open_at, self.open_lines[0].strip(), level)
        self.open_lines = []
        return True

    def read_rule(self, number: int, line: str) -> bool:
        if not _LINE.match(line):
            return False
        self.end_list()
        self.add("line", number, line.strip())
        return True

    def read_tag(self, number: int, line: str) -> bool:
        found = _TAG.match(line)
        if found is None or found[2].lower() in _PLAIN_TAGS:
            return False
        self.end_list()
        level = 0 if found[3] else 1
        self.add("tag", number, found[2], -1 if found[1] else level)
        return True

    def read_item(self, number: int, line: str) -> bool:
        found = _ITEM.match(line)
        if found is None:
            return False
        indent = _indent(found[1])
        # In CommonMark, a list marker indented by four columns inside a paragraph is ordinary text.
        is_wrapped = self.open_lines and not self.indents and not self.after_blank and indent >= 4
        if is_wrapped:  # the line continues the paragraph
            self.open_lines.append(line.rstrip())
            return True
        self.end_text()
        # Two columns are the width of the shortest marker, "- ". An item indented by less than this
        # is at the same level.
        while self.indents and indent < self.indents[-1] + 2:
            self.indents.pop()
        self.indents.append(indent)
        self.open_lines = [found[4]]
        self.open_at = number
        return True

    def read_text(self, number: int, line: str) -> None:
        """Read a line of a paragraph, or of a list item."""
        if self.after_blank and self.leave_items(_indent(line)) and self.indents:
            # The line continues an outer item whose text is complete, so it becomes a new item at
            # that depth.
            self.open_lines = [line]
            self.open_at = number
            return
        if not self.open_lines:
            self.open_at = number
        elif self.after_blank:
            self.open_lines.append("")
        elif not self.indents and _LABEL.match(line) and _LABEL.match(self.open_lines[0]):
            # For example "**Do**: this", followed by "**Ask**: that" on the next line.
            self.end_text()
            self.open_at = number
        self.open_lines.append(line.rstrip())

    def leave_items(self, indent: int) -> bool:
        """End the items that cannot contain a line with this indent; return whether any ended."""
        if not self.indents or indent > self.indents[-1]:
            return False
        self.end_text()
        while self.indents and indent <= self.indents[-1]:
            self.indents.pop()
        return True


def _unquote(line: str, depth: int = 99) -> str:
    """Return a line without the markers of up to ``depth`` block quotes."""
    for _ in range(depth):
        found = _QUOTE.match(line)
        if found is None:
            break
        line = line[found.end() :]
    return line


def _indent(line: str) -> int:
    """Return a line's indentation, in columns."""
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def _dedent(lines: Sequence[str]) -> str:
    """Return fenced code without the indentation of its fence."""
    indent = len(lines[0]) - len(lines[0].lstrip(" \t"))
    return re.sub(rf"(?m)^[^\S\n]{{0,{indent}}}", "", "\n".join(lines))


def _cells(line: str) -> list[str]:
    row = line.strip().removeprefix("|").removesuffix("|")
    # A pipe after a backslash is text (GitHub Flavored Markdown 4.10).
    return [cell.replace(r"\|", "|").strip() for cell in re.split(r"(?<!\\)\|", row)]


def _name_cells(head: list[str], cells: list[str]) -> str:
    """Return a table row with the names of its columns."""
    named = []
    for name, cell in zip_longest(head, cells, fillvalue=""):
        if cell:
            named.append(f"{name}: {cell}" if name else cell)
    return "; ".join(named)
