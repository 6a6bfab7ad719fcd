"""Judges the form of final answers, and whether a session may load a file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from hilum_checks import expressions
from hilum_checks.model import Answers, Contexts
from hilum_checks.verdicts import EnforcedRule, parts_of, quote_rule


def judge_answer(rules: Iterable[EnforcedRule], text: str) -> str | None:
    """Return a message about a rule that a final answer breaks, or ``None`` if it breaks none.

    Args:
        rules: The rules.
        text: The answer.
    """
    for rule, _, constraint in parts_of(rules):
        mistake = _find_mistake(constraint, text) if isinstance(constraint, Answers) else ""
        if mistake:
            return (
                f"{quote_rule(rule)} does not allow this answer: {mistake}. Give the answer again"
                " without that."
            )
    return None


def _find_mistake(constraint: Answers, text: str) -> str:
    """Return how an answer violates a form constraint, or an empty string if it does not."""
    if not text.strip():
        return ""
    if constraint.form in _FORMS:
        return _FORMS[constraint.form](constraint, text)
    has_text, verb = _TEXTS[constraint.form.removeprefix("lacks_")]
    found = has_text(_normalize(text), _normalize(constraint.text))
    if constraint.form.startswith("lacks"):
        return "" if found else f"it does not {verb} {constraint.text!r}"
    return f"it {_in_third_person(verb)} {constraint.text!r}" if found else ""


def _in_third_person(verb: str) -> str:
    first, space, rest = verb.partition(" ")
    return f"{first}s{space}{rest}"


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()


# --- answers with text --------------------------------------------------------------------------


def _has_word(plain: str, wanted: str) -> bool:
    # Chinese has no spaces between words, so only ASCII text must match whole words.
    begin = r"(?<!\w)" if re.match(r"\w", wanted) and wanted.isascii() else ""
    end = r"(?!\w)" if re.search(r"\w$", wanted) and wanted.isascii() else ""
    return re.search(f"{begin}{re.escape(wanted)}{end}", plain) is not None


def _starts(plain: str, wanted: str) -> bool:
    # Markdown markers are not displayed, so they do not count.
    return plain.lstrip("*_#> ").startswith(wanted)


def _ends(plain: str, wanted: str) -> bool:
    bare = plain.rstrip(" .!。！*_`\"'”」")
    return plain.endswith(wanted) or bare.endswith(wanted.rstrip(" .!。！"))


_TEXTS: dict[str, tuple[Callable[[str, str], bool], str]] = {
    "contains": (_has_word, "contain"),
    "lacks": (lambda plain, wanted: wanted in plain, "contain"),
    "starts": (_starts, "begin with"),
    "start": (_starts, "begin with"),
    "ends": (_ends, "end with"),
    "end": (_ends, "end with"),
}


# --- other forms ----------------------------------------------------------------------------------

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
# Emoji in Unicode blocks whose other symbols, such as ✓, © and arrows, count as text.
_PICTURES = "\u2705\u274c\u2728\u2b50\u26a1\u2757\u2753"
_EMOJI = re.compile(rf"[\U0001f300-\U0001faff\U0001f1e6-\U0001f1ff{_PICTURES}]|\ufe0f")


def _find_emoji(constraint: Answers, text: str) -> str:
    # Code is excluded, because an answer may have to quote a program that contains an emoji.
    found = _EMOJI.search(_CODE.sub("", text))
    if found is None:
        return ""
    if found[0] == "\ufe0f":
        return "it has an emoji with an emoji variation selector"
    return f"it has the emoji {unicodedata.name(found[0], '?').lower()}"


def _find_question(constraint: Answers, text: str) -> str:
    is_question = text.strip().rstrip(" *_`\"'”)）").endswith(("?", "？"))
    return "it ends with a question" if is_question else ""


def _find_length(constraint: Answers, text: str) -> str:
    count = _count(text, constraint.unit)
    return f"it has {count} {constraint.unit}" if count > constraint.most else ""


def _count(text: str, unit: str) -> int:
    if unit == "words":
        # Each Chinese character counts as a word, as in word processors.
        return len(re.findall(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+", text))
    if unit == "characters":
        return len("".join(text.split()))
    if unit == "lines":
        return len(text.strip().splitlines())
    if unit == "paragraphs":
        return len([part for part in re.split(r"\n\s*\n", text) if part.strip()])
    sentences = re.split(r"(?<=[.!?])\s+|[。！？]+", text.strip())
    return len([sentence for sentence in sentences if re.search(r"\w", sentence)])


def _find_match(constraint: Answers, text: str) -> str:
    expression = constraint.text
    count = expressions.count_matches(expression, text)
    if count is None:
        return (
            f"/{expression}/ takes too long on it, so it cannot be shown not to match; the"
            " user should fix the rule"
        )
    return f"it matches /{expression}/" if count else ""


_FORMS: dict[str, Callable[[Answers, str], str]] = {
    "emoji": _find_emoji,
    "question": _find_question,
    "longer": _find_length,
    "matches": _find_match,
}


# --- contexts -------------------------------------------------------------------------------------


def check_context(rules: Iterable[EnforcedRule], name_or_path: str, kind: str) -> str:
    """Return why a kind of session must not load an item, or an empty string if it may.

    Args:
        rules: The rules.
        name_or_path: The name of the item to load, or its path relative to the workspace.
        kind: The kind of session.
    """
    wanted = name_or_path.replace("\\", "/").removeprefix("./")
    for rule, _, constraint in parts_of(rules):
        if not isinstance(constraint, Contexts) or kind not in constraint.kinds:
            continue
        if any(_is_same(name.removeprefix("./"), wanted) for name in constraint.names):
            return f"{quote_rule(rule)} excludes it from {kind} sessions."
    return ""


def _is_same(name: str, wanted: str) -> bool:
    """Return whether a rule's name matches a loaded path as a pattern, folder or file name."""
    if name.casefold() in ("memory.md", "memory") and wanted in ("memory", "long-term memory"):
        return True
    # The file system may be case-insensitive.
    low = wanted.casefold()
    plain = name.casefold().rstrip("/")
    if fnmatchcase(low, plain) or low.startswith(f"{plain}/") or wanted.endswith(f"/{name}"):
        return True
    return "/" not in name and fnmatchcase(wanted.rpartition("/")[2], name)
