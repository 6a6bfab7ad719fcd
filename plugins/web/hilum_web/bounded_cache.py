"""Caches with a limited number of entries."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Value = TypeVar("Value")


def store(cache: OrderedDict[str, Value], key: str, value: Value, limit: int) -> None:
    """Store an entry as the newest one, and drop the oldest entries beyond a limit."""
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > limit:
        cache.popitem(last=False)
