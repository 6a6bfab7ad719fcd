"""Asks the user on the terminal, so that nothing typed earlier counts as an answer."""

from __future__ import annotations

from hilum.command.text import escape_terminal

try:
    import termios
except ImportError:  # not a POSIX system
    termios = None  # type: ignore[assignment]


def discard_typed() -> None:
    """Discard input that was typed before the question was shown."""
    if termios is None:
        return
    try:
        # A "y" that was typed for another purpose must not approve anything.
        termios.tcflush(0, termios.TCIFLUSH)
    except termios.error:  # not a terminal
        pass


def ask_line(question: str, at_end: str = "") -> str:
    """Ask a question on the terminal; return the typed line without the spaces around it. Blocks.

    Args:
        question: The question, which may quote a file or a model: its escape sequences are shown.
        at_end: The answer at end-of-file.
    """
    discard_typed()
    try:
        return input(escape_terminal(question)).strip()
    except EOFError:
        return at_end
