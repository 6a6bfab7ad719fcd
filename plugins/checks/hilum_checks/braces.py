"""Expand braces in patterns, such as ``*.{ts,tsx}``, as shells do."""

from __future__ import annotations

import re

_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")


def expand_braces(pattern: str, limit: int = 200) -> list[str]:
    """Return the patterns to which a pattern with braces expands.

    Args:
        pattern: The pattern.
        limit: Maximum number of patterns, because each group of braces multiplies their number. If
            the limit is reached, the last patterns keep their braces.
    """
    expanded: list[str] = []
    waiting = [pattern]
    # Ten groups with two choices each make 1,024 patterns, so a short line could exhaust the
    # memory.
    while waiting and len(expanded) + len(waiting) <= limit:
        current = waiting.pop()
        found = _BRACES.search(current)
        if found is None:
            expanded.append(current)
            continue
        before = current[: found.start()]
        after = current[found.end() :]
        choices = [choice.strip() for choice in found[1].split(",")]
        # The list is a stack, so the choices are pushed in reverse to keep their order.
        waiting += [f"{before}{choice}{after}" for choice in reversed(choices)]
    return expanded + waiting
