"""Compile sentences into checks.

A sentence that is not fully understood remains advice: denying the wrong call is worse than having
no check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath

import attrs

from hilum_checks import WORKSPACE
from hilum_checks.model import (
    NOT_A_CONSTRAINT,
    Check,
    Commands,
    Compiled,
    Constraint,
    Effect,
    Words,
)

MAX_LENGTH = 2_000


@cache
def _constraint_words() -> re.Pattern[str]:
    """Return a pattern that matches a word in every constraint but in few other sentences."""
    return re.compile(
        r"\b(?:not|never|don['’]t|cannot|can['’]t|mustn['’]t|no|before|ask|requires?|needs?"
        r"|forbidden|prohibited|read[- ]only|off[- ]limits|immutable|frozen|only|keep|limit|end"
        r"|begin|start|prior to|untouched|wait|sign(?:ed|off)?|pass|subjects?|without"
        r"|unless|must|instead|rather|conventional|always|banned|disallowed|exclusively"
        r"|commits?|first|after|when|whenever|every time|each time|branch\w*|names?|named|titles?|drafts?"
        r"|max(?:imum)?|lines?|length"
        r"|within|use|all|read|should (?:\w+ )?be (?:re-?)?generated"
        r"|prefix(?:es)?|english|feat)\b|中文|英文|❌|🚫|✗|不|禁|勿|别|前|须|需|只|仅|控制|限制|必须|未经|格式|[\u0400-\u04ff\uac00-\ud7a3\u3040-\u30ff]"
        r"|\b(?:n(?:unca|iemals|ie|icht|ão)|vor (?:dem|jedem|einem))\b"
        r"|\bkein|\b(?:statt|verboten|untersagt)\b|\bsin\b|\bjamais\b|\bpas\b|后|分支|使用|命名|先|阅读",
        re.IGNORECASE,
    )


def compile_rule(sentence: str, *, hard: bool, folder: PurePosixPath = WORKSPACE) -> Compiled:
    """Compile a sentence into a check if hilum understands all of it.

    Args:
        sentence: The rule's original text, on one line.
        hard: Whether the sentence is in a section of hard constraints. Elsewhere, a rule becomes a
            check only if its own wording is strict.
        folder: The folder that the rules file governs, relative to the workspace.
    """
    if len(sentence) > MAX_LENGTH or not _constraint_words().search(sentence):
        return NOT_A_CONSTRAINT
    # The forms are imported for the first sentence that may be a constraint, because most
    # projects have none.
    from hilum_checks.combining import compile_sentence

    compiled = compile_sentence(sentence, hard=hard, folder=folder)
    compiled = _allow_pull(sentence, _allow_gmake(sentence, compiled))
    return _add_script_spellings(sentence, compiled)


def _add_script_spellings(sentence: str, compiled: Compiled) -> Compiled:
    """Return a rule about `python manage.py migrate` so that it means the script, however it is run.

    A rule that names the script in a second way may recommend it.
    """
    if ".py" not in sentence or compiled.check is None:
        return compiled
    parts: list[tuple[Effect, Constraint]] = []
    for effect, constraint in compiled.check.parts:
        if isinstance(constraint, Commands) and not constraint.unless:
            scripts = [
                words[1:]
                for words in constraint.patterns
                if words[0] in ("python", "python3") and words[1:] and words[1].endswith(".py")
            ]
            others = [words for words in scripts if not _names_otherwise(words, sentence)]
            if others:
                patterns = dict.fromkeys((*constraint.patterns, *others))
                constraint = attrs.evolve(constraint, patterns=tuple(patterns))
        parts.append((effect, constraint))
    return attrs.evolve(compiled, check=Check(tuple(parts)))


def _names_otherwise(script: tuple[str, ...], sentence: str) -> bool:
    """Return whether a sentence names a script's command with different programs before it."""
    command = " ".join(script)
    named = re.findall(rf"`([^`]*?){re.escape(command)}\b", sentence)
    return len(set(named)) > 1 or not {"python ", "python3 "}.issuperset(named)


def _allow_gmake(sentence: str, compiled: Compiled) -> Compiled:
    """Return a rule that says to use `gmake` instead of `make` so that it allows `gmake`.

    A rule about `make` also means the other names of the same program.
    """
    if "gmake" not in sentence or compiled.check is None:
        return compiled
    parts: list[tuple[Effect, Constraint]] = []
    for effect, constraint in compiled.check.parts:
        if isinstance(constraint, Commands) and all(
            words[0] == "make" for words in constraint.patterns
        ):
            constraint = attrs.evolve(constraint, unless=(*constraint.unless, ("gmake",)))
        parts.append((effect, constraint))
    return attrs.evolve(compiled, check=Check(tuple(parts)))


_PULLS: tuple[Words, ...] = (("git", "pull", "--rebase"), ("git", "pull", "-r"))


def _allow_pull(sentence: str, compiled: Compiled) -> Compiled:
    """Return a rule against `git rebase` so that it allows the `git pull --rebase` that it names."""
    if "git pull --rebase" not in sentence or compiled.check is None:
        return compiled
    parts: list[tuple[Effect, Constraint]] = []
    for effect, constraint in compiled.check.parts:
        if isinstance(constraint, Commands) and ("git", "rebase") in constraint.patterns:
            allowed = [words for words in _PULLS if words not in constraint.patterns]
            constraint = attrs.evolve(constraint, unless=(*constraint.unless, *allowed))
        parts.append((effect, constraint))
    return attrs.evolve(compiled, check=Check(tuple(parts)))


def compile_lines(
    texts: Sequence[str], *, folder: PurePosixPath = WORKSPACE
) -> tuple[Compiled, list[tuple[int, str]]]:
    """Compile the ``enforce:`` lines of a rule into one check.

    Args:
        texts: The text after ``enforce:``, line by line.
        folder: The folder that the rules file governs, relative to the workspace.

    Returns:
        The check, and each malformed line's index and mistake.
    """
    from hilum_checks.enforce_lines import compile_line

    compiled = [compile_line(text, folder) for text in texts]
    problems = [(index, each.problem) for index, each in enumerate(compiled) if each.problem]
    reason = "; ".join(each.why for each in compiled)
    checks = [each.check for each in compiled if each.check is not None]
    parts = tuple(part for check in checks for part in check.parts)
    first_problem = problems[0][1] if problems else ""
    return Compiled(Check(parts) if parts else None, reason, first_problem), problems
