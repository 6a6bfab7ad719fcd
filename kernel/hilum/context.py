"""The context gathered for a prompt: its budget, and how a model sees it.

Token estimates come from ``hilum.tokens``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from hilum.messages import Block
from hilum.tokens import estimate as estimate

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


class ContextRequest(msgspec.Struct, frozen=True):
    """A request for context for a prompt.

    Args:
        text: The prompt, without attached data.
        budget: Maximum number of tokens in all blocks together.
        state: State of the user's workspace that the face reports (open files, cursor,
            diagnostics), as plain data.
        piped: Whether another program, and not the user, wrote the prompt.
        attached: Data from another program that came with the prompt.
    """

    text: str
    budget: int
    state: dict[str, object] = {}
    piped: bool = False
    attached: str = ""

    @property
    def subject(self) -> str:
        """The prompt with its attached data, to be used for searches, never as instructions."""
        return f"{self.text}\n\n{self.attached}" if self.attached else self.text

    @property
    def typed(self) -> str:
        """The text that the user typed; empty if another program wrote the prompt."""
        return "" if self.piped else self.text


def fit(blocks: Iterable[Block], budget: int) -> list[Block]:
    """Return the blocks with the highest priority that fit in the budget, in their given order."""
    given = list(blocks)
    kept = set()
    # Sorting is stable, so among blocks of equal priority, those of earlier plugins are kept first.
    for index in sorted(range(len(given)), key=lambda index: -given[index].priority):
        cost = estimate(given[index].text)
        if cost <= budget:
            budget -= cost
            kept.add(index)
    return [block for index, block in enumerate(given) if index in kept]


def render(block: Block) -> str:
    """Format a block as the tagged text that a model reads.

    Neither the block's text nor its file name can close the tag or add an attribute.
    """
    path = "".join(char if char.isprintable() else "?" for char in block.path)
    attributes = ""
    if path:
        attributes += f' path="{path.translate(_ESCAPES)}"'
    if block.line:
        attributes += f' line="{block.line}"'
    # A model would also read `</ FILE >` as a closing tag.
    closing = rf"(?i)<(?=\s*/\s*{re.escape(block.type)}\b)"
    text = re.sub(closing, r"<\\", block.text)
    return f"<{block.type}{attributes}>\n{text}\n</{block.type}>"
