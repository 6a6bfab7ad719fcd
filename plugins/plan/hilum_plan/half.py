"""The half of a session: the tools, what hooks tell the model, and the commands that faces send."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Annotated, Any

import msgspec
import trio
from hilum import (
    Agent,
    Block,
    Call,
    Output,
    Run,
    Session,
    StoreError,
    Tool,
    ToolError,
    ToolResult,
    UsageError,
    hookimpl,
    tool,
)
from hilum.errors import E_BAD_ARGS, unknown
from hilum.events import CallDone, PluginEvent
from msgspec import Meta

from hilum_plan import notes, questions
from hilum_plan.changes import MOST_ITEMS, Todo, write
from hilum_plan.folded import (
    ACCEPTED,
    LEFT,
    PLAN_MODE,
    PROPOSED,
    REJECTED,
    TODOS,
    AgentPlan,
    Proposal,
)
from hilum_plan.items import Item, progress
from hilum_plan.questions import ANSWERED, ASKED, Answer, Asking, Options, Question
from hilum_plan.settings import PlanSettings

CARRY_OUT = "Your plan is accepted. Carry it out, and keep the todo list true while you do."
CHANGED = (
    "Your plan is accepted with changes. It now reads:\n\n{text}\n\nBring the todo list in line"
    " with it first; then carry it out, and keep the list true while you do."
)
REWORK = "Your plan is rejected: {reason}\n\nWork out another one."


class Plan:
    """Todo lists, questions and plans of a session's agents.

    What it knows is a fold over the log, read when it is asked.

    Args:
        session: The session.
        settings: The settings.
    """

    def __init__(self, session: Session, settings: PlanSettings) -> None:
        self._session = session
        self._settings = settings
        self._plans: dict[str, AgentPlan] = {}
        self._seq = 0
        self._said: dict[str, set[str]] = {}
        self._answered: dict[tuple[str, str], Answer] = {}
        self._waiting: dict[str, tuple[Question, list[Answer], trio.Event]] = {}
        self._deciding: set[str] = set()

    # --- what there is ----------------------------------------------------------------------------

    def items(self, agent: str = "main") -> tuple[Item, ...]:
        """Return an agent's todo list, each item with the calls made for it.

        Empty for an agent that has none.
        """
        return self._plan(agent).shown()

    def progress(self, agent: str = "main") -> dict[str, int]:
        """Count an agent's items: ``total``, ``completed``, ``in_progress``, ``pending``.

        ``pending`` is everything that is open and not in progress. What was skipped or cancelled is
        not counted.
        """
        return progress(self._plan(agent).items)

    def left_over(self, agent: str = "main") -> tuple[Item, ...]:
        """Return the items that were open when an agent's last run ended.

        None while it runs, or where it proposes a plan.
        """
        plan = self._plan(agent)
        return () if plan.run or plan.proposal else tuple(plan.open)

    def proposal(self, agent: str = "main") -> Proposal | None:
        """Return the plan that an agent has worked out in plan mode and the user has not decided
        on.
        """
        return self._plan(agent).proposal

    def questions(self) -> list[Question]:
        """Return the questions that wait for the user, oldest first."""
        return [question for question, _, _ in self._waiting.values()]

    def _plan(self, agent: str) -> AgentPlan:
        for _ in self._pages():
            pass
        return self._plans.get(agent) or AgentPlan()

    def _pages(self) -> Iterator[None]:
        """Fold what was written since it was last asked, a page at a time."""
        while page := self._session.journal.since(self._seq):
            for event in page:
                if event.agent:
                    self._plans.setdefault(event.agent, AgentPlan()).apply(event)
                if isinstance(event, CallDone):
                    self._answered.pop((event.agent, event.result.call_id), None)
                elif answer := questions.question_settled(event):
                    self._answered[event.agent, answer.call] = answer
            self._seq = page[-1].seq
            yield

    # --- what the end of a run did ----------------------------------------------------------------

    async def watch(self) -> None:
        """Tell by events what ends of runs did to the lists, until cancelled."""
        for _ in self._pages():
            await trio.lowlevel.checkpoint()
        self.settle()
        async for _ in self._session.events(self._seq):
            self.settle()

    def settle(self) -> None:
        """Write the events that are owed: a list that a stop has cancelled, items that are left
        over, a plan that waits.
        """
        for _ in self._pages():
            pass
        for name, plan in list(self._plans.items()):
            if plan.owed and self._session.journal.broken is None and name in self._session.agents:
                items = {"items": msgspec.to_builtins(plan.items), "progress": progress(plan.items)}
                more: dict[str, dict[str, Any]] = {
                    TODOS: {**items, "cause": "stopped"},
                    LEFT: {**items, "left": msgspec.to_builtins(plan.open)},
                    PROPOSED: {**items, "text": plan.proposal.text if plan.proposal else ""},
                }
                with suppress(
                    StoreError
                ):  # the session can take no more; what holds follows from what it has
                    self._emit(plan.owed, self._session.agents[name], plan.ended, **more[plan.owed])

    def _emit(self, name: str, agent: Agent, run: str = "", /, **data: Any) -> None:
        self._session.emit(PluginEvent(name=name, data=data), agent, run)

    def _write(self, agent: Agent, items: Sequence[Item], cause: str, run: str = "") -> None:
        data = {"items": msgspec.to_builtins(items), "progress": progress(items), "cause": cause}
        self._emit(TODOS, agent, run, **data)

    # --- the todo list ----------------------------------------------------------------------------

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Return the two tools."""
        return [self.todo_write, self.ask_question]

    @tool(risk="read", effect="idempotent", timeout=1, queues="todos")
    async def todo_write(
        self,
        call: Call,
        todos: Annotated[list[Todo], Meta(max_length=MOST_ITEMS)],
        merge: bool = True,
    ) -> Output:
        """Keep the list of steps that the user watches, for work of three or more steps.

        Set an item in_progress before you start it, and completed once it is done and checked; one
        item at a time. A pending item must be in_progress before it is completed, failed or
        blocked. Send it along with the calls of the work itself.

        Args:
            todos: Items to add or change; for an existing item its id and what changes.
            merge: false replaces the whole list.
        """
        agent: Agent = call.agent
        plan = self._plan(agent.name)
        now = time.time()
        stale = plan.written != plan.run
        patience = self._settings.blocked_timeout
        written = write(plan.items, todos, merge=merge, stale=stale, now=now, patience=patience)
        if written.refused and written.items == plan.items:
            said = "Nothing was changed.\n" + "\n".join(f"- {why}" for why in written.refused)
            raise ToolError(said, code=E_BAD_ARGS)
        self._write(agent, written.items, "model")
        self._said.pop(agent.name, None)
        return Output(
            notes.result(written.items, written.refused), data={"progress": progress(written.items)}
        )

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Remind of open items where something matters, and never in plan mode, where they wait for
        the user.
        """
        plan = self._plan(agent.name)
        # A list of an earlier run was told of with the prompt, and may have nothing to do with it.
        mine = plan.run in (plan.written, plan.accepted)
        if (
            not plan.open
            or not mine
            or agent.mode.name == PLAN_MODE
            or any(r.name == "todo_write" for r in results)
        ):
            return None
        if all(tool.name != "todo_write" for tool in agent.tools()):
            return None
        options = self._settings
        said = self._said.setdefault(agent.name, set())
        after = options.remind_after
        patience = options.blocked_timeout
        return notes.reminder(plan, time.time(), after=after, patience=patience, said=said) or None

    @hookimpl
    def gather_context(self, agent: Agent) -> Block | None:
        """Tell with a prompt which items are still open, and which a stop has cancelled."""
        text = notes.context(self._plan(agent.name))
        return Block("todos", text) if text else None

    @hookimpl(optionalhook=True)
    def keep_on_trim(self, agent: Agent) -> str | None:
        """Keep the open items in the conversation when its beginning goes."""
        plan = self._plan(agent.name)
        if plan.open:
            return f"Open items of your todo list:\n{notes.rows(plan.open)}"
        return None

    # --- questions --------------------------------------------------------------------------------

    # One at a time, so that the clock of each begins when the user sees it.
    @tool(risk="read", effect="pure", timeout=inf, queues="questions")
    async def ask_question(
        self, call: Call, question: Asking, options: Options = (), multiple: bool = False
    ) -> Output:
        """Ask the user one question that the work depends on and the project does not answer.

        Args:
            question: The question, with what the user must know to answer it.
            options: Up to 10 answers to choose from, the recommended one first.
            multiple: The user may choose several.
        """
        agent: Agent = call.agent
        if not question.strip():
            raise ToolError("The question is empty.", code=E_BAD_ARGS, hint="Write a question.")
        self._plan(agent.name)
        asked = self._question(agent, call.id, question, options, multiple)
        answer = self._answered.get((agent.name, call.id))  # given before the session was cut off
        if answer is None or answer.by == "stop":
            answer = await self._ask(agent, asked)
        data = {"answers": list(answer.answers), "by": answer.by}
        return Output(questions.told(asked, answer, self._settings.question_timeout), data=data)

    async def ask(
        self,
        agent: Agent,
        call: str,
        question: str,
        options: Sequence[str] = (),
        *,
        multiple: bool = False,
    ) -> Answer:
        """Ask the user for a tool that is running.

        Args:
            agent: Whose call it is.
            call: The call's id; empty where hilum itself asks.
            question: What is asked.
            options: Answers to choose from; nothing holds where nobody answers.
            multiple: Whether several may be chosen.
        """
        return await self._ask(agent, self._question(agent, call, question, options, multiple))

    def _question(
        self, agent: Agent, call: str, question: str, options: Sequence[str], multiple: bool
    ) -> Question:
        deadline = time.time() + self._settings.question_timeout
        text = question.strip()
        choices = questions.cleaned(options)
        return Question(os.urandom(6).hex(), agent.name, call, text, choices, multiple, deadline)

    async def _ask(self, agent: Agent, asked: Question) -> Answer:
        """Show the question to faces and wait for what happens first: an answer, the end of the
        time, a stop.
        """
        self._emit(ASKED, agent, **msgspec.to_builtins(asked))
        given: list[Answer] = []
        by = "headless"
        try:
            if self._session.attended:
                by = "stop"
                answered = trio.Event()
                self._waiting[asked.id] = asked, given, answered
                with trio.move_on_after(self._settings.question_timeout):
                    await answered.wait()
                by = "timeout"
        finally:
            self._waiting.pop(asked.id, None)
            if not given and self._session.journal.broken is None:
                given.append(Answer(asked.id, asked.call, by=by))
                with suppress(StoreError):
                    self._emit(ANSWERED, agent, **msgspec.to_builtins(given[0]))
        return given[0]

    def answer(self, question: str, answers: str | Sequence[str] = ()) -> None:
        """Answer a question.

        Args:
            question: Its id.
            answers: Options of it, or a text of the user's own; none lets the agent decide by
                itself.

        Raises:
            UsageError: No such question is open (it was answered, ran out, or its run ended), or
                the answer cannot be one.
        """
        if question not in self._waiting:
            raise UsageError(
                f"There is no open question {question!r}.", hint="It was answered or ran out."
            )
        asked, given, event = self._waiting[question]
        answer = Answer(asked.id, asked.call, questions.checked(asked, answers))
        self._emit(ANSWERED, self._session.agents[asked.agent], **msgspec.to_builtins(answer))
        del self._waiting[question]
        given.append(answer)
        event.set()

    # --- plans ------------------------------------------------------------------------------------

    async def accept(self, text: str | None = None, *, agent: str = "main") -> Run:
        """Accept the plan that an agent proposes: the session goes to agent mode, and the agent
        carries it out.

        Args:
            text: The plan as the user has changed it, ``None`` as it stands. The todo list is kept
                either way.
            agent: Whose plan.

        Returns:
            The run that carries it out.

        Raises:
            UsageError: No plan waits for a decision, or the session has no model.
        """
        with self._decision(agent) as (actor, proposal):
            edited = text is not None and text.strip() != proposal.text.strip()
            before = self._session.mode.name
            self._session.set(mode="agent")
            try:
                run = await self._session.prompt(
                    CHANGED.format(text=text) if edited else CARRY_OUT, agent=agent
                )
            except BaseException:  # nothing is carried out, so nothing may be changed
                self._session.set(mode=before)
                raise
            self._emit(ACCEPTED, actor, run.id, plan=proposal.run, edited=edited)
            return run

    async def reject(self, reason: str = "", *, agent: str = "main") -> Run | None:
        """Reject the plan that an agent proposes.

        Args:
            reason: What is wrong with it; the agent works out another one. Without it, the open
                items are cancelled.
            agent: Whose plan.

        Returns:
            The run that works out another plan, if a reason was given.

        Raises:
            UsageError: No plan waits for a decision, or the session has no model.
        """
        with self._decision(agent) as (actor, proposal):
            if reason.strip():
                run = await self._session.prompt(REWORK.format(reason=reason.strip()), agent=agent)
                self._emit(REJECTED, actor, run.id, plan=proposal.run, reason=reason)
                return run
            self._emit(REJECTED, actor, proposal.run, plan=proposal.run, reason="")
            plan = self._plan(agent)
            if plan.open:
                now = time.time()
                items = [item.moved("cancelled", now) if item.open else item for item in plan.items]
                self._write(actor, items, "rejected", proposal.run)
            return None

    @contextmanager
    def _decision(self, agent: str) -> Iterator[tuple[Agent, Proposal]]:
        """Hold the plan that is decided on, so that it is decided on once."""
        if agent not in self._session.agents:
            raise unknown("agent", agent, self._session.agents)
        proposal = self._plan(agent).proposal
        prompted = self._session.agents[
            agent
        ].conversation.pending  # what the user has said since counts
        if proposal is None or agent in self._deciding or prompted:
            raise UsageError(
                "No plan waits for a decision.", hint="Work one out in plan mode first."
            )
        self._deciding.add(agent)
        try:
            yield self._session.agents[agent], proposal
        finally:
            self._deciding.discard(agent)
