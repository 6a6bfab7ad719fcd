"""Join the parts of a sentence before and after a dash or a colon."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from hilum_checks import lexicon
from hilum_checks.limit_words import CONDITIONS, SCOPED_CONDITIONS
from hilum_checks.remarks import hint_pattern
from hilum_checks.tokens import UNREADABLE, Token, has_marker

BREAK = re.compile(r"\s+[-–—]{1,2}\s+|—+|:(?:\s+|$)|：")
"""What separates the two parts."""

_SUBJECTS = ("conventional", "prefix", "message")
_NAMED_SUBJECTS = ("branch name", "branch", "pr title", "subject", "file name", "managing")
_RUN = Token("verb", "run", "run")
_NOT = Token("NOT", "NOT", "never")
_ASK_BEFORE = (Token("ASK", "ASK", "ask"), Token("BEFORE", "BEFORE", "before"))
# Words that say no more than "this" in a line above a list: "Never do any of these things:".
_LIST_WORDS = frozenset(
    "do doing perform performing take any of these things the following actions task change".split()
)


@attrs.frozen
class SplitSentence:
    """The two parts of a sentence.

    Attributes:
        label: The text of the first part.
        left: Its words.
        rest: The text of the second part.
        right: Its words.
        is_colon: Whether a colon separates the parts.
    """

    label: str
    left: tuple[Token, ...]
    rest: str
    right: tuple[Token, ...]
    is_colon: bool


@attrs.frozen
class Joined:
    """What two parts say together.

    Attributes:
        tokens: Their words; ``None`` if the first part is the sentence, and the second a remark.
        is_label: Whether the first part is a label of the second one.
    """

    tokens: tuple[Token, ...] | None
    is_label: bool = False


_ONLY_LEFT = Joined(None)
_UNCLEAR = Joined(())


def join_parts(parts: SplitSentence) -> Joined:
    """Return what two parts say together."""
    left = parts.left
    right = parts.right
    # "Branch names must start with `a/` - the pipeline needs it".
    is_demand = any(token.role == "MUST" for token in left) and len(left) > 1
    if is_demand and not has_marker(right) and not parts.is_colon:
        return _ONLY_LEFT
    if not has_marker(left):
        # "`dist/` is generated - do not edit" names the files first; "Package manager:" is a label.
        if _names_subject(left, right):
            return Joined((*left, *right))
        return Joined(right, is_label=True)
    if _asks_instead(left, right):
        # "Never commit directly - always ask before committing" asks.
        return _UNCLEAR if SCOPED_CONDITIONS.search(parts.label) else Joined(right)
    if right and right[0].role == "NOT":
        # "Use them only in some files - never use `a` elsewhere".
        if _says_where(left):
            return Joined(right, is_label=True)
        # "No unnecessary files - do not create docs unless asked".
        if _is_unclear(left):
            is_limited = SCOPED_CONDITIONS.search(parts.label) is not None
            return _UNCLEAR if is_limited else Joined(right, is_label=True)
    if _says_when(left, right):
        # "Type checks matter before committing - always run `a`".
        at = next(at for at, token in enumerate(left) if token.role == "BEFORE")
        is_limited = CONDITIONS.search(parts.label) is not None
        return _UNCLEAR if is_limited else Joined((*left[at:], *right))
    if _is_before(left):
        # "Before committing: `a`" names what must run.
        return Joined(_put_order(left, right))
    if parts.is_colon:
        return _join_list(parts)
    is_choice = _is_choice(left) and has_marker(right)
    return Joined(right) if is_choice else _ONLY_LEFT


def _join_list(parts: SplitSentence) -> Joined:
    """Return a sentence with what follows its colon."""
    # "Never push to `main`: always use a branch".
    if hint_pattern().match(parts.rest) and _has_object(parts.left):
        return _ONLY_LEFT
    if _is_approval(parts.left):
        return Joined((*_ASK_BEFORE, *parts.right))
    if _is_verb_heading(parts.left):
        return Joined((_NOT, *parts.right))
    return _ONLY_LEFT if has_marker(parts.right) else Joined(_insert(parts.left, parts.right))


def _is_unclear(left: Sequence[Token]) -> bool:
    """Return whether a prohibition names nothing, and a word of it is not known."""
    is_prohibition = bool(left) and left[0].role == "NOT"
    names = any(token.role in ("name", "branch") for token in left)
    return is_prohibition and not names and any(token.role == UNREADABLE for token in left)


def _says_when(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether a part says only when the command after it must run."""
    roles = [token.role for token in left]
    is_when = roles.count("BEFORE") == 1 and "name" not in roles and roles[0] != "BEFORE"
    known = [token for token in left if token.role in lexicon.MARKERS]
    is_order = bool(right) and right[0].word == "run" and right[0].role == "verb"
    return is_when and len(known) == 1 and is_order and not has_marker(right)


