"""A session: one user's work in one workspace.

It owns the event log, the agents, and the halves of the plugins.

Faces send commands (``prompt``, ``answer``, ``stop``, ``set`` …) and read ``events``; nothing calls
back into the loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio
from hilum_hooks import Fault

from hilum import __version__
from hilum import events as ev
from hilum.agents import Agent, Mode, Profile, ToolFilter
from hilum.errors import (
    COMMAND_WITHHELD,
    HilumError,
    PluginError,
    StoreError,
    ToolDenied,
    UsageError,
    unknown,
)
from hilum.halves import Halves
from hilum.journal import Journal, Reader
from hilum.loop import drive, give_up, trim_at_rest
from hilum.messages import Message, writable
from hilum.processes import Command, Processes
from hilum.prompt_order import PromptOrder
from hilum.redaction import Redaction, notice
from hilum.repetition import may_have_changed
from hilum.settings import KINDS, KernelSettings, Settings, use_environment
from hilum.store import Log, SessionInfo, spell_folder
from hilum.tools import Tool, injected
from hilum.underway import Underway
from hilum.workspace import Workspace

if TYPE_CHECKING:
    from hilum.kernel import Kernel

T = TypeVar("T")
POLICIES = ("ask_first", "auto", "readonly")


class Run(msgspec.Struct, eq=False):
    """An agent working on one prompt.

    Attributes:
        id: The run's id, as in its events.
        agent: Name of the agent.
        state: What the face knew of the user's workspace when it was prompted.
        reply: Set when the prompt was a command that is done; no agent ran.
        result: How it ended, ``None`` while it runs.
        after: Sequence number of the last event before its prompt, or before it was resumed.
    """

    id: str
    agent: str
    session: Session
    state: Mapping[str, object] = {}
    reply: str | None = None
    result: ev.RunEnded | None = None
    error: HilumError | None = None
    after: int = 0
    _over: trio.Event = msgspec.field(default_factory=trio.Event)

    async def wait(self) -> ev.RunEnded:
        """Wait for the end.

        Raises:
            StoreError: The session could not be written any more (disk full, file damaged); nothing
                was lost that was shown.
        """
        await self._over.wait()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    async def events(self, *, deltas: bool = False) -> AsyncIterator[ev.AnyEvent | ev.Delta]:
        """Read what happens from the prompt of this run on, other agents' events included, until
        the run has ended.

        Args:
            deltas: Also give text and tool output while it comes.
        """
        if not self.id:  # the prompt was a command
            return
        async for item in self.session.events(self.after, deltas=deltas):
            yield item
            if isinstance(item, ev.RunEnded) and item.run == self.id:
                return

    def stop(self) -> None:
        """End the run at once, with everything it started.

        Other prompts of its agent wait for their turn as before.
        """
        if not self._over.is_set():
            self.session.stop(self.agent, run=self.id)

    def finish(self, result: ev.RunEnded | None, error: HilumError | None = None) -> None:
        """Note how it ended, and wake who waits."""
        self.result = result
        self.error = error
        self._over.set()


class Session:
    """See the module. Made by ``Kernel.open_session``.

    Attributes:
        id: The session's id.
        kernel: The kernel it belongs to.
        workspace: The folder it works in.
        kind: ``main``, ``shared`` or ``headless``. Rules may hold for some kinds only.
        attended: Whether somebody is there to answer approvals and questions.
        agents: Its agents by name; ``main`` is always there.
        runs: The runs that have not ended, by id.
        modes: The modes there are.
        processes: The only way to start a process.
        expects_tools: Set by a plugin whose tools may come late: ``find_tools`` and ``call_tool``
            join the tool list.
        began_at: Sequence number of the last event that was there when it was opened: 0 for a new
            session.
        coming: Set by such a plugin while tools are on their way: ``find_tools`` waits for it, for
            30 seconds at most.
        journal: Its event log and who reads it.
        halves: The plugins' halves.
        hooks: The hooks of its plugins.
        redaction: What takes secrets out of events before they are written.
        underway: Calls that run, files that are written, approvals that wait.
    """

    work: trio.Nursery

    def __init__(
        self, kernel: Kernel, log: Log, info: SessionInfo, root: Path, settings: Settings
    ) -> None:
        self.id = info.id
        self.kernel = kernel
        self.kind = info.kind
        self.options = settings.get(KernelSettings)
        self.attended = info.kind != "headless"
        self.workspace = Workspace(root, self.options.extra_roots)
        self._settings = settings
        self.journal = Journal(log)
        self.underway = Underway(self.workspace)
        self.halves = Halves(self)
        self.discarded = False
        self.began_at = self.journal.last
        self.hooks = self.halves.hooks
        self.redaction = Redaction(self.hooks)
        self.processes = Processes(kernel.warden, self._wrap, str(root), kernel.environ)
        self.modes: dict[str, Mode] = {"agent": Mode("agent")}
        self.model = self.options.model
        self.approve = self.options.approve
        self._mode = self.options.mode
        self.agents = dict[str, Agent]()
        self.runs = dict[str, Run]()
        self.expects_tools = False
        self.coming: trio.Event | None = None
        self._working: set[str] = set()
        self._prompts = PromptOrder()

    # --- events -----------------------------------------------------------------------------------

    def emit(self, event: ev.Event, agent: Agent | None = None, run: str = "") -> int:
        """Write an event to the log, fold it, show it to readers. When this returns it is durable.

        Secrets in it are replaced first. What is folded is what is written, so that a resumed
        session sends the model the same requests. The question of an approval is shown as it is:
        the user must see what would run.

        Returns:
            Its sequence number.

        Raises:
            StoreError: It could not be written; the session takes no more events.
        """
        by_model = agent is not None and bool(agent.parent)
        written = self.redaction.event(
            event, by_model=by_model
        )  # a failure in it is an event of its own, which comes first
        seq = self.journal.last + 1
        whose = dict[str, Any]()
        if agent is not None:
            now = agent.conversation.run
            whose = {"agent": agent.name, "run": run or (now.id if now else "")}
        original = event
        event = msgspec.structs.replace(written, seq=seq, at=time.time(), **whose)
        events = [event]
        if agent is not None:
            ev.encode(event)  # what cannot be written must not be folded either
            before = agent.conversation.state
            self._fold(event, agent)
            _keep_written(original, agent)
            state = agent.conversation.state
            if state != before:
                events.append(
                    ev.StateChanged(seq=seq + 1, at=event.at, state=state, previous=before, **whose)
                )
        shown = None
        if isinstance(original, ev.ApprovalAsked) and original is not written:
            shown = [msgspec.structs.replace(original, seq=seq, at=event.at, **whose), *events[1:]]
        self.journal.append(events, shown)
        if isinstance(event, ev.ModelAnswered | ev.ModelFailed | ev.RunEnded):
            self.journal.drop(event.agent)
        elif isinstance(event, ev.CallDone):
            self.journal.drop(event.agent, event.result.call_id)
        if isinstance(event, ev.RunEnded) and event.run in self.runs:
            self.runs.pop(event.run).finish(event)
        return seq

    def _fold(self, event: ev.Event, agent: Agent) -> None:
        """Fold an event of an agent's into its state.

        What it may have changed, all other agents take note of.
        """
        started = None
        if isinstance(event, ev.CallDone) and agent.conversation.run is not None:
            started = agent.run.calls[event.result.call_id].started
        agent.conversation.apply(event)
        if started is not None and may_have_changed(started, event.result.code):  # type: ignore[attr-defined]
            for other in self.agents.values():
                if other is not agent:
                    other.conversation.failures.clear()

    def delta(self, seq: int, agent: Agent, kind: str, text: str, call_id: str = "") -> None:
        """Show a piece of output that belongs to the event ``seq``. It is not stored."""
        run = agent.conversation.run
        self.journal.delta((seq, kind, call_id), agent.name, run.id if run else "", writable(text))

    def events(self, after: int = 0, *, deltas: bool = False) -> Reader:
        """Read the session's events in order, from any point on, until it closes.

        Args:
            after: Sequence number of the last event already known.
            deltas: Also give output on its way, as ``Delta``; a late reader gets the text so far,
                then what is added.
        """
        return Reader(self.journal, after, deltas)

    def note(self, name: str, **data: Any) -> None:
        """Write a fact of a plugin's own, named ``plugin.what``, with plain data."""
        self.emit(ev.PluginEvent(name=name, data=data))

    # --- commands ---------------------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
    ) -> Run:
        """Return an agent something to do; it starts at once, or after what it is doing.

        Args:
            text: What the user says. Plugins may read it as a command, or as addressed to another
                agent.
            agent: The agent, unless the text addresses one.
            state: What the face knows of the user's workspace (open files, cursor), as plain data.
            piped: Whether another program wrote the text. Plugins that trust what the user says do
                not trust it.

        Raises:
            UsageError: There is no such agent or model.
            PluginError: A plugin that takes secrets out of texts is not in working order.
        """
        if self.journal.broken is not None:
            raise self.journal.broken
        with self._prompts.turn(agent) as earlier:
            return await self._prompt(writable(text), agent, state or {}, earlier, piped=piped)

    async def _prompt(
        self,
        text: str,
        agent: str,
        state: Mapping[str, object],
        earlier: Sequence[trio.Event],
        *,
        piped: bool,
    ) -> Run:
        """Read a prompt, search it for secrets, and queue it behind those that were given
        earlier.
        """
        meant = await self.hooks.first("interpret_prompt", session=self, text=text)
        if meant is not None:
            text = meant.text
            agent = meant.agent if meant.agent != "main" else agent
            if meant.reply is not None:
                run = Run("", agent, self, reply=meant.reply)
                run.finish(ev.RunEnded(state="completed", text=meant.reply))
                return run
        if agent not in self.agents:
            raise unknown("agent", agent, self.agents)
        actor = self.agents[agent]
        await self.kernel.router.ready(actor)
        queued = await self.redaction.prompt(text, by_model=bool(actor.parent))
        for before in earlier:
            await before.wait()
        if self.journal.broken is not None:
            raise self.journal.broken
        if actor.conversation.phase != "idle" and agent not in self._working:
            give_up(actor, "interrupted", "E_INTERRUPTED", "The run was cut off and not resumed.")
        identity = os.urandom(6).hex()
        run = self.runs[identity] = Run(identity, agent, self, state, after=self.journal.last)
        self.emit(msgspec.structs.replace(queued, piped=piped), actor, identity)
        if queued.redacted and not actor.parent:
            say = notice(queued.redacted)
            self.note("redaction.prompt", say=say, names=list(queued.redacted))
        self._start(actor)
        return run

    async def run(
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
    ) -> ev.RunEnded:
        """Prompt and wait for the end.

        Takes what ``prompt`` takes. Cancelling it stops the run, and waits for that.
        """
        run = await self.prompt(text, agent=agent, state=state, piped=piped)
        try:
            return await run.wait()
        except trio.Cancelled:
            run.stop()
            with trio.CancelScope(shield=True):
                await run._over.wait()
            raise

    def resume(self) -> list[Run]:
        """Go on with what was cut off when the session was last written, in the middle of a turn if
        need be.

        Returns:
            The runs that go on, and those of prompts that still waited.
        """
        resumed = []
        for agent in self.agents.values():
            after = self.journal.last
            new = [
                Run(run, agent.name, self, after=after)
                for run in agent.conversation.pending
                if run not in self.runs
            ]
            self.runs |= {run.id: run for run in new}
            resumed += new
            self._start(agent)
        return resumed

    async def retry(self, agent: str = "main") -> Run:
        """Continue where the agent's last run ended without being done: finished calls are not run
        again.

        Args:
            agent: Whose run failed for a temporary reason, timed out or was stopped.

        Raises:
            UsageError: There is no such agent or model, or its last run is done.
        """
        if self.journal.broken is not None:
            raise self.journal.broken
        if agent not in self.agents:
            raise unknown("agent", agent, self.agents)
        actor = self.agents[agent]
        _check_retryable(actor)
        await self.kernel.router.ready(actor)
        _check_retryable(actor)  # another task may have tried it again meanwhile
        assert actor.conversation.ended is not None
        identity = os.urandom(6).hex()
        run = self.runs[identity] = Run(identity, agent, self, after=self.journal.last)
        model = self.kernel.router.chain(actor)[0]
        previous = actor.conversation.ended.run
        self.emit(
            ev.RunRetried(previous=previous, model=model, mode=actor.mode.name), actor, identity
        )
        self._start(actor)
        return run

    def stop(self, agent: str = "", *, run: str = "") -> None:
        """End what an agent is doing (all agents by default): its run, everything the run started,
        and waiting prompts.

        Args:
            agent: Which.
            run: Id of the only run that ends.
        """
        for actor in self.agents.values():
            if agent in ("", actor.name):
                for identity, _ in list(actor.conversation.queue):
                    if identity != actor.starting and run in ("", identity):
                        self.emit(ev.RunEnded(state="stopped"), actor, identity)
                if actor.scope is not None and run in ("", actor.starting):
                    actor.scope.cancel()
                    self.emit(ev.StopAsked(), actor, actor.starting)

    def trim(self, agent: str = "main", *, focus: str = "") -> None:
        """Have a conversation cut to what matters: at once when the agent has nothing to do, else
        before its next request.

        ``Trimmed`` tells what came of it. One cut off by a crash is made when the session goes on.

        Args:
            agent: Whose.
            focus: What the summary should dwell on.

        Raises:
            UsageError: There is no such agent.
        """
        if agent not in self.agents:
            raise unknown("agent", agent, self.agents)
        self.emit(ev.TrimAsked(focus=focus), actor := self.agents[agent])
        if not actor.conversation.pending:
            self._start(actor)

    def answer(
        self,
        approval: str,
        accepted: bool,
        *,
        reason: str = "",
        remember: str = "once",
        by: str = "user",
    ) -> None:
        """Answer an approval.

        Args:
            approval: Its id.
            accepted: Whether the call may run.
            reason: Why not; the model reads it.
            remember: ``session`` lets every later call of the approval's scope (of its tool, if it
                has none) run unasked until the session ends; ``always`` asks the plugin that gave
                the scope to keep it as a rule, too.
            by: ``headless`` where a face says no because it can ask nobody.

        Raises:
            UsageError: No such approval is open: it was answered, ran out, or its run ended.
        """
        opened = self.underway.take(approval)
        answer = ev.ApprovalAnswered(
            id=approval,
            accepted=accepted,
            reason=reason,
            remember=remember,  # type: ignore[arg-type]
            by=by,
        )
        self.emit(answer, opened.agent)
        opened.answered.set()
        opened.first.set()

    def approval_shown(self, approval: str) -> float:
        """Start the clock of an approval, because the user sees it now.

        That of the oldest open one runs anyway.

        Args:
            approval: Its id.

        Returns:
            When the time to answer is over, in Unix seconds; ``ApprovalShown`` says the same.

        Raises:
            UsageError: No such approval is open: it was answered, ran out, or its run ended.
        """
        return self.underway.show(approval)

    def set(
        self, *, mode: str | None = None, model: str | None = None, approve: str | None = None
    ) -> None:
        """Change what holds from the next turn on.

        Raises:
            UsageError: There is no such mode, model or policy.
        """
        for kind, name, known in (
            ("mode", mode, self.modes),
            ("approval policy", approve, POLICIES),
        ):
            if name is not None and name not in known:
                raise unknown(kind, name, known)
        if model is not None:
            self.kernel.router.model(model)
        pairs = (mode, self._mode), (model, self.model), (approve, self.approve)
        mode, model, approve = (new if new != old else None for new, old in pairs)
        change = ev.SessionChanged(mode=mode, model=model, approve=approve)
        if change != ev.SessionChanged():
            self.emit(change)
            self._change(change)

    def _change(self, change: ev.SessionChanged) -> None:
        for agent in self.agents.values():  # what was refused before may be allowed now
            agent.conversation.failures.clear()
        self._mode, self.approve = change.mode or self._mode, change.approve or self.approve  # type: ignore[assignment]
        if change.model is not None:
            self.model = change.model
            for agent in self.agents.values():
                if agent.conversation.run:
                    agent.conversation.run.model = ""

    @property
    def grants(self) -> frozenset[str]:
        """Scopes of approvals, and names of tools, whose calls the user lets run unasked until the
        session ends.
        """
        return frozenset(
            name for agent in self.agents.values() for name in agent.conversation.grants
        )

    def add_mode(self, mode: Mode) -> None:
        """Add a mode, or replace the one of that name."""
        self.modes[mode.name] = mode

    @property
    def mode(self) -> Mode:
        """The mode it is in. An unknown one stands for reading only, until it is set right."""
        return self.modes.get(self._mode) or Mode(
            self._mode, self.modes["ask"].tools if "ask" in self.modes else _READ
        )

    def add_agent(
        self, profile: Profile, parent: str = "", messages: Sequence[Message] = ()
    ) -> Agent:
        """Add an agent.

        Args:
            profile: What it is.
            parent: Name of the agent that makes it.
            messages: What was said before, in another session: its conversation goes on from there.

        Raises:
            UsageError: There is one of that name.
        """
        if profile.name in self.agents:
            raise UsageError(f"There is an agent {profile.name!r} already.", code="E_BUSY")
        agent = self.agents[profile.name] = Agent(profile.name, self, profile, parent)
        self.emit(
            ev.AgentStarted(
                parent=parent, profile=msgspec.to_builtins(profile), messages=(*messages,)
            ),
            agent,
        )
        return agent

    # --- work -------------------------------------------------------------------------------------

    def _start(self, agent: Agent) -> None:
        if agent.name not in self._working:
            self._working.add(agent.name)
            self.work.start_soon(self._work, agent, name=f"agent {agent.name}")

    async def _work(self, agent: Agent) -> None:
        """Work on the agent's run and its waiting prompts, one after another."""
        with use_environment(self.kernel.environ):
            await self._work_off(agent)

    async def _work_off(self, agent: Agent) -> None:
        try:
            while (waits := agent.conversation.pending) or agent.conversation.trim_asked:
                await (drive(agent) if waits else trim_at_rest(agent))
        except StoreError as error:
            for run in self.runs.values():
                run.finish(None, error)
        finally:
            self._working.discard(agent.name)
            for run in [
                run
                for run in self.runs.values()
                if run.agent == agent.name and not run._over.is_set()
            ]:
                run.finish(
                    None,
                    HilumError(
                        "The session was closed before the run ended.", code="E_INTERRUPTED"
                    ),
                )

    async def _wrap(self, command: Command) -> Command:
        reason = self.hooks.refusal()
        if reason:
            raise ToolDenied(reason)
        try:
            wrapped: Command = await self.hooks.pipe(
                "wrap_process", "command", session=self, command=command
            )
        except PluginError as error:
            raise ToolDenied(f"{COMMAND_WITHHELD}: {error.message}") from error
        except HilumError as error:
            raise ToolDenied(f"The command may not start. {error.message}") from error
        return wrapped

    # --- plugins ----------------------------------------------------------------------------------

    def settings(self, section: type[T]) -> T:
        """Return a plugin's settings as they hold for this session's workspace."""
        return self._settings.get(section)

    @property
    def tools(self) -> dict[str, Tool]:
        """Its tools by name."""
        return self.halves.tools

    def tools_changed(self) -> None:
        """Ask all plugins for their tools again. Agents are told at the end of the round."""
        self.halves.take_tools()

    def half(self, kind: type[T]) -> T | None:
        """Return another plugin's half by its type, ``None`` if that plugin is not there."""
        return self.halves.half(kind)

    def report(self, fault: Fault) -> None:
        """Write a fault of a plugin down."""
        self.halves.report(fault)

    async def start(self) -> None:
        """Open the plugins' halves, fold the events known so far, and make the main agent."""
        events = self.journal.read_all()
        if not events:
            where = spell_folder(self.workspace.root)
            self.emit(
                ev.SessionOpened(
                    session=self.id, workspace=where, kind=self.kind, version=__version__
                )
            )
        await self.halves.open()
        self.redaction.opened = True
        for event in events:
            self._replay(event)
        if "main" not in self.agents:
            self.add_agent(Profile())

    def _replay(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.AgentStarted):
            profile = msgspec.convert(event.profile, Profile)
            self.agents[event.agent] = Agent(event.agent, self, profile, event.parent)
        if isinstance(event, ev.PromptQueued | ev.ModelAnswered):
            self.redaction.names.update(event.redacted)
        if isinstance(event, ev.SessionChanged):
            self._change(event)
        elif event.agent in self.agents:
            self._fold(event, self.agents[event.agent])

    def discard(self) -> None:
        """Have the session deleted when it closes: nothing ever happened in it."""
        self.discarded = True

    async def close(self) -> None:
        """Close the halves in reverse order, then the log; readers end."""
        await self.halves.close()
        await self.journal.close()


