"""Recognizes prompts that call an agent by name, and rejects those that only look like calls.

hilum interprets a prompt as the first of these that applies: shell line (``!…``), agent call,
``@file``, slash command, text. An agent call must be at the beginning of the prompt and name an
existing agent. Any other prompt is treated as text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple

NAME = r"[A-Za-z][A-Za-z0-9_-]*"
# Maximum number of characters before the task of a call; the task itself may have any length.
MAX_HEAD = 400
MAX_COURTESIES = 5
_MIN_SIMILARITY = 0.7
# English words that can appear where a name would be: "use the agent to …".
_NOT_NAMES = frozenset(
    "the a an this that my your our any another an one no every some which what it".split()
)


class AgentCall(NamedTuple):
    """An agent call in a prompt.

    Attributes:
        name: Name of the agent in lowercase.
        prompt: The task.
    """

    name: str
    prompt: str


class _Reading(NamedTuple):
    """One interpretation of a prompt as a call.

    Attributes:
        call: The call.
        certain: Whether any other interpretation of the prompt is very unlikely.
    """

    call: AgentCall
    certain: bool


def read_call(text: str, names: Collection[str]) -> AgentCall | None:
    """Return the agent call in a prompt, or ``None`` if the prompt is not an agent call.

    Args:
        text: The prompt.
        names: The agents that can be called.
    """
    known = {name.casefold() for name in names}
    calls = (reading.call for reading in _readings(text))
    return next((call for call in calls if call.name in known), None)


def read_unknown(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """Return the name of a nonexistent agent that a prompt seems to call.

    Args:
        text: The prompt.
        names: The agents that can be called.

    Returns:
        The name in the prompt and the most similar existing name (empty if none is similar), or
        ``None`` if the prompt is text or calls an existing agent.
    """
    known = sorted({name.casefold() for name in names})
    readings = list(_readings(text))
    if any(reading.call.name in known for reading in readings):
        return None
    for call, certain in readings:
        similar = _find_similar(call.name, known)
        if similar or certain:
            return call.name, similar
    return None


def _find_similar(name: str, known: list[str]) -> str:
    """Return the known name that is most similar to a name; empty if none is similar."""
    from difflib import get_close_matches  # the first request need not wait for the import

    similar = get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY)
    return similar[0] if similar else ""


def may_call(text: str) -> bool:
    """Return whether a prompt looks like an agent call, even if the agent does not exist."""
    return any(True for _ in _readings(text))


def complete_name(text: str, names: Collection[str]) -> list[str]:
    """Return the ``@name`` completions of an unfinished prompt.

    Args:
        text: The prompt so far.
        names: The agents that can be called.
    """
    match = re.fullmatch(rf"\s*@({NAME})?", text)
    if match is None:
        return []
    begun = (match[1] or "").casefold()
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
    "add|analy[sz]e|check|clean|compare|cover|create|debug|describe|document|examine|explain"
    "|explore|find|fix|generate|go|improve"
    "|inspect|list|look|make|mend|please|read|refactor|rename|rewrite|scan|search|see|show|simplify"
    "|split|summari[sz]e|update"
    "|verify|write"
)


class _Pattern(NamedTuple):
    """A pattern for one way of phrasing a call.

    Its regular expression is compiled for the first prompt that has a matching beginning and
    contains one of the required words.

    Attributes:
        begins: Possible beginnings of a matching prompt, in lowercase.
        needs: Words of which the prompt must contain at least one.
        source: The regular expression, with the groups ``name`` and ``prompt``.
        certain: Whether a match is certain to be a call.
    """

    begins: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    certain: bool


@cache
def _patterns() -> tuple[_Pattern, ...]:
    agent = r"(?:agent|sub-?agent|智能体|代理|助手)"
    english = r"(?:sub[- ]?)?agent(?![\w-]|['’.][a-z])"
    rest = r"(?P<prompt>.)"  # matches only the first character of the task
    gap = r"[\s，,：:]*"
    have = r"(?:使用|用|让|讓|请|請|叫|派|调用|启动|运行|執行|(?:把\s*(?:这|它|这个|任务)\s*)?交给)"
    quoted = rf"[@“\"'`「]?(?P<name>{NAME})[”\"'`」]?"
    split = rf"(?P<name>{NAME}[_-][A-Za-z0-9_-]*)"  # no ordinary word has this form
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
            ("have ", "let "),
            _AGENT,
            rf"(?:have|let)\s+{the}{quoted}\s+{english}{gap}{rest}",
            True,
        ),
        _Pattern(("using ",), _AGENT, rf"using\s+{the}{quoted}\s+{english}\s*[,:]\s*{rest}", True),
        _Pattern(
            hand,
            _AGENT,
            r"(?:delegate|hand|give|pass|assign)(?:\s+(?:this|it|that))?(?:\s+over)?\s+to\s+"
            rf"{the}{quoted}\s+{english}\s*[,:]\s*{rest}",
            True,
        ),
        # use X to …, where X contains `_` or `-`
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
    """Yield a prompt's beginning with none, one, two and so on of its courtesy words removed."""
    yield head
    for _ in range(MAX_COURTESIES):
        word = _courtesy(head)
        if not word:
            return
        head = head[len(word) :].lstrip(" \t\n,，")
        yield head


