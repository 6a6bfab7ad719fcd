"""Read rules about files and folders: "never edit ⟦0⟧", "only modify files in ⟦0⟧"."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from hilum_checks import WORKSPACE, quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.clauses import ANYWHERE, Clause, read_clauses
from hilum_checks.model import READS, WRITES, Action, Constraint, Paths
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token

ACTIONS_OF_VERBS: dict[str, frozenset[Action]] = {
    "write": WRITES,
    "hand-edit": WRITES,
    "save": frozenset({"create", "change"}),
    "delete": v.DELETES,
    "move": v.MOVES,
    "create": v.CREATES,
    "add": v.CREATES,
    "introduce": v.CREATES,
    "read": READS,
    "open": READS,
    "access": READS | WRITES,
}
FILE_NOUNS = "other|file|folder|file kind|migrations|snapshots|lock files|config files|it|new|existing|generated"
_HANDLING = ("write", "hand-edit", "delete", "move")
# Names that are folders only if they end with a slash, or if the sentence says so.
USUAL_BRANCHES = frozenset("main master develop dev trunk production staging release".split())


def read_paths(verb: str, clause: Clause, scope: Scope) -> Paths | None:
    """Read "never edit ⟦0⟧" and "do not create files in ⟦0⟧"."""
    actions = ACTIONS_OF_VERBS.get(verb, frozenset())
    # "Do not edit files in `main`" means the branch, unless it is called a folder.
    is_branch = bool(clause.places and USUAL_BRANCHES.intersection(clause.names))
    if is_branch and "folder" not in clause.nouns:
        return None
    if "outside" in clause.places:
        if actions == v.CREATES:
            others = read_other_folders(clause, scope)
            return attrs.evolve(others, actions=actions) if others else None
        return read_other_folders(clause, scope) if actions >= WRITES else None
    known = f"{FILE_NOUNS}|modules|artifacts" if verb in _HANDLING else FILE_NOUNS
    if not clause.has_only("names", "exceptions", nouns=known, places=ANYWHERE):
        return None
    if _is_about_contents(verb, clause):
        return None
    actions = _narrow(actions, clause, scope)
    by_hand = clause.by_hand or verb == "hand-edit"
    # "Never access `x` directly" is about code.
    if not actions or (by_hand and "read" in actions):
        return None
    is_named = bool(clause.nouns & {"file", "folder"} or "in" in clause.places)
    names = [*clause.names, *clause.exceptions]
    if not all(quoted_names.is_path(name, named=is_named) for name in names):
        return None
    is_generated = scope.generated or "generated" in clause.nouns
    exceptions = patterns_of(clause.exceptions, scope)
    # To rename a folder is not to rename the files in it.
    if verb == "move" and "file" not in clause.nouns and not clause.places:
        folders = [name for name in clause.names if not re.search(r"\w\.\w+$", name)]
        exceptions += tuple(f"{each}/**" for each in patterns_of(folders, scope))
    return Paths(
        patterns_of(clause.names, scope),
        actions,
        exceptions,
        by_hand=actions <= WRITES and (by_hand or is_generated),
    )


def is_about_folders(verb: str, clause: Clause) -> bool:
    """Return whether a sentence is about folders as such, and not about the files in them.

    "Do not create folders in `a`" allows new files in `a`.
    """
    is_handled = verb in ("create", "add", "introduce", "delete", "move")
    is_any = bool(clause.places) or not clause.names
    return clause.are_folders and "file" not in clause.nouns and is_handled and is_any


def _is_about_contents(verb: str, clause: Clause) -> bool:
    """Return whether a sentence is about what is in a file, and not about the file."""
    # "Never move files to `a`" is not about the files in `a`.
    if verb == "move" and "to" in clause.places:
        return True
    # "Add tests to `a`" is not about the file `a`.
    if clause.places & {"to", "from", "with"} and not clause.nouns & {"file", "folder"}:
        return True
    if verb == "save" and not clause.places:
        return True
    # "Add code to `a.py`" changes the file; only a folder gets a new file.
    are_folders = all(name.endswith("/") for name in clause.names)
    return verb in ("create", "add") and "to" in clause.places and not are_folders


def _narrow(actions: frozenset[Action], clause: Clause, scope: Scope) -> frozenset[Action]:
    """Return the actions that a sentence means if it is about new or existing files only."""
    if "new" in clause.nouns:
        actions = actions & v.CREATES
    if "existing" in clause.nouns or (actions > v.CREATES and scope.new_files):
        actions = actions - v.CREATES
    return actions


def patterns_of(names: list[str], scope: Scope) -> tuple[str, ...]:
    """Return the patterns for paths in the folder of a rule."""
    found: list[str] = []
    for name in names:
        found += quoted_names.path_patterns(name, scope.folder)
    return tuple(found)


def read_other_folders(clause: Clause, scope: Scope) -> Paths | None:
    """Read "files outside ⟦0⟧": everything in the workspace but the given folders."""
    is_plain = clause.has_only("names", nouns="file|folder", places=ANYWHERE)
    is_plain = is_plain and ("file" in clause.nouns or not clause.are_folders)
    if not is_plain or not all(quoted_names.is_path(name, named=True) for name in clause.names):
        return None
    everything = "**" if scope.folder == WORKSPACE else f"/{scope.folder}/**"
    return Paths((everything,), WRITES, patterns_of(clause.names, scope), by_hand=True)


def read_other_paths(tokens: Sequence[Token], scope: Scope) -> Paths | None:
    """Read "only edit files in ⟦0⟧", which forbids to write everywhere else."""
    clauses = read_clauses(tokens)
    # Elsewhere, the sentence may be about one task: "Only edit `en.json`" in a section on languages.
    if not scope.hard or len(clauses) != 1 or not clauses[0].names:
        return None
    clause = clauses[0]
    is_writing = bool(clause.verbs) and set(clause.verbs) <= {"write", "create", "add", "save"}
    return read_other_folders(clause, scope) if is_writing and clause.places == {"in"} else None


def read_project_only(tokens: Sequence[Token], *, only: bool = False) -> Paths | None:
    """Read "only modify files inside this repository" and "all operations must stay within it"."""
    clauses = read_clauses(tokens)
    if len(clauses) != 1 or "workspace" not in clauses[0].nouns:
        return None
    clause = clauses[0]
    nouns = "file|folder|workspace|it|commands|changes|new|existing"
    is_plain = clause.has_only(nouns=nouns, places="in") and clause.places == {"in"}
    is_limit = only or clause.verbs == ["stay"]
    verbs = set(clause.verbs) - {"stay"}
    is_writing = verbs <= {"write", "create", "add", "save", "delete", "read"}
    is_about = bool(verbs) or bool(clause.nouns & {"commands", "file", "changes"})
    if not (is_plain and is_limit and is_writing and is_about and verbs != {"read"}):
        return None
    return Paths((), WRITES, outside=True)


def read_outside(verb: str, clause: Clause) -> Paths | None:
    """Read "files outside the workspace"."""
    nouns = "file|folder|it|workspace|existing"
    is_plain = clause.has_only(nouns=nouns, places="outside|in")
    if not is_plain or "workspace" not in clause.nouns or verb not in ACTIONS_OF_VERBS:
        return None
    return Paths((), ACTIONS_OF_VERBS[verb], outside=True)


def split_by_hand(constraint: Constraint) -> list[Constraint]:
    """Separate the paths that programs write, for which only manual editing is forbidden."""
    if not isinstance(constraint, Paths) or constraint.by_hand:
        return [constraint]
    if "read" in constraint.actions or not constraint.actions & WRITES:
        return [constraint]
    generated = tuple(
        pattern for pattern in constraint.patterns if quoted_names.is_generated(pattern)
    )
    if not generated:
        return [constraint]
    rest = tuple(pattern for pattern in constraint.patterns if pattern not in generated)
    split: list[Constraint] = [attrs.evolve(constraint, patterns=rest)] if rest else []
    return [*split, attrs.evolve(constraint, patterns=generated, by_hand=True)]
