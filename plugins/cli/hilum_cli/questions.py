"""Shows an agent's question on the terminal and reads the answer.

The answer is an option's number or any text.
"""

from __future__ import annotations

import re

from hilum import Session, UsageError, UserQuestions
from hilum.errors import E_BAD_ARGS
from hilum_view import Question

from hilum_cli.terminal import escape_terminal, line, wrap


def describe(asked: Question, left: str, width: int = 0) -> str:
    """Format the question with its options and the possible input.

    Args:
        asked: The question.
        left: Description of the remaining time for the answer.
        width: Maximum line width in columns, 0 for no limit.
    """
    fit = (
        (lambda text, indent="": wrap(text, width, indent))
        if width
        else (lambda text, indent="": indent + text)
    )
    who = "The agent" if asked.agent == "main" else f"The agent {line(asked.agent, 60)}"
    who = who if asked.call_id else "hilum"  # a question that does not come from an agent's call
    rows = [
        f"\n── {who} asks:",
        *(fit(part, "   ") for part in escape_terminal(asked.question).split("\n")),
    ]
    rows += [
        fit(f"{number}. {escape_terminal(option)}", "   ")
        for number, option in enumerate(asked.options, 1)
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
    """Parse the user's input: option numbers or text; empty input selects the first option.

    Raises:
        UsageError: The input is a number that does not match an option.
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
    """Pass the user's answer to the session.

    Raises:
        UsageError: The input is not a valid answer; ask again.
    """
    answers = read(asked, typed)
    questions = session.plugin(UserQuestions)
    if questions is not None and questions.is_open(asked.id):  # otherwise it has just expired
        questions.answer(asked.id, answers)
