"""Match regular expressions from rules files, in limited time."""

from __future__ import annotations

MATCH_TIMEOUT = 0.2
"""Maximum time to match an expression from a rules file, in seconds per 100,000 characters."""
MAX_TIMEOUT = 2.0
"""Maximum time to match an expression against a text of any length, in seconds."""
MAX_SHOWN = 60
"""Maximum number of characters to show of a match."""
MAX_COUNTED = 1_000
"""Maximum number of matches to count."""


def count_matches(expression: str, text: str, limit: int = MAX_COUNTED) -> int | None:
    """Return how often an expression matches a text, or ``None`` if that takes too long.

    Args:
        expression: The expression.
        text: The text.
        limit: The number of matches after which to stop.
    """
    import regex  # type: ignore[import-untyped]  # needed only for rules with an expression

    count = 0
    # A part that is not searched could contain anything, so that a long text gets more time.
    timeout = min(MATCH_TIMEOUT * max(1, len(text) / 100_000), MAX_TIMEOUT)
    try:
        # `re` has no timeout, and an expression from a repository may backtrack for hours.
        for _ in regex.finditer(expression, text, timeout=timeout):
            count += 1
            if count >= limit:
                break
    except TimeoutError:
        return None
    return count


def find_match(expression: str, text: str, old: str) -> str:
    """Return a text that an expression matches, preferably one that was not there before.

    Args:
        expression: The expression.
        text: The text.
        old: What was there before.

    Returns:
        The match on one line, shortened; empty if there is none, or finding it takes too long.
    """
    import regex  # needed only for rules with an expression

    shown = ""
    try:
        for found in regex.finditer(expression, text, timeout=MATCH_TIMEOUT):
            is_new = found[0] not in old
            if is_new or not shown:
                shown = " ".join(found[0].split())
            if is_new:
                break
    except TimeoutError:
        return ""
    return shown if len(shown) <= MAX_SHOWN else f"{shown[: MAX_SHOWN - 1]}…"
