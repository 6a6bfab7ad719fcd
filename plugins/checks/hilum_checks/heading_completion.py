"""Complete sentences with the headings above them.

A heading may contain the verb (``## Never`` above ``- push to main``) or name the file that a
sentence is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_FENCE = re.compile(r"\n(?:```|~~~)(?:bash|sh|shell|zsh|console)?\n(.*?)\n(?:```|~~~)", re.DOTALL)
MAX_COMMANDS = 8
"""Maximum number of commands in a code block that completes a sentence."""
_BEFORE = re.compile(
    r"(?:run )?(?:before|prior to) (?:(?:each|every|you|a|an|any|the|your) )*"
    r"(?:commit|push|open|creat|submit|propos|send|merg|finaliz|pull request|pr\b).*",
    re.IGNORECASE,
)
_GATE = re.compile(
    r".*\((?:must )?(?:run|pass|required)? ?(before (?:\w+ )?(?:commit|push|open|submit|merg)[\w ]*)[^()]*\)",
    re.IGNORECASE,
)
_ENDING = re.compile(
    r"(?:always |you must )?(?:run )?(?:these |the following )?(?:commands |checks )?(?:in (?:sequence|order) )?"
    r"(before (?:you )?(?:finish|mark|complet|consider|declar|claim|report|hand)[\w ]*)",
    re.IGNORECASE,
)
# What a heading about commits says of the labels below it: "Format: …".
_COMMITS = re.compile(
    r"\bcommit (?:messages?|conventions?|guidelines?|rules?|style|format)\b|\bcommits\b|^git$"
    r"|\bgit (?:commits?|conventions?|commit messages?)\b|提交(?:规范|信息|说明|格式)",
    re.IGNORECASE,
)
_COMMIT_LABEL = re.compile(
    r"\W*(?:(?:commit )?(?:format|types?|labels?|prefix(?:es)?|structure|pattern|style)|格式|类型)\**\s*[:：]\**"
    r"|keep (?:the )?(?=messages|subjects)|(?:use|follow) (?=`[^`]*:)",
    re.IGNORECASE,
)
_PROHIBITION = re.compile(r"(?:never|do not|don't|no|禁止|严禁|不要|不得)\b.{4,}", re.IGNORECASE)
_CHECKLIST = re.compile(
    r"pre-?(commit|push|pr|pull request)(?: (?:checklist|checks?|requirements|steps))?",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"((?:(?:before|prior to)\b[^:`]*:\s*)?(?:run )?`[^`]+`)"
    r"(?:\s*[-–—(#:](?!.*\b(?:if|when|only|optional\w*|unless|for)\b).*)?",
    re.IGNORECASE,
)


# What a heading says about the items below it, without the words that say no more.
_VERBS = {
    "never": "anti-patterns|antipatterns|anti patterns|never"
    "|not|don't|dont|don'ts|donts|cannot|forbidden|prohibited|disallowed|banned"
    "|must not|must never|not allowed|not permitted|禁止|严禁|不要|绝不|不得",
    "ask before": "ask|ask first|ask before|stop ask|require approval|requires approval"
    "|approval required|need approval|needs approval|requires confirmation|requires permission",
}
_FILES = re.compile(
    r"(?:files |folders )?(?:(?:never|not|don't|must not|cannot) (?:edit|modify|touch|change)"
    r"|read[- ]only|off[- ]limits)"
    r"(?: (?:files|folders|directories|paths))*"
)
_PLAIN_WORDS = frozenset(
    """
    a the you agents agent ai me user human always do doing to and things what following these
    actions items list absolutely strictly explicit hard changes that
    """.split()
)
# An item that says what to do instead is not forbidden.
_INSTEAD = re.compile(
    r"\W*(?:always|must|do|ensure|make sure|prefer|instead|only|should)\b|.*[✅✔]", re.IGNORECASE
)


def _find_verb(heading: str) -> str:
    """Return "never" or "ask before" for a heading that says this of the items below it."""
    # "Dos & don'ts" says both.
    if re.search(r"[&+/]|\bdo(?:'?s)? and\b", heading.lower()):
        return ""
    words = re.sub(r"\([^()]*\)|[^\w\s'-]", " ", heading.lower()).split()
    plain = " ".join(word for word in words if word not in _PLAIN_WORDS)
    if _FILES.fullmatch(plain):
        return "never edit"
    return next((verb for verb, forms in _VERBS.items() if plain in forms.split("|")), "")


def _list_commands(content: str) -> str:
    """Return the commands of the first code block, as names; empty if there are none or too many."""
    found = _FENCE.search(f"\n{content}")
    if found is None:
        return ""
    lines = [re.sub(r"(?:^|\s+)#.*", "", line).strip() for line in found[1].splitlines()]
    commands = [part.strip() for line in lines if line for part in line.split("&&")]
    return ", ".join(f"`{each}`" for each in commands) if len(commands) <= MAX_COMMANDS else ""


_STEP = re.compile(
    r"(?!.*\boptional)(?:\[[ x]\] )?(?:run|execute|ensure|make sure|verify|format|lint|`[^`]+` (?:must )?pass)",
    re.IGNORECASE,
)


@cache
def _loading_pattern() -> re.Pattern[str]:
    """Return a pattern for a sentence that says when to load something, but not what to load."""
    return re.compile(
        r"^(\W*(?:only|do not|don't|never)\s+(?:load|read|include|inject))"
        r"(?=\s+(?:in|into|during)\s)",
        re.IGNORECASE,
    )


def name_order(heading: str) -> str:
    """Return "Before committing" for a heading such as "Pre-commit checklist"; empty for others."""
    plain = re.sub(r"[^\w\s-]", "", heading).strip()
    gate = _GATE.fullmatch(heading.strip()) or _ENDING.fullmatch(plain)
    if gate:
        return gate[1].strip()
    found = _CHECKLIST.fullmatch(plain)
    if found:
        return f"Before {found[1]}"
    return re.sub(r"(?i)^run ", "", plain) if _BEFORE.fullmatch(plain) else ""


def complete_sentence(
    sentence: str, heading: str, content: str = "", *, is_item: bool = True
) -> Iterator[str]:
    """Yield possible meanings of a sentence under a heading, beginning with the sentence itself.

    Args:
        sentence: The rule, on one line.
        heading: The innermost heading above the rule; empty for none.
        content: The rule with its code blocks.
        is_item: Whether the rule is in a list or a table. A paragraph after a list may say what to
            do instead.
    """
    yield sentence
    listed = _list_commands(content)
    if listed and sentence.endswith((":", "：")):
        yield f"{sentence} {listed}"
    item = _ITEM.fullmatch(sentence.strip("[] "))
    order = name_order(heading)
    if item and item[1] != sentence:
        yield item[1]
    if order and (item or (listed and not sentence)):
        yield f"{order}: {item[1] if item else listed}"
    elif order and _STEP.match(sentence):
        yield f"{order}, {sentence}"
    heading = heading.replace("\u2019", "'")
    label = _COMMIT_LABEL.match(sentence)
    if label and _COMMITS.search(heading):
        rest = sentence[label.end() :]
        is_limit = label[0].lower().startswith("keep")
        yield f"Keep commit {rest}" if is_limit else f"Commit messages: {rest}"
    # "## Never run `x`" above a paragraph that says why.
    if not is_item and _PROHIBITION.fullmatch(heading.strip()):
        yield f"{heading.strip().rstrip('.!')}. {sentence}"
    verb = _find_verb(heading) if is_item else ""
    # Below "Do not edit", an item must begin with a name.
    is_file = verb != "never edit" or re.match(r"[\W_]*?`", sentence)
    if verb and is_file and not _INSTEAD.match(sentence):
        yield f"{verb}: {sentence}"
    plain = re.sub(r"[^\w\s'.`/-]", "", heading).strip(" .:-")
    files = set(re.findall(r"(?<![\w-])[\w-]+\.(?:md|txt|json|ya?ml|toml)\b", plain))
    # With two files, it would be unclear which one the sentence is about.
    if len(files) == 1:
        file = files.pop()
        completed = _loading_pattern().sub(lambda found: f"{found[1]} `{file}`", sentence, count=1)
        if completed != sentence:
            yield completed
