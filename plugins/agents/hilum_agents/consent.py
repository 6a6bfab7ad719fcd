"""Consent: detects whether the user has confirmed an agent's proposals.

A doubtful answer does not count as consent. If consent is not recognized, the user only has to
repeat it, but wrongly assumed consent changes files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hilum import AssistantMessage, Message, UserMessage

# The beginning of the prompt that retries an interrupted job.
RESUME_PROMPT = (
    "Continue your task from where you were interrupted. Do not repeat the work that is already"
    " done above."
)
# Maximum number of characters to search for consent; instructions may follow the consent.
MAX_CHARACTERS = 300
_WHICH = (
    r"(?:(?:the\s+)?(?:first|second|third|fourth|fifth|last)(?:\s+(?:one|two|three))?"
    r"|(?:numbers?|nos?\.?|proposals?|steps?|items?)\s*#?\d+"
    r"|#?\d+|(?:all|both|each|any)(?:\s+of\s+(?:it|them|these|those))?|everything"
    r"|one|two|three|four|five)"
)
_YES = (
    r"(?i)"
    # yes, please …
    r"\s*(?:(?:ok(?:ay)?|yes|yep|yeah|sure|fine|good|great|perfect|lgtm|(?:sounds|looks)"
    r" good|please|then|now|and|but|let'?s"
    r"|(?:only|just)(?=\s)|好的?|可以|行|嗯|是的?|那就|请|都)(?![A-Za-z])[\s,.!，。！、]*)*(?:"
    # … do it, apply the first, go ahead
    r"(?:do|apply|perform|execute|implement|carry\s+out|carry|make|take|use|start\s+with|start"
    r"|go\s+(?:on\s+|ahead\s+)?with|continue\s+with"
    rf"|proceed\s+with|confirm|accept)\s+(?:it|this|that|them|these|those|so"
    rf"|(?:the|your|all|both)\s+(?:changes?|proposals?|steps?|refactorings?)|{_WHICH})\b"
    r"|(?:go\s+ahead|go\s+on|go\s+for\s+it|proceed|continue|confirm(?:ed)?|accept(?:ed)?|agreed?"
    r"|go|do|start)[\s,.!]*(?:$|(?=please|and|then|with\b))"
    # … 1 and 2
    rf"|{_WHICH}(?:(?:\s*(?:,|and|&|\+|/))+\s*(?:then\s+|also\s+)?{_WHICH})*"
    r"[\s,.!]*(?:please)?[\s.!]*$"
    r"|(?:确认|同意|照做|就这样|全部|所有|开始|继续|执行|应用|做|改|重构)(?:吧|了|做|改|重构|修改|执行|全部|所有|它|这|那|第|提案|方案|建议|[\d\s，"
    r"。！,.!]|$)"
    r"|按(?:这|第|你|上|计划|方案|提案|建议|\d)|第\s*[一二三四五\d]+\s*(?:个|项|条|步)?(?:[\s和与、"
    r"，,及]*第?\s*[一二三四五\d]+\s*(?:个|项|条|步)?)*+\s*(?:吧|就行|可以)?[\s。！.!]*$"
    r"|[\s.!,，。！]*$)"
)
# Any of these words makes the answer doubtful: "yes, but why …", "do it, not 2".
_NO = (
    r"(?i)\b(?:no|not|don['’]?t|never|stop|wait|nothing|none|cancel|why|what|how"
    r"|explain|describe|show|tell|reconsider|rethink|another)\b|[?？]"
    r"|不要|不用|不行|不对|别|先|等等|取消|什么|怎么|如何|吗|呢|解释|说明|分析|之前|再提|新的"
)


def confirmed(messages: Sequence[Message], proposes: Callable[[AssistantMessage], bool]) -> bool:
    """Return whether the user's last message confirms proposals in the preceding answer.

    Args:
        messages: A complete conversation of the user with an agent, without compaction.
        proposes: A function that returns whether an answer makes proposals.
    """
    asked = last_request(messages)
    request = messages[asked] if messages else None
    if not isinstance(request, UserMessage):
        return False
    words = request.typed.strip()
    if words.startswith(RESUME_PROMPT):
        # A retry continues the interrupted run, so consent to that run still counts.
        return confirmed(messages[:asked], proposes)
    earlier = reversed(messages[:asked])
    answer = next((each for each in earlier if isinstance(each, AssistantMessage)), None)
    return answer is not None and proposes(answer) and is_yes(words)


def last_request(messages: Sequence[Message]) -> int:
    """Return the index of the user's last message; 0 if there is none."""
    backwards = range(len(messages) - 1, -1, -1)
    return next((index for index in backwards if isinstance(messages[index], UserMessage)), 0)


def is_yes(words: str) -> bool:
    """Return whether a text begins by agreeing to proposals."""
    beginning = words
    if len(words) > MAX_CHARACTERS:
        # The ellipsis prevents patterns that are anchored at the end from matching where the text
        # was cut.
        beginning = f"{words[:MAX_CHARACTERS]}…"
    if not words.strip() or not re.match(_YES, beginning):
        return False
    # All words are searched for signs of doubt, which often come at the end.
    return not re.search(_NO, words)
