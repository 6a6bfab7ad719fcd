"""Read rules about final answers: "answers must end with ⟦0⟧", "no emojis in answers"."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_checks import answer_forms
from hilum_checks.clauses import ANYWHERE, Clause, read_clauses
from hilum_checks.commit_messages import WRITING
from hilum_checks.model import Answers
from hilum_checks.tokens import Token

_ANSWER_WORDS = "answer|text|it"


def read_unwanted_answer(verb: str, clause: Clause) -> Answers | None:
    """Read "never use emojis in your answers"."""
    if clause.has_only("length", nouns=_ANSWER_WORDS, places=ANYWHERE):
        return _read_length(clause) if verb == "exceed" else None
    nouns = clause.nouns - set(_ANSWER_WORDS.split("|"))
    if not clause.has_only("names", nouns="|".join(clause.nouns), places=ANYWHERE):
        return None
    if len(clause.names) + len(nouns) != 1:
        return None
    if nouns == {"emoji"} and verb in ("start", "end", "contain", *WRITING):
        return answer_forms.WITH_EMOJI
    if nouns == {"question"} and verb == "end":
        return answer_forms.ENDS_WITH_QUESTION
    return _read_phrase("contain" if verb == "use" else verb, clause)


def read_wanted_answer(tokens: Sequence[Token]) -> Answers | None:
    """Read "answers must end with ⟦0⟧" and "keep answers under 200 words"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or len(clauses[0].verbs) != 1 or "answer" not in clauses[0].nouns:
        return None
    clause = clauses[0]
    if clause.verbs == ["limit"]:
        is_plain = clause.has_only("length", nouns=_ANSWER_WORDS, places=ANYWHERE)
        return _read_length(clause) if is_plain else None
    is_plain = clause.has_only("names", nouns=_ANSWER_WORDS, places=ANYWHERE)
    return _read_phrase(clause.verbs[0], clause, wanted=True) if is_plain else None


def _read_length(clause: Clause) -> Answers | None:
    return answer_forms.limit_length(*clause.length) if clause.length else None


def _read_phrase(verb: str, clause: Clause, *, wanted: bool = False) -> Answers | None:
    if len(clause.names) != 1 or verb not in ("start", "end", "contain"):
        return None
    return answer_forms.with_phrase(verb, clause.names[0], wanted=wanted)
