"""Read rules about files that some sessions must not load: "only load ⟦0⟧ in the main session"."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_checks import quoted_names
from hilum_checks.clauses import ANYWHERE, Clause, read_clauses
from hilum_checks.model import ExcludedFiles
from hilum_checks.tokens import Token


def read_main_context(tokens: Sequence[Token]) -> ExcludedFiles | None:
    """Read "only load ⟦0⟧ in the main session"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or "session" not in clauses[0].nouns:
        return None
    clause = clauses[0]
    if {*clause.kinds, *clause.branches} != {"main"} or clause.verbs != ["load"]:
        return None
    return _contexts(clause, ("shared", "headless"))


def read_unwanted_context(verb: str, clause: Clause) -> ExcludedFiles | None:
    """Read "never load ⟦0⟧ in shared sessions"."""
    kinds = tuple(dict.fromkeys([*clause.kinds, *clause.branches]))
    known = ("main", "shared", "headless")
    if verb not in ("load", "read", "use", "contain") or not kinds:
        return None
    return _contexts(clause, kinds) if set(kinds) <= set(known) else None


def _contexts(clause: Clause, kinds: tuple[str, ...]) -> ExcludedFiles | None:
    names = clause.names
    if not names and "memory" in clause.nouns:
        names = ["memory"]
    known = "session|memory|file"
    is_plain = clause.has_only("names", "kinds", "branches", nouns=known, places=ANYWHERE)
    if not names or not is_plain:
        return None
    if not all(name == "memory" or quoted_names.is_path(name, named=True) for name in names):
        return None
    return ExcludedFiles(tuple(names), kinds)
