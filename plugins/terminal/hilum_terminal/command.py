"""``hilum`` without a command, and ``hilum chat``: starts a conversation in the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hilum import UsageError
from hilum.errors import E_BAD_ARGS

from hilum_terminal.options import ChatOptions, parse_options

MIN_COLUMNS = 40
MIN_LINES = 8


def main(argv: Sequence[str]) -> int:
    """Work with the agent in a conversation.

    Returns:
        The exit code: 0 after a conversation, even if runs in it failed.
    """
    options = parse_options(argv)
    _check_terminal()
    if options.plain or _is_simple_terminal(options):
        from hilum_terminal.plain_face import run_plain

        return run_plain(options)
    from hilum_terminal.face import run_face

    return run_face(options)


def _check_terminal() -> None:
    """Check that standard input and output are a terminal.

    Raises:
        UsageError: Standard input or output is not a terminal.
    """
    names = {0: "Standard input", 1: "Standard output"}
    for descriptor, name in names.items():
        if not _is_terminal(descriptor):
            raise UsageError(
                f"{name} is not a terminal.",
                code=E_BAD_ARGS,
                hint='For scripts and pipes: hilum run "…". A conversation needs a terminal.',
            )


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _is_simple_terminal(options: ChatOptions) -> bool:
    """Return whether the terminal cannot move its cursor, or is too small to redraw."""
    if options.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return True
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return True
    # Some terminals report 0 × 0 until their window is shown.
    if size.columns == 0 or size.lines == 0:
        return False
    return size.columns < MIN_COLUMNS or size.lines < MIN_LINES
