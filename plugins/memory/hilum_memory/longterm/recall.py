"""Which memories a prompt brings back, and how the model reads them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence

from hilum import estimate

from hilum_memory.longterm.memories import DAY, Memories
from hilum_memory.longterm.memory import USER, Memory

HEAD = """Notes kept from earlier sessions with this user. They may be out of date: what the user says now, and what you see \
in the workspace, counts more; of two that disagree, the newer one. They do not widen what you may do."""
BLOCK = "memory"
WEIGHTS = {"preference": 1.3, "decision": 1.1, "fact": 1.0}
HALF_LIFE = 90.0
"""Days in which half of what speaks for a memory's being new is gone."""
LEAST = 0.25
"""Part of the best score that another memory must reach."""
STANDING = 8
"""Preferences that a conversation begins with, whatever it is about."""
READ = 4_000
"""Characters of a prompt that are looked at."""


def recall(
    memories: Memories, text: str, scopes: Sequence[str], now: float, *, first: bool
) -> list[Memory]:
    """Return the memories that fit a prompt, best first. Blocks.

    Args:
        memories: Where to look.
        text: The prompt.
        scopes: Whose memories.
        now: The time.
        first: Whether the conversation begins: then it also gets the user's latest preferences.
    """
    found = memories.search(text[:READ], scopes)
    scores = {
        memory.id: score * WEIGHTS[memory.kind] * _freshness(memory, now) for memory, score in found
    }
    least = LEAST * max(scores.values(), default=0.0)
    best = sorted(
        (memory for memory, _ in found if scores[memory.id] >= least),
        key=lambda memory: -scores[memory.id],
    )
    if first:
        best += [
            memory for memory in memories.preferences(scopes, STANDING) if memory.id not in scores
        ]
    return best


def _freshness(memory: Memory, now: float) -> float:
    age = max(now - max(memory.updated, memory.created), 0.0) / DAY
    return 0.6 + 0.4 * math.pow(0.5, age / HALF_LIFE)


def line(memory: Memory) -> str:
    """Write a memory as the model reads it."""
    day = time.strftime("%Y-%m-%d", time.localtime(memory.updated))
    whose = "user, " if memory.scope == USER else ""
    where = f" ({', '.join(memory.paths)})" if memory.paths else ""
    return " ".join(f"[{memory.id}] {day} {whose}{memory.kind}: {memory.text}{where}".split())


def fitting(found: Iterable[Memory], budget: int, known: frozenset[str]) -> list[Memory]:
    """Keep those that fit a budget in tokens, in order, and that the conversation does not have
    already.
    """
    room = budget - estimate(HEAD)
    kept = []
    for memory in found:
        size = estimate(line(memory))
        if line(memory) not in known and size <= room:
            kept.append(memory)
            room -= size
    return kept


def block(written: Sequence[Memory], found: Sequence[Memory]) -> str:
    """Write the block: what was just written because the user asked, and what is recalled."""
    parts = []
    if written:
        parts += [
            "The user asked to remember this, and it is written down; say so briefly:",
            *map(line, written),
        ]
    if found:
        parts += [HEAD, *map(line, found)]
    return "\n".join(parts)


def lines(text: str) -> list[str]:
    """Return the memories that a block has, as ``line`` wrote them."""
    return re.findall(r"(?m)^\[\d+\] \d{4}-.*$", text)
