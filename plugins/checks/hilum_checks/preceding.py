"""Read orders: which commands must run before a commit, a push or a pull request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from hilum_checks import vocabulary as v
from hilum_checks.actions import read_actions
from hilum_checks.clauses import LIMITS, SEPARATORS, beginnings, read_clauses
from hilum_checks.command_rules import read_command_names
from hilum_checks.model import CommandBefore, Commands, Constraint, RunFirst
from hilum_checks.reading_first import read_written
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import UNREADABLE, Token

Meaning = TypeVar("Meaning")
# What a required command is for. An order may begin with such a verb: "format with `x` before …".
_PURPOSES = frozenset(
    """
    format lint typecheck type-check verify validate check ensure reformat rebuild regenerate
    """.split()
)
# What is to be looked at with a command: "inspect `git status` before editing".
_LOOKING = ("inspect", "confirm", "review", "check", "检查")
_PURPOSE_WORDS = _PURPOSES | frozenset(
    """
    formatting formatted linting linted linter linters formatter typechecking type-checking
    typechecks check checks checker checked checking verified verification validated validation
    quality gate gates suite suites full complete local locally these both via clean cleanly green
    unfiltered entire whole as successfully succeed succeeds static analysis build builds compile compiles pipeline final step
    typescript python javascript rust js ts
    last sequence order coverage hook script scripts has have current worktree status
    """.split()
)
_PASSING = ("clean", "green", "succeed", "succeeds")
# Ends of a piece of work: "before finishing", "before you consider a task done".
_ENDS = frozenset(
    """
    finish finishing finished complete completing completed completion done declaring declare
    claiming claim considering consider marking mark reporting report handing hand ending end
    returning handoff responding concluding wrapping calling finalizing finalising ready
    """.split()
)
_ENDING_WORDS = _ENDS | frozenset(
    """
    task tasks work job session turn you it the a an any as is are be change changes response final
    answer feature features to user off over in up this that each every all your their them they
    successful success for of implementation and
    """.split()
)
_DEADLINES: dict[str, v.Phrases] = {
    "review": (*v.PULL_REQUEST, *v.READY_PULL_REQUEST),
    "reviews": (*v.PULL_REQUEST, *v.READY_PULL_REQUEST),
    "submission": v.PULL_REQUEST,
    "submitting": (*v.GIT_COMMIT, *v.GIT_PUSH, *v.PULL_REQUEST),
    "commit": v.GIT_COMMIT,
    "push": v.GIT_PUSH,
    "pr": v.PULL_REQUEST,
    "merge": v.MERGE,
    "contributing": v.PULL_REQUEST,
}
_WAITING = frozenset(
    {
        *v.GIT_COMMIT,
        *v.GIT_PUSH,
        *v.PULL_REQUEST,
        *v.MERGE,
        *v.PUBLISH,
        *v.TAG,
        *v.MERGE_BRANCH,
        *v.DEPLOY,
    }
)


def read_preceded(
    needed: Sequence[Token], before: Sequence[Token], scope: Scope
) -> tuple[Constraint, ...]:
    """Read "always run ⟦0⟧ before committing": a check for each command that must run.

    Args:
        needed: What must run.
        before: What must wait for it.
        scope: What the rest of the rule says.
    """
    is_answer = _is_end_of_work(before)
    deadline = (
        None if is_answer else _read_beginning(before, lambda part: _read_deadline(part, scope))
    )
    writes = None
    if deadline is None and not is_answer:
        writes = _read_beginning(before, lambda part: read_written(part, scope))
        if writes is None:
            return ()
    commands = _read_beginning(_from_verb(needed), lambda part: read_needed(part, scope)) or []
    if writes is not None:
        return tuple(RunFirst(each, writes) for each in commands)
    return tuple(CommandBefore(each, deadline) for each in commands)


def read_completion(chunks: Sequence[Sequence[Token]], scope: Scope) -> tuple[Constraint, ...]:
    """Read "work is not complete until ⟦0⟧ passes": the command must run before the final answer.

    Args:
        chunks: What is not complete, "complete", and what must have happened.
        scope: What the rest of the rule says.
    """
    about = {token.text for chunk in chunks[:2] for token in chunk if token.role != "join"}
    if not about <= _ENDING_WORDS or not about & {"done", "complete", "completed", "finished"}:
        return ()
    commands = read_needed(chunks[2], attrs.evolve(scope, binding=True))
    return tuple(CommandBefore(each, None) for each in commands or ())


def _is_end_of_work(tokens: Sequence[Token]) -> bool:
    """Return whether something must be done before the work ends: "before finishing a task"."""
    words = [token.text for token in tokens if token.role != "join"]
    return bool(_ENDS.intersection(words)) and _ENDING_WORDS.issuperset(words)


def read_passing(tokens: Sequence[Token], scope: Scope) -> tuple[CommandBefore, ...]:
    """Read "pull requests must pass ⟦0⟧": the commands must run before a pull request is opened."""
    nouns = {token.word for token in tokens if token.role == "noun"}
    verbs = [token.word for token in tokens if token.role == "verb"]
    waiting = v.PULL_REQUEST
    # "Every commit must pass ⟦0⟧".
    if tokens and tokens[0].word == "commit" and not nouns:
        waiting, tokens, verbs = v.GIT_COMMIT, tokens[1:], verbs[1:]
    elif "pull request" not in nouns:
        return ()
    if verbs != ["pass"] or not (scope.binding or scope.hard):
        return ()
    commands = read_needed(tokens, scope)
    return tuple(CommandBefore(each, Commands(waiting)) for each in commands or ())


def _read_beginning(
    tokens: Sequence[Token], read: Callable[[Sequence[Token]], Meaning | None]
) -> Meaning | None:
    """Return what the longest readable beginning of a part of a sentence means."""
    for part in beginnings(tokens):
        found = read(part)
        if found:
            return found
    return None


def _from_verb(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the last instruction of several: "create a branch, run ⟦0⟧"."""
    for at in range(len(tokens) - 1, 0, -1):
        is_start = tokens[at].word == "run" and tokens[at - 1].role == "join"
        first = tokens[0]
        if is_start and first.role in ("verb", UNREADABLE) and first.text not in SEPARATORS:
            has_names = any(token.role == "name" for token in tokens[:at])
            has_limits = any(token.text in LIMITS for token in tokens[:at])
            return tokens if has_names or has_limits else tokens[at:]
    return tokens


