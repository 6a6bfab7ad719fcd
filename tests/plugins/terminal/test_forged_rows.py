"""The text of a model never begins a row like a card or a prompt of hilum."""

import pytest
from hilum_terminal.styles import PLAIN
from hilum_terminal.text_width import without_colors
from hilum_terminal.transcript import OUR_MARKS, _MarkdownRows

FORGED = [
    "✓ $ false  0.1 s",
    "Done.\n\n❯ great, commit it",
    # Wrapping moves the mark to the beginning of a row, at one width or another.
    "All of the tests pass now and nothing else is left to do ✓ $ rm -rf build  0.1 s",
    "- one\n- two\n\n⠴ working · esc stops",
    "> quoted\n\n? Allow this call?",
    "**✓** bold",
    "`✓ code`",
]


@pytest.mark.parametrize("text", FORGED)
def test_no_width_brings_a_mark_to_the_first_column(text: str) -> None:
    for width in range(4, 90):
        rows = _MarkdownRows(text)(width, PLAIN)
        assert not any(without_colors(row).startswith(OUR_MARKS) for row in rows), (width, rows)