def _asks_instead(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether what must not be done is to be asked about: "never push - ask before pushing"."""
    roles = dict.fromkeys(token.role for token in right if token.role in lexicon.MARKERS)
    if [*roles][:2] != ["ASK", "BEFORE"]:
        return False
    # "Ask before Git operations - ask before `git push`" says it twice.
    if [token.role for token in left if token.role in lexicon.MARKERS] == ["ASK", "BEFORE"]:
        return not any(token.role == "name" for token in left)
    if left[0].role != "NOT":
        return False
    verbs = {token.word for token in left if token.role == "verb"}
    return bool(verbs) and verbs <= {token.word for token in right if token.role == "verb"}


def _names_subject(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether the words before a colon or a dash say what the sentence is about."""
    # "Follow the style of `rustfmt` - run `cargo fmt` before committing".
    if left and left[0].role == "verb" and right and right[0].role == "verb":
        return False
    if any(token.role == "name" or token.word in _SUBJECTS for token in left):
        return True
    # "Branch naming: `feature/x`".
    is_noun = any(token.word in _NAMED_SUBJECTS for token in left)
    is_noun = is_noun or [token.text for token in left] in (["commits"], ["commit"])
    return is_noun and not any(token.role in lexicon.MARKERS for token in right)


def _says_where(tokens: Sequence[Token]) -> bool:
    """Return whether a part names nothing and forbids nothing, although it says "only"."""
    roles = {token.role for token in tokens}
    markers = roles & {*lexicon.MARKERS, "name"}
    # "Releases are made automatically - do not tag" says only why.
    return (markers <= {"ONLY", "MUST"} and "ONLY" in roles) or markers == {"UNASKED"}


def _has_object(tokens: Sequence[Token]) -> bool:
    roles = [token.role for token in tokens]
    return "NOT" in roles and "verb" in roles and ("name" in roles or "branch" in roles)


def _is_verb_heading(tokens: Sequence[Token]) -> bool:
    """Return whether a part forbids what follows it, and says no more: "Never do this:"."""
    rest = [
        token
        for token in tokens
        if token.text not in _LIST_WORDS | lexicon.AGENTS and token.word != "it"
    ]
    return bool(rest) and all(token.role == "NOT" for token in rest)


def _is_approval(tokens: Sequence[Token]) -> bool:
    """Return whether a part asks for approval of what follows it: "Ask if a task requires:"."""
    rest = [
        token
        for token in tokens
        if token.role != "asking" and token.text not in _LIST_WORDS | lexicon.ASKING
    ]
    roles = [token.role for token in rest if token.word not in ("it", "commands")]
    return roles in (
        ["ASK"],
        ["ASK", "BEFORE"],
        ["ASK", "WHEN", "NEEDS"],
        ["NEEDS", "ASK"],
        ["MUST", "ASK", "BEFORE"],
        ["ONLY", "WHEN", "ASK"],
    )


def _is_before(tokens: Sequence[Token]) -> bool:
    """Return whether a part says only before what something must be done: "before committing"."""
    roles = {token.role for token in tokens}
    return "BEFORE" in roles and roles <= {"BEFORE", "MUST", "verb", "noun", "join", "filler"}


def _put_order(left: tuple[Token, ...], right: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return a sentence with the commands that follow its colon: "Run before committing: ⟦0⟧"."""
    start = [token.role for token in left].index("BEFORE")
    if left[-1].word == "run" or any(token.role == "verb" for token in right):
        return (*left, *right)
    return (*left[:start], *right, *left[start:]) if start else (*left, _RUN, *right)


def _is_choice(tokens: Sequence[Token]) -> bool:
    """Return whether a part says only what to use: "bun only", before "never use npm"."""
    return {token.role for token in tokens} == {"ONLY", "name"}


def _insert(left: tuple[Token, ...], right: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return a sentence with the list that follows its colon: "Never edit: ⟦0⟧"."""
    roles = [token.role for token in left]
    if [role for role in roles if role != "asking"][-1] == "ASK" and "verb" not in roles:
        return (*left, Token("BEFORE", "BEFORE"), *right)
    # "Lint all files before committing: ⟦0⟧".
    if "BEFORE" in roles[1:] and not {"ASK", "NOT", "verb"} & set(roles[: roles.index("BEFORE")]):
        at = roles.index("BEFORE")
        return (*left[:at], *right, *left[at:])
    # In "Never edit these without approval: ⟦0⟧", the list belongs to the verb.
    start = roles.index("verb") if "verb" in roles else len(roles)
    ends = [at for at in range(start, len(roles)) if roles[at] in lexicon.MARKERS]
    end = ends[0] if ends else len(roles)
    return (*left[:end], *right, *left[end:])
