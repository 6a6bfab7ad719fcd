"""Elements for ``rich.markdown``, which define the appearance of Markdown.

This module is imported when the first block is rendered, because importing rich takes a long time.
rich calls the elements and writes the colors. The elements do the layout themselves, because rich
measures flags and joined emoji differently from most terminals, does not break lines between
Chinese characters, and pads code to the full width, which doubles its rows when the terminal
becomes narrower.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from typing import Literal

import attrs
import rich.theme
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownContext, MarkdownElement
from rich.style import Style
from rich.text import Span, Text, TextType

from hilum_terminal import styles
from hilum_terminal.code_colors import color_code, sgr_style
from hilum_terminal.markdown_blocks import MAX_NESTING, PARAGRAPH_MARK, markdown_parser
from hilum_terminal.markdown_tokens import inline_text, prepare
from hilum_terminal.table_layout import TableLayout, lay_out_table
from hilum_terminal.text_width import TAB_SIZE, cells, line_spans

# Nested lists and quotes are not indented if fewer columns than this would remain for their text.
MIN_TEXT_WIDTH = 12
RULE_WIDTH = 40


@attrs.frozen
class Look:
    """Options for drawing the elements of one block.

    Attributes:
        theme: The colors.
        is_piece: Whether the block continues the previous one.
        number: Number of the first item in a continued list.
        widths: The natural column widths of a continued table.
    """

    theme: styles.Theme
    is_piece: bool = False
    number: int | None = None
    widths: tuple[int, ...] = ()

    @property
    def is_ascii(self) -> bool:
        """Return whether to omit drawn lines, because screen readers would read them aloud."""
        return not self.theme.attributes

    def style(self, name: styles.Style) -> Style:
        """Return a style of the theme."""
        return sgr_style(self.theme, name)


def render(
    source: str,
    width: int,
    theme: styles.Theme,
    *,
    is_piece: bool = False,
    number: int | None = None,
    first_piece: str = "",
) -> list[str]:
    """Return the rows of a block.

    Args:
        source: The Markdown source, escaped for the terminal.
        width: Maximum number of columns.
        theme: The colors.
        is_piece: Whether the block continues the previous one.
        number: Number of the first item in a continued list.
        first_piece: The beginning of a continued table.
    """
    tokens = _parse(source, theme)
    look = Look(theme, is_piece, number, _natural_widths(first_piece, theme) if first_piece else ())
    output = io.StringIO()
    console = Console(
        file=output,
        force_terminal=True,
        color_system=_COLOR_SYSTEMS[theme.depth] if theme.attributes else None,
        width=width,
        height=25,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        theme=rich.theme.Theme(_text_styles(look), inherit=False),
        # The environment is empty, because the theme has already read NO_COLOR, COLUMNS and TERM.
        _environ={},
    )
    console.print(_Answer(tokens, look), crop=False, no_wrap=True, overflow="ignore", end="")
    text = output.getvalue().removesuffix("\n")
    if not text:
        return []
    return text.split("\n")


_COLOR_SYSTEMS: dict[styles.Depth, Literal["standard", "256", "truecolor"]] = {
    "none": "standard",
    "16": "standard",
    "256": "256",
    "truecolor": "truecolor",
}


def _parse(source: str, theme: styles.Theme) -> list[Token]:
    tokens = markdown_parser().parse(source)
    # Within two levels of the limit, the parser may have dropped text.
    if any(token.level >= MAX_NESTING - 2 for token in tokens):
        raise ValueError("nested too deeply")
    _remove_mark(tokens)
    return prepare(
        tokens,
        mark_code=not theme.code("code"),
        mark_deleted=theme.depth == "none",
        mark_tasks=theme.attributes,
    )


def _remove_mark(tokens: list[Token]) -> None:
    """Remove the mark that made the parser treat the rest of a long paragraph as a paragraph."""
    for token in tokens:
        if token.children and token.children[0].content.startswith(PARAGRAPH_MARK):
            first = token.children[0]
            first.content = first.content.removeprefix(PARAGRAPH_MARK).lstrip()
        if token.type == "inline":
            return


@functools.lru_cache(maxsize=4)
def _natural_widths(first_piece: str, theme: styles.Theme) -> tuple[int, ...]:
    """Return the column widths of a table, determined from its first piece."""
    widths: list[int] = []
    column = 0
    for token in _parse(first_piece, theme):
        if token.type == "tr_open":
            column = 0
        elif token.type == "inline" and token.meta["is_cell"]:
            if column == len(widths):
                widths.append(0)
            widths[column] = max(widths[column], *map(cells, inline_text(token).split("\n")))
            column += 1
        elif token.type == "table_close":
            break
    return tuple(widths)


def _text_styles(look: Look) -> dict[str, Style]:
    heading = look.style("heading")
    emphasis = look.style("italic")
    if look.theme.depth == "none" and look.theme.attributes:
        emphasis = Style(underline=True)
    return {
        "markdown.em": emphasis,
        "markdown.strong": look.style("bold"),
        "markdown.s": Style(strike=True) if look.theme.depth != "none" else Style(),
        "markdown.code": look.style("code"),
        "markdown.hlink": look.style("link"),
        "markdown.hurl": look.style("dim"),
        "markdown.h1": heading + Style(underline=True) if look.theme.attributes else heading,
        "markdown.h2": heading,
        "markdown.h3": heading,
        "markdown.h4": look.style("bold"),
        "markdown.h5": look.style("bold"),
        "markdown.h6": look.style("bold"),
        "markdown.th": look.style("bold"),
    }


class _Element(MarkdownElement):
    """A part of a block that is laid out in rows."""

    # Blank rows between elements are added by the element that contains them.
    new_line = False

    def __init__(self, look: Look, token: Token) -> None:
        self.look = look
        self.token = token

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> MarkdownElement:
        """Create the element for a token."""
        assert isinstance(markdown, _Answer)
        return cls(markdown.look, token)

    @property
    def is_tight(self) -> bool:
        """Return whether no blank row separates this part from its neighbors."""
        return self.token.hidden

    def rows(self, width: int) -> list[Text]:
        """Return the rows of the element."""
        raise NotImplementedError

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for row in self.rows(options.max_width):
            # Trailing blanks would double the rows when the terminal becomes narrower.
            row.rstrip()
            yield from row.render(console, end="\n")


class _TextElement(_Element):
    """An element with text, such as a paragraph."""

    style_name = "none"

    def __init__(self, look: Look, token: Token) -> None:
        super().__init__(look, token)
        self.text = Text(end="")

    def on_enter(self, context: MarkdownContext) -> None:
        context.enter_style(self.style_name)

    def on_text(self, context: MarkdownContext, text: TextType) -> None:
        self.text.append(text, context.current_style if isinstance(text, str) else None)

    def on_leave(self, context: MarkdownContext) -> None:
        context.leave_style()

    def rows(self, width: int) -> list[Text]:
        return wrap_styled(self.text, width)


class _Paragraph(_TextElement):
    """A paragraph."""


class _Heading(_TextElement):
    def __init__(self, look: Look, token: Token) -> None:
        super().__init__(look, token)
        self.style_name = f"markdown.{token.tag}"
        if look.is_ascii:
            self.text.append("#" * int(token.tag[1:]) + " ")


class _Code(_Element):
    """A block of code, indented for visibility, without a frame."""

    def rows(self, width: int) -> list[Text]:
        indent = 2 if width > MIN_TEXT_WIDTH else 0
        code = self.token.content.removesuffix("\n").expandtabs(TAB_SIZE)
        if not code:
            return []
        rows: list[Text] = []
        for line in color_code(code, self.token.info, self.look.theme):
            rows += _fold(line, width - indent)
        return [_indented(row, " " * indent) for row in rows]


class _Html(_Element):
    """HTML, as plain text."""

    def rows(self, width: int) -> list[Text]:
        return wrap_styled(Text(self.token.content.rstrip("\n"), end=""), width)


class _Rule(_Element):
    def rows(self, width: int) -> list[Text]:
        character = "-" if self.look.is_ascii else "─"
        length = 3 if self.look.is_ascii else min(width, RULE_WIDTH)
        return [_styled(character * length, self.look.style("dim"))]


class _Container(_Element):
    """An element that contains other elements."""

    def __init__(self, look: Look, token: Token) -> None:
        super().__init__(look, token)
        self.children: list[_Element] = []

    def on_child_close(self, context: MarkdownContext, child: MarkdownElement) -> bool:
        if isinstance(child, _Element):
            self.children.append(child)
        return False

    def rows(self, width: int) -> list[Text]:
        rows: list[Text] = []
        is_tight = True
        for child in self.children:
            child_rows = child.rows(width)
            if not child_rows:
                continue
            if rows and not (is_tight or child.is_tight):
                rows.append(Text(end=""))
            is_tight = child.is_tight
            rows += child_rows
        return rows


class _Quote(_Container):
    def rows(self, width: int) -> list[Text]:
        if width - 2 < MIN_TEXT_WIDTH:
            return super().rows(width)
        bar = _styled("> " if self.look.is_ascii else "│ ", self.look.style("dim"))
        return [_joined([bar, row]) for row in super().rows(width - 2)]


class _Item(_Container):
    @property
    def is_tight(self) -> bool:
        paragraphs = [child for child in self.children if isinstance(child, _Paragraph)]
        return all(paragraph.is_tight for paragraph in paragraphs)


class _List(_Container):
    def rows(self, width: int) -> list[Text]:
        markers = self._markers()
        indent = max(map(cells, markers), default=0)
        is_tight = all(item.is_tight for item in self.children)
        rows: list[Text] = []
        for index, item in enumerate(self.children):
            if index > 0 and not is_tight:
                rows.append(Text(end=""))
            marker = _styled(markers[index].rjust(indent), self.look.style("accent"))
            if width - indent < MIN_TEXT_WIDTH:
                rows.append(marker)
                rows += item.rows(width)
                continue
            item_rows = item.rows(width - indent) or [Text(end="")]
            rows.append(_joined([marker, item_rows[0]]))
            rows += [_indented(row, " " * indent) for row in item_rows[1:]]
        return rows

    def _markers(self) -> list[str]:
        bullet = "- " if self.look.is_ascii else "• "
        markers: list[str] = []
        number = int(self.token.attrs.get("start", 1))
        if self.look.number is not None and self.token.level == 0:
            number = self.look.number
        for item in self.children:
            if self.token.type == "ordered_list_open":
                markers.append(f"{number}. ")
                number += 1
            else:
                markers.append(bullet)
            task = item.token.meta.get("task")
            if task:
                is_numbered = self.token.type == "ordered_list_open"
                markers[-1] = f"{markers[-1]}{task} " if is_numbered else f"{task} "
        return markers


class _Cell(_TextElement):
    """A cell of a table."""

    def on_enter(self, context: MarkdownContext) -> None:
        context.enter_style("markdown.th" if self.token.tag == "th" else "none")

    @property
    def align(self) -> str:
        """Return the alignment of the cell's text."""
        return str(self.token.attrs.get("style", "")).rpartition(":")[2] or "left"


