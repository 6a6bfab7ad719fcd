"""Divide a part of a sentence into clauses: verbs and the object that they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from hilum_checks.limit_words import CONDITIONS
from hilum_checks.tokens import UNREADABLE, Token, write_tokens

_OBJECT_FIELDS = ("names", "scopes", "exceptions", "branches", "kinds", "length")
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

    def has_only(self, *fields: str, nouns: str = "", places: str = "") -> bool:
        """Return whether the object consists of nothing but the given names and words.

        Args:
            fields: The attributes that may be set, except those below.
            nouns: The nouns that it may have, separated by ``|``.
            places: The places that it may have, separated by ``|``.
        """
        others = set(_OBJECT_FIELDS).difference(fields)
        if any(getattr(self, field) for field in others):
            return False
        return self.nouns <= set(nouns.split("|")) and self.places <= set(places.split("|"))


def read_clauses(tokens: Sequence[Token]) -> list[Clause]:
    """Return the clauses in a part of a sentence; none if a word is not understood."""
    reader = _ClauseReader(tokens)
    if not all(map(reader.read, tokens)):
        return []
    # "Never publish except on Fridays": what is excepted has no name.
    if any(token.role == "except" for token in tokens) and not any(
        clause.exceptions or "outside" in clause.places for clause in reader.clauses
    ):
        return []
    return [part for clause in reader.clauses for part in _split_pull_request(clause)]


class _ClauseReader:
    """Reads the words of a part of a sentence, one after another.

    Args:
        tokens: The words.

    Attributes:
        clauses: The clauses so far.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.clauses = [Clause()]
        self._is_list = any(token.text in ("or", "nor", "或", "或者", "、") for token in tokens)
        # The roles of the word before, and of the last word that separates others.
        self._before = ""
        self._previous = ""
        self._is_exception = False

    def read(self, token: Token) -> bool:
        """Add the next word; return whether it was understood."""
        token = self._resolve(token)
        is_understood = self._add(token)
        self._before = token.role
        # A noun between a place and a name does not separate them: "in the folder `b`".
        if token.role not in ("noun", "filler", "by hand") or self._previous != "place":
            self._previous = token.role
        return is_understood

    def _resolve(self, token: Token) -> Token:
        """Return a word in the meaning that it has after the words before it."""
        clause = self.clauses[-1]
        # "Emojis in code or commits" names a place, and no action.
        if token.text == "commits" and clause.places and token.role == "verb":
            return Token("noun", "message")
        # "Except in tests" means outside tests.
        if self._is_exception and self._previous == "except" and token.word == "in":
            self._is_exception = False
            return Token("place", "outside")
        # "Tag or release" names an action, and "push to main or release" a branch.
        is_joined = self._previous == "join" and clause.verbs and not clause.places
        return Token("verb", "release") if token.word == "release" and is_joined else token

    def _add(self, token: Token) -> bool:
        clause = self.clauses[-1]
        if token.role == "verb":
            return self._add_verb(token.word)
        if token.role == "name":
            self._add_name(token.word)
        elif token.role == "except":
            self._is_exception = True
        elif not _add_word(clause, token):
            return False
        elif token.word == "folder" and self._before not in ("place", "name"):
            clause.are_folders = True
        return True

    def _add_verb(self, verb: str) -> bool:
        clause = self.clauses[-1]
        if clause.verbs and self._previous != "join":
            return _merge_verbs(clause, verb)
        # An object before its verb, as in Chinese, belongs to the first verb.
        if clause.verbs and clause.has_object:
            # "Don't edit `a`, edit `b`" and "… and run `b`" say what to do instead.
            if not self._is_list:
                return False
            self.clauses.append(Clause())
        self.clauses[-1].verbs.append(verb)
        return True

    def _add_name(self, name: str) -> None:
        clause = self.clauses[-1]
        # In "`a` in `b`", the second name is not one of the things that the sentence is about.
        is_scope = bool(clause.scopes) or (self._previous == "place" and bool(clause.names))
        if self._is_exception:
            clause.exceptions.append(name)
        elif is_scope:
            clause.scopes.append(name)
        else:
            clause.names.append(name)


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