def _courtesy(head: str) -> str:
    """Return the courtesy word with which a text begins; empty if there is none."""
    for word in _POLITE_ZH:
        if head.startswith(word):
            return word
    folded = head.casefold()
    for word in _POLITE_EN:
        # English words end at a space; Chinese does not use spaces.
        following = folded[len(word) : len(word) + 1]
        if folded.startswith(word) and not following.strip(" ,\t\n"):
            return word
    return ""


def _readings(text: str) -> Iterator[_Reading]:
    """Yield all interpretations of a prompt as a call, the likeliest first."""
    text = text.strip()
    if not text or text[0] in "!/":
        return
    first_line = len(text.split("\n", 1)[0])
    # Only the beginning is matched, so that a long prompt takes no more time than a short one.
    for head in _without_courtesy(text[:MAX_HEAD]):
        removed = min(len(text), MAX_HEAD) - len(head)
        for pattern, match in _matches(head):
            prompt = text[removed + match.start("prompt") :].strip()
            # A name on the second line is part of a quotation or code.
            is_first_line = removed + match.end("name") <= first_line
            if is_first_line and _is_call(match, prompt):
                name = match["name"].casefold().rstrip("-_")
                yield _Reading(AgentCall(name, prompt), pattern.certain)


def _matches(head: str) -> Iterator[tuple[_Pattern, re.Match[str]]]:
    """Yield the patterns that match the beginning of a prompt."""
    folded = head.casefold()
    for pattern in _patterns():
        if not folded.startswith(pattern.begins):
            continue
        if any(word in folded for word in pattern.needs):
            match = _compiled(pattern.source).match(head)
            if match is not None:
                yield pattern, match


def _is_call(match: re.Match[str], prompt: str) -> bool:
    """Return whether a match is a call: it has a task, and is neither code nor ordinary English."""
    if not re.search(r"\w", prompt):
        return False
    if match.string[0] == "@":
        between = match.string[match.end("name") : match.start("prompt")]
        return not _is_code(prompt, between)
    return match["name"].casefold().rstrip("-_") not in _NOT_NAMES


# Text that follows `@name` in code: operators, and lists of decorators or handles. Few prompts need
# these expressions, so `re` compiles them at first use.
_OPERATOR = r"[=+*/|&<;%^~]|-=|!=|(?:and|or|vs\.?|versus|[和与或跟])\s*@"
_LIST = rf"@{NAME}\s*(?:,|and|or)\s"
# Elixir module attributes, such as `@doc "…"` and `@spec name(arg) :: type`.
_ELIXIR = r"~?[A-Za-z]?\"\"\"|false\s*$|[a-z_]+:\s+[\"'\[:\d]|.*\"\s+do$"
_ELIXIR_VALUE = r"[\"~@]|false\b"
_ELIXIR_FUNCTION = r"\n[^\S\n]*(?:async\s+)?defp?\s+\w"
_PYTHON = r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[({:]"
_CALL = r"\w[\w.]*\(.*[({;,)]"
_DECORATOR = r"@[\w.]+(?:\(.*\))?$"
_DECLARATION = (
    r"(?:async def|def|class|function|public|private|protected|static|final|abstract"
    r"|interface|enum|export|fun|func|fn|pub|val|var|let|const|import|void|override"
    r"|struct|type|impl)"
    r"\b.*[({:;=]"
)


def _is_code(rest: str, between: str) -> bool:
    """Return whether ``@name`` is a decorator or an annotation, judging by the text that follows.

    Args:
        rest: The text after the name.
        between: Whitespace and punctuation between the name and ``rest``.
    """
    first = rest.split("\n", 1)[0].rstrip()
    if re.match(_OPERATOR, rest) or ("," in between and re.match(_LIST, rest)):
        return True
    if re.match(_ELIXIR, first) or re.match(_PYTHON, first):
        return True
    if re.match(_ELIXIR_VALUE, first) and re.search(_ELIXIR_FUNCTION, rest):
        return True
    is_next_line = "\n" in between
    if is_next_line and re.fullmatch(_CALL, first):
        return True
    if not re.match(_DECORATOR, first) and not re.match(_DECLARATION, first):
        return False
    return is_next_line or first[-1:] in "{}:;)" or first.startswith("@")
