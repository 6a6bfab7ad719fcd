"""The services of a joined session, which the owner's plugins carry out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hilum.agents import Agent
from hilum.errors import E_BUSY, UsageError
from hilum.runs import Run
from hilum.services import (
    Confinement,
    OpenItem,
    PlanProposal,
    Plans,
    UserAnswer,
    UserQuestions,
)
from hilum.sharing.messages import AcceptPlan, AnswerQuestion, RejectPlan

if TYPE_CHECKING:
    from hilum.sharing.joined_session import JoinedSession


class JoinedQuestions:
    """The questions to the user. Implements ``UserQuestions``."""

    def __init__(self, session: JoinedSession) -> None:
        self._session = session

    async def ask(
        self,
        agent: Agent,
        call: str,
        question: str,
        options: Sequence[str] = (),
        *,
        multiple: bool = False,
    ) -> UserAnswer:
        """Refuse to ask, because no agent works here.

        Raises:
            UsageError: Always.
        """
        message = "Questions are asked in the terminal that has the session open."
        raise UsageError(message, code=E_BUSY)

    def is_open(self, question: str) -> bool:
        """Return true: only the owner knows, and refuses an answer that is too late."""
        return True

    def answer(self, question: str, answers: str | Sequence[str] = (), *, by: str = "user") -> None:
        """Answer a question. The first answer wins. A terminal can always ask its user."""
        texts = (answers,) if isinstance(answers, str) else tuple(answers)
        session = self._session
        session.send(AnswerQuestion(question, texts), partial(session.on_refused, question))


class JoinedProposal(msgspec.Struct, frozen=True):
    """A plan that waits for the user's decision. Implements ``PlanProposal``."""

    run: str
    text: str


class JoinedPlans:
    """The plans that wait for the user's decision. Implements ``Plans``.

    Faces find proposals and todo lists in their view of the events.
    """

    def __init__(self, session: JoinedSession) -> None:
        self._session = session

    def proposal(self, agent: str = "main") -> PlanProposal | None:
        """Return ``None``: faces know the text of the plan."""
        return None

    def progress(self, agent: str = "main") -> Mapping[str, int]:
        """Return nothing: faces count the items in their view."""
        return {}

    def left_over(self, agent: str = "main") -> Sequence[OpenItem]:
        """Return nothing: faces find the items in their view."""
        return ()

    async def accept(self, text: str | None = None, *, agent: str = "main") -> Run:
        """Accept the proposed plan, and start the run that carries it out."""
        reply = await self._session.request(AcceptPlan(text, agent))
        return self._session.find_run(reply.result, agent)

    async def reject(self, reason: str = "", *, agent: str = "main") -> Run | None:
        """Reject the proposed plan."""
        reply = await self._session.request(RejectPlan(reason, agent))
        return self._session.find_run(reply.result, agent) if reply.result else None


class JoinedConfinement:
    """The sandbox of the owner's commands. Implements ``Confinement``."""

    def __init__(self, session: JoinedSession) -> None:
        self._session = session

    def describe_confinement(self) -> str:
        """Return the kind of sandbox that commands run in; empty if there is none."""
        return self._session.confinement

    def explain_refusal(self, output: str) -> str:
        """Return nothing: no command of the user runs here."""
        return ""


if TYPE_CHECKING:

    def _conforms(session: JoinedSession) -> tuple[UserQuestions, Plans, Confinement]:
        return JoinedQuestions(session), JoinedPlans(session), JoinedConfinement(session)
