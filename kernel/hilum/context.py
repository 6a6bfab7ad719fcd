"""The context gathered for a prompt: its budget, and how a model sees it.

The estimate of tokens is ``hilum_tokens``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from hilum_tokens import estimate as estimate

from hilum.messages import Block

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


class ContextRequest(msgspec.Struct, frozen=True):
    """What a prompt asks context for.

    Args:
        text: The user's text.
        budget: Tokens that all blocks together may take.
        state: What the face knows of the user's workspace (open files, cursor, diagnostics), as
            plain data.
    """

    text: str
    budget: int
    state: dict[str, object] = msgspec.field(default_factory=dict)


def fit(blocks: Iterable[Block], budget: int) -> list[Block]:
    """Keep the blocks of highest priority that fit a budget in tokens, in their given order."""
    given = list(blocks)
    kept = set()
    for index in sorted(range(len(given)), key=lambda index: -given[index].priority):
        cost = estimate(given[index].text)
        if cost <= budget:
            budget -= cost
            kept.add(index)
    return [block for index, block in enumerate(given) if index in kept]


def render(block: Block) -> str:
    """Write a block as the tagged text a model sees.

    Neither its text nor the name of its file can end it, or add to it.
    """
    path = "".join(_ESCAPES.get(char, char if char.isprintable() else "?") for char in block.path)
    where = (f' path="{path}"' if path else "") + (f' line="{block.line}"' if block.line else "")
    text = re.sub(
        rf"<(?=\s*/\s*{re.escape(block.type)}\b)", r"<\\", block.text, flags=re.IGNORECASE
    )
    return f"<{block.type}{where}>\n{text}\n</{block.type}>"
