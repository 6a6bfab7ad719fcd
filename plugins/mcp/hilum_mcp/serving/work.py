"""What clients have asked for and is under way: calls of tools, and agents at work.

Nothing here knows of the protocol.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import HilumError, Image, Profile, Text, ToolCall, ToolFilter, ToolResult, UsageError
from hilum.errors import E_STOPPED
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDone,
    Delta,
    PluginEvent,
    RoundEnded,
    RunEnded,
)
from hilum_agents.runs import Runs, tell
from hilum_files import Changes

from hilum_mcp.serving.client import MODEL, Client

if TYPE_CHECKING:
    from hilum import Session
    from hilum.events import AnyEvent

AT_ONCE, MOST_ASKED = 16, 64
"""Calls that run at once, and calls that may wait for a user's answer beside them."""
SHOWN = 2_000
STATUS = "agents.status"
DONE = ("completed", "partial_success")
ASKS = "ask_question"
"""The tool by which an agent asks its user, who is not here."""


class Outcome:
    """What came of it.

    Args:
        parts: Texts and images for the client.
        code: An ``E_…`` code if it failed.
        data: The same as data, where there is some.
    """

    def __init__(
        self, parts: tuple[Text | Image, ...], code: str = "", data: dict[str, Any] | None = None
    ) -> None:
        self.parts = parts
        self.code = code
        self.data = data

    @classmethod
    def failed(cls, code: str, text: str) -> Outcome:
        """Return what went wrong."""
        return cls((Text(f"{code}: {text}", "kernel"),), code)


class Work:
    """One thing that a client has asked for.

    Args:
        key: What it was asked for with: name and arguments.

    Attributes:
        actor: Name of the agent in the session that it runs as.
        start: Id by which the scheduler knows an agent's start; empty for a call of a tool.
        result: Of a tool call that has ended.
        ended: Set when the end of its run was read.
        outcome: What came of it, once it is there.
        over: Set when nothing of it runs any more.
        asked: Open approvals, by id.
        attended: Whether a request waits for it.
        progress: 0 to 1, where that is known.
        news: Set at the next change.
    """

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.actor = ""
        self.start = ""
        self.result: ToolResult | None = None
        self.outcome: Outcome | None = None
        self.over = trio.Event()
        self.ended = trio.Event()
        self.news = trio.Event()
        self.asked: dict[str, ApprovalAsked] = {}
        self.attended = True
        self.progress: float | None = None
        self._scope = trio.CancelScope()
        self._shown = ""
        self._rest = ""

    def wake(self) -> None:
        """Tell who waits that something changed."""
        self.news.set()
        self.news = trio.Event()

    def finish(self, outcome: Outcome) -> None:
        """Take the outcome; the first one counts."""
        self.outcome = self.outcome or outcome
        self.wake()

    def stop(self) -> None:
        """End it, with everything it started."""
        self._scope.cancel()

    async def do(self, action: Callable[[], Awaitable[Outcome]]) -> None:
        """Carry it out, whatever becomes of it."""
        try:
            with self._scope:
                self.finish(await action())
        except HilumError as error:
            self.finish(Outcome.failed(error.code, str(error)))
        finally:
            self.over.set()
            self.finish(Outcome.failed(E_STOPPED, "It was stopped."))

    def show(self, text: str) -> None:
        """Take in output on its way.

        Only whole lines are shown, so that a secret in one is seen whole.
        """
        whole, line, self._rest = (self._rest + text).rpartition("\n")
        if line:
            self._shown = f"{self._shown}\n{whole}".lstrip("\n")[-SHOWN:]
            self.wake()
        self._rest = self._rest[-SHOWN:]

    def step(self, text: str, progress: float | None) -> None:
        """Take in where it stands."""
        self._shown = text
        self.progress = progress
        self.wake()

    @property
    def has_more(self) -> bool:
        """Whether there is something new to be shown."""
        return bool(self._shown)

    def shown(self) -> str:
        """Return what is new to be shown."""
        shown = self._shown
        self._shown = ""
        return shown


