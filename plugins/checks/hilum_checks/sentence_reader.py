"""Read what a sentence of a rule forbids, as a whole or from one of its clauses."""

from __future__ import annotations

from hilum_checks import lexicon
from hilum_checks.forms import cut, is_bounded, read_form
from hilum_checks.limit_words import CONDITIONS
from hilum_checks.model import CheckPart, CheckParts, Messages
from hilum_checks.rule_scope import Scope
from hilum_checks.sentences import Sentence
from hilum_checks.tokens import UNREADABLE, Chunk, Token, write_tokens

_LANGUAGES = ("english", "chinese")


def read_sentence(sentence: Sentence, before: Chunk, scope: Scope) -> CheckParts:
    """Return what a sentence forbids or asks for; empty if it is not understood.

    Args:
        sentence: The sentence.
        before: The words of the sentence before it.
        scope: The rule; what is not understood is added to ``omitted``.
    """
    tokens = _drop_asking(sentence.tokens)
    # In "`dist/` is generated. Do not edit it.", the first sentence names the files.
    if not any(token.role == "name" for token in tokens) and _only_names_files(before):
        tokens = tuple(token for token in tokens if (token.role, token.word) != ("noun", "it"))
        tokens = _drop_asking((*before, *tokens))
        if [token.role for token in tokens if token.role in lexicon.MARKERS] != ["NOT"]:
            return ()
    return (
        read_form(tokens, scope)
        or _read_last(tokens, scope)
        or _read_first_demand(tokens, scope)
        or read_form(_put_name(tokens, before), scope)
    )


def _put_name(tokens: Chunk, before: Chunk) -> Chunk:
    """Return a prohibition with what it refers to: "output is in ⟦0⟧; never commit it".

    Args:
        tokens: The words of the sentence.
        before: The words of the sentence before it.
    """
    at = next((at for at, token in enumerate(tokens) if token.role == "NOT"), len(tokens))
    earlier, rest = tokens[:at], tokens[at:]
    has_name = any(token.role in ("name", "branch") for token in rest)
    has_reference = any((token.role, token.word) == ("noun", "it") for token in rest)
    # "Generated files are in ⟦0⟧; do not edit by hand."
    if all(token.role in ("NOT", "by hand", "filler") or token.word == "write" for token in rest):
        rest = (*rest, Token("noun", "it", "it"))
        has_reference = bool(at < len(tokens))
    if has_name or not has_reference:
        return ()
    names = [token for token in earlier or before if token.role in ("name", "branch")]
    # "Files in ⟦0⟧ that … must never be edited" is one clause, whose other words count.
    if earlier and earlier[-1].role != "join":
        return ()
    if is_bounded(earlier):
        return ()
    # A second name would make it unclear what "it" is.
    if len(names) != 1 or any(token.role in lexicon.MARKERS for token in earlier or before):
        return ()
    return tuple(
        names[0] if token.word == "it" and token.role == "noun" else token for token in rest
    )


def _read_last(tokens: Chunk, scope: Scope) -> CheckParts:
    """Read the prohibitions at the end of several clauses: "create a branch, never push to main"."""
    starts = [
        at
        for at, token in enumerate(tokens)
        if token.role == "NOT" and (at == 0 or tokens[at - 1].role == "join")
    ]
    if not starts or starts == [0] or not _is_own_clause(tokens[: starts[0]]):
        return ()
    # In "never commit, never push except on Fridays", the exception may be meant for both.
    if CONDITIONS.search(write_tokens(tokens)):
        return ()
    ends = [*starts[1:], len(tokens)]
    clauses = [tokens[start:end] for start, end in zip(starts, ends, strict=True)]
    # "Use `a` in services, not `b`" says nothing about other places.
    if starts[0] and any(
        len(clause) < 2 or (clause[1].role != "verb" and clause[1].word != "bare")
        for clause in clauses
    ):
        return ()
    forms = [cut(clause)[0] for clause in clauses]
    # In "never …, never … without asking", the approval may be meant for both.
    if any(form != "NOT *" for form in forms[:-1]) or (len(forms) > 1 and forms[-1] != "NOT *"):
        return ()
    parts: list[CheckPart] = []
    omitted: list[str] = []
    for clause in clauses:
        found = read_form(clause, scope)
        # In "no ⟦0⟧, no ⟦1⟧ in reviews", the scope may be meant for both.
        if not found and is_bounded(clause):
            return ()
        if not found and any(token.role == "name" for token in clause):
            omitted.append(write_tokens(clause))
        parts += found
    if parts:
        scope.omitted.extend(omitted)
    return tuple(parts)


