"""Read rules about commits and branches: "never push to `main`", "commits must be signed off"."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from hilum_checks import WORKSPACE, quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.clauses import Clause, read_clauses
from hilum_checks.file_rules import FILE_NOUNS, USUAL_BRANCHES, patterns_of
from hilum_checks.model import Commands
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

BRANCH_VERBS = {"push": v.GIT_PUSH, "force-push": v.FORCE_PUSH, "commit": v.GIT_COMMIT}
BRANCH_NAME = re.compile(r"[\w-]+(?:[./][\w-]+)*", re.ASCII)
_BRANCH_FOLDER = re.compile(
    r"(?:release|releases|feature|feat|fix|bugfix|hotfix|support|env|chore|docs)/"
)
# "Push to `release/*`"; with another preposition, folders may be meant.
_BRANCH_PATTERN = re.compile(r"(?:release|releases|hotfix|support|stable)/\*")
_ANY_BRANCH_PATTERN = re.compile(r"[a-z][\w-]*/\*")
_SHARED_BRANCHES = ("main", "master", "develop", "dev", "trunk", "release/*")


def read_branches(verb: str, clause: Clause) -> Commands | None:
    """Read "never push to ⟦0⟧" and "never commit in `main`"."""
    names = [*clause.names, *clause.branches]
    if verb == "push" and names == ["upstream"]:
        return Commands(tuple((*words, "upstream") for words in v.GIT_PUSH))
    plain = clause.names
    if clause.places == {"to"}:
        # Beside `main`, `maint/*` is a branch, too.
        is_beside = bool(USUAL_BRANCHES.intersection(names))
        pattern = _ANY_BRANCH_PATTERN if is_beside else _BRANCH_PATTERN
        plain = [name for name in plain if not pattern.fullmatch(name)]
    is_sure = all(map(BRANCH_NAME.fullmatch, plain))
    # `OWNER/NAME` is a repository.
    are_folders = all("/" not in name or _BRANCH_FOLDER.match(name) for name in plain)
    is_sure = is_sure and (are_folders or "branch" in clause.nouns)
    # "Never force-push to shared branches": at least to these.
    if clause.kinds == ["shared"] and "branch" in clause.nouns:
        names += _SHARED_BRANCHES
        clause = attrs.evolve(clause, kinds=[])
    known = "branch|changes|file|remote|it"
    if not is_sure or not clause.has_only("names", "branches", nouns=known, places="to|in"):
        return None
    return Commands(BRANCH_VERBS[verb], branches=tuple(dict.fromkeys(names)))


def is_commit_in_branch(verb: str, clause: Clause) -> bool:
    """Return whether a clause says "commit in `main`", and does not name a folder."""
    return verb == "commit" and clause.places == {"in"} and not clause.names


_SWITCH = ("git", "switch", "-c")
NEW_BRANCHES = Commands(v.BRANCH, new_branches=True)


def read_branch_names(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "branch names must start with ⟦0⟧": new branches must have one of the prefixes."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or not (scope.binding or scope.hard):
        return None
    clause = clauses[0]
    is_about = "branch name" in clause.nouns or {"branch", "prefix"} <= clause.nouns
    is_start = "start" in clause.verbs or "prefix" in clause.nouns
    is_plain = clause.has_only("names", nouns="branch|branch name|prefix|new", places="with")
    if not (is_about and is_start and is_plain and clause.names):
        return None
    prefixes = [re.sub(r"<[^<>]*>", "*", name).rstrip("*") for name in clause.names]
    if not all(re.fullmatch(r"[\w*.-]+[/-]", prefix) for prefix in prefixes):
        return None
    allowed = tuple((*_SWITCH, f"{prefix}*") for prefix in prefixes)
    return attrs.evolve(NEW_BRANCHES, unless=allowed)


# `*.key`, `.DS_Store`, `.venv/`.
_LISTED_FILE = re.compile(r"\*?\.[\w-]+/?")


def read_commit_of_files(clause: Clause, scope: Scope) -> Commands | None:
    """Read "never commit ⟦0⟧": files that must not be added to a commit by their names."""
    known = f"{FILE_NOUNS}|changes|artifacts|data|documentation"
    is_plain = clause.has_only("names", nouns=known, places="in|to|from")
    is_named = bool(clause.nouns & {"file", "folder"} or clause.places)
    if not is_plain or scope.folder != WORKSPACE:
        return None
    others = [name for name in clause.names if not quoted_names.is_path(name, named=is_named)]
    # Next to `.env`, `.session` and `*.key` are files too. Alone, `.only` may be code.
    is_list = len(others) < len(clause.names) or any(name.endswith("/") for name in clause.names)
    if others and not (is_list and all(map(_LISTED_FILE.fullmatch, others))):
        return None
    words: list[str] = []
    for pattern in patterns_of(clause.names, scope):
        path = pattern.removesuffix("/**").lstrip("/")
        starts = ("", "./") if pattern.startswith("/") else ("", "*/")
        words += [f"{start}{path}{end}" for start in starts for end in ("", "/", "/*")]
    return Commands(tuple((*stage, "*", word) for stage in v.STAGE[:2] for word in words))


def read_sign_off(tokens: Sequence[Token]) -> Commands | None:
    """Read "commits must be signed off": every commit needs the option ``--signoff``."""
    # "Commits must be GPG-signed and include a sign-off": a key cannot be seen in a command.
    clauses = read_clauses([token for token in tokens if token.text != "gpg-signed"])
    if len(clauses) != 1:
        return None
    clause = clauses[0]
    is_named = any(name.lower().startswith("signed-off-by") for name in clause.names)
    if not is_named and "signed-off" not in clause.nouns:
        return None
    is_plain = clause.has_only(
        "names", nouns="signed-off|message|trailer|option", places="with|to|in"
    )
    clause = attrs.evolve(clause, verbs=list(dict.fromkeys(clause.verbs)))
    is_about = "commit" in clause.verbs or "message" in clause.nouns
    if not (is_plain and is_about and {"commit", "contain", "use", "add"}.issuperset(clause.verbs)):
        return None
    commit = ("git", "commit")
    return Commands((commit,), unless=((*commit, "--signoff"), (*commit, "-s")))
