"""Chooses among the decisions of a case."""

from __future__ import annotations

import re

from hilum_eval.case import Decision


def take_decision(left: list[Decision], text: str) -> Decision | None:
    """Return the next decision that matches a question; ``None`` if none does.

    Args:
        left: The decisions that were not made yet. The returned one is removed, except for the last one
            that matches, which answers all further questions.
        text: The question, or the call with its arguments.
    """
    matching = [each for each in left if re.search(each.when, text)]
    if not matching:
        return None
    if len(matching) > 1:
        left.remove(matching[0])
    return matching[0]
