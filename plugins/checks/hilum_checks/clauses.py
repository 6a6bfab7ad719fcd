"""Divide a part of a sentence into clauses: verbs and the object that they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from hilum_checks.limit_words import CONDITIONS
from hilum_checks.tokens import UNREADABLE, Token, write_tokens

_PARTS = ("names", "scopes", "exceptions", "branches", "kinds", "length")
ANYWHERE = "in|to|from|with|outside"
"""All places."""


SEPARATORS = ("so", "for", "in order", "as")
"""Words after which a sentence says what something is for."""
LIMITS = frozenset(
    """
    during while whenever where depending optional optionally possible either whichever affected
    appropriate applicable consider considering usually generally ideally try preferably recommended
    particularly especially sometimes occasionally encouraged prefer preferred
    """.split()
)
"""Words that may limit a sentence, wherever they are."""


@attrs.define
class Clause:
    """Verbs and their object.

    Attributes:
        verbs: The verbs.
        names: The names in the object.
        scopes: The names after a place, as in "`a` in `b`".
        exceptions: The names after "except".
        nouns: The other words in the object.
        places: Words such as "in" and "to".
        branches: Common names of branches without quotes.
        kinds: Kinds of sessions.
        length: The limit and the unit of a length.
        by_hand: Whether the object says "directly" or similar.
        are_folders: Whether the object is folders: "folders in `a`", and not "in the folder `a`".
    """

    verbs: list[str] = attrs.Factory(list)
    names: list[str] = attrs.Factory(list)
    scopes: list[str] = attrs.Factory(list)
    exceptions: list[str] = attrs.Factory(list)
    nouns: set[str] = attrs.Factory(set)
    places: set[str] = attrs.Factory(set)
    branches: list[str] = attrs.Factory(list)
    kinds: list[str] = attrs.Factory(list)
    length: tuple[int, str] | None = None
    by_hand: bool = False
    are_folders: bool = False

    @property
    def has_object(self) -> bool:
        """Whether the clause says more than its verbs."""
        return bool(self.names or self.nouns or self.branches or self.kinds)

    def has_only(self, *parts: str, nouns: str = "", places: str = "") -> bool:
        """Return whether the object consists of nothing but the given parts and words.

        Args:
            parts: The attributes that may be set, except those below.
            nouns: The nouns that it may have, separated by ``|``.
            places: The places that it may have, separated by ``|``.
        """
        others = set(_PARTS).difference(parts)
        if any(getattr(self, part) for part in others):
            return False
        return self.nouns <= set(nouns.split("|")) and self.places <= set(places.split("|"))


def read_clauses(tokens: Sequence[Token]) -> list[Clause]:
    """Return the clauses in a part of a sentence; none if a word is not understood."""
    clauses = [Clause()]
    is_list = any(token.text in ("or", "nor", "或", "或者", "、") for token in tokens)
    previous = ""
    before = ""
    is_exception = False
    for token in tokens:
        clause = clauses[-1]
        # "Emojis in code or commits" names a place, and no action.
        if token.text == "commits" and clause.places and token.role == "verb":
            token = Token("noun", "message")
        # "Except in tests" means outside tests.
        if is_exception and previous == "except" and token.word == "in":
            token = Token("place", "outside")
            is_exception = False
        # "Tag or release" names an action, and "push to main or release" a branch.
        if token.word == "release" and previous == "join" and not clause.places and clause.verbs:
            token = Token("verb", "release")
        if token.role == "verb":
            if not clause.verbs or previous == "join":
                # An object before its verb, as in Chinese, belongs to the first verb.
                if clause.verbs and clause.has_object:
                    # "Don't edit `a`, edit `b`" and "… and run `b`" say what to do instead.
                    if not is_list:
                        return []
                    clauses.append(Clause())
                clauses[-1].verbs.append(token.word)
            elif not _merge_verbs(clause, token.word):
                return []
        elif token.role == "name":
            # In "`a` in `b`", the second name is not one of the things that the sentence is about.
            is_scope = bool(clause.scopes) or (previous == "place" and bool(clause.names))
            names = clause.scopes if is_scope else clause.names
            (clause.exceptions if is_exception else names).append(token.word)
        elif token.role == "except":
            is_exception = True
        elif not _add_word(clause, token):
            return []
        elif token.word == "folder" and before not in ("place", "name"):
            clause.are_folders = True
        before = token.role
        # A noun between a place and a name does not separate them: "in the folder `b`".
        if token.role not in ("noun", "filler", "by hand") or previous != "place":
            previous = token.role
    # "Never publish except on Fridays": what is excepted has no name.
    if any(token.role == "except" for token in tokens) and not any(
        clause.exceptions or "outside" in clause.places for clause in clauses
    ):
        return []
    return [part for clause in clauses for part in _split_pull_request(clause)]


def _split_pull_request(clause: Clause) -> list[Clause]:
    """Return "commit, push, open a pull request" as two clauses: nobody pushes pull requests."""
    if clause.nouns != {"pull request"} or clause.verbs[-1:] not in (
        ["open"],
        ["submit"],
        ["create"],
    ):
        return [clause]
    others = Clause(clause.verbs[:-1])
    return [*([others] if others.verbs else []), attrs.evolve(clause, verbs=clause.verbs[-1:])]


def _merge_verbs(clause: Clause, verb: str) -> bool:
    """Add a verb that another one governs: "make commits", "push commits", "run git push"."""
    first = clause.verbs[-1]
    if first in ("run", "create", "use") and not clause.has_object:
        clause.verbs[-1] = verb
        return True
    # "All commits must follow …".
    if first == "commit" and verb in ("follow", "use", "contain") and not clause.has_object:
        clause.verbs.append(verb)
        return True
    return first in ("push", "amend", "force-push", "rebase") and verb == "commit"


def _add_word(clause: Clause, token: Token) -> bool:
    """Add a word other than a verb or a name to a clause; return whether it was understood."""
    if token.role == "noun":
        clause.nouns.add(token.word)
    elif token.role == "place":
        clause.places.add(token.word)
    elif token.role == "branch":
        clause.branches.append(token.word)
    elif token.role == "kind":
        clause.kinds.append(token.word)
    elif token.role == "length" and clause.length is None:
        clause.length = (int(token.text), token.word)
    elif token.role == "by hand":
        clause.by_hand = True
    else:
        return token.role in ("join", "filler")
    return True


def beginnings(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield a part of a sentence, and its beginnings before "and do this" and "to reach that".

    What must be done does not depend on what else is to be done, or on what it is for. It may
    depend on any other rest, such as "in `web/`".
    """
    yield tokens
    for at in range(len(tokens) - 1, 0, -1):
        rest = tokens[at:]
        if any(token.text in LIMITS for token in rest) or CONDITIONS.search(write_tokens(rest)):
            return
        is_end = tokens[at].role == "join" or tokens[at].text in ("to", *SEPARATORS)
        rest = [token for token in tokens[at + 1 :] if token.role != "filler"]
        # "Run it and make sure it passes".
        if rest and rest[0].word == "it":
            rest = rest[1:]
        if is_end and rest and rest[0].role in ("verb", UNREADABLE):
            yield tokens[:at]
