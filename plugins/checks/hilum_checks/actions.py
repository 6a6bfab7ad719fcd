"""Read what a part of a sentence forbids: its verbs and their objects become constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from hilum_checks import vocabulary as v
from hilum_checks.answer_rules import read_unwanted_answer
from hilum_checks.clauses import Clause, read_clauses
from hilum_checks.code_rules import (
    read_absolute_paths,
    read_code,
    read_definitions,
    read_import,
    read_symbols,
)
from hilum_checks.command_rules import (
    RUN_VERBS,
    read_command_names,
    read_hosts,
    read_option,
    read_run,
)
from hilum_checks.commit_messages import TRAILER, read_attribution, read_unwanted_message
from hilum_checks.context_rules import read_unwanted_context
from hilum_checks.file_rules import is_about_folders, read_paths, split_by_hand
from hilum_checks.git_rules import (
    BRANCH_VERBS,
    is_commit_in_branch,
    read_branches,
    read_commit_of_files,
)
from hilum_checks.model import Commands, Constraint, Content, Effect, Messages, Paths
from hilum_checks.plain_actions import (
    ADDED_PACKAGES,
    adds_packages,
    read_plain,
    read_plain_in_folders,
)
from hilum_checks.rule_scope import Scope
from hilum_checks.secret_texts import read_secrets
from hilum_checks.tokens import Token


def read_actions(tokens: Sequence[Token], effect: Effect, scope: Scope) -> tuple[Constraint, ...]:
    """Return what a part of a sentence forbids; empty if hilum does not understand all of it."""
    definitions = read_definitions(tokens, scope)
    if definitions is not None:
        return definitions
    paths = read_absolute_paths(tokens, scope)
    if paths is not None:
        return (paths,)
    constraints: list[Constraint] = []
    clauses = read_clauses(tokens)
    # "Commit or push to `main`": both verbs have the same object.
    for clause in clauses:
        for verb in clause.verbs or [""]:
            secrets = read_secrets(verb, clause)
            if secrets:
                constraints += secrets
                continue
            found = _read_action(verb, clause, effect, scope)
            # A rule is enforced as a whole or not at all; otherwise its summary would be wrong.
            if found is None:
                return ()
            constraints += split_by_hand(found)
            # Some tools have no command with which a package is added.
            if adds_packages(verb, clause, found):
                constraints.append(ADDED_PACKAGES)
            # "No emojis in commit messages or code".
            if isinstance(found, Content) and "message" in clause.nouns:
                constraints.append(Messages(found.expression))
    return merge(constraints)


def _read_action(verb: str, clause: Clause, effect: Effect, scope: Scope) -> Constraint | None:
    symbols = read_symbols(verb, clause, scope)
    if symbols:
        return symbols
    # "Top-level dependencies" are those that the project itself names.
    if {"top-level", "packages"} <= clause.nouns:
        clause = attrs.evolve(clause, nouns=clause.nouns - {"top-level"})
    if is_about_folders(verb, clause):
        return None
    for noun, read in _SUBJECTS.items():
        if noun in clause.nouns:
            return read(verb, clause)
    if any(TRAILER.search(name) for name in clause.names):
        return read_unwanted_message(verb, clause)
    if "bare" in clause.nouns and clause.names == ["except"]:
        clause = attrs.evolve(clause, names=["except:"])
    code = read_code(verb, clause, scope)
    if code:
        return code
    if clause.scopes:
        return read_option(verb, clause, scope)
    if (
        verb in BRANCH_VERBS
        and (clause.places == {"to"} or is_commit_in_branch(verb, clause))
        and (clause.names or clause.branches or clause.kinds)
    ):
        return read_branches(verb, clause)
    if not clause.names:
        return read_plain(verb, clause, effect, scope)
    placed = read_plain_in_folders(verb, clause, effect, scope)
    if placed:
        return placed
    return _read_named(verb, clause, scope)


def _read_named(verb: str, clause: Clause, scope: Scope) -> Constraint | None:
    """Read a verb whose object has names: of commands, tools, hosts or files."""
    if verb == "call":
        return read_run(verb, clause, scope) or read_hosts(clause)
    if verb in RUN_VERBS:
        return read_run(verb, clause, scope)
    if verb == "publish" and set(clause.names) <= {"npm"} and clause.places == {"to"}:
        return Commands(v.PUBLISH) if clause.nouns <= {"packages"} else None
    if verb == "skip" and clause.nouns == {"hooks"}:
        return read_command_names(clause.names, scope, used=True)
    if verb in ("commit", "push") and {*v.OPTIONS, "--force"}.issuperset(clause.names):
        is_plain = clause.has_only("names", nouns="option", places="with")
        if "--force" not in clause.names:
            return read_command_names(clause.names, scope, used=True)
        # Other programs have this option, too.
        names = [f"git {verb} {name}" for name in clause.names]
        return read_command_names(names, scope) if is_plain else None
    if verb in ("commit", "stage"):
        return read_commit_of_files(clause, scope)
    if verb == "import":
        return read_import(clause, scope)
    # "Install npm packages" installs packages.
    if verb in ("install", "add") and v.MANAGERS.issuperset(clause.names):
        is_plain = clause.has_only("names", nouns="packages|new|other", places="with")
        if not is_plain or "packages" not in clause.nouns:
            return None
        if clause.places:
            return read_command_names([f"{name} install" for name in clause.names], scope)
        return Commands(v.INSTALL, new=True)
    hosts = read_hosts(clause) if verb in ("contact", "access") else None
    return hosts or read_paths(verb, clause, scope)


def merge(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Merge constraints that differ only in their commands, or only in their actions."""
    merged: list[Constraint] = []
    for constraint in constraints:
        last = merged[-1] if merged else None
        if isinstance(constraint, Commands) and isinstance(last, Commands):
            patterns = (*last.patterns, *constraint.patterns)
            both = attrs.evolve(last, patterns=tuple(dict.fromkeys(patterns)))
            if attrs.evolve(constraint, patterns=both.patterns) == both:
                merged[-1] = both
                continue
        if isinstance(constraint, Paths) and isinstance(last, Paths):
            both_paths = attrs.evolve(last, actions=last.actions | constraint.actions)
            if attrs.evolve(constraint, actions=both_paths.actions) == both_paths:
                merged[-1] = both_paths
                continue
        merged.append(constraint)
    return tuple(merged)


# Nouns that decide what a sentence is about, whatever else it names.
_SUBJECTS: dict[str, Callable[[str, Clause], Constraint | None]] = {
    "answer": read_unwanted_answer,
    "session": read_unwanted_context,
    "co-author": read_attribution,
    "ai": read_attribution,
    "message": read_unwanted_message,
    "subject": read_unwanted_message,
}
