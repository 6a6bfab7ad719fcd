"""How much fits: token estimates, budgets, and the plain way to drop what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hilum.messages import AssistantMessage, Block, Message, NoteMessage, Text, ToolMessage, Trim, UserMessage

BYTES_PER_TOKEN = 3.5


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


def tokens(size: int, factor: float = 1.0) -> int:
    """Estimate tokens from a size in UTF-8 bytes. ``factor`` corrects for a model by what its provider reported."""
    return int(size / BYTES_PER_TOKEN * factor) + 1


def fit(blocks: Iterable[Block], budget: int) -> list[Block]:
    """Keep the blocks of highest priority that fit a budget in tokens, in their given order."""
    given, kept = list(blocks), set()
    for index in sorted(range(len(given)), key=lambda index: -given[index].priority):
        cost = tokens(len(given[index].text.encode()))
        if cost <= budget:
            budget -= cost
            kept.add(index)
    return [block for index, block in enumerate(given) if index in kept]


def render(block: Block) -> str:
    """Write a block as the tagged text a model sees. A closing tag inside the text cannot end the block."""
    where = (f' path="{block.path}"' if block.path else "") + (f' line="{block.line}"' if block.line else "")
    text = block.text.replace(f"</{block.type}", f"<\\/{block.type}")
    return f"<{block.type}{where}>\n{text}\n</{block.type}>"


def cut_point(messages: Sequence[Message], upto: int) -> int:
    """Move a cut back so that it splits no call from its result: what is kept begins with a user's or model's message."""
    while 0 < upto < len(messages) and not isinstance(messages[upto], UserMessage | AssistantMessage):
        upto -= 1
    return upto


def plain_trim(messages: Sequence[Message], sizes: Sequence[int], budget: int, factor: float = 1.0) -> Trim:
    """Drop the oldest messages until the rest fits; the summary says plainly what was dropped.

    Args:
        messages: The conversation.
        sizes: Encoded size of each message in bytes.
        budget: Tokens that the rest may take.
        factor: Correction of the estimate.
    """
    upto, left = 0, tokens(sum(sizes), factor)
    while left > budget and upto < len(messages) - 1:
        left -= tokens(sizes[upto], factor)
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
    if tokens(sum(sizes[upto:]), factor) > budget:
        # What is left is too big by itself: of each big result only its beginning and end stay.
        results = [r for m in messages[upto:] if isinstance(m, ToolMessage) for r in m.results]
        keep = max(int(budget * BYTES_PER_TOKEN / factor) // (4 * max(len(results), 1)), 200)
        for result in results:
            if len(text := result.text) > 3 * keep:
                thinned[result.call_id] = f"{text[:keep]}\n[... left out to fit the window ...]\n{text[-keep:]}"
    summary = "\n".join(lines)
    return Trim(upto, summary, thinned) if sum(sizes[:upto]) > len(summary) else Trim(thinned=thinned)
