"""Sentences that call an agent, and those that only look like it.

A prompt is read in this order: shell line (``!…``), call of an agent, ``@file``, slash command,
text. A call stands at the beginning of the prompt and names an agent that there is; everything else
stays text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple

NAME = r"[A-Za-z][A-Za-z0-9_-]*"
MOST_HEAD = 400
"""Characters in which a call must begin; what is to be done may be of any length."""


_NO_NAMES = frozenset(
    "the a an this that my your our any another an one no every some which what it".split()
)


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
    return next(
        (AgentCall(name, prompt) for name, prompt, _ in _readings(text) if name in known), None
    )


def read_unknown(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """Find out whether a prompt seems to call an agent that is not there.

    Args:
        text: The prompt.
        names: The agents that can be called.

    Returns:
        The name that was written, and the nearest one that there is (empty if none is near);
        ``None`` if the prompt reads as text anyway.
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
    """Return whether a prompt reads like the call of an agent, whatever agents there are."""
    return any(True for _ in _readings(text))


def complete_name(text: str, names: Collection[str]) -> list[str]:
    """Return the ``@name`` that would complete a prompt's beginning, for faces.

    Empty where it is no beginning of a call.
    """
    match = re.fullmatch(rf"\s*@({NAME})?", text)
    begun = (match[1] or "").casefold() if match else None
    if begun is None:
        return []
    return sorted(f"@{name}" for name in names if name.startswith(begun))


_AGENT = ("agent", "智能体", "代理", "助手")
_POLITE_EN = (
    "hey",
    "hi",
    "hello",
    "ok",
    "okay",
    "now",
    "then",
    "next",
    "so",
    "also",
    "please",
    "can you",
    "could you",
    "would you",
    "will you",
    "let's",
    "let’s",
    "lets",
)
_POLITE_ZH = (
    "请",
    "請",
    "麻烦",
    "帮我",
    "帮忙",
    "你",
    "可以",
    "能不能",
    "能否",
    "可否",
    "现在",
    "接下来",
    "然后",
    "再",
    "先",
    "好的",
    "好",
)
_HAVE = (
    "使用",
    "用",
    "让",
    "讓",
    "请",
    "請",
    "叫",
    "派",
    "调用",
    "启动",
    "运行",
    "執行",
    "交给",
    "把",
)
_USE = ("use ", "run ", "start ", "call ", "invoke ", "launch ", "get ")
_VERBS = (
    "add|analy[sz]e|check|clean|compare|cover|create|debug|describe|document|examine|explain|explore|find|fix|generate|go|improve"
    "|inspect|list|look|make|mend|please|read|refactor|rename|rewrite|scan|search|see|show|simplify|split|summari[sz]e|update"
    "|verify|write"
)


class _Pattern(NamedTuple):
    """A form of calls.

    It is compiled once a prompt begins as it does and has one of the words: most prompts call
    nobody.
    """

    begins: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    certain: bool
    """Nothing but a call looks like that."""


@cache
def _patterns() -> tuple[_Pattern, ...]:
    agent = r"(?:agent|sub-?agent|智能体|代理|助手)"
    english = r"(?:sub[- ]?)?agent(?![\w-]|['’.][a-z])"
    rest = r"(?P<prompt>.)"  # where it begins
    gap = r"[\s，,：:]*"
    have = r"(?:使用|用|让|讓|请|請|叫|派|调用|启动|运行|執行|(?:把\s*(?:这|它|这个|任务)\s*)?交给)"
    quoted = rf"[@“\"'`「]?(?P<name>{NAME})[”\"'`」]?"
    split = rf"(?P<name>{NAME}[_-][A-Za-z0-9_-]*)"  # no word of a language looks like that
    the = r"(?:(?:the|my|our)\s+)?(?:built-in\s+)?"
    use = r"(?:use|run|start|call|invoke|launch|get)"
    to = (
        r"(?:\s+(?:to|for|on|over|against|with|and)\b|(?=\s*[,:，"
        rf"：\n\u4e00-\u9fff])|(?=\s+(?:{_VERBS})\b))"
    )
    ask = ("ask ", "tell ")
    hand = ("delegate ", "hand ", "give ", "pass ", "assign ")
    called = r"(?:名为|名叫|叫做?)"
    return (
        # 使用/用/让/请/叫 X agent 做 …
        _Pattern(
            _HAVE,
            _AGENT,
            rf"{have}\s*{quoted}\s*(?:这个|的)?\s*{agent}(?![A-Za-z0-9_-]){gap}(?:to\s+)?{rest}",
            True,
        ),
        _Pattern(_HAVE, _AGENT, rf"{have}\s*{agent}\s+{quoted}(?![\w./-]){gap}{rest}", True),
        _Pattern(
            _HAVE,
            ("名", "叫"),
            rf"{have}\s*{called}\s*(?P<name>{NAME})\s*的\s*{agent}{gap}{rest}",
            True,
        ),
        # 使用/用 X …
        _Pattern(
            ("使用", "用"),
            ("_", "-"),
            rf"(?:使用|用)\s*{split}"
            rf"(?![A-Za-z0-9_./\\(=@-]|:(?!\s)|\s*(?:作为|当|的|这|那)){gap}{rest}",
            False,
        ),
        # @X …
        _Pattern(
            ("@", *_HAVE),
            ("@",),
            rf"(?:(?:使用|用|让|讓|请|請|叫)\s*)?@(?P<name>{NAME})"
            rf"(?:\s*[，：、]\s*|\s*[,:](?=[\s\u4e00-\u9fff])\s*|\s+)(?!装饰|注解|标注|标记)"
            rf"(?:agent\s*[:,]\s*)?{rest}",
            False,
        ),
        # use (the) X agent to …
        _Pattern(_USE, _AGENT, rf"{use}\s+{the}{quoted}\s+{english}{to}{gap}{rest}", True),
        _Pattern(
            _USE,
            _AGENT,
            rf"{use}\s+(?:the\s+)?(?:sub-?)?agent\s+{quoted}(?:\s+(?:to|for|on)\b){gap}{rest}",
            True,
        ),
        _Pattern(
            ("have ", "let "), _AGENT, rf"(?:have|let)\s+{the}{quoted}\s+{english}{gap}{rest}", True
        ),
        _Pattern(("using ",), _AGENT, rf"using\s+{the}{quoted}\s+{english}\s*[,:]\s*{rest}", True),
        _Pattern(
            hand,
            _AGENT,
            r"(?:delegate|hand|give|pass|assign)(?:\s+(?:this|it|that))?(?:\s+over)?\s+to\s+"
            rf"{the}{quoted}\s+{english}\s*[,:]\s*{rest}",
            True,
        ),
        # use X to …, X as above
        _Pattern(
            ("use ", "run "),
            ("_", "-"),
            rf"(?:use|run)\s+{split}(?:\s+(?:to|on)\s+|\s*:\s+){rest}",
            False,
        ),
        # ask X to …
        _Pattern(
            ask,
            (" to ", " to\n"),
            rf"(?:ask|tell)\s+(?:the\s+)?{quoted}(?:\s+{english})?\s+to\s+{rest}",
            False,
        ),
        _Pattern(
            ("ask ",),
            (":", "whether", "if", "about"),
            rf"ask\s+(?:the\s+)?{quoted}(?:\s+{english})?"
            rf"(?:\s*:\s+|\s+(?=(?:whether|if|about)\s)){rest}",
            False,
        ),
        _Pattern(
            ask,
            _AGENT,
            rf"(?:ask|tell)\s+(?:the\s+)?{quoted}\s+{english}\s+"
            rf"(?=(?:that|for|how|what|why|where|which|when|who)\s|[\u4e00-\u9fff]){rest}",
            False,
        ),
    )


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE | re.DOTALL)


