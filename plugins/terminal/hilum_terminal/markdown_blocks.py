"""Splits a streaming answer in Markdown into finished blocks.

A block is finished when no later text can change how it looks. Finished blocks are written to the
terminal's scrollback once and never redrawn. Long blocks are finished in pieces, so that neither
the live part of the screen nor the work per character grows with the answer.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal

import attrs

from hilum_terminal.text_width import escape_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BlockKind = Literal["any", "fence", "html", "list", "quote", "indented", "table", "paragraph"]

# markdown-it drops more deeply nested content; the renderer shows such blocks as plain text.
MAX_NESTING = 60
# This mark precedes the rest of a long paragraph, so that the rest cannot become a heading or a
# list.
PARAGRAPH_MARK = "\ue000"
# Each arriving character earns credit for parsing this many characters, so the work for an
# unfinished block does not grow with its length. This credit allows short blocks to be parsed after
# each line.
PARSED_PER_CHARACTER = 8
MAX_CREDIT = 50_000
# Parsing a line costs as much as this number of additional characters.
LINE_COST = 40
# A long text that arrives at once is fed in parts, so that its long blocks are also finished in
# pieces.
_FEED_SIZE = 4_000
_BLANKS = " \t\r\n"
_QUOTE_MARKER = re.compile(" {0,3}>")


@attrs.frozen
class PieceSizes:
    """Size limits, in characters, above which an open block is finished in pieces."""

    fence: int = 16_000
    html: int = 16_000
    list: int = 4_000
    quote: int = 8_000
    indented: int = 8_000
    table: int = 6_000
    paragraph: int = 100_000


class Block(str):
    """The source of a finished block, or of a piece of a long block.

    Attributes:
        kind: Kind of block that this is a piece of; ``any`` for a whole block.
        continued: Whether this piece continues the previous block, without a blank row in between.
        opening: Text to parse before the source: the first line of a fence, or the header of a
            table.
        number: Number of the first item in a continued list.
        first_piece: The first piece of a table, which determines the widths of its columns.
    """

    kind: BlockKind
    continued: bool
    opening: str
    number: int | None
    first_piece: str

    def __new__(
        cls,
        source: str,
        *,
        kind: BlockKind = "any",
        continued: bool = False,
        opening: str = "",
        number: int | None = None,
        first_piece: str = "",
    ) -> Block:
        """Create a block."""
        block = super().__new__(cls, source)
        block.kind = kind
        block.continued = continued
        block.opening = opening
        block.number = number
        block.first_piece = first_piece
        return block


@attrs.frozen
class _Continued:
    """The state that the rest of a block needs after a piece of it was finished."""

    kind: BlockKind
    opening: str = ""
    number: int | None = None
    first_piece: str = ""

    def block(self, source: str) -> Block:
        """Return the next piece."""
        return Block(
            source,
            kind=self.kind,
            continued=True,
            opening=self.opening,
            number=self.number,
            first_piece=self.first_piece,
        )


@attrs.frozen
class _Verbatim:
    """An open block that only a certain line can end, so its lines need no parser."""

    kind: Literal["fence", "html"]
    end: re.Pattern[str]
    opening: str


@attrs.frozen
class _TopBlock:
    """A top-level block in the parsed text.

    Attributes:
        all_tokens: The tokens of the whole text.
        first: Index of the block's first token.
        start: Its first line.
        end: The line after it.
    """

    all_tokens: list[Token]
    first: int
    start: int
    end: int

    @property
    def token(self) -> Token:
        """Return the block's first token."""
        return self.all_tokens[self.first]

    @property
    def tokens(self) -> list[Token]:
        """Return the block's tokens, if it is the last block in the text."""
        return self.all_tokens[self.first :]


