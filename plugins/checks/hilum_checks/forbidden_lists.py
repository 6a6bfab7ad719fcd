"""Read lists of forbidden things of which only some are understood: "never commit keys or ⟦0⟧".

Each thing in such a list is forbidden by itself, so that those that are understood can be enforced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hilum_checks.actions import merge, read_actions
from hilum_checks.model import Constraint, Effect
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import UNREADABLE, Token, write_tokens

Item = tuple[Token, ...]
_FINAL_JOINS = frozenset(("or", "nor", "/", "或", "或者"))
_JOINS = _FINAL_JOINS | {",", "，", "、"}
# Words that begin a phrase which may belong to the whole list: "`a` or tests in production".
_PREPOSITIONS = frozenset(
    """
    for by about as of like while during against between across per since because that which who
    whose where whether so via through despite instead otherwise elsewhere except here there
    yet still already first unnecessarily
    """.split()
)


def read_list(tokens: Sequence[Token], effect: Effect, scope: Scope) -> tuple[Constraint, ...]:
    """Return what the items of a list forbid, without the items that are not understood.

    Args:
        tokens: The verbs and their objects.
        effect: The effect of the sentence.
        scope: What the rest of the rule says.
    """
    # "Never edit `a`, `b` or anything else by hand": the manner belongs to every item.
    manner = [token for token in tokens[-1:] if token.role == "by hand"]
    tokens = tokens[: len(tokens) - len(manner)]
    items = _split(tokens)
    if not _is_list(tokens, effect) or _is_list_of_places(items) or _is_limited(items[-1]):
        return ()
    found: list[Constraint] = []
    omitted: list[str] = []
    is_understood = True
    for item in _complete(items):
        constraints = read_actions((*item, *manner), effect, scope)
        found += constraints
        is_understood = bool(constraints)
        if not is_understood:
            omitted.append(write_tokens(item))
    # In "never use `a` or any `b` with c", the last words may belong to every item.
    is_last_plain = all(token.role in ("name", "noun", "verb", UNREADABLE) for token in items[-1])
    if not (found and (is_understood or is_last_plain)):
        return ()
    scope.omitted.extend(omitted)
    return merge(found)


def _is_list(tokens: Sequence[Token], effect: Effect) -> bool:
    """Return whether a part of a sentence is a list whose last item follows "or"."""
    joins = [token.text for token in tokens if token.role == "join"]
    # "Edit, commits": a noun such as "commits" is no action.
    are_verbs = not any(
        _is_plural(token) and (not at or tokens[at - 1].word != "create")
        for at, token in enumerate(tokens)
    )
    # "Ask before: deleting files, new packages" needs no "or".
    is_end = bool(joins) and (joins[-1] in _FINAL_JOINS or effect == "ask")
    # "Never commit: `.env`, keys, model weights" has no other verb.
    verbs = [at for at, token in enumerate(tokens) if token.role == "verb"]
    is_end = is_end or (len(joins) > 1 and verbs == [0] and tokens[0].word in ("commit", "stage"))
    # "Forbidden: `a`, `b`".
    are_names = all(token.role in ("name", "join", "noun") for token in tokens)
    is_end = is_end or (are_names and tokens[0].role == "name")
    return is_end and set(joins) <= _JOINS and are_verbs


def _is_plural(token: Token) -> bool:
    return token.role == "verb" and token.text.endswith("s") and not token.text.endswith("ss")


def _is_list_of_places(items: Sequence[Item]) -> bool:
    """Return whether what follows an item may be another place: "names in code, docs or tests"."""
    return any(
        _has_place(item) and following[0].role != "verb" for item, following in pairwise(items)
    )


def _has_place(item: Item) -> bool:
    """Return whether an item says where or when."""
    return any(token.role == "place" or token.text in _PREPOSITIONS for token in item)


def _is_limited(item: Item) -> bool:
    """Return whether the last item ends with words that may limit every item."""
    return any(token.text in _PREPOSITIONS for token in item)


def _split(tokens: Sequence[Token]) -> list[Item]:
    items: list[Item] = [()]
    for token in tokens:
        if token.role == "join":
            items.append(())
        elif token.role != "filler":
            items[-1] = (*items[-1], token)
    # "Publish or release" names two actions, and no branch.
    return [
        (Token("verb", "release", "release"),)
        if [each.word for each in item] == ["release"]
        else item
        for item in items
        if item
    ]


def _complete(items: Sequence[Item]) -> Iterator[Item]:
    """Yield each item with the verb before it and the place after the list.

    In "edit, stage or commit `a`", the object belongs to every verb; in "use `a`, `b` or `c` in
    tests", the place belongs to every object.
    """
    ending = _from_place(items[-1])
    verbs: list[Token] = []
    has_object = True
    for item in items:
        # "Create commits" has one verb.
        start = next(
            (
                at
                for at, token in enumerate(item)
                if token.role != "verb" or (at and _is_plural(token))
            ),
            len(item),
        )
        if start:
            verbs = [*([] if has_object else verbs), *item[:start]]
        has_object = start < len(item)
        if not has_object:
            continue
        body = item[start:]
        place = () if _from_place(body) else ending
        for verb in verbs:
            yield (verb, *body, *place)
        if not verbs:
            yield (*body, *place)
    # "Deploy, publish or release" has no objects.
    if not has_object:
        yield from ((verb,) for verb in verbs)


def _from_place(item: Item) -> Item:
    for at, token in enumerate(item):
        if token.role == "place":
            return item[at:]
    return ()