def read_needed(tokens: Sequence[Token], scope: Scope) -> list[Commands] | None:
    """Return the commands that must run."""
    # "Run ⟦0⟧ or ⟦1⟧" leaves a choice.
    if any(token.role == "join" and token.text in ("or", "或", "或者") for token in tokens):
        return None
    if not tokens:
        return None
    first = tokens[0]
    # An order is binding; "`x` is run before committing" may describe a hook.
    is_order = first.role == "verb" or first.text in (*_PURPOSES, *_LOOKING, "all")
    if first.text in _LOOKING:
        tokens = tokens[1:]
    known = [token for token in tokens if token.text not in _PURPOSE_WORDS]
    clauses = read_clauses(known)
    if len(clauses) != 1 or not {"run", "pass", "use"}.issuperset(clauses[0].verbs):
        return None
    clause = clauses[0]
    # "Make sure that ⟦0⟧ is clean".
    if not clause.verbs and any(token.text in _PASSING for token in tokens):
        clause.verbs.append("pass")
    is_order = is_order or clause.verbs == ["pass"] or scope.hard or scope.binding
    # "Use ⟦0⟧ before committing" needs a name that only programs have.
    # "Always ⟦0⟧ before ⟦1⟧" needs no verb.
    has_verb = bool(clause.verbs) or first.text in (*_PURPOSES, *_LOOKING)
    if not is_order or not (has_verb or (scope.binding and first.role == "name")):
        return None
    is_plain = clause.has_only(
        "names",
        nouns="workspace|tests|commands|construct|file|changes|hooks|pull request",
        places="in|from|with",
    )
    if not is_plain or not clause.names:
        return None
    names = [part.strip() for name in clause.names for part in name.split("&&")]
    is_used = clause.verbs == ["use"]
    commands = [read_command_names([name], scope, used=is_used) for name in names]
    return [each for each in commands if each] if all(commands) else None


def _read_deadline(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Return the commands that must wait."""
    if not tokens:
        return None
    # "Run ⟦0⟧ before committing them".
    tokens = [token for token in tokens if (token.role, token.word) != ("noun", "it")]
    words = [token for token in tokens if token.role != "filler"]
    if len(words) == 1 and words[0].text in _DEADLINES:
        return Commands(_DEADLINES[words[0].text])
    if [token.word for token in words if token.role != "noun"] == ["submit"]:
        nouns = {token.word for token in words if token.role == "noun"}
        if nouns <= {"pull request", "new"} and nouns:
            return Commands(v.PULL_REQUEST)
        # "Before submitting changes": whatever comes first.
        if nouns <= {"changes", "file", "it", "workspace"}:
            return Commands(_DEADLINES["submitting"])
    # "Before marking a PR as ready": a draft becomes one, which opens nothing.
    if any(token.text.startswith("marking pr") for token in words):
        return Commands((*v.PULL_REQUEST, *v.READY_PULL_REQUEST)) if len(words) == 1 else None
    found = read_actions(tokens, "deny", scope)
    if len(found) != 1 or not isinstance(found[0], Commands) or found[0].branches:
        return None
    return found[0] if _WAITING.issuperset(found[0].patterns) else None
