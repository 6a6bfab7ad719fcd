"""The choices of the prompt that asks the user about waiting items, and their keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import attrs

from hilum_terminal.approval_items import WaitingCall, WaitingQuestion
from hilum_terminal.approval_rules import (
    describe_covered,
    find_lasting_problem,
    find_rule_problem,
)
from hilum_terminal.text_width import cut, one_line

MAX_COVERED = 60
"""Maximum width, in columns, of the text in a choice that says what a lasting approval covers."""

# What the prompt shows: the choices, a second step, or a text field.
Step = Literal["choose", "all", "session", "always", "reason", "comment", "own"]
CONFIRM_STEPS = ("all", "session", "always")
# The choices that allow more than the shown call.
LASTING_OPTIONS = ("all", "session", "always")
# The choices whose letters only select them if the prompt took the focus without a key press.
SELECTED_OPTIONS = (*LASTING_OPTIONS, "comment")
FIELD_STEPS = ("reason", "comment", "own")


@attrs.frozen
class Option:
    """A choice.

    Attributes:
        key: The key that chooses it; empty for none.
        name: Its name in the code.
        label: The text that the user sees.
        short: The text in a window that has no room for the label.
    """

    key: str
    name: str
    label: str
    short: str = ""


PLAN_OPTIONS = [
    Option("y", "accept", "carry it out", "yes"),
    Option("e", "edit", "edit first", "edit"),
    Option("n", "no", "no, with a reason", "no"),
    Option("l", "later", "decide later", "later"),
    Option("v", "view", "show whole", "whole"),
    Option("w", "full", "full screen", "full"),
]


def confirm_options(step: Step, listed: int) -> list[Option]:
    """Return the choices of a second step.

    Args:
        step: The step.
        listed: Number of calls that "all" would allow.
    """
    labels = {
        "always": "yes, store this rule",
        "session": "yes, for this session",
        "all": f"yes, allow these {listed} calls",
    }
    return [
        Option("n", "back", "no, back", "no"),
        Option("y", "confirm", labels[step], "yes"),
        Option("v", "view", "show whole", "whole"),
        Option("w", "full", "full screen", "full"),
    ]


def call_options(item: WaitingCall, *, batch: int, also: int) -> list[Option]:
    """Return the choices for a call.

    Args:
        item: The call.
        batch: Number of calls that can be allowed together with this one, including this one.
        also: Number of other waiting calls that a lasting approval would cover.
    """
    options = [Option("y", "once", "yes, once", "yes")]
    is_lasting = not find_lasting_problem(item)
    if is_lasting and batch > 1:
        options.append(Option("a", "all", f"all {batch} of this response…", "all"))
    if is_lasting:
        label = f"{cut(describe_covered(item), MAX_COVERED)} for this session"
        if also:
            label += f" (also {also} waiting)"
        options.append(Option("s", "session", label, "session"))
    if not find_rule_problem(item):
        options.append(Option("f", "always", "forever…", "forever"))
    options.append(Option("e", "edit", "edit first", "edit"))
    options.append(Option("n", "no", "no, with a reason", "no"))
    options.append(Option("c", "comment", "yes, with a comment", "comment"))
    options.append(Option("v", "view", "show whole", "whole"))
    options.append(Option("w", "full", "full screen", "full"))
    return options


def question_options(item: WaitingQuestion, checked: Collection[int]) -> list[Option]:
    """Return the choices for an agent's question.

    Args:
        item: The question.
        checked: The indexes of the answers that the user has checked.
    """
    options = []
    for index, text in enumerate(item.options):
        label = one_line(text)
        if item.multiple:
            label = f"{'[x]' if index in checked else '[ ]'} {label}"
        key = str(index + 1) if index < 9 else ""
        for letter, word in (("y", "yes"), ("n", "no")):
            if text == item.find_option(word):
                key = letter
        options.append(Option(key, f"option {index}", label))
    options.append(Option("o", "own", "own answer", "own"))
    if item.is_decision:
        options.append(Option("l", "leave", "no answer", "none"))
    else:
        options.append(Option("l", "leave", "the agent decides", "agent"))
    options.append(Option("v", "view", "show whole", "whole"))
    options.append(Option("w", "full", "full screen", "full"))
    return options
