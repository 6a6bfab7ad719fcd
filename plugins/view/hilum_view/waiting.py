"""Tracks the calls and questions that are waiting for the user."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hilum import events as ev
from hilum.messages import ToolCall

from hilum_view.plan import QUESTION_ANSWERED, QUESTION_ASKED


class Approval(msgspec.Struct, tag_field="kind", tag="approval", kw_only=True):
    """A call that awaits the user's decision.

    Attributes:
        id: The id to pass to ``Session.answer``.
        agent: The agent that made the call.
        call: The call that will run if approved.
        risk: The permission category of the tool.
        reason: Why the call needs approval.
        scope: The calls that a lasting approval would cover; empty for all calls of the tool.
        seconds: Time limit for the answer in seconds, starting when the question is shown.
        deadline: Unix time at which the call is denied; 0 before the question is shown.
        seq: Number of the event that asked for the approval.
        once_only: Whether no lasting approval can be given.
    """

    id: str
    agent: str
    call: ToolCall
    risk: str = ""
    reason: str = ""
    scope: str = ""
    seconds: float = 0.0
    deadline: float = 0.0
    seq: int = 0
    once_only: bool = False

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self.call.id

    @property
    def question(self) -> ev.ApprovalAsked:
        """The event that asked for the approval, as the texts of approvals need it."""
        return ev.ApprovalAsked(
            id=self.id,
            call=self.call,
            risk=self.risk,
            reason=self.reason,
            scope=self.scope,
            seconds=self.seconds,
            agent=self.agent,
            once_only=self.once_only,
        )


class Question(msgspec.Struct, tag_field="kind", tag="question", kw_only=True):
    """A question from an agent to the user.

    Attributes:
        id: Id of the question, which the answer must contain.
        agent: The agent that asks.
        call_id: Id of the agent's call; empty if the question does not come from a call.
        question: The question.
        options: Answers to choose from, the recommended one first.
        multiple: Whether the user can choose several answers.
        deadline: Unix time at which the agent decides without an answer.
        seq: Number of the event that asked the question.
    """

    id: str
    agent: str
    call_id: str = msgspec.field(default="", name="call")
    question: str = ""
    options: tuple[str, ...] = ()
    multiple: bool = False
    deadline: float = 0.0
    seq: int = 0


class QuestionEnd(msgspec.Struct, frozen=True):
    """The end of a question.

    Attributes:
        id: Id of the question.
        by: What ended the question: ``user``, ``timeout``, ``headless``, ``shown`` or ``stop``.
    """

    id: str
    by: str = "user"


def read_question(event: ev.Event) -> Question | None:
    """Return the question in an event, or None for any other event."""
    if not isinstance(event, ev.PluginEvent) or event.name != QUESTION_ASKED:
        return None
    try:
        data = {"kind": "question", **event.data, "seq": event.seq}
        return msgspec.convert(data, Question)
    except msgspec.ValidationError:  # any plugin can write an event with this name
        return None


def read_question_end(event: ev.Event) -> QuestionEnd | None:
    """Return the end of a question reported by an event, or None for any other event."""
    if not isinstance(event, ev.PluginEvent) or event.name != QUESTION_ANSWERED:
        return None
    try:
        return msgspec.convert(event.data, QuestionEnd)
    except msgspec.ValidationError:  # any plugin can write an event with this name
        return None


class Waiting:
    """Open approvals and questions, oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, Approval | Question] = {}

    def __iter__(self) -> Iterator[Approval | Question]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, event: ev.ApprovalAsked) -> None:
        """Add an approval."""
        # A resumed session asks about an open call again, with a different id.
        self.end_call(event.agent, event.call.id)
        self._open[event.id] = Approval(
            id=event.id,
            agent=event.agent,
            call=event.call,
            risk=event.risk,
            reason=event.reason,
            scope=event.scope,
            seconds=event.seconds,
            seq=event.seq,
            once_only=event.once_only,
        )

    def show(self, event: ev.ApprovalShown) -> bool:
        """Set the deadline of an approval, and return whether it is open."""
        approval = self._open.get(event.id)
        if not isinstance(approval, Approval):
            return False
        approval.deadline = event.deadline
        return True

    def answer(self, identity: str) -> Approval | Question | None:
        """Remove an answered approval or question, and return it."""
        return self._open.pop(identity, None)

    def apply(self, event: ev.PluginEvent) -> bool:
        """Apply an event of the ``plan`` plugin, and return whether it changed anything."""
        question = read_question(event)
        if question is not None:
            self._open[question.id] = question
            return True
        end = read_question_end(event)
        return end is not None and self.answer(end.id) is not None

    def end_call(self, agent: str, call_id: str) -> bool:
        """Remove a call's approvals and questions, and return whether there were any."""
        own = [each for each in self if each.agent == agent]
        return self._remove([each.id for each in own if each.call_id == call_id])

    def end_run(self, agent: str) -> bool:
        """Remove the approvals and questions of an agent's calls; return whether any existed."""
        own = [each for each in self if each.agent == agent]
        # A question that does not come from a call is not part of the run, so it stays open.
        return self._remove([each.id for each in own if each.call_id])

    def _remove(self, found: list[str]) -> bool:
        for identity in found:
            del self._open[identity]
        return bool(found)