class Desk:
    """Carries out what clients ask for, in one session.

    Args:
        session: The session; its kind is ``main``, for clients may be asked.
        tools: What of its tools is offered.
        nursery: Owns what is under way.
    """

    def __init__(self, session: Session, tools: ToolFilter, nursery: trio.Nursery) -> None:
        self.session = session
        self.tools = tools
        self._nursery = nursery
        self._client = Client()
        self._under_way: dict[str, Work] = {}
        self._waiting: dict[str, Work] = {}
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self._count = 0
        self.served = 0
        session.kernel.router.replace(self._client)

    # --- starting ---------------------------------------------------------------------------------

    def call(self, name: str, arguments: str, who: str) -> Work:
        """Call a tool through all gates.

        Args:
            name: Its name.
            arguments: JSON text.
            who: The client, for the log.
        """
        self._count += 1
        self.served += 1
        self._enter(work := Work((name, arguments)), f"client-{self._count}")
        self._nursery.start_soon(
            work.do, lambda: self._call(work, who), name=f"client calls {name}"
        )
        return work

    def run_agent(self, agent: str, prompt: str, key: tuple[str, str]) -> Work:
        """Have an agent work on a prompt, in a conversation of its own."""
        work = Work(key)
        self.served += 1
        self._nursery.start_soon(
            work.do, lambda: self._agent(work, agent, prompt), name=f"client runs {agent}"
        )
        return work

    def stop(self) -> None:
        """End all that is under way; who waits for it is told."""
        for work in list(self._under_way.values()):
            work.stop()

    def _enter(self, work: Work, actor: str) -> None:
        work.actor = actor
        self._under_way[actor] = work

    async def _call(self, work: Work, who: str) -> Outcome:
        session, (name, arguments) = self.session, work.key
        async with self._limit:
            session.add_agent(Profile(work.actor, model=MODEL, tools=self.tools))
            self._client.calls[work.actor] = ToolCall(
                f"client-{os.urandom(6).hex()}", name, arguments
            )
            changes = session.half(Changes)
            try:
                # What one call has read the next one may change: to the client they are one.
                with (
                    nullcontext()
                    if changes is None
                    else changes.sharing(work.actor, f"client {who}")
                ):
                    ended = await session.run(f"Called by the MCP client {who}.", agent=work.actor)
                if ended.seq:
                    await work.ended.wait()  # until what it did was read, too
            finally:
                self._client.calls.pop(work.actor, None)
                self._leave(work)
        return Outcome.failed(
            ended.code or "E_FAILED", ended.error or "The call was not carried out."
        )

    def _leave(self, work: Work) -> None:
        """Let go of the agent, so that many calls do not fill the memory.

        What was granted for the session goes on.
        """
        self._over(work)
        agent = self.session.agents.get(work.actor)
        if agent is not None and not agent.conversation.grants:
            del self.session.agents[work.actor]

    async def _agent(self, work: Work, name: str, prompt: str) -> Outcome:
        runs = self.session.half(Runs)
        if runs is None:
            raise UsageError("Agents do not run here.", hint="Load the plugin scheduler.")
        definition, profile = await runs.prepare(name)
        identity = runs.begin(_without(profile, ASKS), prompt, definition=definition)
        work.start = identity
        self._enter(work, runs.scheduler.ledger.find(identity).actor)
        try:
            result = await runs.wait(identity)
        except trio.Cancelled:
            runs.stop(identity)
            with trio.CancelScope(shield=True):
                await runs.wait(identity)
            raise
        finally:
            self._over(work)
        code = (result["error"] or {}).get("code") or "E_FAILED"
        text = tell(result)
        return Outcome((Text(text, "model"),), "" if result["status"] in DONE else code, result)

    # --- following --------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Read the session's events until it closes."""
        async for item in self.session.events(self.session.journal.last, deltas=True):
            if isinstance(item, Delta):
                if item.kind == "output" and (work := self._under_way.get(item.agent)) is not None:
                    work.show(item.text)
            else:
                self._take(item)

    def _take(self, event: AnyEvent) -> None:
        if isinstance(event, PluginEvent) and event.name == STATUS:
            self._status(event.data)
            return
        work = self._of(event.agent)
        if isinstance(event, ApprovalAnswered):
            self._step_back(event.id)
        if isinstance(event, ApprovalAsked):
            if work is None:  # nobody here knows of it
                self.refuse(event.id, "no client asked for it.")
            elif len(self._waiting) >= MOST_ASKED:
                self.refuse(
                    event.id,
                    f"{MOST_ASKED} calls wait for an answer already. Try again when some are"
                    " answered.",
                )
            else:
                self._step_aside(work, event.id)
                work.asked[event.id] = event
                work.wake()
        elif work is not None and isinstance(event, ApprovalAnswered):
            work.asked.pop(event.id, None)
            if event.by == "timeout" and work.start and not work.attended:
                work.stop()  # an agent that nobody comes back for
        elif work is not None and event.agent == work.actor and not work.start:
            self._follow(work, event)

    def _follow(self, work: Work, event: AnyEvent) -> None:
        """Follow the run of a tool call.

        To its result belongs what plugins remind of: what linters say of a change, say.
        """
        if isinstance(event, CallDone):
            work.result = event.result
        elif isinstance(event, RoundEnded) and work.result is not None:
            notes = tuple(Text(note, "kernel") for note in event.notes)
            work.finish(Outcome((*work.result.parts, *notes), work.result.code))
        elif isinstance(event, RunEnded):
            if work.result is not None:
                work.finish(Outcome(work.result.parts, work.result.code))
            work.ended.set()

    def _of(self, agent: str) -> Work | None:
        """Find what an agent works for: its own start, or that of one above it."""
        seen = set[str]()
        while agent and agent not in seen:
            work = self._under_way.get(agent)
            if work is not None:
                return work
            seen.add(agent)
            known = self.session.agents.get(agent)
            agent = known.parent if known is not None else ""
        return None

    def _status(self, data: dict[str, Any]) -> None:
        for work in self._under_way.values():
            if work.start and work.start == data.get("agent_id"):
                work.step(str(data.get("current_step", "")), float(data.get("progress") or 0.0))

    # --- approvals --------------------------------------------------------------------------------

    def _step_aside(self, work: Work, approval: str) -> None:
        """Give the place of a call that waits for a user to others, for a user may take minutes."""
        self._waiting[approval] = work
        self._limit.total_tokens += not work.start  # an agent has none

    def _over(self, work: Work) -> None:
        """Let go of it; what it waited for is not asked any more."""
        self._under_way.pop(work.actor, None)
        for approval in [each for each, waiting in self._waiting.items() if waiting is work]:
            self._step_back(approval)

    def _step_back(self, approval: str) -> None:
        """Take its place again, at once: what a user has agreed to does not queue up.

        Who comes anew waits the longer.
        """
        work = self._waiting.pop(approval, None)
        if work is not None:
            self._limit.total_tokens -= not work.start

    def shown(self, approval: str) -> float:
        """Start the clock of an approval that the client's user sees now.

        Returns its deadline, past if it is settled.
        """
        try:
            return self.session.approval_shown(approval)
        except UsageError:  # it has run out, or its run has ended
            return 0.0

    def answer(self, approval: str, said: str) -> None:
        """Answer an approval with what the client's user said: ``yes``, ``session``, or anything
        else for no.
        """
        yes = said in ("yes", "session")
        self._answer(approval, yes, remember="session" if said == "session" else "once")

    def refuse(self, approval: str, reason: str) -> None:
        """Say no, because nobody can be asked."""
        self._answer(approval, False, reason=reason, by="headless")

    def _answer(self, approval: str, accepted: bool, **more: Any) -> None:
        try:
            self.session.answer(approval, accepted, **more)
        except UsageError:  # it has run out, or its run has ended
            pass


def _without(profile: Profile, tool: str) -> Profile:
    """Take a tool from a profile."""
    tools = msgspec.structs.replace(profile.tools, deny=(*profile.tools.deny, tool))
    return msgspec.structs.replace(profile, tools=tools)
