"""Describes the items that wait for the user, for the prompt that asks about them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial

import attrs
import msgspec
from hilum import ApprovalFacts, Session, find_approval_facts, says_the_same
from hilum_view import Approval, Proposal, Question, SessionView, first_line

from hilum_terminal.approval_items import Item, WaitingCall, WaitingPlan, WaitingQuestion
from hilum_terminal.approval_texts import text_rows
from hilum_terminal.call_descriptions import describe_action
from hilum_terminal.diff_rows import diff_rows
from hilum_terminal.styles import Theme


class WaitingItems:
    """The items that wait for the user in a session.

    A call is described in a thread, because the description requires reading the files that the
    call would change.

    Args:
        session: The session.
        view: The view of the session.
        find_sandbox: Function that returns the kind of sandbox; empty if there is none.
    """

    def __init__(
        self, session: Session, view: SessionView, find_sandbox: Callable[[], str]
    ) -> None:
        self._session = session
        self._view = view
        self._find_sandbox = find_sandbox
        self._described: dict[str, WaitingCall] = {}
        self._edited: dict[str, str] = {}
        # The plan as the user edited it, and the run that proposed it.
        self._plan = ""
        self._plan_run = ""

    async def describe(self) -> None:
        """Describe new calls, and forget the user's edits of calls that no longer wait."""
        waiting = [
            each
            for each in self._view.waiting
            if isinstance(each, Approval) and self._is_alive(each)
        ]
        open_ids = {approval.id for approval in waiting}
        self._edited = {key: text for key, text in self._edited.items() if key in open_ids}
        self._described = {
            identity: call for identity, call in self._described.items() if identity in open_ids
        }
        for approval in waiting:
            edited = self._edited.get(approval.id)
            known = self._described.get(approval.id)
            if known is None or known.arguments != edited:
                self._described[approval.id] = await self._describe(approval, edited)

    async def _describe(self, approval: Approval, edited: str | None) -> WaitingCall:
        """Describe a call as it would run; if this fails, use the raw arguments.

        Args:
            approval: The approval.
            edited: The user's edited arguments, which replace the model's arguments.
        """
        if edited is not None:
            call = msgspec.structs.replace(approval.call, arguments=edited)
            approval = msgspec.structs.replace(approval, call=call)
        facts = await find_approval_facts(approval.question, self._session)
        return attrs.evolve(self._make_call(approval, facts), arguments=edited)

    def edit(self, identity: str, arguments: str) -> None:
        """Store the arguments that the user edited for a call."""
        self._edited[identity] = arguments

    def edit_plan(self, text: str) -> None:
        """Store the plan as edited by the user."""
        proposal = self._find_proposal()
        if proposal is not None:
            self._plan = text
            self._plan_run = proposal.run

    @property
    def plan(self) -> str:
        """The plan as edited by the user; empty for the agent's plan."""
        proposal = self._find_proposal()
        if proposal is None or proposal.run != self._plan_run:
            return ""
        return self._plan

    def items(self, clock_offset: float) -> list[Item]:
        """Return the waiting items, oldest first.

        Args:
            clock_offset: Difference between Unix time and the prompt's clock.
        """
        if self._session.journal.broken is not None:
            # No answer can be written, so nothing waits any more.
            return []
        found: list[Item] = []
        for waiting in self._view.waiting:
            if not self._is_alive(waiting):
                continue
            if isinstance(waiting, Question):
                found.append(self._make_question(waiting, clock_offset))
            elif waiting.id in self._described:
                call = self._described[waiting.id]
                deadline = waiting.deadline - clock_offset if waiting.deadline else 0.0
                found.append(attrs.evolve(call, deadline=deadline))
        proposal = self._find_proposal()
        if proposal is not None:
            edited = self.plan
            text = edited or proposal.text
            found.append(WaitingPlan(id=f"plan {proposal.run}", text=text, edited=bool(edited)))
        return found

    def _find_proposal(self) -> Proposal | None:
        """Return the plan that waits for the user; a queued prompt abandons it."""
        actor = self._view.lead_actor
        return None if actor.queued else actor.proposal

    def _is_alive(self, waiting: Approval | Question) -> bool:
        """Return whether an item can still be answered; if its run was cut off, it cannot."""
        if not waiting.call_id:
            return True
        agent = self._session.agents.get(waiting.agent)
        runs = agent.conversation.pending if agent is not None else []
        return any(run in self._session.runs for run in runs)

    def _make_call(self, approval: Approval, facts: ApprovalFacts) -> WaitingCall:
        text = _without_head(facts.text)
        lines = text.split("\n")
        hunks = [number for number, line in enumerate(lines) if line.startswith("@@ ")]
        # If the description contains no diff, all lines are text.
        first = hunks[0] if hunks else len(lines)

        def make_rows(width: int, theme: Theme, *, context: bool = True) -> list[str]:
            rows = text_rows("\n".join(lines[:first]), width, theme) if first else []
            if hunks:
                diff = "\n".join(lines[first:])
                rows += diff_rows(diff, width=width, theme=theme, header=False, context=context)
            return rows

        sandbox = ""
        if approval.risk == "execute":
            sandbox = self._find_sandbox() or "no sandbox"
        is_said = any(says_the_same(approval.reason, danger.text) for danger in facts.dangers)
        return WaitingCall(
            id=approval.id,
            tool=approval.call.name,
            title=first_line(str(describe_action(approval.call.name, approval.call.arguments))),
            description=text,
            make_rows=make_rows,
            make_brief_rows=partial(make_rows, context=False) if hunks else None,
            folder=str(self._session.workspace.root),
            sandbox=sandbox,
            why="" if is_said else approval.reason,
            dangerous=facts.once_only,
            marks=tuple(danger.text for danger in facts.dangers),
            agent=self._view.name_of(approval.agent),
            response=self._response_of(approval),
            scope=approval.scope,
            covers=facts.covers,
        )

    def _response_of(self, approval: Approval) -> str:
        """Return an identifier of the model's response that contains a call."""
        for card in reversed(self._view.cards):
            if card.agent == approval.agent and card.call.id == approval.call.id:
                return f"{card.agent} {card.run} {card.turn}"
        return ""

    def _make_question(self, question: Question, clock_offset: float) -> WaitingQuestion:
        return WaitingQuestion(
            id=question.id,
            question=question.question,
            options=question.options,
            multiple=question.multiple,
            agent=self._view.name_of(question.agent),
            is_decision=not question.call_id,
            deadline=question.deadline - clock_offset if question.deadline else 0.0,
        )


def _without_head(text: str) -> str:
    """Return a call's description without its first lines, which the prompt shows separately."""
    lines = text.split("\n")
    if lines and lines[0].startswith("── "):
        del lines[0]
    if lines and lines[0].strip().startswith("Needs approval:"):
        del lines[0]
    return textwrap.dedent("\n".join(lines)).strip("\n")
