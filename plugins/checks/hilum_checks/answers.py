"""Judge final answers, and whether a session may load a file."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from hilum_checks import expressions
from hilum_checks.model import Answers, ChangedTogether, CommandBefore, ExcludedFiles
from hilum_checks.verdicts import EnforcedRule, parts_of, quote_rule

if TYPE_CHECKING:
    from hilum_checks.call_history import CallHistory


def judge_answer(rules: Iterable[EnforcedRule], text: str) -> str | None:
    """Return a message about a rule that a final answer breaks, or ``None`` if it breaks none.

    Args:
        rules: The rules.
        text: The answer.
    """
    for rule, _, constraint in parts_of(rules):
        mistake = _find_mistake(constraint, text) if isinstance(constraint, Answers) else ""
        if mistake:
            assert isinstance(constraint, Answers)
            again = "in this form" if constraint.wanted else "without that"
            return (
                f"{quote_rule(rule)} does not allow this answer: {mistake}. Give the answer again"
                f" {again}."
            )
    return None


def find_due(
    rules: Iterable[EnforcedRule], history: CallHistory, root: Path
) -> list[tuple[EnforcedRule, CommandBefore | ChangedTogether]]:
    """Return what must still be done before a final answer, with the rules that say so. Blocks.

    Args:
        rules: The rules.
        history: The calls of the session.
        root: The root of the workspace.
    """
    parts = list(parts_of(rules))
    required = [each.needed for _, _, each in parts if isinstance(each, CommandBefore)]
    return [
        (rule, constraint)
        for rule, _, constraint in parts
        if isinstance(constraint, CommandBefore | ChangedTogether)
        and constraint.before is None
        and history.is_due(constraint, root, required)
    ]


def describe_due(rule: EnforcedRule, constraint: CommandBefore | ChangedTogether) -> str:
    """Return a message about something that has not been done although files have changed."""
    if isinstance(constraint, ChangedTogether):
        return (
            f"{quote_rule(rule)} wants {constraint.needed} together with this change. Do so, then"
            " give the answer again. If nothing is to be changed there, give the answer again and"
            " say why."
        )
    return (
        f"{quote_rule(rule)} wants {constraint.needed} to succeed after the last change. Run it as"
        " a call of its own, then give the answer again. If it cannot run here, give the answer"
        " again and say so."
    )


def _find_mistake(constraint: Answers, text: str) -> str:
    """Return how an answer breaks a constraint, or an empty string if it does not."""
    text = text.strip()
    if not text:
        return ""
    expression = constraint.expression
    count = expressions.count_matches(expression, text, constraint.most + 1)
    if count is None:
        return (
            f"/{expression}/ takes too long on it, so it cannot be shown not to match; the"
            " user should fix the rule"
        )
    is_broken = count == 0 if constraint.wanted else count > constraint.most
    return f"it is {constraint}" if is_broken else ""


# --- contexts -------------------------------------------------------------------------------------


def check_context(rules: Iterable[EnforcedRule], name_or_path: str, kind: str) -> str:
    """Return why a kind of session must not load an item, or an empty string if it may.

    Args:
        rules: The rules.
        name_or_path: The name of the item to load, or its path relative to the workspace.
        kind: The kind of session.
    """
    wanted = name_or_path.replace("\\", "/").removeprefix("./")
    for rule, _, constraint in parts_of(rules):
        if not isinstance(constraint, ExcludedFiles) or kind not in constraint.kinds:
            continue
        if any(_is_same(name.removeprefix("./"), wanted) for name in constraint.names):
            return f"{quote_rule(rule)} excludes it from {kind} sessions."
    return ""


def _is_same(name: str, wanted: str) -> bool:
    """Return whether a rule's name matches a loaded path as a pattern, folder or file name."""
    if name.casefold() in ("memory.md", "memory") and wanted in ("memory", "long-term memory"):
        return True
    # The file system may be case-insensitive.
    low = wanted.casefold()
    plain = name.casefold().rstrip("/")
    if fnmatchcase(low, plain) or low.startswith(f"{plain}/") or low.endswith(f"/{plain}"):
        return True
    return "/" not in plain and fnmatchcase(low.rpartition("/")[2], plain)
