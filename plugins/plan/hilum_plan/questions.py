"""Questions to the user: what is asked, what an answer may be, and what holds where nobody
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum.events import Event, PluginEvent
from msgspec import Meta

from hilum_plan.changes import one_line

ASKED = "plan.question_asked"
ANSWERED = "plan.question_answered"
LONGEST_ANSWER = 10_000
Asking = Annotated[str, Meta(min_length=1, max_length=4_000)]
Options = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=300)], ...], Meta(max_length=10)
]


class Question(msgspec.Struct, frozen=True):
    """A question of an agent's that is open.

    Attributes:
        id: What it is answered by.
        agent: The agent that asks.
        call: Id of its tool call.
        question: The question.
        options: Answers to choose from, the recommended one first; the user may answer otherwise.
        multiple: Whether several may be chosen.
        deadline: Unix time at which the agent decides by itself.
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
        """The option that holds where nobody answers, empty where the agent decides by itself."""
        return self.options[0] if self.options else ""


class Answer(msgspec.Struct, frozen=True):
    """How a question ended: ``by`` is ``user``, ``timeout``, ``headless`` or ``stop``.

    Without ``answers`` it has none.
    """

    id: str
    call: str
    answers: tuple[str, ...] = ()
    by: str = "user"


def question_asked(event: Event) -> Question | None:
    """Return the question that an event asks, ``None`` for any other event."""
    if not isinstance(event, PluginEvent) or event.name != ASKED:
        return None
    try:
        return msgspec.convert(event.data, Question)
    except msgspec.ValidationError:
        return None


def question_settled(event: Event) -> Answer | None:
    """Return how a question ended, where an event tells it; ``None`` for any other event."""
    if not isinstance(event, PluginEvent) or event.name != ANSWERED:
        return None
    try:
        return msgspec.convert(event.data, Answer)
    except msgspec.ValidationError:
        return None


def cleaned(options: Sequence[str]) -> tuple[str, ...]:
    """Make each option one line, and leave out what is empty or stands twice."""
    return tuple(dict.fromkeys(filter(None, map(one_line, options))))


def checked(question: Question, answers: str | Sequence[str]) -> tuple[str, ...]:
    """Return an answer as it goes to the agent.

    Args:
        question: What was asked.
        answers: Options or texts of the user's own; none lets the agent decide.

    Raises:
        UsageError: There are several where one is asked for, or they are too long.
    """
    texts = [answers] if isinstance(answers, str) else answers
    # A terminal may give bytes that are no text; the log holds text only.
    readable = (text.encode(errors="replace").decode().strip() for text in texts)
    given = list(dict.fromkeys(filter(None, readable)))
    if len(given) > 1 and not question.multiple:
        raise UsageError("The question takes one answer.", code=E_BAD_ARGS, hint="Choose one.")
    if sum(map(len, given)) > LONGEST_ANSWER:
        raise UsageError(
            f"The answer is longer than {LONGEST_ANSWER} characters.",
            code=E_BAD_ARGS,
            hint="Be brief.",
        )
    return tuple(given)


def told(question: Question, answer: Answer, limit: float) -> str:
    """Say to the agent how its question ended.

    Args:
        question: The question.
        answer: How it ended.
        limit: Seconds it could be answered in.
    """
    if answer.answers:
        chosen = [f"- {text}" for text in answer.answers if text in question.options]
        own = [text for text in answer.answers if text not in question.options]
        parts = ["The user chose:", *chosen] if chosen else []
        return "\n".join([*parts, *(["The user answered:", *own] if own else [])])
    why = {
        "headless": "Nobody is there to ask.",
        "timeout": f"Nobody answered within {limit:g} seconds.",
    }.get(answer.by, "The user leaves it to you.")
    if question.default:
        return (
            f"{why} Go on with the first option, {question.default!r}, and say in your final answer"
            " that you did."
        )
    return f"{why} Decide by yourself, and say in your final answer what you decided."
