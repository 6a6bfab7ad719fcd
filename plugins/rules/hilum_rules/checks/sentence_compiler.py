"""Compiles a sentence that may be a constraint, using the grammar of its language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from hilum_rules.checks.chinese import read_chinese
from hilum_rules.checks.english import read_english
from hilum_rules.checks.model import (
    NOT_A_CONSTRAINT,
    Check,
    Commands,
    Compiled,
    Constraint,
    Effect,
)
from hilum_rules.checks.named_objects import Sentence
from hilum_rules.checks.sentence import Phrase, is_harmless_tail, parse_phrase
from hilum_rules.checks.vocabulary import FORCE_PUSH

_CHINESE = re.compile(r"[\u4e00-\u9fff]")


def compile_sentence(text: str, *, hard: bool, folder: PurePosixPath) -> Compiled:
    """Compile a sentence. See ``compiling.compile_rule``."""
    phrase = parse_phrase(text)
    if isinstance(phrase, str):
        return _advice(phrase)
    read = read_chinese if _CHINESE.search(phrase.head) else read_english
    meaning = read(Sentence(phrase, folder))
    if meaning is None:
        return NOT_A_CONSTRAINT
    effect, constraints = meaning
    reason = _find_doubt(phrase) or ("" if hard else _find_softness(phrase, effect, constraints))
    if reason:
        return _advice(reason)
    check = Check(tuple((effect, constraint) for constraint in constraints))
    return Compiled(check, f"enforced: {check.summary}")


def _advice(reason: str) -> Compiled:
    return Compiled(None, f"advice: {reason}")


def _find_doubt(phrase: Phrase) -> str:
    if is_harmless_tail(phrase):
        return ""
    return "the rest of the same rule may limit it or make exceptions"


def _find_softness(phrase: Phrase, effect: Effect, constraints: Sequence[Constraint]) -> str:
    """Return why a sentence outside sections of hard constraints is advice; empty if enforced."""
    place = "it is not in a section of hard constraints"
    if not phrase.strong:
        return f'{place}, and does not say "must never" or similar'
    if not phrase.anchors and not _is_certain(effect, constraints):
        return f"{place}, and names nothing in quotes"
    return ""


def _is_certain(effect: Effect, constraints: Sequence[Constraint]) -> bool:
    """Return whether words without a name can only refer to Git.

    Examples are words for forced pushes and for Git commands that need approval.
    """
    for constraint in constraints:
        if not isinstance(constraint, Commands) or constraint.patterns[0][0] != "git":
            return False
        if effect != "ask" and constraint.patterns != FORCE_PUSH:
            return False
    return True
