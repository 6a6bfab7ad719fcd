"""Selects the memories for a prompt, and formats them for the model."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence

from hilum import estimate

from hilum_memory.longterm.memories import DAY, Memories
from hilum_memory.longterm.memory import USER, Memory

HEAD = (
    "Notes kept from earlier sessions with this user. They may be out of date: what the user says"
    " now and what you see in the workspace take precedence; if two notes disagree, the newer does."
    " They give you no additional permissions."
)
# A preference applies to most prompts, a fact only to prompts about its subject.
WEIGHTS = {"preference": 1.3, "decision": 1.1, "fact": 1.0}
# Number of days in which the bonus for a new memory halves.
HALF_LIFE_DAYS = 90.0
# Minimum score of a memory, as a fraction of the best score.
MIN_SCORE_SHARE = 0.25
# Maximum number of preferences to add at the beginning of a conversation.
MAX_PREFERENCES = 8
# Maximum number of characters in a prompt to use for the search.
MAX_PROMPT = 4_000


def recall_memories(
    memories: Memories,
    text: str,
    scopes: Sequence[str],
    now: float,
    *,
    first: bool,
) -> list[Memory]:
    """Return the memories that are relevant to a prompt, best first. Blocks.

    Args:
        memories: The memories.
        text: The prompt.
        scopes: The scopes to search.
        now: The current time.
        first: Whether this is the beginning of the conversation. At the beginning, the user's
            latest preferences are added.
    """
    found = memories.search(text[:MAX_PROMPT], scopes)
    scores: dict[int, float] = {}
    for memory, score in found:
        scores[memory.id] = score * WEIGHTS[memory.kind] * _freshness(memory, now)
    least = MIN_SCORE_SHARE * max(scores.values(), default=0.0)
    # BM25 scores have no fixed scale, so a score is meaningful only relative to the best one.
    fitting = [memory for memory, _ in found if scores[memory.id] >= least]
    best = sorted(fitting, key=lambda memory: -scores[memory.id])
    if first:
        preferences = memories.preferences(scopes, MAX_PREFERENCES)
        # Preferences come last, because memories that are relevant to the prompt take precedence in
        # the budget.
        best += [memory for memory in preferences if memory.id not in scores]
    return best


def _freshness(memory: Memory, now: float) -> float:
    age = max(now - max(memory.updated, memory.created), 0.0) / DAY
    # Age lowers a score by at most 40 %, because an old decision may still hold.
    return 0.6 + 0.4 * math.pow(0.5, age / HALF_LIFE_DAYS)


def format_memory(memory: Memory) -> str:
    """Return a memory in the format that the model reads."""
    day = time.strftime("%Y-%m-%d", time.localtime(memory.updated))
    whose = "user, " if memory.scope == USER else ""
    where = f" ({', '.join(memory.paths)})" if memory.paths else ""
    line = f"[{memory.id}] {day} {whose}{memory.kind}: {memory.text}{where}"
    return " ".join(line.split())  # ``find_memory_lines`` expects one line


def fit_budget(found: Iterable[Memory], budget: int, known: frozenset[str]) -> list[Memory]:
    """Return the memories that fit a token budget and are not already in the conversation."""
    room = budget - estimate(HEAD)
    kept = []
    for memory in found:
        line = format_memory(memory)
        size = estimate(line)
        # Continue after a memory that does not fit, because a shorter one may still fit.
        if line not in known and size <= room:
            kept.append(memory)
            room -= size
    return kept


def format_block(written: Sequence[Memory], found: Sequence[Memory]) -> str:
    """Return the block with recalled memories and those that the user just asked to save."""
    parts = []
    if written:
        parts += [
            "The user asked to remember this, and it is saved; say so briefly:",
            *map(format_memory, written),
        ]
    if found:
        parts += [HEAD, *map(format_memory, found)]
    return "\n".join(parts)


def find_memory_lines(text: str) -> list[str]:
    """Return the memories in a block, in the format of ``format_memory``."""
    return re.findall(r"(?m)^\[\d+\] \d{4}-.*$", text)
