"""Match regular expressions from rules files, in limited time."""

from __future__ import annotations

MATCH_TIMEOUT = 0.2
"""Maximum time to match an expression from a rules file, in seconds per 100,000 characters."""
MAX_TIMEOUT = 2.0
"""Maximum time to match an expression against a text of any length, in seconds."""
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
