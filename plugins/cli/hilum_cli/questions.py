"""A question of an agent's on the terminal: how it is shown, and how what the user types is
read.
"""

from __future__ import annotations

import re

from hilum import Session, UsageError
from hilum.errors import E_BAD_ARGS
from hilum_plan import Plan, Question

from hilum_cli.terminal import line, neutral, wrap


def describe(asked: Question, left: str, width: int = 0) -> str:
    """Write the question with its options, and what can be typed.

    Args:
        asked: The question.
        left: How long it can be answered, in words.
        width: Columns after which lines are broken, 0 for never.
    """
    fit = (
        (lambda text, indent="": wrap(text, width, indent))
        if width
        else (lambda text, indent="": indent + text)
    )
    who = "The agent" if asked.agent == "main" else f"The agent {line(asked.agent, 60)}"
    who = who if asked.call else "hilum"  # what no call of the agent's has brought up
    rows = [
        f"\n── {who} asks:",
        *(fit(part, "   ") for part in neutral(asked.question).split("\n")),
    ]
    rows += [
        fit(f"{number}. {neutral(option)}", "   ") for number, option in enumerate(asked.options, 1)
    ]
    if asked.options:
        several = "one or more numbers (1,2)" if asked.multiple else "a number"
        rows.append(
            fit(
                f"Type {several}, or an answer of your own. Enter, or no answer in {left}, takes 1."
            )
        )
    else:
        rows.append(fit(f"Type an answer. Enter, or no answer in {left}, leaves it to the agent."))
    return "\n".join(rows)


def read(asked: Question, typed: str) -> tuple[str, ...]:
    """Read what the user typed: numbers of options, or a text; nothing gives the first option.

    Raises:
        UsageError: It is a number that no option has.
    """
    typed = typed.strip()
    if typed in ("", "\x04"):  # the input was closed
        return asked.options[:1] if not typed else ()
    if not asked.options or not re.fullmatch(r"\d{1,3}([\s,;]+\d{1,3})*[\s,;]*", typed):
        return (typed,)
    numbers = [int(number) for number in re.findall(r"\d+", typed)]
    if not all(1 <= number <= len(asked.options) for number in numbers):
        raise UsageError(f"Please choose from 1 to {len(asked.options)}.", code=E_BAD_ARGS)
    return tuple(asked.options[number - 1] for number in numbers)


def give(session: Session, asked: Question, typed: str) -> None:
    """Give the session what the user typed.

    Raises:
        UsageError: It cannot be the answer; ask again.
    """
    answers = read(asked, typed)
    plan = session.half(Plan)
    if plan is not None and any(
        question.id == asked.id for question in plan.questions()
    ):  # else it has just run out
        plan.answer(asked.id, answers)
