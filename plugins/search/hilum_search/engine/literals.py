"""What a line must contain for a pattern to match in it: found fast, it spares the regular
expression most of the text.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # importing typing would be a fifth of the worker's start
if TYPE_CHECKING:
    from typing import Any

# What ``re`` made of a pattern; another Python may keep it elsewhere, and then there is no short
# cut.
parser: Any = getattr(re, "_parser", None)
sre: Any = getattr(re, "_constants", None)

_MOST = 16
Needles = list[str]
"""Texts of which a match contains at least one."""


def required(pattern: str, flags: int) -> list[Needles]:
    """Return what each match contains: one text of every list. Nothing where nothing can be said.

    Args:
        pattern: For ``re``.
        flags: For ``re``.
    """
    if parser is None or sre is None:
        return []
    tree = parser.parse(pattern, flags)
    if tree.state.flags & re.IGNORECASE != flags & re.IGNORECASE:
        return []
    found = sorted(_sequence(tree), key=_worth, reverse=True)
    return [needles for needles in found[:4] if needles is found[0] or _worth(needles) >= 2]


def _sequence(tree: Any) -> list[Needles]:
    found: list[Needles] = []
    run = ""
    for op, arg in tree:
        if op is sre.LITERAL:
            run += chr(arg)
        elif op is not sre.AT:  # a place between two characters parts nothing
            found += [[run]] * bool(run) + _inside(op, arg)
            run = ""
    return found + [[run]] * bool(run)


def _inside(op: Any, arg: Any) -> list[Needles]:
    if op is sre.SUBPATTERN and not arg[1] and not arg[2]:
        return _sequence(arg[3])
    if op is sre.ATOMIC_GROUP:
        return _sequence(arg)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and arg[0]:
        return _sequence(arg[2])
    if op is sre.BRANCH:
        best = [max(_sequence(branch), key=_worth, default=[]) for branch in arg[1]]
        texts = [text for needles in best for text in needles]
        return [texts] if all(best) and len(texts) <= _MOST else []
    return []


def _worth(needles: Needles) -> float:
    return min(map(len, needles)) - len(needles) / _MOST
