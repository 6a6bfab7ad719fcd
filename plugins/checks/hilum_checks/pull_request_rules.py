"""Read rules about pull requests: "always open drafts", "pull requests must target ⟦0⟧"."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_checks import vocabulary as v
from hilum_checks.clauses import read_clauses
from hilum_checks.git_rules import BRANCH_NAME
from hilum_checks.model import Commands
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token


def read_drafts(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "always open pull requests as drafts"."""
    clauses = read_clauses(tokens)
    is_order = bool(tokens) and tokens[0].role == "verb"
    if len(clauses) != 1 or not (scope.binding or scope.hard or is_order):
        return None
    clause = clauses[0]
    is_plain = clause.has_only(nouns="pull request|drafts|new", places="in")
    is_opened = bool(clause.verbs) and {"open", "create", "submit"}.issuperset(clause.verbs)
    if not (is_plain and is_opened and "drafts" in clause.nouns):
        return None
    opening = (*v.OPEN_PULL_REQUEST, *v.OPEN_MERGE_REQUEST)
    drafts = [(*words, "--draft") for words in opening]
    # The option `-d` of `glab` means a description.
    drafts += [(*words, "-d") for words in v.OPEN_PULL_REQUEST]
    return Commands(opening, unless=tuple(drafts))


def read_base(tokens: Sequence[Token]) -> Commands | None:
    """Read "pull requests must target ⟦0⟧": no pull request may name another base."""
    names = [token.word for token in tokens if token.role in ("name", "branch")]
    texts = {token.text for token in tokens if token.role not in ("name", "branch", "join")}
    nouns = {token.word for token in tokens if token.role == "noun"}
    is_about = "pull request" in nouns and bool(texts & {"target", "against", "into"})
    if not is_about or len(names) != 1 or not texts <= _BASE_WORDS:
        return None
    if not BRANCH_NAME.fullmatch(names[0]):
        return None
    # To change the base of one that is open is the same.
    commands = (v.PULL_REQUEST[0], *v.EDIT_PULL_REQUEST)
    patterns = tuple((*words, option) for words in commands for option in ("--base", "-B"))
    patterns += _MERGE_REQUEST_TARGETS
    allowed = [(*words, names[0]) for words in patterns]
    # The number of the pull request may come first.
    allowed += [
        (*words[:-2], "*", *words[-2:]) for words in allowed if words[2] in ("edit", "update")
    ]
    return Commands(patterns, unless=tuple(allowed))


_MERGE_REQUEST_TARGETS = (
    ("glab", "mr", "create", "--target-branch"),
    ("glab", "mr", "create", "-b"),
    ("glab", "mr", "update", "--target-branch"),
)
_BASE_WORDS = frozenset(
    """
    must should target against into to all open create submit feature pr prs pull request pull requests
    branch always the new topic
    """.split()
) | {"pull request", "pull requests"}


def read_approval(tokens: Sequence[Token]) -> Commands | None:
    """Read "never approve pull requests"."""
    is_plain = {token.word for token in tokens} <= {"pull request", "it", "own", "filler"}
    is_about = any(token.word == "pull request" for token in tokens)
    return Commands(v.APPROVE) if is_plain and is_about else None
