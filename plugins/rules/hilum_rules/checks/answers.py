"""Judges final answers by the forms that rules forbid, and says which context a kind of session may
load.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hilum_rules.checks.judging import quoted
from hilum_rules.checks.model import Answers, Contexts

if TYPE_CHECKING:
    from hilum_rules.checks.judging import Ruled

_TIMEOUT = 0.2
"""Seconds for an expression out of a file."""


def judge_answer(rules: Iterable[Ruled], text: str) -> str | None:
    """Return which rule a final answer breaks, and how; ``None`` if none.

    Args:
        rules: The rules.
        text: The answer.
    """
    for rule in rules:
        for _, ban in rule.check.parts if rule.check else ():
            if isinstance(ban, Answers) and (why := _breaks(ban, text)):
                return (
                    f"{quoted(rule)} does not allow this answer: {why}. Give the answer again"
                    " without that."
                )
    return None


def _breaks(ban: Answers, text: str) -> str:
    plain = " ".join(text.split()).casefold()
    wanted = " ".join(ban.text.split()).casefold()
    if not plain:
        return ""
    bare = plain.rstrip(" .!。！*_`\"'”」")
    ends = plain.endswith(wanted) or bare.endswith(wanted.rstrip(" .!。！"))
    starts = plain.lstrip("*_#> ").startswith(wanted)
    match ban.form:
        case "contains":
            if _word(wanted).search(plain):
                return f"it contains {ban.text!r}"
            return ""
        case "starts":
            return f"it begins with {ban.text!r}" if starts else ""
        case "ends":
            return f"it ends with {ban.text!r}" if ends else ""
        case "lacks":
            if wanted not in plain:
                return f"it does not contain {ban.text!r}"
            return ""
        case "lacks_start":
            if not starts:
                return f"it does not begin with {ban.text!r}"
            return ""
        case "lacks_end":
            if not ends:
                return f"it does not end with {ban.text!r}"
            return ""
        case "emoji":
            if found := _emoji(text):
                return f"it has the emoji {found}"
            return ""
        case "question":
            if plain.rstrip(" *_`\"'”)）").endswith(("?", "？")):
                return "it ends with a question"
            return ""
        case "longer":
            if (many := _count(text, ban.unit)) > ban.most:
                return f"it has {many} {ban.unit}"
            return ""
        case "matches":
            return _matches(ban.text, text)


def _word(text: str) -> re.Pattern[str]:
    begin = r"(?<!\w)" if re.match(r"\w", text) and text.isascii() else ""
    end = r"(?!\w)" if re.search(r"\w$", text) and text.isascii() else ""
    return re.compile(begin + re.escape(text) + end)


def _emoji(text: str) -> str:
    """Return the first emoji outside of code; marks such as ✓, © and arrows are none."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for char in text:
        code = ord(char)
        if (
            0x1F300 <= code <= 0x1FAFF
            or 0x1F1E6 <= code <= 0x1F1FF
            or code in (0x2705, 0x274C, 0x2728, 0x2B50, 0x26A1, 0x2757, 0x2753)
        ):
            return unicodedata.name(char, "?").lower()
        if code == 0xFE0F:
            return "with a picture's variant"
    return ""


def _count(text: str, unit: str) -> int:
    if unit == "words":
        return len(re.findall(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+", text))
    if unit == "characters":
        return len("".join(text.split()))
    if unit == "lines":
        return len(text.strip().splitlines())
    if unit == "paragraphs":
        return len([part for part in re.split(r"\n\s*\n", text) if part.strip()])
    return len(
        [
            part
            for part in re.split(r"(?<=[.!?])\s+|[。！？]+", text.strip())
            if re.search(r"\w", part)
        ]
    )


def _matches(expression: str, text: str) -> str:
    import regex  # type: ignore[import-untyped]

    try:
        found = regex.search(expression, text[:100_000], timeout=_TIMEOUT)
    except TimeoutError:
        return (
            f"/{expression}/ takes too long on it, so that nobody can say it does not match; the"
            " user should mend the rule"
        )
    return f"it matches /{expression}/" if found else ""


def may_load(rules: Iterable[Ruled], name_or_path: str, kind: str) -> str:
    """Return why a file, or ``memory``, is not loaded in a kind of session; empty if it may be.

    Args:
        rules: The rules.
        name_or_path: The name of what would be loaded, or its path relative to the workspace.
        kind: The kind of session.
    """
    wanted = name_or_path.replace("\\", "/").removeprefix("./")
    for rule in rules:
        for _, ban in rule.check.parts if rule.check else ():
            if (
                isinstance(ban, Contexts)
                and kind in ban.kinds
                and any(_same(name.removeprefix("./"), wanted) for name in ban.names)
            ):
                return f"{quoted(rule)} keeps it out of {kind} sessions."
    return ""


def _same(name: str, wanted: str) -> bool:
    """Return whether what is loaded is what a rule names: a path, a pattern, a folder's content, or
    a file's name anywhere.
    """
    if name.casefold() in ("memory.md", "memory") and wanted in ("memory", "long-term memory"):
        return True
    low = wanted.casefold()
    plain = name.casefold().rstrip("/")
    if fnmatchcase(low, plain) or low.startswith(plain + "/"):
        return True  # the file system may not tell upper from lower case
    return wanted.endswith("/" + name) or (
        "/" not in name and fnmatchcase(wanted.rpartition("/")[2], name)
    )
