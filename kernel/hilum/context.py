"""How much fits: budgets, and the plain way to drop what does not fit. The estimate itself is ``hilum_tokens``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from hilum_tokens import estimate as estimate

from hilum.messages import AssistantMessage, Block, Message, NoteMessage, Text, ToolMessage, Trim, UserMessage

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


class ContextRequest(msgspec.Struct, frozen=True):
    """What a prompt asks context for.

    Args:
        text: The user's text.
        budget: Tokens that all blocks together may take.
        state: What the face knows of the user's workspace (open files, cursor, diagnostics), as plain data.
    """

    text: str
    budget: int
    state: dict[str, object] = msgspec.field(default_factory=dict)


def fit(blocks: Iterable[Block], budget: int) -> list[Block]:
    """Keep the blocks of highest priority that fit a budget in tokens, in their given order."""
    given, kept = list(blocks), set()
    for index in sorted(range(len(given)), key=lambda index: -given[index].priority):
        cost = estimate(given[index].text)
        if cost <= budget:
            budget -= cost
            kept.add(index)
    return [block for index, block in enumerate(given) if index in kept]


def render(block: Block) -> str:
    """Write a block as the tagged text a model sees. Neither its text nor the name of its file can end it, or add to it."""
    path = "".join(_ESCAPES.get(char, char if char.isprintable() else "?") for char in block.path)
    where = (f' path="{path}"' if path else "") + (f' line="{block.line}"' if block.line else "")
    text = re.sub(rf"<(?=\s*/\s*{re.escape(block.type)}\b)", r"<\\", block.text, flags=re.IGNORECASE)
    return f"<{block.type}{where}>\n{text}\n</{block.type}>"


def cut_point(messages: Sequence[Message], upto: int) -> int:
    """Move a cut back so that it splits no call from its result: what is kept begins with a user's or model's message."""
    while 0 < upto < len(messages) and not isinstance(messages[upto], UserMessage | AssistantMessage):
        upto -= 1
    return upto


def plain_trim(messages: Sequence[Message], sizes: Sequence[int], budget: int) -> Trim:
    """Drop the oldest messages until the rest fits; the summary says plainly what was dropped.

    Args:
        messages: The conversation.
        sizes: Tokens of each message.
        budget: Tokens that the rest may take.
    """
    upto, left = 0, sum(sizes)
    while left > budget and upto < len(messages) - 1:
        left -= sizes[upto]
        upto += 1
    while upto < len(messages) - 1 and isinstance(messages[upto], ToolMessage | NoteMessage):
        upto += 1
    upto = cut_point(messages, upto)
    asked = [p.text for m in messages[:upto] if isinstance(m, UserMessage) for p in m.parts if isinstance(p, Text)]
    said = [m.text for m in messages[:upto] if isinstance(m, AssistantMessage) and m.text]
    lines = [f"{upto} earlier messages were dropped to fit the window."]
    lines += [f"The user asked: {text[:500]}" for text in asked[-3:]]
    lines += [f"You said: {text[:300]}" for text in said[-3:]]
    thinned = {}
    if sum(sizes[upto:]) > budget:
        # What is left is too big by itself: of each big result only its beginning and end stay.
        results = [r for m in messages[upto:] if isinstance(m, ToolMessage) for r in m.results]
        keep = max(budget // max(len(results), 1), 200)
        for result in results:
            if len(text := result.text) > 3 * keep:
                thinned[result.call_id] = f"{text[:keep]}\n[... left out to fit the window ...]\n{text[-keep:]}"
    summary = "\n".join(lines)
    return Trim(upto, summary, thinned) if sum(sizes[:upto]) > estimate(summary) else Trim(thinned=thinned)