class _Part(_Element):
    """A row, the header or the body of a table."""

    def __init__(self, look: Look, token: Token) -> None:
        super().__init__(look, token)
        self.cell_rows: list[list[_Cell]] = []

    def on_child_close(self, context: MarkdownContext, child: MarkdownElement) -> bool:
        if isinstance(child, _Cell):
            if not self.cell_rows:
                self.cell_rows.append([])
            self.cell_rows[0].append(child)
        elif isinstance(child, _Part):
            self.cell_rows += child.cell_rows
        return False


class _Table(_Part):
    """A table, or a list of its cells if a table would not be readable."""

    def rows(self, width: int) -> list[Text]:
        if not self.cell_rows:
            return []
        natural = list(self._natural())
        layout = lay_out_table(natural, width)
        if layout is None:
            return self._records(width)
        rows: list[Text] = []
        rule = self._rule(layout)
        body = self.cell_rows[1:]
        if not self.look.is_piece:
            rows += self._table_row(self.cell_rows[0], layout)
            rows.append(rule)
        for index, row in enumerate(body):
            # If cells are wrapped, rules show which rows belong together.
            if layout.is_shrunk and (index > 0 or self.look.is_piece):
                rows.append(rule)
            rows += self._table_row(row, layout)
        return rows

    def _natural(self) -> tuple[int, ...]:
        if self.look.widths:
            return self.look.widths
        widths = [0] * len(self.cell_rows[0])
        for row in self.cell_rows:
            for column, cell in enumerate(row):
                widths[column] = max(widths[column], *map(cells, cell.text.plain.split("\n")))
        return tuple(widths)

    def _rule(self, layout: TableLayout) -> Text:
        line = "-" if self.look.is_ascii else "─"
        crossing = "-+-" if self.look.is_ascii else "─┼─"
        rule = crossing.join(line * width for width in layout.widths)
        return _styled(rule, self.look.style("dim"))

    def _table_row(self, row: list[_Cell], layout: TableLayout) -> list[Text]:
        separator = _styled(" | " if self.look.is_ascii else " │ ", self.look.style("dim"))
        columns = [
            wrap_styled(cell.text, width) for cell, width in zip(row, layout.widths, strict=False)
        ]
        rows: list[Text] = []
        for index in range(max(map(len, columns))):
            parts: list[Text] = []
            for column, lines in enumerate(columns):
                if column > 0:
                    parts.append(separator)
                line = lines[index] if index < len(lines) else Text(end="")
                parts += _aligned(line, layout.widths[column], row[column].align)
            rows.append(_joined(parts))
        return rows

    def _records(self, width: int) -> list[Text]:
        header = self.cell_rows[0]
        body = self.cell_rows[1:]
        rows: list[Text] = []
        if not body and not self.look.is_piece:
            for cell in header:
                rows += cell.rows(width)
        for index, record in enumerate(body):
            if index > 0 or self.look.is_piece:
                rows.append(Text(end=""))
            for name, value in zip(header, record, strict=False):
                text = _joined([name.text, Text(": ", end=""), value.text])
                lines = wrap_styled(text, width - 2) if width > MIN_TEXT_WIDTH else []
                indent = "  " if lines else ""
                lines = lines or wrap_styled(text, width)
                rows.append(lines[0])
                rows += [_indented(line, indent) for line in lines[1:]]
        return rows


