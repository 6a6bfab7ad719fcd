"""Whether the user has said yes to proposals: what lets an agent that proposes do what it proposed.

In doubt it is no. A yes that is not understood costs the user another word; one that was not meant
changes his files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hilum import AssistantMessage, Message, Text, UserMessage

from hilum_agents.runs.records import GO_ON

MOST_READ = 300
"""Characters in which a yes must stand; what is to be minded may follow."""
_WHICH = (
    r"(?:(?:the\s+)?(?:first|second|third|fourth|fifth|last)(?:\s+(?:one|two|three))?|(?:numbers?|nos?\.?|proposals?|steps?|items?)\s*#?\d+"
    r"|#?\d+|(?:all|both|each|any)(?:\s+of\s+(?:it|them|these|those))?|everything|one|two|three|four|five)"
)
_YES = re.compile(
    # yes, please …
    r"\s*(?:(?:ok(?:ay)?|yes|yep|yeah|sure|fine|good|great|perfect|lgtm|(?:sounds|looks)"
    r" good|please|then|now|and|but|let'?s"
    r"|(?:only|just)(?=\s)|好的?|可以|行|嗯|是的?|那就|请|都)(?![A-Za-z])[\s,.!，。！、]*)*(?:"
    # … do it, apply the first, go ahead
    r"(?:do|apply|perform|execute|implement|carry\s+out|carry|make|take|use|start\s+with|start|go\s+(?:on\s+|ahead\s+)?with|continue\s+with"
    rf"|proceed\s+with|confirm|accept)\s+(?:it|this|that|them|these|those|so|(?:the|your|all|both)\s+(?:changes?|proposals?|steps?|refactorings?)|{_WHICH})\b"
    r"|(?:go\s+ahead|go\s+on|go\s+for\s+it|proceed|continue|confirm(?:ed)?|accept(?:ed)?|agreed?|go|do|start)[\s,.!]*(?:$|(?=please|and|then|with\b))"
    # … 1 and 2
    rf"|{_WHICH}(?:(?:\s*(?:,|and|&|\+|/)\s*)+(?:then\s+|also\s+)?{_WHICH})*[\s,.!]*(?:please)?[\s.!]*$"
    r"|(?:确认|同意|照做|就这样|全部|所有|开始|继续|执行|应用|做|改|重构)(?:吧|了|做|改|重构|修改|执行|全部|所有|它|这|那|第|提案|方案|建议|[\d\s，"
    r"。！,.!]|$)"
    r"|按(?:这|第|你|上|计划|方案|提案|建议|\d)|第\s*[一二三四五\d]+\s*(?:个|项|条|步)?(?:[\s和与、"
    r"，,及]*第?\s*[一二三四五\d]+\s*(?:个|项|条|步)?)*\s*(?:吧|就行|可以)?[\s。！.!]*$"
    r"|[\s.!,，。！]*$)",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\b(?:no|not|don['’]?t|never|stop|wait|nothing|none|cancel|why|what|how|explain|describe|show|tell|reconsider|rethink|another)\b|[?？]"
    r"|不要|不用|不行|不对|别|先|等等|取消|什么|怎么|如何|吗|呢|解释|说明|分析|之前|再提|新的",
    re.IGNORECASE,
)


def confirmed(messages: Sequence[Message], proposes: Callable[[AssistantMessage], bool]) -> bool:
    """Return whether the last thing that the user said is a yes to proposals that were made just
    before.

    Args:
        messages: A whole conversation of the user's with an agent; nothing is cut from it.
        proposes: Whether an answer makes proposals.
    """
    last = next(
        (n for n in range(len(messages) - 1, -1, -1) if isinstance(messages[n], UserMessage)), 0
    )
    said = messages[last] if messages else None
    if not isinstance(said, UserMessage):
        return False
    words = " ".join(
        part.text for part in said.parts if isinstance(part, Text) and part.source == "user"
    ).strip()
    if words.startswith(GO_ON):  # it was cut off, and goes on with what it was told then
        return confirmed(messages[:last], proposes)
    before = next(
        (each for each in reversed(messages[:last]) if isinstance(each, AssistantMessage)), None
    )
    return before is not None and proposes(before) and is_yes(words)


def is_yes(words: str) -> bool:
    """Return whether words agree to what was proposed, and to nothing else."""
    head = words if len(words) <= MOST_READ else f"{words[:MOST_READ]}…"
    return bool(words.strip()) and bool(_YES.match(head)) and not _NO.search(words)
