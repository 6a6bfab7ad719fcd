"""Makes a failing scenario small: parts of lists and values are taken away as long as the same
invariant is violated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from simulator.scenario import Scenario

Path = tuple[str | int, ...]
Fails = Callable[[Scenario], bool]
# Values that make a scenario simpler, tried in this order; others are left as they are.
SIMPLER: dict[str, tuple[Any, ...]] = {
    "window": (100_000,),
    "max_output": (1_000,),
    "turns": (25,),
    "letters_per_token": (4.0,),
    "at": (0.0,),
    "delay": (0.0, 1.0),
}
# Decisions that a scenario cannot be without, or that mean the same whatever they are.
FIXED = frozenset({"name", "tool"})


def shrink(scenario: Scenario, fails: Fails, *, most: int = 400) -> Scenario:
    """Return a smaller scenario that fails in the same way.

    Args:
        scenario: One that fails.
        fails: Carries out a scenario and tells whether it fails in the same way.
        most: Scenarios to try at most.
    """
    tried = 0
    best = msgspec.to_builtins(scenario)

    def works(candidate: Any) -> bool:
        nonlocal tried
        tried += 1
        try:
            smaller = msgspec.convert(candidate, Scenario)
        except msgspec.ValidationError:
            return False
        return fails(smaller)

    while tried < most:
        smaller = next((each for each in _smaller(best) if tried < most and works(each)), None)
        if smaller is None:
            break
        best = smaller
    return msgspec.convert(best, Scenario)


def _smaller(tree: Any) -> Iterator[Any]:
    """Yield trees that are simpler by one step, the boldest steps first."""
    lists = sorted(_lists(tree), key=lambda found: -len(found[1]))
    for share in (1, 2, 4):
        for path, items in lists:
            size = len(items) // share
            if size > 1 or (share == 1 and size == 1):
                for start in range(0, len(items), size):
                    yield _replaced(tree, path, items[:start] + items[start + size :])
    for path, items in lists:
        if len(items) > 1:
            for index in range(len(items)):
                yield _replaced(tree, path, items[:index] + items[index + 1 :])
    for path, key, value in _fields(tree):
        if key in SIMPLER:
            for simple in SIMPLER[key]:
                if value != simple:
                    yield _replaced(tree, (*path, key), simple)
        elif key not in FIXED and not isinstance(value, list | dict):
            yield _without(tree, path, key)


def _lists(tree: Any, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    if isinstance(tree, list):
        if tree:
            yield path, tree
        for index, item in enumerate(tree):
            yield from _lists(item, (*path, index))
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key != "arguments":
                yield from _lists(value, (*path, key))


def _fields(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _fields(item, (*path, index))
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key not in ("seed", "arguments"):
                yield path, key, value
                yield from _fields(value, (*path, key))


def _replaced(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    copy = tree.copy()
    copy[first] = _replaced(copy[first], rest, value)
    return copy


def _without(tree: Any, path: Path, key: str) -> Any:
    if not path:
        return {name: value for name, value in tree.items() if name != key}
    copy = tree.copy()
    copy[path[0]] = _without(copy[path[0]], path[1:], key)
    return copy