_ROOT = "root"


class _Answer(Markdown):
    """A block of an answer, to be passed to ``Console.print``."""

    elements = {
        _ROOT: _Container,
        "paragraph_open": _Paragraph,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "html_block": _Html,
        "blockquote_open": _Quote,
        "hr": _Rule,
        "bullet_list_open": _List,
        "ordered_list_open": _List,
        "list_item_open": _Item,
        "table_open": _Table,
        "thead_open": _Part,
        "tbody_open": _Part,
        "tr_open": _Part,
        "th_open": _Cell,
        "td_open": _Cell,
    }
    inlines = {"em", "strong", "code", "s", "hlink", "hurl"}

    def __init__(self, tokens: list[Token], look: Look) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = [Token(_ROOT, "", 1), *tokens, Token(_ROOT, "", -1)]
        self.look = look


def wrap_styled(text: Text, width: int) -> list[Text]:
    """Wrap a text between words, and between Chinese characters."""
    rows: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if "\t" in line.plain:
            line.expand_tabs(TAB_SIZE)
        rows += _divide(line, line_spans(line.plain, width))
    return rows


def _fold(line: Text, width: int) -> list[Text]:
    """Split a line of code into rows, ignoring word boundaries."""
    line.rstrip()
    plain = line.plain
    if cells(plain) <= width:
        return [line]
    # Blanks are replaced only to find the breaks, because blanks are significant in code.
    return _divide(line, line_spans(plain.replace(" ", "x"), width))


