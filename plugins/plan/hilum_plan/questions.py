"""Questions to the user, their answers, and the default if nobody answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum.events import Event, PluginEvent
from msgspec import Meta

from hilum_plan.changes import to_one_line

ASKED = "plan.question_asked"
ANSWERED = "plan.question_answered"
# Limits the length of an answer, because the model receives all of it as the result of its call.
MAX_ANSWER = 10_000
MAX_QUESTION = 4_000
MAX_OPTION = 300
MAX_OPTIONS = 10
QuestionText = Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION)]
_Option = Annotated[str, Meta(min_length=1, max_length=MAX_OPTION)]
Options = Annotated[tuple[_Option, ...], Meta(max_length=MAX_OPTIONS)]
_REASONS = {"headless": "Nobody can be asked.", "stop": "The user leaves it to you."}
_SHOWN = (
    "The user can read the question in the conversation, but can answer only in the next prompt. If"
    " the work depends on the answer, end your turn with the question; otherwise decide yourself,"
    " and say in your final answer what you decided."
)
Data = TypeVar("Data")


class Question(msgspec.Struct, frozen=True):
    """An open question from an agent.

    Attributes:
        id: Id of the question.
        agent: The agent that asks.
        call: Id of the tool call that asks the question.
        question: The question.
        options: Answers to choose from, the recommended one first. The user may also give another
            answer.
        multiple: Whether several options may be chosen.
        deadline: Unix time at which the agent decides if there is no answer.
    """

    id: str
    agent: str
    call: str
    question: str
    options: tuple[str, ...] = ()
    multiple: bool = False
    deadline: float = 0.0

    @property
    def default(self) -> str:
        """The option that applies if nobody answers; empty if the agent decides."""
        return self.options[0] if self.options else ""


class Answer(msgspec.Struct, frozen=True):
    """The end of a question.

    Attributes:
        id: Id of the question.
        call: Id of the tool call that asked.
        answers: The answers; empty if there are none.
        by: The cause of the end: ``user``, ``timeout``, ``headless``, ``shown`` or ``stop``.
    """

    id: str
    call: str
    answers: tuple[str, ...] = ()
    by: str = "user"


def question_asked(event: Event) -> Question | None:
    """Return the question in an event, or ``None`` for any other event."""
    return _read_data(event, ASKED, Question)


def question_settled(event: Event) -> Answer | None:
    """Return the answer in an event that ends a question, or ``None`` for any other event."""
    return _read_data(event, ANSWERED, Answer)


def _read_data(event: Event, name: str, kind: type[Data]) -> Data | None:
    if not isinstance(event, PluginEvent) or event.name != name:
        return None
    try:
        return msgspec.convert(event.data, kind)
    except msgspec.ValidationError:  # any plugin may write an event with this name
        return None


def clean_options(options: Sequence[str]) -> tuple[str, ...]:
    """Return options as single lines, without empty and duplicate ones."""
    return tuple(dict.fromkeys(filter(None, map(to_one_line, options))))


def check_answers(question: Question, answers: str | Sequence[str]) -> tuple[str, ...]:
    """Return answers in the form that the agent receives.

    Args:
        question: The question.
        answers: Options, or answers in the user's own words; if there are none, the agent decides.

    Raises:
        UsageError: There are several answers to a question that accepts one, or they are too long.
    """
    texts = [answers] if isinstance(answers, str) else answers
    # Input from a terminal may contain bytes that are not valid text, and the log can store only
    # text.
    readable = (text.encode(errors="replace").decode().strip() for text in texts)
    given = tuple(dict.fromkeys(filter(None, readable)))
    if len(given) > 1 and not question.multiple:
        raise UsageError(
            "The question accepts only one answer.", code=E_BAD_ARGS, hint="Choose one."
        )
    if sum(map(len, given)) > MAX_ANSWER:
        raise UsageError(
            f"The answer is longer than {MAX_ANSWER} characters.",
            code=E_BAD_ARGS,
            hint="Shorten it.",
        )
    return given


def describe_answer(question: Question, answer: Answer, timeout: float) -> str:
    """Return the end of a question as text for the agent.

    Args:
        question: The question.
        answer: Its end.
        timeout: Time limit for the answer, in seconds.
    """
    if answer.answers:
        return _describe_choice(question, answer)
    if answer.by == "shown":
        return _SHOWN
    reason = _REASONS.get(answer.by, "The user leaves it to you.")
    if answer.by == "timeout":
        reason = f"Nobody answered within {timeout:g} seconds."
    if question.default:
        return (
            f"{reason} Continue with the first option, {question.default!r}, and say in your final"
            " answer that you did."
        )
    return f"{reason} Decide yourself, and say in your final answer what you decided."


def _describe_choice(question: Question, answer: Answer) -> str:
    chosen = [f"- {text}" for text in answer.answers if text in question.options]
    others = [text for text in answer.answers if text not in question.options]
    lines = []
    if chosen:
        lines += ["The user chose:", *chosen]
    if others:
        lines += ["The user answered:", *others]
    return "\n".join(lines)