class MarkdownBlocks:
    """A parser that splits one streaming answer into blocks.

    Attributes:
        parsed_characters: Number of characters parsed so far, plus ``LINE_COST`` per line; tests
            compare this number with the length of the answer.
    """

    def __init__(self, sizes: PieceSizes | None = None) -> None:
        self.parsed_characters = 0
        self._sizes = sizes or PieceSizes()
        self._credit = MAX_CREDIT
        # The complete lines, as they arrived and in escaped form.
        self._lines: list[str] = []
        self._shown: list[str] = []
        self._size = 0
        # Number of lines that the last parse has processed, or that do not end the verbatim block.
        self._seen = 0
        # The beginning of an incomplete line, kept in parts, because appending each part to a line
        # of 1 MB would copy the line each time.
        self._partial: list[str] = []
        self._partial_size = 0
        self._next_cut = self._sizes.paragraph
        # The type of the block that the last parse found open, and the number of lines known to
        # continue it.
        self._open_type = ""
        self._continuing = 0
        self._continued: _Continued | None = None
        self._verbatim: _Verbatim | None = None

    @property
    def tail(self) -> Block:
        """The source that does not belong to a finished block yet."""
        source = "".join(self._lines) + "".join(self._partial)
        return self._continued.block(source) if self._continued else Block(source)

    def feed(self, text: str) -> list[str]:
        """Add text, and return the blocks that it finishes."""
        if len(text) <= _FEED_SIZE:
            return self._feed_part(text)
        blocks: list[str] = []
        for start in range(0, len(text), _FEED_SIZE):
            blocks += self._feed_part(text[start : start + _FEED_SIZE])
        return blocks

    def _feed_part(self, text: str) -> list[str]:
        # The credit may exceed the limit, because a block that is longer than the limit must also
        # be parsed eventually.
        max_credit = max(MAX_CREDIT, 2 * self._parse_cost())
        self._credit = min(self._credit + PARSED_PER_CHARACTER * len(text), max_credit)
        complete, newline, rest = text.rpartition("\n")
        if newline:
            self._partial.append(complete)
            for line in "".join(self._partial).split("\n"):
                self._add_line(line + "\n")
            self._partial.clear()
            self._partial_size = 0
            self._next_cut = self._sizes.paragraph
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
        blocks = self._take_finished() if newline else []
        if self._partial_size >= self._next_cut:
            blocks += self._cut_long_line()
        return blocks

    def finish(self) -> list[str]:
        """Return all remaining blocks."""
        if self._partial_size:
            self._add_line("".join(self._partial))
        self._partial.clear()
        self._partial_size = 0
        blocks = self._take_finished(is_end=True)
        self._continued = None
        self._verbatim = None
        return blocks

    def _add_line(self, line: str) -> None:
        self._lines.append(line)
        # Blocks are rendered in escaped form, so lines must also be parsed in this form: escaping
        # removes colors, and a marker behind a color sequence becomes a marker.
        shown = escape_text(line)
        self._shown.append(shown)
        self._size += len(shown)

    def _take_finished(self, *, is_end: bool = False) -> list[str]:
        blocks: list[str] = []
        while self._lines:
            if self._verbatim is not None:
                is_open = not self._take_verbatim(self._verbatim, blocks)
                if is_open and is_end:
                    self._take(len(self._lines), blocks)
                if is_open:
                    break
                continue
            if not is_end and not self._needs_parsing():
                break
            self._credit = max(self._credit - self._parse_cost(), 0)
            if not self._take_parsed(blocks, is_end=is_end):
                break
        return blocks

    def _parse_cost(self) -> int:
        return self._size + LINE_COST * len(self._lines)

    def _needs_parsing(self) -> bool:
        """Return whether the new lines may finish a block and the credit covers parsing them."""
        if self._parse_cost() > self._credit:
            return False
        if self._seen == len(self._lines):
            return False
        continuation = _CONTINUATIONS.get(self._open_type)
        if continuation is None or self._size > self._piece_size(self._open_type):
            return True
        while self._continuing < len(self._shown):
            if not continuation.match(self._shown[self._continuing]):
                return True
            self._continuing += 1
        return False

    def _set_open(self, token_type: str, *, seen: int) -> None:
        self._open_type = token_type
        self._seen = seen
        self._continuing = seen

    def _piece_size(self, token_type: str) -> int:
        if token_type not in _KINDS:
            return MAX_CREDIT
        size: int = getattr(self._sizes, _KINDS[token_type])
        return size

    def _take(self, end: int, blocks: list[str]) -> None:
        """Move the first lines to the list of finished blocks."""
        source = "".join(self._lines[:end])
        if source:
            blocks.append(self._continued.block(source) if self._continued else Block(source))
        self._size -= sum(map(len, self._shown[:end]))
        del self._lines[:end]
        del self._shown[:end]
        self._set_open("", seen=0)
        self._continued = None

    # ------------------------------------------------------- fences and long HTML

    def _take_verbatim(self, verbatim: _Verbatim, blocks: list[str]) -> bool:
        """Finish the open block or a piece of it; return whether the block has ended."""
        for index in range(self._seen, len(self._shown)):
            if verbatim.end.search(self._shown[index]):
                self._verbatim = None
                self._take(_skip_blank(self._shown, index + 1), blocks)
                return True
        self._seen = len(self._shown)
        limit = self._sizes.fence if verbatim.kind == "fence" else self._sizes.html
        if self._size > limit:
            self._take(len(self._lines), blocks)
            self._continued = _Continued(verbatim.kind, verbatim.opening)
        return False

    # ------------------------------------------------------- everything else

    def _take_parsed(self, blocks: list[str], *, is_end: bool) -> bool:
        """Finish the blocks that have ended; return whether a verbatim block has begun."""
        opening = self._continued.opening if self._continued else ""
        tops = self._parse(opening, self._shown)
        if not tops:
            # The text consists of blank lines or link definitions, whose titles do not contain
            # blank lines.
            any_text = any(line.strip(_BLANKS) for line in self._shown)
            is_finished = any_text and not self._shown[-1].strip(_BLANKS)
            if is_end or is_finished:
                self._take(len(self._lines), blocks)
            self._set_open("" if any_text else _BLANK_LINES, seen=len(self._lines))
            return False
        last = self._take_all_but_last(tops, blocks)
        if is_end:
            self._take(len(self._lines), blocks)
            return False
        end = _skip_blank(self._shown, last.end)
        if self._is_finished(last, end):
            self._take(end, blocks)
            self._set_open("", seen=len(self._lines))
            return False
        self._set_open(last.token.type, seen=len(self._lines))
        self._verbatim = self._open_verbatim(last)
        if self._verbatim is not None:
            return True
        self._take_piece(last, blocks)
        return False

    def _take_all_but_last(self, tops: list[_TopBlock], blocks: list[str]) -> _TopBlock:
        """Finish all blocks except the last one, and return the last one."""
        taken = 0
        for top in tops[:-1]:
            # Link definitions after a block stay with the next block, whose first lines could still
            # turn out to be a link title.
            end = _skip_blank(self._shown, top.end - taken)
            self._take(end, blocks)
            taken += end
        return attrs.evolve(tops[-1], start=tops[-1].start - taken, end=tops[-1].end - taken)

    def _parse(self, opening: str, lines: list[str]) -> list[_TopBlock]:
        text = opening + "".join(lines)
        self.parsed_characters += len(text) + LINE_COST * len(lines)
        tokens = block_parser().parse(text)
        lines_before = opening.count("\n")
        tops: list[_TopBlock] = []
        for index, token in enumerate(tokens):
            if token.level == 0 and token.nesting >= 0 and token.map is not None:
                start = max(token.map[0] - lines_before, 0)
                end = max(token.map[1] - lines_before, 0)
                tops.append(_TopBlock(tokens, index, start, end))
        return tops

    def _is_finished(self, last: _TopBlock, end: int) -> bool:
        """Return whether no further line can change the last block.

        Args:
            last: The block.
            end: Index of the first nonblank line after the block.
        """
        if last.token.type in ("heading_open", "hr"):
            return True
        # If there is a nonblank line after the block, that line is a link definition, so the parser
        # has not seen the end of the block yet.
        is_blank_after = end > last.end
        if last.token.type in ("paragraph_open", "table_open", "blockquote_open"):
            return is_blank_after
        if last.token.type == "fence":
            return self._open_verbatim(last) is None
        if last.token.type == "html_block":
            ending = _html_end(self._shown[last.start])
            if ending is None:
                return is_blank_after
            return self._open_verbatim(last) is None
        return False

    def _open_verbatim(self, last: _TopBlock) -> _Verbatim | None:
        """Return the last block's verbatim state if it ends at a line that is still missing."""
        first = self._shown[last.start]
        if last.token.type == "fence":
            end = _fence_end(last.token.markup)
            is_closed = any(end.search(line) for line in self._shown[last.start + 1 : last.end])
            return None if is_closed else _Verbatim("fence", end, first)
        if last.token.type == "html_block":
            html_end = _html_end(first)
            if html_end is None:
                return None
            is_closed = any(html_end.search(line) for line in self._shown[last.start : last.end])
            return None if is_closed else _Verbatim("html", html_end, "")
        return None

    def _take_piece(self, last: _TopBlock, blocks: list[str]) -> None:
        """Finish the beginning of the last block if the block has become long."""
        kind = _KINDS.get(last.token.type)
        if kind is None:
            return
        if self._size <= self._piece_size(last.token.type):
            return
        cut = self._find_cut(last, kind)
        if cut <= last.start:
            return
        if kind == "table":
            first_piece = "".join(self._shown[:cut])
            continued = _Continued(
                kind,
                opening="".join(self._shown[last.start : last.start + 2]),
                first_piece=first_piece,
            )
            if self._continued and self._continued.kind == "table":
                continued = self._continued
        elif kind == "list":
            continued = _Continued(kind, number=self._next_number(last))
        elif kind == "paragraph":
            continued = _Continued(kind, opening=PARAGRAPH_MARK)
        else:
            continued = _Continued(kind)
        self._take(cut, blocks)
        self._continued = continued
        self._set_open(last.token.type, seen=len(self._lines))

    def _find_cut(self, last: _TopBlock, kind: BlockKind) -> int:
        """Return the index of the line before which the last block can be divided."""
        if kind in ("list", "quote"):
            return self._find_last_part(last, kind)
        if kind == "table":
            is_continued = self._continued is not None and self._continued.kind == "table"
            first_row = last.start if is_continued else last.start + 2
            return last.end - 1 if last.end - 1 > first_row else 0
        # The last line of a paragraph or of code stays, so that the rest belongs to the same block.
        return last.end - 1

    def _find_last_part(self, last: _TopBlock, kind: BlockKind) -> int:
        """Return the index of the first line of a list's last item or a quote's last block."""
        offset = last.token.map
        assert offset is not None
        cut = 0
        for token in last.tokens:
            if token.level == 1 and token.nesting >= 0 and token.map is not None:
                start = last.start + token.map[0] - offset[0]
                # A line without a marker belongs to the quote only together with the lines before
                # it.
                if kind == "list" or _QUOTE_MARKER.match(self._shown[start]):
                    cut = start
        return cut

    def _next_number(self, last: _TopBlock) -> int | None:
        """Return the number of the item that will begin the next piece of a list."""
        token = last.token
        if token.type != "ordered_list_open":
            return None
        items = [item for item in last.tokens if item.type == "list_item_open" and item.level == 1]
        number = int(token.attrs.get("start", 1))
        if self._continued is not None and self._continued.number is not None:
            number = self._continued.number
        return number + len(items) - 1

    def _cut_long_line(self) -> list[str]:
        """Finish the beginning of a line that has become very long."""
        blocks: list[str] = []
        line = "".join(self._partial)
        # If the line cannot be divided now, this is tried again when the line is twice as long.
        self._next_cut = self._partial_size * 2
        if self._verbatim is not None:
            # The rest of the line must not look like the end of the block.
            rest = line[-100:].lstrip("`~<>-/ \t")
            if rest:
                line = line[: -len(rest)]
            self._finish_part_of_line(line, rest, blocks)
            self._continued = _Continued(self._verbatim.kind, self._verbatim.opening)
            return blocks
        opening = self._continued.opening if self._continued else ""
        tops = self._parse(opening, [*self._shown, escape_text(line)])
        if not tops or tops[-1].token.type != "paragraph_open":
            return blocks
        # The line belongs to the paragraph, so all blocks before it are finished.
        self._take_all_but_last(tops, blocks)
        blank = line.rfind(" ", len(line) // 2)
        size = blank + 1 if blank >= 0 else len(line) - 1
        self._finish_part_of_line(line[:size], line[size:], blocks)
        self._continued = _Continued("paragraph", opening=PARAGRAPH_MARK)
        return blocks

    def _finish_part_of_line(self, part: str, rest: str, blocks: list[str]) -> None:
        self._add_line(part)
        self._take(len(self._lines), blocks)
        self._partial = [rest]
        self._partial_size = len(rest)
        self._next_cut = self._sizes.paragraph


_KINDS: dict[str, BlockKind] = {
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "blockquote_open": "quote",
    "code_block": "indented",
    "table_open": "table",
    "paragraph_open": "paragraph",
}
# Patterns for lines that continue an open block. The parser decides about all other lines; a line
# that matches but ends the block only delays the block's end.
_BLANK_LINES = "blank lines"
_CONTINUATIONS = {
    _BLANK_LINES: re.compile(r"\s*$"),
    "bullet_list_open": re.compile(r"[-*+] |\s+\S|\s*$"),
    "ordered_list_open": re.compile(r"\d+[.)] |\s+\S|\s*$"),
    "blockquote_open": re.compile(r">"),
    "code_block": re.compile(r" {4}|\s*$"),
    "table_open": re.compile(r"\|"),
    "paragraph_open": re.compile(r"\w"),
}


@functools.cache
def block_parser() -> MarkdownIt:
    """Return a parser that finds blocks and does not parse the text in them."""
    parser = _create_parser()
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@functools.cache
def markdown_parser() -> MarkdownIt:
    """Return the parser for rendering, which divides text into the same blocks."""
    return _create_parser()


def _create_parser() -> MarkdownIt:
    # Importing markdown_it takes 16 ms, and the first frame needs no Markdown.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
    return parser.enable(["table", "strikethrough"])


def _skip_blank(lines: list[str], index: int) -> int:
    """Return the index of the first nonblank line at or after an index."""
    while index < len(lines) and not lines[index].strip(_BLANKS):
        index += 1
    return index


@functools.lru_cache(maxsize=32)
def _fence_end(markup: str) -> re.Pattern[str]:
    """Return the pattern for lines that end a fence."""
    return re.compile(f"^ {{0,3}}{re.escape(markup[0])}{{{len(markup)},}}[ \t]*$")


def _html_end(first_line: str) -> re.Pattern[str] | None:
    """Return the pattern for the line that ends an HTML block; None if a blank line ends it."""
    from markdown_it.rules_block.html_block import HTML_SEQUENCES

    text = first_line.strip(_BLANKS)
    for start, end, _ in HTML_SEQUENCES:
        if start.search(text):
            return None if end.pattern == "^$" else end
    return None