def _divide(line: Text, spans: list[tuple[int, int]]) -> list[Text]:
    """Split a line into parts; slicing the line once per part would take quadratic time."""
    if spans == [(0, len(line.plain))]:
        return [line]
    offsets = sorted({offset for span in spans for offset in span} - {0})
    parts = dict(zip([0, *offsets], line.divide(offsets), strict=False))
    return [parts[start] if end > start else Text(end="") for start, end in spans]


def _styled(text: str, style: Style) -> Text:
    return Text(text, spans=[Span(0, len(text), style)] if style else [], end="")


def _joined(parts: Sequence[Text]) -> Text:
    """Join texts; ``Text.join`` takes ten times as long."""
    spans: list[Span] = []
    position = 0
    for part in parts:
        length = len(part.plain)
        spans += [span.move(position) for span in part.spans]
        position += length
    return Text("".join(part.plain for part in parts), spans=spans, end="")


def _indented(row: Text, indent: str) -> Text:
    return _joined([Text(indent, end=""), row]) if row.plain and indent else row


def _aligned(line: Text, width: int, align: str) -> list[Text]:
    space = max(width - cells(line.plain), 0)
    before = 0
    if align == "right":
        before = space
    elif align == "center":
        before = space // 2
    return [Text(" " * before, end=""), line, Text(" " * (space - before), end="")]
