"""The session plugin for plans: its tools, its hooks, and the methods for faces."""

from __future__ import annotations

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
    make_id,
    read_clock,
    tool,
)
from hilum.errors import E_BAD_ARGS, unknown_name_error
from hilum.events import CallDone, Event, PluginEvent, RunEnded
from msgspec import Meta

from hilum_plan import questions, texts
from hilum_plan.changes import MAX_ITEMS, Clock, Todo, change_list
from hilum_plan.items import Item, progress
from hilum_plan.questions import ANSWERED, ASKED, Answer, Options, Question, QuestionText
from hilum_plan.settings import PlanSettings
from hilum_plan.state import (
    ACCEPTED,
    LEFT,
    PLAN_MODE,
    PROPOSED,
    REJECTED,
    TODOS,
    AgentPlan,
    Proposal,
    cancel_open,
)

ACCEPTED_PROMPT = "Your plan is accepted. Carry it out, and keep the todo list up to date."
EDITED_PROMPT = (
    "Your plan is accepted with changes. It now reads:\n\n{text}\n\nFirst change the todo list to"
    " match the plan; then carry out the plan, and keep the list up to date."
)
REJECTED_PROMPT = "Your plan is rejected: {reason}\n\nWork out another plan."


class _OpenQuestion:
    """A question that waits for the user.

    Attributes:
        question: The question.
        answer: The answer, ``None`` until it is given.
        answered: A trio event that is set when the answer is given.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answer: Answer | None = None
        self.answered = trio.Event()


class Plan:
    """The todo lists, questions and plans of a session's agents.

    All state is folded from the log when it is needed.

    Args:
        session: The session.
        settings: The settings.
    """

    def __init__(self, session: Session, settings: PlanSettings) -> None:
        self._session = session
        self._settings = settings
        self._plans: dict[str, AgentPlan] = {}
        self._seq = 0
        self._reminded: dict[str, set[str]] = {}
        self._answered: dict[tuple[str, str], Answer] = {}
        self._waiting: dict[str, _OpenQuestion] = {}
        self._deciding: set[str] = set()
        # The agents with a list. A sub-agent may leave the session as soon as its run has ended.
        self._agents: dict[str, Agent] = {}

    # --- state ------------------------------------------------------------------------------------

    def items(self, agent: str = "main") -> tuple[Item, ...]:
        """Return the items in an agent's todo list with their calls; empty if there is no list."""
        return self._plan(agent).items_with_calls()

    def progress(self, agent: str = "main") -> dict[str, int]:
        """Return the progress of an agent's list.

        Returns:
            ``total``, ``completed``, ``in_progress`` and ``pending`` (open and not in progress).
            Skipped and cancelled items are not counted.
        """
        return progress(self._plan(agent).items)

    def left_over(self, agent: str = "main") -> tuple[Item, ...]:
        """Return the items that were open when an agent's last run ended.

        The list is empty while the agent is running or its proposal awaits a decision.
        """
        plan = self._plan(agent)
        return () if plan.run or plan.proposal else tuple(plan.open)

    def proposal(self, agent: str = "main") -> Proposal | None:
        """Return an agent's plan that awaits the user's decision."""
        return self._plan(agent).proposal

    def questions(self) -> list[Question]:
        """Return the questions that are waiting for the user, oldest first."""
        return [waiting.question for waiting in self._waiting.values()]

    def _plan(self, agent: str) -> AgentPlan:
        self._read()
        return self._plans.get(agent) or AgentPlan()

    def _read(self) -> None:
        """Apply all new events."""
        for _ in self._read_pages():
            pass

    def _read_pages(self) -> Iterator[None]:
        """Apply all new events, and yield after each page of them."""
        page = self._session.journal.since(self._seq)
        while page:
            for event in page:
                self._fold(event)
            self._seq = page[-1].seq
            yield
            page = self._session.journal.since(self._seq)

    def _fold(self, event: Event) -> None:
        if event.agent:
            self._plans.setdefault(event.agent, AgentPlan()).apply(event)
        if isinstance(event, CallDone):
            # The answer has reached the model; a repeated call may ask again.
            self._answered.pop((event.agent, event.result.call_id), None)
            return
        answer = questions.question_settled(event)
        if answer is not None:
            self._answered[event.agent, answer.call] = answer

    # --- reports about the ends of runs -----------------------------------------------------

    async def watch(self) -> None:
        """Report how the ends of runs affect the lists, until cancelled."""
        # A resumed session may have a long log, which must not delay its other tasks.
        for _ in self._read_pages():
            await trio.lowlevel.checkpoint()
        self.report()
        async for _ in self._session.events(self._seq, kinds=(RunEnded,)):
            self.report()

    def report(self) -> None:
        """Write the events that are due after a run: cancelled items, open items or a proposal."""
        self._read()
        for name, plan in list(self._plans.items()):
            agent = self._session.agents.get(name) or self._agents.get(name)
            if plan.owed and agent is not None and self._session.journal.broken is None:
                # If the session no longer accepts events, the report is written when the session is
                # resumed.
                with suppress(StoreError):
                    self._emit(plan.owed, agent, plan.ended, **_owed_data(plan))
            if not plan.run and name not in self._session.agents:
                self._agents.pop(name, None)

    def _emit(self, name: str, agent: Agent, run: str = "", /, **data: Any) -> None:
        self._session.emit(PluginEvent(name=name, data=data), agent, run)

    def _write_list(self, agent: Agent, items: Sequence[Item], cause: str, run: str = "") -> None:
        self._agents[agent.name] = agent
        self._emit(TODOS, agent, run, **_list_data(items), cause=cause)

    # --- the todo list ----------------------------------------------------------------------------

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Return the tools for the todo list and for questions."""
        return [self.todo_write, self.ask_question]

    # Calls are queued; otherwise, parallel calls in one answer would all start from the same old
    # list.
    @tool(risk="read", effect="idempotent", timeout=1, queues="todos")
    async def todo_write(
        self,
        call: Call,
        todos: Annotated[list[Todo], Meta(max_length=MAX_ITEMS)],
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
        # An earlier run wrote the list, so its ids may now refer to other items.
        stale = plan.written != plan.run
        changed = change_list(
            plan.items,
            todos,
            self._clock(),
            merge=merge,
            stale=stale,
            compacted=plan.compacted,
        )
        # If some items were changed, the call succeeded in part, and the model must not repeat all
        # of it.
        if changed.refused and changed.items == plan.items:
            reasons = "\n".join(f"- {reason}" for reason in changed.refused)
            raise ToolError(f"Nothing was changed.\n{reasons}", code=E_BAD_ARGS)
        self._write_list(agent, changed.items, "model")
        # The model has just read its list.
        self._reminded.pop(agent.name, None)
        text = texts.describe_change(changed.items, changed.refused)
        return Output(text, data={"progress": progress(changed.items)})

    def _clock(self) -> Clock:
        return Clock(read_clock(), self._settings.blocked_timeout)

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        """Remind the model of open items, except in plan mode, where they await the user."""
        plan = self._plan(agent.name)
        # The prompt already listed items from earlier runs, and the user may want something else
        # now.
        is_current = plan.run in (plan.written, plan.accepted)
        if not plan.open or not is_current or agent.mode.name == PLAN_MODE:
            return None
        if any(result.name == "todo_write" for result in results):
            return None
        # If a tool filter has removed the tool, a reminder would ask for a call that the model
        # cannot make.
        if all(tool.name != "todo_write" for tool in agent.tools()):
            return None
        reminded = self._reminded.setdefault(agent.name, set())
        after = self._settings.remind_after
        return texts.remind(plan, self._clock(), after=after, reminded=reminded) or None

    @hookimpl
    def gather_context(self, agent: Agent) -> Block | None:
        """Return the open items, and the items that a stop has cancelled, for a prompt."""
        # The next run begins after this; the last one must be reported before.
        self.report()
        text = texts.describe_left_items(self._plan(agent.name))
        return Block("todos", text) if text else None

    # The plugin `memory`, which might not be installed, declares this hook.
    @hookimpl(optionalhook=True)
    def keep_on_compaction(self, agent: Agent) -> str | None:
        """Return the open items, and the names of the others, which must survive a compaction."""
        return texts.describe_kept(self._plan(agent.name)) or None

    # --- questions --------------------------------------------------------------------------------

    # Questions are asked one at a time, so that the time limit of each one begins when the user
    # sees it.
    @tool(risk="read", effect="pure", timeout=inf, queues="questions")
    async def ask_question(
        self,
        call: Call,
        question: QuestionText,
        options: Options = (),
        multiple: bool = False,
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
        self._read()
        asked = self._question(agent, call.id, question, options, multiple)
        # A crash may have interrupted the call after the user had answered.
        answer = self._answered.get((agent.name, call.id))
        if answer is None or answer.by == "stop":
            answer = await self._ask(agent, asked)
        text = questions.describe_answer(asked, answer, self._settings.question_timeout)
        return Output(text, data={"answers": list(answer.answers), "by": answer.by})

    async def ask(
        self,
        agent: Agent,
        call: str,
        question: str,
        options: Sequence[str] = (),
        *,
        multiple: bool = False,
    ) -> Answer:
        """Ask the user on behalf of a running tool.

        Args:
            agent: The agent that made the call.
            call: Id of the call; empty if hilum itself asks.
            question: The question.
            options: Answers to choose from. If nobody answers, no option is chosen.
            multiple: Whether several options may be chosen.
        """
        asked = self._question(agent, call, question, options, multiple)
        return await self._ask(agent, asked)

    def _question(
        self,
        agent: Agent,
        call: str,
        question: str,
        options: Sequence[str],
        multiple: bool,
    ) -> Question:
        return Question(
            # The id of the call is not used, because two agents may share it, and a resumed call
            # asks again with the same id.
            id=make_id("question"),
            agent=agent.name,
            call=call,
            question=question.strip(),
            options=questions.clean_options(options),
            multiple=multiple,
            deadline=read_clock() + self._settings.question_timeout,
        )

    async def _ask(self, agent: Agent, asked: Question) -> Answer:
        """Show a question, and wait for an answer, the time limit or a stop."""
        self._emit(ASKED, agent, **msgspec.to_builtins(asked))
        waiting = _OpenQuestion(asked)
        by = "headless"
        try:
            # Even if nobody can answer, the question and its end are recorded.
            if self._session.attended:
                # The value is set before the wait, so that a cancellation is recorded as a stop.
                by = "stop"
                self._waiting[asked.id] = waiting
                with trio.move_on_after(self._settings.question_timeout):
                    await waiting.answered.wait()
                by = "timeout"
        finally:
            # A stop cancels the wait, but faces must still be notified that the question is closed.
            self._waiting.pop(asked.id, None)
            answer = waiting.answer or Answer(asked.id, asked.call, by=by)
            if waiting.answer is None and self._session.journal.broken is None:
                with suppress(StoreError):
                    self._emit(ANSWERED, agent, **msgspec.to_builtins(answer))
        return answer

    def is_open(self, question: str) -> bool:
        """Return whether a question is waiting for an answer."""
        return question in self._waiting

    def answer(self, question: str, answers: str | Sequence[str] = (), *, by: str = "user") -> None:
        """Answer a question.

        Args:
            question: Id of the question.
            answers: Options, or answers in the user's own words; if there are none, the agent
                decides.
            by: Why there is no answer; see ``hilum.UserQuestions``.

        Raises:
            UsageError: The question is not open (it was answered, expired, or its run ended), or
                the answers are invalid.
        """
        waiting = self._waiting.get(question)
        if waiting is None:
            raise UsageError(
                f"There is no open question {question!r}.",
                hint="The question was already answered, or it expired.",
            )
        asked = waiting.question
        answer = Answer(asked.id, asked.call, questions.check_answers(asked, answers), by)
        self._emit(ANSWERED, self._session.agents[asked.agent], **msgspec.to_builtins(answer))
        # The question is removed immediately, so that a second answer is rejected even before the
        # waiting task runs.
        del self._waiting[question]
        waiting.answer = answer
        waiting.answered.set()

    # --- plans ------------------------------------------------------------------------------------

    async def accept(self, text: str | None = None, *, agent: str = "main") -> Run:
        """Accept an agent's proposal: the session switches to agent mode and carries it out.

        Args:
            text: The plan as edited by the user, or ``None`` for the unchanged plan. The todo list
                is kept, whether or not the user edited the plan.
            agent: The agent.

        Returns:
            The run that carries out the plan.

        Raises:
            UsageError: No proposal awaits a decision, or the session has no model.
        """
        with self._decision(agent) as (actor, proposal):
            # Editors add a trailing newline, which does not count as a change to the plan.
            edited = text is not None and text.strip() != proposal.text.strip()
            prompt = EDITED_PROMPT.format(text=text) if edited else ACCEPTED_PROMPT
            before = self._session.mode.name
            # The mode is set first, because the prompt is built for the session's mode.
            self._session.set(mode="agent")
            try:
                run = await self._session.prompt(prompt, agent=agent)
            except BaseException:
                # No run will carry out the plan, so the session must not stay in agent mode.
                self._session.set(mode=before)
                raise
            self._emit(ACCEPTED, actor, run.id, plan=proposal.run, edited=edited)
            return run

    async def reject(self, reason: str = "", *, agent: str = "main") -> Run | None:
        """Reject an agent's proposal.

        Args:
            reason: The problem with the proposal, for the agent to consider in its next one.
                Without a reason, the open items are cancelled.
            agent: The agent.

        Returns:
            The run that works out another plan, if a reason was given.

        Raises:
            UsageError: No proposal awaits a decision, or the session has no model.
        """
        with self._decision(agent) as (actor, proposal):
            if reason.strip():
                prompt = REJECTED_PROMPT.format(reason=reason.strip())
                run = await self._session.prompt(prompt, agent=agent)
                self._emit(REJECTED, actor, run.id, plan=proposal.run, reason=reason)
                return run
            self._emit(REJECTED, actor, proposal.run, plan=proposal.run, reason="")
            plan = self._plan(agent)
            if plan.open:
                items = cancel_open(plan.items, read_clock())
                self._write_list(actor, items, "rejected", proposal.run)
            return None

    @contextmanager
    def _decision(self, agent: str) -> Iterator[tuple[Agent, Proposal]]:
        """Reserve a proposal inside this context, so that only one decision is made about it."""
        actor = self._session.agents.get(agent)
        if actor is None:
            raise unknown_name_error("agent", agent, self._session.agents)
        proposal = self._plan(agent).proposal
        # A later prompt replaces the proposal.
        if proposal is None or agent in self._deciding or actor.conversation.pending:
            raise UsageError(
                "No plan is waiting for a decision.", hint="Work out a plan in plan mode first."
            )
        self._deciding.add(agent)
        try:
            yield actor, proposal
        finally:
            self._deciding.discard(agent)


def _list_data(items: Sequence[Item]) -> dict[str, Any]:
    return {"items": msgspec.to_builtins(items), "progress": progress(items)}


def _owed_data(plan: AgentPlan) -> dict[str, Any]:
    """Return the data for an event that must still be written about a plan."""
    more: dict[str, dict[str, Any]] = {
        TODOS: {"cause": "stopped"},
        LEFT: {"left": msgspec.to_builtins(plan.open)},
        PROPOSED: {"text": plan.proposal.text if plan.proposal else ""},
    }
    return _list_data(plan.items) | more[plan.owed]