def _without_courtesy(head: str) -> Iterator[str]:
    """Yield the beginning of a prompt, and what is left of it as its words of courtesy are taken
    off one by one.
    """
    yield head
    for _ in range(5):
        folded = head.casefold()
        word = next((each for each in _POLITE_ZH if head.startswith(each)), "")
        if not word:
            begun = (each for each in _POLITE_EN if folded.startswith(each))
            word = next(
                (each for each in begun if not folded[len(each) : len(each) + 1].strip(" ,\t\n")),
                "",
            )
        if not word:
            return
        head = head[len(word) :].lstrip(" \t\n,，")
        yield head


def _readings(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the ways to read a prompt as a call: name, what to do, and whether it can hardly mean
    anything else.
    """
    text = text.strip()
    if not text or text[0] in "!/":
        return
    at_first_line = len(text.split("\n", 1)[0])
    for head in _without_courtesy(text[:MOST_HEAD]):
        taken = min(len(text), MOST_HEAD) - len(head)
        folded = head.casefold()
        for pattern in _patterns():
            if not folded.startswith(pattern.begins) or not any(
                word in folded for word in pattern.needs
            ):
                continue
            match = _compiled(pattern.source).match(head)
            if match is None or taken + match.end("name") > at_first_line:
                continue
            name = match["name"].casefold().rstrip("-_")
            prompt = text[taken + match.start("prompt") :].strip()
            between = head[match.end("name") : match.start("prompt")]
            addressed = head[0] == "@"
            if not re.search(r"\w", prompt) or (
                _is_code(prompt, between) if addressed else name in _NO_NAMES
            ):
                continue
            yield name, prompt, pattern.certain


def _is_code(rest: str, between: str) -> bool:
    """Return whether what follows ``@name`` is what a decorator or an annotation stands before, and
    not a sentence.
    """
    first = rest.split("\n", 1)[0].rstrip()
    next_line = "\n" in between
    if re.match(r"[=+*/|&<;%^~]|-=|!=", rest) or re.match(
        r"(?:and|or|vs\.?|versus|[和与或跟])\s*@", rest
    ):
        return True
    if "," in between and re.match(rf"@{NAME}\s*(?:,|and|or)\s", rest):
        return True
    if re.match(r"~?[A-Za-z]?\"\"\"|false\s*$|[a-z_]+:\s+[\"'\[:\d]", first) or re.search(
        r"\"\s+do$", first
    ):
        return True  # attributes of Elixir
    if re.search(r"\n[^\S\n]*(?:async\s+)?defp?\s+\w", rest) and re.match(r"[\"~@]|false\b", first):
        return True
    if re.match(r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[({:]", first):
        return True
    words = (
        "async"
        " def|def|class|function|public|private|protected|static|final|abstract|interface|enum|export|fun|func|fn|pub|val"
        "|var|let|const|import|void|override|struct|type|impl"
    )
    if next_line and re.fullmatch(r"\w[\w.]*\(.*[({;,)]", first):
        return True
    if re.match(rf"@[\w.]+(?:\(.*\))?$|(?:{words})\b.*[({{:;=]", first) is None:
        return False
    return next_line or first[-1:] in "{}:;)" or first.startswith("@")
