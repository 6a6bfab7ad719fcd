"""Formats an agent's question for the terminal, and parses the user's answer.

The answer is the number of an option, or any text.
"""

from __future__ import annotations

import re

from hilum import Session, UsageError, UserQuestions
from hilum.errors import E_BAD_ARGS
from hilum_view import Question

from hilum_cli.terminal import escape_terminal, line, wrap


def describe(asked: Question, left: str, width: int) -> str:
    """Format the question with its options and a line that says what to type.

    Args:
        asked: The question.
        left: Description of the remaining time for the answer.
        width: Maximum line width in columns.
    """
    rows = [f"\n── {_describe_sender(asked)} asks:"]
    rows.append(wrap(escape_terminal(asked.question), width, "   "))
    for number, option in enumerate(asked.options, 1):
        rows.append(wrap(f"{number}. {escape_terminal(option)}", width, "   "))
    if asked.options:
        several = "one or more numbers (1,2)" if asked.multiple else "a number"
        text = f"Type {several}, or an answer of your own. Enter, or no answer in {left}, takes 1."
    else:
        text = f"Type an answer. Enter, or no answer in {left}, leaves it to the agent."
    rows.append(wrap(text, width))
    return "\n".join(rows)


def _describe_sender(asked: Question) -> str:
    # hilum itself asks: the question does not come from an agent's call.
    if not asked.call_id:
        return "hilum"
    if asked.agent == "main":
        return "The agent"
    return f"The agent {line(asked.agent, 60)}"


def read(asked: Question, typed: str) -> tuple[str, ...]:
    """Parse the user's input: option numbers or text; empty input selects the first option.

    Raises:
        UsageError: The input is a number that does not match an option.
    """
    typed = typed.strip()
    if not typed:
        return asked.options[:1]
    if typed == "\x04":  # the input was closed
        return ()
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
    # If the question is not open, it has just expired.
    if questions is not None and questions.is_open(asked.id):
        questions.answer(asked.id, answers)