def _read_first_demand(tokens: Chunk, scope: Scope) -> CheckParts:
    """Read the first of several demands: "keep subjects under 72 characters, and add …"."""
    for at in range(1, len(tokens) - 1):
        if tokens[at - 1].role in ("NOT", "ONLY", "ASK", "WHEN", "UNLESS", "WITHOUT", "AVOID"):
            return ()
        is_join = tokens[at].role == "join" and tokens[at].text not in ("or", "或", "或者")
        is_next = is_join and tokens[at + 1].role == "verb"
        found = read_form(tokens[:at], scope) if is_join else ()
        # "Keep messages under 72 characters, describe the context …".
        following = tokens[at + 1]
        is_other = following.role in (UNREADABLE, "noun") and following.word not in _LANGUAGES
        are_messages = all(isinstance(each, Messages) for _, each in found)
        second = _read_second_demand(tokens, at, scope) if found else ()
        if second:
            return (*found, *second)
        if not is_next and not (is_other and are_messages):
            continue
        if found:
            scope.omitted.append(write_tokens(tokens[at + 1 :]))
            return found
    return ()


def _read_second_demand(tokens: Chunk, at: int, scope: Scope) -> CheckParts:
    """Read "pull requests must target ⟦0⟧, and be opened as drafts" from its second demand.

    Args:
        tokens: The words of the sentence.
        at: The position of the word that joins the two.
        scope: The rule.
    """
    start = at + 1
    while start < len(tokens) and tokens[start].role in ("join", "MUST"):
        start += 1
    verb = next((at for at, token in enumerate(tokens) if token.role != "noun"), 0)
    if not verb or tokens[verb].role != "MUST":
        return ()
    return read_form((*tokens[: verb + 1], *tokens[start:]), scope)


def _is_own_clause(tokens: Chunk) -> bool:
    """Return whether the words before a prohibition are another instruction."""
    if not tokens:
        return True
    first = next((token for token in tokens if token.role not in ("MUST", "ONLY")), tokens[0])
    is_instruction = first.role == "verb" and not any(
        token.role in ("NOT", "WHEN", "UNLESS", "ASK") for token in tokens
    )
    return is_instruction


def _only_names_files(tokens: Chunk) -> bool:
    roles = {token.role for token in tokens}
    return "name" in roles and roles <= {"name", "noun", "join", "place"}


def _drop_asking(tokens: Chunk) -> Chunk:
    """Remove the words about who asks whom, next to words such as "ask" and "approval"."""
    kept: list[Token] = []
    for at, token in enumerate(tokens):
        later = (each.role for each in tokens[at + 1 :] if not _is_asking(each))
        following = next(later, "")
        previous = kept[-1].role if kept else ""
        is_beside = following == "ASK" or previous == "ASK"
        if _is_asking(token) and is_beside:
            continue
        # "Only on request", "only with approval".
        if token.role == "place" and following == "ASK" and previous in ("ONLY", "verb"):
            continue
        # "Permission" in "ask for permission" says the same again.
        if token.role == "ASK" and previous == "ASK":
            continue
        if token.text == "we" and not kept:
            continue
        if token.text in ("you", "we") and following == "MUST":
            continue
        if token.role == "MUST" and following in ("ASK", "NEEDS", "ONLY", "MUST"):
            continue
        kept.append(token)
    return tuple(kept)


def _is_asking(token: Token) -> bool:
    return token.role not in lexicon.MARKERS and token.text in lexicon.ASKING
