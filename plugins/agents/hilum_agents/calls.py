"""Sentences that call an agent, and those that only look like it.

A prompt is read in this order: shell line (``!…``), call of an agent, ``@file``, slash command, text. A call stands at the
beginning of the prompt and names an agent that there is; everything else stays text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple

NAME = r"[A-Za-z][A-Za-z0-9_-]*"
MOST_HEAD = 400
"""Characters in which a call must begin; what is to be done may be of any length."""


_NO_NAMES = frozenset("the a an this that my your our any another an one no every some which what it".split())


class AgentCall(NamedTuple):
    """A call of an agent in a prompt.

    Attributes:
        name: Name of the agent, in small letters.
        prompt: What it is to do.
    """

    name: str
    prompt: str


def read_call(text: str, names: Collection[str]) -> AgentCall | None:
    """Read a prompt as the call of an agent.

    Args:
        text: The prompt.
        names: The agents that can be called.

    Returns:
        The call; ``None`` where the prompt is something else, or names nobody.
    """
    known = {name.casefold() for name in names}
    return next((AgentCall(name, prompt) for name, prompt, _ in _readings(text) if name in known), None)


def read_unknown(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """Find out whether a prompt seems to call an agent that is not there.

    Args:
        text: The prompt.
        names: The agents that can be called.

    Returns:
        The name that was written, and the nearest one that there is (empty if none is near); ``None`` if the prompt reads
        as text anyway.
    """
    from difflib import get_close_matches

    known = sorted({name.casefold() for name in names})
    readings = list(_readings(text))
    if any(name in known for name, _, _ in readings):
        return None
    for name, _, certain in readings:
        near = get_close_matches(name, known, n=1, cutoff=0.7)
        if near or certain:
            return name, near[0] if near else ""
    return None


def may_call(text: str) -> bool:
    """Whether a prompt reads like the call of an agent, whatever agents there are."""
    return any(True for _ in _readings(text))


def complete_name(text: str, names: Collection[str]) -> list[str]:
    """Give the ``@name`` that would complete a prompt's beginning, for faces; empty where it is no beginning of a call."""
    match = re.fullmatch(rf"\s*@({NAME})?", text)
    begun = (match[1] or "").casefold() if match else None
    return [] if begun is None else sorted(f"@{name}" for name in names if name.startswith(begun))


_WORDS = ("@", "agent", "智能体", "代理", "助手", "用", "ask", "tell")
"""Without one of them no pattern fits, and none need be made: most prompts call nobody."""


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], bool], ...]:
    """Pairs of a pattern and whether nothing but a call looks like that. Made at first use."""
    agent = r"(?:agent|sub-?agent|智能体|代理|助手)"
    rest = r"(?P<prompt>.)"  # where it begins
    gap = r"[\s，,：:]*"
    polite = r"(?:please\s+|can\s+you\s+|could\s+you\s+|请|麻烦(?:你)?|帮我|请帮我)?\s*"
    name = rf"[@“\"'`「]?(?P<name>{NAME})[”\"'`」]?"
    use = r"(?:use|run|start|call|invoke|launch|have|let|get)"
    sources = (
        # 使用/用/让/请/叫 X agent 做 …
        (rf"{polite}(?:使用|用|让|请|叫|调用|启动)\s*{name}\s*(?:这个\s*)?{agent}(?![A-Za-z0-9_-]){gap}{rest}", True),
        # 使用/用 X …: only names with _ or - are no words of the language
        (rf"{polite}(?:使用|用)\s+(?P<name>{NAME}[_-][A-Za-z0-9_-]*)(?![\w./\\(=@:-])\s*[，,]?\s*{rest}", False),
        # @X …
        (rf"@(?P<name>{NAME})(?:\s*[，：]\s*|\s*[,:](?=[\s\u4e00-\u9fff])\s*|\s+){rest}", False),
        # use (the) X agent to …
        (rf"{polite}{use}\s+(?:the\s+|my\s+)?{name}\s+(?:sub-?)?agent\b(?!-)(?:\s+(?:to|for|on)\b)?{gap}{rest}", True),
        (rf"{polite}{use}\s+(?:the\s+)?(?:sub-?)?agent\s+{name}(?:\s+(?:to|for|on)\b){gap}{rest}", True),
        # ask X to …
        (rf"{polite}(?:ask|tell)\s+(?:the\s+)?{name}(?:\s+(?:sub-?)?agent)?\s+to\s+{rest}", False),
    )
    return tuple((re.compile(source, re.IGNORECASE | re.DOTALL), certain) for source, certain in sources)


def _readings(text: str) -> Iterator[tuple[str, str, bool]]:
    """Give the ways to read a prompt as a call: name, what to do, and whether it can hardly mean anything else."""
    text = text.strip()
    if not text or text[0] in "!/":
        return
    head = text[:MOST_HEAD].casefold()
    if not any(word in head for word in _WORDS):
        return
    at_first_line = text.split("\n", 1)[0]
    for pattern, certain in _patterns():
        match = pattern.match(text[:MOST_HEAD])
        if match is None or match.end("name") > len(at_first_line):
            continue
        name, prompt = match["name"].casefold().rstrip("-_"), text[match.start("prompt") :].strip()
        between = text[match.end("name") : match.start("prompt")]
        if name in _NO_NAMES or not re.search(r"\w", prompt) or (text[0] == "@" and _is_code(prompt, "\n" in between)):
            continue
        yield name, prompt, certain


def _is_code(rest: str, next_line: bool) -> bool:
    """Whether what follows ``@name`` is what a decorator or an annotation stands before, and not a sentence."""
    first = rest.split("\n", 1)[0].rstrip()
    if re.match(r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[({:]", first):
        return True
    words = (
        "async def|def|class|function|public|private|protected|static|final|abstract|interface|enum|export|fun|val|var|let"
        "|const|import|void|override"
    )
    if re.match(rf"@[\w.]+(?:\(.*\))?$|(?:{words})\b.*[({{:;=]", first) is None:
        return False
    return next_line or first[-1:] in "{:;)" or first.startswith("@")