def check_kind(kind: str) -> None:
    """Raise an error for a kind of session that does not exist.

    An empty one stands for the setting.

    Raises:
        UsageError: There is no such kind.
    """
    if kind and kind not in KINDS:
        raise unknown("session kind", kind, KINDS)


def _check_retryable(agent: Agent) -> None:
    if not agent.conversation.retryable:
        hint = "Send a prompt to continue the conversation."
        raise UsageError("The last run left nothing that can be tried again.", hint=hint)


def _keep_written(event: ev.Event, agent: Agent) -> None:
    """Keep what the log does not have and this process needs.

    Calls run as their model wrote them. A lasting yes holds for the scope that the user saw; a
    resumed session asks again.
    """
    if isinstance(event, ev.ModelAnswered):
        for call in event.message.calls:
            state = agent.run.calls[call.id]
            if state.withheld:
                state.written = call
    elif isinstance(event, ev.ApprovalAsked):
        agent.run.calls[event.call.id].scope = event.scope
    elif isinstance(event, ev.ApprovalAnswered) and event.accepted and event.remember != "once":
        scopes = {
            state.scope
            for state in agent.run.calls.values()
            if state.asked and state.asked.id == event.id and state.scope
        }
        agent.conversation.grants |= scopes


_READ = ToolFilter(allow=("read",))
injected[Session] = lambda call: call.session
