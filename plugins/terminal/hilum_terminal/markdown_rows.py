"""Renders finished blocks of Markdown as terminal rows.

Answers come from models, so they are untrusted text: the source is escaped before it is parsed, and
each row is checked again afterwards, because Markdown can contain any character as an entity.
"""

from __future__ import annotations

from hilum_terminal.markdown_blocks import Block
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import escape_text, only_colors, wrap_text

# In malicious text, such as a million brackets, finding emphasis and links takes up to 20 s per MB.
# Only a block that consists of a single list item or quotation can exceed this limit.
MAX_SOURCE = 150_000


def render_markdown(source: str, width: int, theme: Theme) -> list[str]:
    """Return the rows of a block, without leading and trailing blank rows.

    Args:
        source: The Markdown source: a ``Block`` from ``MarkdownBlocks``, or any text.
        width: Maximum number of columns; at least two are used.
        theme: The colors.
    """
    # rich and its parser take 60 ms to import, and the first frame shows no Markdown.
    from hilum_terminal import rich_markdown

    width = max(width, 2)
    block = source if isinstance(source, Block) else Block(source)
    text = escape_text(block)
    if block.kind == "html" or len(text) > MAX_SOURCE:
        return _plain_rows(text, width)
    try:
        rows = rich_markdown.render(
            block.opening + text,
            width,
            theme,
            is_piece=block.continued,
            number=block.number,
            first_piece=escape_text(block.first_piece),
        )
    except Exception:
        # If the parser or the highlighter fails, the user must still see the answer.
        return _plain_rows(text, width)
    return [only_colors(row, width) for row in rows]


def load_renderer(theme: Theme) -> None:
    """Import and initialize everything that rendering needs.

    This takes 60 ms, in which no key would be handled. It is done in a thread, after the first
    frame and before the first answer.
    """
    render_markdown("# A\n\n- b\n\n```python\nc = 1\n```", 80, theme)


def render_tail(tail: str, width: int, theme: Theme, max_rows: int) -> list[str]:
    """Return the last rows of an unfinished block as plain dim text.

    Args:
        tail: The source of the unfinished block, of any length; only its end is processed.
        width: Maximum number of columns.
        theme: The colors.
        max_rows: Maximum number of rows.
    """
    if max_rows <= 0 or not tail:
        return []
    # No row needs more characters, unless it is full of zero-width marks.
    end = tail[-4 * max_rows * max(width, 2) :]
    rows = _plain_rows(escape_text(end), max(width, 2))
    return [theme.paint(row, "dim") for row in rows[-max_rows:]]


def _plain_rows(text: str, width: int) -> list[str]:
    rows = wrap_text(text.rstrip("\n"), width)
    return [only_colors(row, width) for row in rows]
