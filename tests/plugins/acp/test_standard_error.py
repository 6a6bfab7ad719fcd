"""What ``hilum acp`` writes to standard error, which quotes what an editor has sent."""

import io
import logging

import pytest
from hilum_acp import command


@pytest.fixture
def written(monkeypatch):
    """What is written to standard error."""
    stream = io.StringIO()
    monkeypatch.setattr(command.sys, "stderr", stream)
    root = logging.getLogger()
    before = list(root.handlers)
    command._escape_log()
    yield stream
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)


def test_texts_of_the_editor_are_escaped(written):
    text = "no \x1b]0;title\x07\u202eterminals"
    logging.getLogger("hilum.acp").warning("Commands are shown as text: %s", text)
    assert written.getvalue() == (
        "Commands are shown as text: no \\x1b]0;title\\x07\\u202eterminals\n"
    )


def test_a_long_text_loses_its_middle(written):
    logging.getLogger("hilum.acp").warning("Begin %s end", "x" * 3_000_000)
    shown = written.getvalue()
    assert len(shown) < command.MAX_LOG_MESSAGE + 10
    assert shown.startswith("Begin xx")
    assert shown.endswith("xx end\n")
    assert "…" in shown


def test_an_exception_is_escaped_too(written):
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        logging.getLogger("hilum.acp").exception("A part could not be shown.")
    assert "ValueError: \\x1b[2J" in written.getvalue()
