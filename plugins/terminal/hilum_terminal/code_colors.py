"""Colors code with pygments; this module is imported when the first block is rendered."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]
from rich.color import Color
from rich.style import Style
from rich.text import Span, Text

from hilum_terminal import styles

# Maximum number of characters to color. pygments colors about 100 kB per second and holds the
# interpreter lock, so a longer text would block other threads for a third of a second or more.
MAX_COLORED = 30_000
_LANGUAGE = re.compile(r"[\w+#.-]+")
_PLAIN_LANGUAGES = frozenset(["", "text", "txt", "plain", "plaintext", "output", "none"])
# The styles of pygments token types; a type that is not listed has the style of its parent type.
_STYLES: dict[object, styles.Style] = {
    Comment: "code_comment",
    Keyword: "code_keyword",
    Operator.Word: "code_keyword",
    String: "code_string",
    Number: "code_number",
    Literal: "code_string",
    Name.Function: "code_name",
    Name.Class: "code_name",
    Name.Tag: "code_name",
    Name.Builtin: "code_builtin",
    Name.Constant: "code_builtin",
    Name.Attribute: "code_builtin",
    Name.Decorator: "code_builtin",
    Name.Exception: "code_builtin",
}
_DIFF_STYLES: dict[str, styles.Style] = {"Inserted": "good", "Deleted": "bad", "Heading": "bold"}


def color_code(code: str, info: str, theme: styles.Theme) -> list[Text]:
    """Return the lines of code with syntax coloring.

    Args:
        code: The code.
        info: The text after the opening fence; its first word is the language.
        theme: The colors.
    """
    language = _LANGUAGE.match(info)
    lexer = None
    if language and theme.attributes and len(code) <= MAX_COLORED:
        lexer = _find_lexer(language[0].lower())
    if lexer is None:
        return [Text(line, end="") for line in code.split("\n")]
    lines = _color_lines(lexer.get_tokens(code), theme)
    # pygments adds a newline at the end, because some lexers recognize only complete lines.
    del lines[-1:]
    if "\n".join(line.plain for line in lines) != code:
        # A lexer must not change the text.
        return [Text(line, end="") for line in code.split("\n")]
    return lines


def _color_lines(tokens: Iterable[tuple[object, str]], theme: styles.Theme) -> list[Text]:
    lines: list[Text] = []
    parts: list[str] = []
    spans: list[Span] = []
    position = 0
    for token_type, value in tokens:
        style = _token_style(token_type, theme)
        for index, part in enumerate(value.split("\n")):
            if index > 0:
                lines.append(Text("".join(parts), spans=spans, end=""))
                parts = []
                spans = []
                position = 0
            if part:
                parts.append(part)
                if style:
                    _add_span(spans, Span(position, position + len(part), style))
                position += len(part)
    lines.append(Text("".join(parts), spans=spans, end=""))
    return lines


def _add_span(spans: list[Span], span: Span) -> None:
    """Add a span; merge it with the last span if they are adjacent and have the same color."""
    if spans and spans[-1].end == span.start and spans[-1].style == span.style:
        span = Span(spans.pop().start, span.end, span.style)
    spans.append(span)


@functools.lru_cache(maxsize=64)
def _find_lexer(language: str) -> Lexer | None:
    if language in _PLAIN_LANGUAGES:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


@functools.lru_cache(maxsize=512)
def _token_style(token_type: object, theme: styles.Theme) -> Style | None:
    name = _style_name(token_type)
    if name is None:
        return None
    style = sgr_style(theme, name)
    return style if style else None


def _style_name(token_type: object) -> styles.Style | None:
    generic = str(token_type).removeprefix("Token.Generic.")
    if generic in _DIFF_STYLES:
        return _DIFF_STYLES[generic]
    while token_type is not None:
        if token_type in _STYLES:
            return _STYLES[token_type]
        token_type = getattr(token_type, "parent", None)
    return None


@functools.lru_cache(maxsize=256)
def sgr_style(theme: styles.Theme, name: styles.Style) -> Style:
    """Convert a theme's style to a rich style. Without colors, text is only bold or underlined."""
    style = Style()
    parameters = [int(part) for part in theme.code(name).split(";") if part]
    while parameters:
        parameter = parameters.pop(0)
        if parameter in (38, 48):
            # 38;5;n and 48;5;n are the only extended colors in the themes.
            color = Color.from_ansi(parameters[1])
            del parameters[:2]
            style += Style(color=color) if parameter == 38 else Style(bgcolor=color)
        elif 30 <= parameter <= 37:
            style += Style(color=Color.from_ansi(parameter - 30))
        elif theme.depth != "none" or parameter in (1, 4):
            style += _ATTRIBUTES.get(parameter, Style())
    return style


_ATTRIBUTES = {
    1: Style(bold=True),
    2: Style(dim=True),
    3: Style(italic=True),
    4: Style(underline=True),
    7: Style(reverse=True),
}
