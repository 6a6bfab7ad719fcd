"""Combine what the sentences of a rule say into one check, unless one may limit another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath

import attrs

from hilum_checks.label_scopes import narrow
from hilum_checks.limit_words import SCOPED_CONDITIONS
from hilum_checks.limiting import is_limiting, limits_as_remark
from hilum_checks.model import (
    NOT_A_CONSTRAINT,
    ORDERS,
    Check,
    CheckPart,
    CheckParts,
    Commands,
    Compiled,
    Constraint,
)
from hilum_checks.other_sentences import is_unrelated
from hilum_checks.remarks import (
    is_about_generated,
    is_fragment,
    is_harmless,
    is_other_harmless,
    wants_new_files,
)
from hilum_checks.rule_scope import Scope
from hilum_checks.sentence_reader import read_sentence
from hilum_checks.sentences import Sentence, split_rule
from hilum_checks.tokens import Chunk

_ROW = re.compile(r"[^:;`]{1,60}: [^;]+; [^:;`]{1,60}: ")
# Words with which a remark limits what must be done first.
_BOUNDS = re.compile(
    r"\b(?:unless|except|if|when\w*|optional\w*|skip|or|where|for|only (?:for|in|on|if|when)"
    r"|prefer\w*|ideally|usually|generally|normally|typically|possible|recommended|try|consider)\b"
    r"|除非|如果|仅|除.+外|尽|最好|必要|^在|^对于|^针对"
)
# "There is no `npm test`", "`x` is not used here", "no `make deploy`: it was removed".
_FACT = re.compile(
    r"^(?!\W*(?:please )?(?:never|do not|don't|must|cannot|always)\b)"
    r"(?:\W*there(?:'s| (?:is|are|was|were|exists?))(?:n't)? (?:no\b|not\b|any\b|currently no\b)"
    r"|.*\b(?:no longer|was removed|were removed|(?:has|have) been removed|does(?: not|n't) exist"
    r"|do(?: not|n't) exist)\b"
    r"|.*\b(?:is|are|was|were) (?:currently )?not (?:yet )?(?:\w+ )?"
    r"(?:used|run|installed|committed|edited|changed|published|created|pushed|merged|tagged|read)\b"
    # "We looked for the bug; `eval()` is not it."
    r"|.*\b(?:is|are|was|were)(?: not|n't) (?:it|this|that|them|those|either"
    r"|(?:the|a|an|our) (?:answer|bottleneck|bug|case|cause|culprit|fix|issue|one|place|point|problem"
    r"|reason|solution|source))\W*$)"
)


# A remark that forbids something else than editing: "(do not commit it either)".
_FORBIDS_MORE = re.compile(
    r"(?:and |also )*(?:never|do not|don't|must not|must never) "
    r"(?:read|open|access|commit|push|run|copy|share|print|log)\b"
)


@attrs.frozen
class _Reading:
    """What was read from a sentence of a rule.

    Attributes:
        sentence: The sentence.
        parts: What it forbids or asks for; empty if it is not understood.
        omitted: Its parts that were not understood.
    """

    sentence: Sentence
    parts: CheckParts
    omitted: tuple[str, ...]

    @property
    def is_order(self) -> bool:
        """Whether the sentence says what must be done first or afterwards."""
        return bool(self.parts) and all(isinstance(each, ORDERS) for _, each in self.parts)

    @property
    def is_limited(self) -> bool:
        """Whether its first words or a remark limit it to a situation or a part of a project."""
        if any(map(is_limiting, self.sentence.labels)):
            return True
        if not self.parts:
            return False
        is_scoped = any(map(is_limiting, self.sentence.scopes))
        return is_scoped or any(map(limits_as_remark, self.sentence.asides))

    def find_doubts(self) -> list[str]:
        """Return the remarks that may limit the sentence."""
        if not self.is_order:
            return [*self.sentence.asides]
        # "(And `make y` if `b` changed)" is another order.
        bounds = [each for each in self.sentence.asides if not re.match(r"(?:and|plus)\b", each)]
        return [each for each in bounds if _BOUNDS.search(each)]


def compile_sentence(text: str, *, hard: bool, folder: PurePosixPath) -> Compiled:
    """Compile a rule. See ``compiling.compile_rule``."""
    sentences = split_rule(text)
    if isinstance(sentences, str):
        return _advice(sentences)
    readings = _read_sentences(sentences, folder, hard=hard)
    narrowed: list[CheckPart] = []
    for reading in readings:
        own = _narrow_parts(reading)
        if reading.is_limited or own is None:
            return _advice("its first words may limit it to a situation")
        narrowed += own
    if not narrowed:
        return NOT_A_CONSTRAINT
    reason = _find_limit(text, readings, [constraint for _, constraint in narrowed])
    return _advice(reason) if reason else _combine(narrowed, readings)


def _read_sentences(
    sentences: Sequence[Sentence], folder: PurePosixPath, *, hard: bool
) -> list[_Reading]:
    """Return what is read from each sentence of a rule."""
    # Names are left out: `generate.py` does not say that files are generated.
    low = " ".join(sentence.text for sentence in sentences)
    scope = Scope(folder, hard, is_about_generated(low), wants_new_files(low))
    readings = []
    before: Chunk = ()
    for sentence in sentences:
        is_binding = _binding_pattern().search(sentence.text) is not None
        own = attrs.evolve(scope, binding=is_binding, omitted=[])
        parts = () if _states_fact(sentence.text) else read_sentence(sentence, before, own)
        readings.append(_Reading(sentence, parts, (*own.omitted, *sentence.omitted)))
        before = sentence.tokens
    return readings


def _narrow_parts(reading: _Reading) -> CheckParts | None:
    """Return what a sentence forbids in the files that its labels name; ``None`` if unclear."""
    narrowed = []
    for effect, constraint in reading.parts:
        each = narrow(constraint, (*reading.sentence.labels, *reading.sentence.scopes))
        if each is None:
            return None
        narrowed.append((effect, each))
    return tuple(narrowed)


def _find_limit(text: str, readings: Sequence[_Reading], constraints: Sequence[Constraint]) -> str:
    """Return why the rest of a rule may limit what it forbids; empty if it limits nothing."""
    enforced = [reading for reading in readings if reading.parts]
    doubts = [doubt for reading in enforced for doubt in reading.find_doubts()]
    omitted = [part for reading in enforced for part in reading.omitted]
    # A remark in another language may say anything.
    has_remark = bool(doubts) or len(enforced) < len(readings)
    if has_remark and any(reading.sentence.is_translated for reading in enforced):
        return "the rest of the same rule is in a language of which hilum knows few words"
    # "Do not deploy, push except on Fridays, or release": the condition may belong to all.
    is_bounded = any(map(SCOPED_CONDITIONS.search, omitted))
    if is_bounded or not _are_harmless(readings) or not all(map(is_harmless, doubts)):
        return "the rest of the same rule may limit it or make exceptions"
    if any(_forbids_hint(constraint, text) for constraint in constraints):
        return "it recommends a command that runs the forbidden one"
    # "Task: building; read first: `a`" is a row of a table, whose first cell says when.
    if _ROW.match(text) and any(isinstance(each, ORDERS) for each in constraints):
        return "its first words may limit it to a situation"
    return ""


def _combine(parts: Sequence[CheckPart], readings: Sequence[_Reading]) -> Compiled:
    """Return the check of a rule, with what it leaves out."""
    asked = [constraint for effect, constraint in parts if effect == "ask"]
    # "Never amend. Only amend if I say so."
    kept = [each for each in parts if each[0] == "ask" or each[1] not in asked]
    check = Check(tuple(dict.fromkeys(kept)))
    omitted = [part for reading in readings if reading.parts for part in reading.omitted]
    asides = [each for reading in readings if reading.parts for each in reading.sentence.asides]
    omitted += [each for each in asides if _FORBIDS_MORE.match(each) and "⟦" not in each]
    unread = [_name_prohibition(reading.sentence) for reading in readings if not reading.parts]
    rest = ", ".join(dict.fromkeys([*omitted, *filter(None, unread)]))
    missing = f"; not understood, so not enforced: {rest}" if rest else ""
    return Compiled(check, f"enforced: {check.summary}{missing}", is_partial=bool(rest))


def _name_prohibition(sentence: Sentence) -> str:
    """Return the text of a prohibition that is not understood; empty if it names nothing."""
    if not sentence.tokens or sentence.tokens[0].role != "NOT":
        return ""
    names = [token.word for token in sentence.tokens if token.role == "name"]
    anchors = re.findall(r"⟦\d+⟧", sentence.text)
    if not names or len(names) != len(anchors):
        return ""
    text = sentence.text
    for anchor, name in zip(anchors, names, strict=True):
        text = text.replace(anchor, f"`{name}`", 1)
    return text


def _states_fact(text: str) -> bool:
    """Return whether a sentence says what is, and not what to do: "there is no `make test`"."""
    return _FACT.match(text) is not None


@cache
def _binding_pattern() -> re.Pattern[str]:
    return re.compile(r"\b(?:always|must|make sure|ensure)\b|必须|务必")


def _are_harmless(readings: Sequence[_Reading]) -> bool:
    """Return whether the sentences that are not enforced limit none of the others."""
    constraints = [constraint for reading in readings for _, constraint in reading.parts]
    first = next(at for at, reading in enumerate(readings) if reading.parts)
    for at, reading in enumerate(readings):
        sentence = reading.sentence
        if reading.parts:
            continue
        # "Never push. If the build is broken." and 在评审中，禁止 …
        is_beside = at > first or at == first - 1
        if is_beside and is_fragment(sentence.text):
            return False
        # "Never use `npm`. Use `pnpm` (in reviews)."
        if at > first and any(map(limits_as_remark, sentence.asides)):
            return False
        # "When planning, …" may set the scene for all that follows, or for the next sentence.
        is_scene = at < first and (at == 0 or at == first - 1)
        if is_scene and any(map(is_limiting, sentence.scopes)):
            return False
        if is_other_harmless(sentence.text, earlier=at < first):
            continue
        if not is_unrelated(sentence, constraints, is_scene=is_scene):
            return False
    return True


def _forbids_hint(constraint: Constraint, text: str) -> bool:
    """Return whether a rule forbids a part of a command that it names elsewhere.

    "Never run `pytest`; use `uv run pytest`" does not forbid what `uv run` starts.
    """
    if not isinstance(constraint, Commands):
        return False
    for name in re.findall(r"`([^`]+)`", text):
        words = name.split()
        for pattern in constraint.patterns:
            later = [words[at : at + len(pattern)] for at in range(1, len(words))]
            if words[:1] != [pattern[0]] and list(pattern) in later:
                return True
    return False


def _advice(reason: str) -> Compiled:
    return Compiled(None, f"advice: {reason}")
