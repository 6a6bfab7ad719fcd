"""The modes of the terminal in plain lines, in a real pseudo-terminal."""

import os
import sys

import pytest

if sys.platform == "win32":
    pytest.skip("pseudo-terminals need POSIX", allow_module_level=True)

import termios

from hilum_terminal import plain_terminal
from hilum_terminal.plain_terminal import PlainTerminal


@pytest.fixture
def terminal(monkeypatch):
    """A plain terminal, and ``modes()``, which returns the modes of its device."""
    leader, follower = os.openpty()
    monkeypatch.setattr(plain_terminal, "open_terminal", lambda: os.dup(follower))
    opened = PlainTerminal(
        on_line=lambda line: None, on_end=lambda: None, on_lost=lambda: pytest.fail("lost")
    )
    opened.modes = lambda: termios.tcgetattr(follower)
    opened.set_modes = lambda modes: termios.tcsetattr(follower, termios.TCSANOW, modes)
    with opened:
        yield opened
    os.close(leader)
    os.close(follower)


def has_echo(modes):
    return bool(modes[3] & termios.ECHO)


def set_raw(terminal):
    """Change the modes as an editor does."""
    modes = terminal.modes()
    modes[3] &= ~(termios.ECHO | termios.ICANON)
    terminal.set_modes(modes)
    return terminal.modes()


async def test_a_secret_question_that_opens_while_an_editor_has_the_terminal(terminal):
    """The editor keeps its modes; afterwards the secret is hidden, and then everything is as before."""
    before = terminal.modes()
    async with terminal.lent():
        raw = set_raw(terminal)
        hidden = terminal.hidden()
        hidden.__enter__()
        assert terminal.modes() == raw
    assert not has_echo(terminal.modes())
    assert terminal.modes()[3] & termios.ICANON
    hidden.__exit__(None, None, None)
    assert terminal.modes() == before


async def test_a_secret_question_that_ends_while_an_editor_has_the_terminal(terminal):
    before = terminal.modes()
    with terminal.hidden():
        lent = terminal.lent()
        await lent.__aenter__()
        # The editor shows what the user types.
        assert terminal.modes() == before
        raw = set_raw(terminal)
    assert terminal.modes() == raw
    await lent.__aexit__(None, None, None)
    assert terminal.modes() == before


async def test_an_editor_that_crashes_leaves_no_raw_mode(terminal):
    before = terminal.modes()
    async with terminal.lent():
        set_raw(terminal)
    assert terminal.modes() == before
    with terminal.hidden():
        assert not has_echo(terminal.modes())
    assert terminal.modes() == before
