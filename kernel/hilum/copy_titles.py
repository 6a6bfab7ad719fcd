"""Titles of copies of sessions, which tell a copy apart from its source and from other copies."""

from __future__ import annotations

import re
from collections.abc import Collection

MAX_TITLE = 80
"""Maximum number of characters of a title, as of titles that are made from prompts."""
_MARK = re.compile(r" \((?:copy(?: \d+)?|from prompt \d+(?:, copy \d+)?)\)\Z")


def name_copy(title: str, taken: Collection[str], *, next_prompt: int = 0) -> str:
    """Return a title for a copy of a session.

    Args:
        title: Title of the session, which may be a copy itself.
        taken: Titles that other sessions have.
        next_prompt: Number of the prompt from which the copy continues; 0 for a copy of the whole
            session.
    """
    base = _MARK.sub("", title)
    number = 1
    while True:
        mark = f" ({_describe_copy(next_prompt, number)})"
        # A list shows the beginning of a long title, so the title is shortened and not its end.
        room = MAX_TITLE - len(mark)
        shown = base if len(base) <= room else f"{base[: room - 1]}…"
        if shown + mark not in taken:
            return shown + mark
        number += 1


def _describe_copy(next_prompt: int, number: int) -> str:
    """Return what kind of copy it is; ``number`` counts the copies of one kind."""
    if not next_prompt:
        return "copy" if number == 1 else f"copy {number}"
    text = f"from prompt {next_prompt}"
    return text if number == 1 else f"{text}, copy {number}"
