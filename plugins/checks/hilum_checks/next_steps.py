"""Find the next step that a denial names: what the model should do instead of the call."""

from __future__ import annotations

import re
from typing import Any

from hilum_checks.command_facts import CommandFacts
from hilum_checks.model import (
    READS,
    WRITES,
    ChangedTogether,
    CommandBefore,
    Commands,
    Constraint,
    Content,
    Hosts,
    Messages,
    Names,
    Paths,
    ReadFirst,
    RunFirst,
    Tools,
)

_NEXT_STEPS: dict[type[Any], str] = {
    Tools: "Do without this tool.",
    Hosts: "Do without this host; if it is needed, tell the user.",
    Names: "Give the file another name.",
    Messages: "Write another text.",
    ReadFirst: "Read that file first; then this call is allowed.",
    ChangedTogether: "Make the change that belongs to it first.",
    CommandBefore: "Run the required command first until it succeeds: as a call of its own, or with `&&` before"
    " this one, with nothing between them that writes files.",
    RunFirst: "Run the required command first, as a call of its own; then this call is allowed.",
}
# Rules that say what to use instead: "use `a`, not `b`", "do not use `b`; use `a` instead".
_NAMES_ANOTHER = re.compile(
    r"\binstead\b|\brather than\b|\b(?:use|run|prefer)s? `[^`]+`,? (?:and )?(?:not|never|over)\b"
    r"|[,;.:] (?:always )?(?:use|run|prefer) `|\bstatt\b|改用|而不是|而非",
    re.IGNORECASE,
)


MAX_SHOWN = 80
"""Maximum number of characters of a command to show."""


def find_next_step(
    constraint: Constraint,
    action: str,
    sentence: str,
    covered: tuple[CommandFacts, str] | None = None,
) -> str:
    """Return what the model should do after a denial.

    Args:
        constraint: What the rule forbids.
        action: What the call does, as the denial describes it.
        sentence: The text of the rule.
        covered: A required command that ran, and what hid whether it succeeded.
    """
    if covered is not None:
        command, cover = covered
        return (
            f"`{command.shown[:MAX_SHOWN]}` ran, but `{cover}` hid whether it succeeded. Run it again until it"
            " succeeds: as a call of its own, or with `&&` before this one, with nothing between them"
            " that writes files."
        )
    if isinstance(constraint, Messages) and constraint.kind == "commit message":
        return "Commit with another message."
    if isinstance(constraint, Content):
        return _find_other_text(constraint)
    if isinstance(constraint, Paths):
        return _find_other_access(constraint, action)
    if isinstance(constraint, Commands):
        return _find_other_command(constraint, action, sentence)
    return _NEXT_STEPS[type(constraint)]


def _find_other_text(constraint: Content) -> str:
    if constraint.wanted:
        return "Write the file with this text."
    if limits_lines(constraint):
        return "Split the file into shorter ones."
    return "Write the file without this text."


def limits_lines(constraint: Content) -> bool:
    """Return whether a constraint limits how many lines a file has."""
    return _MANY_LINES.fullmatch(constraint.expression) is not None


def measures_lines(constraint: Content) -> bool:
    """Return whether a constraint limits how long or how many the lines of a file are."""
    return limits_lines(constraint) or _LONG_LINES.fullmatch(constraint.expression) is not None


_LONG_LINES = re.compile(r"\(\?m:\^\[\^\\n\]\{\d+,\}\)")
_MANY_LINES = re.compile(r"\(\?s:\\A\(\?:\[\^\\n\]\*\\n\)\{\d+\}\[\^\\n\]\)")


def _find_other_access(constraint: Paths, action: str) -> str:
    is_read = action.startswith("it reads") or constraint.actions == READS
    if is_read and "read" in constraint.actions:
        return "Do without what those files contain; if it is needed, ask the user."
    if constraint.actions & WRITES == {"create"}:
        return "Do without the new file; if it is needed, ask the user."
    return "Leave those files unchanged, or tell the user what should be changed in them."


def _find_other_command(constraint: Commands, action: str, sentence: str) -> str:
    if constraint.new_branches:
        return "Give the branch a name as the rule says."
    if constraint.skips_hooks or constraint.patterns[0][-1] == "--no-verify":
        return "Run the command without the option that skips the hooks."
    bases = [words[-1] for words in constraint.unless if words[-2:-1] == ("--base",)]
    if bases:
        option = "--target-branch" if "`glab " in action else "--base"
        return f"Run the command with `{option} {bases[0]}`."
    option = _find_missing_option(constraint, sentence)
    if option:
        return f"Run the command with `{option}`."
    if _NAMES_ANOTHER.search(sentence):
        return "Use what the rule names instead."
    if constraint.unless:
        return "Use a form that the rule allows; if there is none, ask the user to run the command."
    return "Do without this command; if it is needed, ask the user to run it."


def _find_missing_option(constraint: Commands, sentence: str) -> str:
    """Return the option that a rule demands, and that all allowed forms of the command have."""
    options = []
    for words in constraint.unless:
        added = [
            words[len(pattern) :]
            for pattern in constraint.patterns
            if words[: len(pattern)] == pattern
        ]
        if not added or len(added[0]) != 1 or not added[0][0].startswith("-"):
            return ""
        options.append(added[0][0])
    # "Never change the Git configuration" allows `--get`, but does not demand it.
    option = options[0] if options else ""
    named = option.lstrip("-")[:5]
    return option if len(named) > 1 and named in sentence.lower() else ""
