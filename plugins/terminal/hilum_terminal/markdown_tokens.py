"""Prepares markdown-it's tokens for rendering.

The prepared tokens are of only a few kinds, and their text is escaped.
"""

from __future__ import annotations

import re

from markdown_it.token import Token

from hilum_terminal.text_width import escape_text

_TASK = re.compile(r"\[([ xX])\] +(?=\S)")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def prepare(
    tokens: list[Token], *, mark_code: bool, mark_deleted: bool, mark_tasks: bool
) -> list[Token]:
    """Convert text, links, images and HTML in tokens to text with a few styles.

    A link has the tag ``hlink`` and is followed by its URL, with the tag ``hurl``, unless the link
    text is the URL. A task list item has its checkbox in ``meta["task"]``.

    Args:
        tokens: The parser's tokens.
        mark_code: Whether code keeps its backticks, because it has no style of its own.
        mark_deleted: Whether deleted text keeps its tildes, because it has no style of its own.
        mark_tasks: Whether to draw the checkboxes of tasks.
    """
    prepared: list[Token] = []
    for index, token in enumerate(tokens):
        if token.type != "inline":
            prepared.append(token)
            continue
        children = _prepare_inline(token.children or [], mark_code, mark_deleted)
        is_cell = index > 0 and tokens[index - 1].tag in ("th", "td")
        token.meta["is_cell"] = is_cell
        if mark_tasks and index >= 2 and tokens[index - 2].type == "list_item_open":
            _take_task(tokens[index - 2], children)
        token.children = children
        # rich treats a token without children as an element.
        if children or is_cell:
            prepared.append(token)
    return prepared


def inline_text(token: Token) -> str:
    """Return the text of a prepared inline token."""
    return "".join(_visible(child) for child in token.children or [])


def _visible(token: Token) -> str:
    return "\n" if token.type == "hardbreak" else token.content


def _text(content: str) -> Token:
    # The parser decodes entities such as &#10; and &#x202e;, so the text is escaped again.
    return Token("text", "", 0, content=escape_text(content).replace("\n", " "))


def _prepare_inline(children: list[Token], mark_code: bool, mark_deleted: bool) -> list[Token]:
    prepared: list[Token] = []
    link = ""
    link_start = 0
    for token in children:
        if token.type == "code_inline":
            mark = "`" if mark_code else ""
            content = escape_text(token.content).replace("\n", " ")
            prepared.append(Token("code_inline", "code", 0, content=f"{mark}{content}{mark}"))
        elif token.type == "softbreak":
            # Most models mean a soft break as a line break, for example in lists of "name: value".
            prepared.append(Token("hardbreak", "br", 0))
        elif token.type == "link_open":
            link = escape_text(str(token.attrs.get("href", "")))
            link_start = len(prepared)
            prepared.append(Token("hlink_open", "hlink", 1))
        elif token.type == "link_close":
            shown = "".join(_visible(part) for part in prepared[link_start:])
            prepared.append(Token("hlink_close", "hlink", -1))
            if link and link not in (shown, f"mailto:{shown}"):
                prepared += _address(link, shown)
        elif token.type == "image":
            prepared.append(_text(_image_text(token)))
        elif token.type == "html_inline" and _LINE_BREAK.fullmatch(token.content):
            prepared.append(Token("hardbreak", "br", 0))
        elif token.tag == "s" and mark_deleted:
            prepared.append(_text("~~"))
        elif token.type in ("text", "text_special", "html_inline", "entity"):
            prepared.append(_text(token.content))
        else:
            prepared.append(token)
    return prepared


def _address(link: str, shown: str) -> list[Token]:
    return [
        _text(" (" if shown else "("),
        Token("hurl_open", "hurl", 1),
        _text(link),
        Token("hurl_close", "hurl", -1),
        _text(")"),
    ]


def _image_text(token: Token) -> str:
    alternative = " ".join(_alternative(token).split())
    if not alternative:
        source = str(token.attrs.get("src", ""))
        # The content of a data URL is not a name for the image.
        alternative = "" if source.startswith("data:") else source.rpartition("/")[2]
    return f"[image: {alternative}]" if alternative else "[image]"


def _alternative(token: Token) -> str:
    parts: list[str] = []
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "image":
            parts.append(_alternative(child))
        else:
            parts.append(child.content)
    return "".join(parts)


def _take_task(item: Token, children: list[Token]) -> None:
    """Move a task's checkbox from the text to the list item."""
    if not children or children[0].type != "text":
        return
    match = _TASK.match(children[0].content)
    if match:
        item.meta["task"] = "☐" if match[1] == " " else "☑"
        children[0].content = children[0].content[match.end() :]
