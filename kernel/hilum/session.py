"""A session: one user's work in one workspace. It owns the event log, the plugins' halves and the agents.

Faces send commands (``prompt``, ``answer``, ``stop``, ``set`` …) and read ``events``; nothing calls back into the loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import attrs
import msgspec
import trio

from hilum import __version__
from hilum import events as ev
from hilum.agents import Agent, Mode, Profile, ToolFilter
from hilum.context import ContextRequest, fit, render
from hilum.errors import HilumError, StoreError, ToolDenied, ToolError, UsageError, unknown
from hilum.hooks import FAULTS, Fault, Table, implementations
from hilum.hookspecs import Interpretation
from hilum.journal import Journal, Reader
from hilum.lifespans import Lifespan
from hilum.loop import drive, give_up
from hilum.messages import Block, Text, UserMessage, writable
from hilum.plugins import Plugin
from hilum.processes import Command, Processes
from hilum.settings import KernelSettings, Settings
from hilum.store import Log
from hilum.tools import Tool, injected
from hilum.workspace import Workspace

if TYPE_CHECKING:
    from hilum.kernel import Kernel

T = TypeVar("T")


@attrs.define(eq=False)
class Run:
    """An agent working on one prompt.

    Attributes:
        id: The run's id, as in its events.
        agent: Name of the agent.
        reply: Set when the prompt was a command that is done; no agent ran.
        result: How it ended, ``None`` while it runs.
    """

    id: str
    agent: str
    session: Session = attrs.field(repr=False)
    reply: str | None = None
    result: ev.RunEnded | None = None
    error: HilumError | None = None
    _over: trio.Event = attrs.field(factory=trio.Event, repr=False)

    async def wait(self) -> ev.RunEnded:
        """Wait for the end.

        Raises:
            StoreError: The session could not be written any more (disk full, file damaged); nothing was lost that was shown.
        """
        await self._over.wait()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def stop(self) -> None:
        """End the run at once, with everything it started."""
        self.session.stop(self.agent)

    def finish(self, result: ev.RunEnded | None, error: HilumError | None = None) -> None:
        """Note how it ended, and wake who waits."""
        self.result, self.error = result, error
        self._over.set()


class Session:
    """See the module. Made by ``Kernel.open_session``.

    Attributes:
        id: The session's id.
        kernel: The kernel it belongs to.
        workspace: The folder it works in.
        kind: ``main``, ``shared`` or ``headless`` (nobody is there to ask).
        agents: Its agents by name; ``main`` is always there.
        tools: Its tools by name.
        modes: The modes there are.
        processes: The only way to start a process.
        expects_tools: Set by a plugin whose tools may come late: ``find_tools`` and ``call_tool`` join the tool list.
        journal: Its event log and who reads it.
    """

    def __init__(
        self,
        kernel: Kernel,
        log: Log,
        session: str,
        workspace: Workspace,
        kind: str,
        settings: Settings,
        halves: trio.Nursery,
    ) -> None:
        self.id, self.kernel, self.workspace, self.kind = session, kernel, workspace, kind
        self.options = settings.get(KernelSettings)
        self._settings, self._halves, self.journal = settings, halves, Journal(log)
        self.work: trio.Nursery = halves
        self.hooks: Table = kernel.host.table.copy(self.report)
        self.processes = Processes(kernel.warden, self._wrap, str(workspace.root))
        self.modes: dict[str, Mode] = {"agent": Mode("agent")}
        self.model, self.approve, self._mode = self.options.model, self.options.approve, self.options.mode
        self.agents: dict[str, Agent] = {}
        self.tools: dict[str, Tool] = {}
        self.grants: set[str] = set()
        self.expects_tools = False
        self._lifespans: list[Lifespan] = []
        self._runs: dict[str, Run] = {}
        self._working: set[str] = set()
        self._waiting: dict[str, trio.Event] = {}
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self._flights: dict[str, set[trio.CancelScope]] = {}

    # --- events -------------------------------------------------------------------------------------------------------

    def emit(self, event: ev.Event, agent: Agent | None = None, run: str = "") -> int:
        """Write an event to the log, fold it, show it to readers. When this returns it is durable.

        Returns:
            Its sequence number.

        Raises:
            StoreError: It could not be written; the session takes no more events.
        """
        seq, now = self.journal.last + 1, self.now()
        events = [msgspec.structs.replace(event, seq=seq, at=now)]
        if agent is not None:
            conversation = agent.conversation
            run = run or (conversation.run.id if conversation.run else "")
            event = events[0] = msgspec.structs.replace(events[0], agent=agent.name, run=run)
            ev.encode(event)  # what cannot be written must not be folded either
            before = conversation.state
            conversation.apply(event)
            if conversation.state != before:
                state = ev.StateChanged(state=conversation.state, previous=before)
                events.append(msgspec.structs.replace(state, seq=seq + 1, at=now, agent=agent.name, run=run))
        self.journal.append(events)
        self._settle(event)
        return seq

    def _settle(self, event: ev.Event) -> None:
        match event:
            case ev.ModelAnswered() | ev.ModelFailed():
                self.journal.drop(event.agent)
            case ev.CallDone(result=result):
                self.journal.drop(event.agent, result.call_id)
            case ev.RunEnded():
                self.journal.drop(event.agent)
                if run := self._runs.pop(event.run, None):
                    run.finish(event)
            case ev.ApprovalAnswered(id=ask):
                self._grant(event)
                if ask in self._waiting:
                    self._waiting[ask].set()

    def delta(self, seq: int, agent: Agent, kind: str, text: str, call_id: str = "") -> None:
        """Show a piece of output that belongs to the event ``seq``. It is not stored."""
        run = agent.conversation.run
        self.journal.delta((seq, kind, call_id), agent.name, run.id if run else "", text)

    def events(self, after: int = 0, *, deltas: bool = False) -> Reader:
        """Read the session's events in order, from any point on, until it closes.

        Args:
            after: Sequence number of the last event already known.
            deltas: Also give output on its way, as ``Delta``; a late reader gets the text so far, then what is added.
        """
        return self.journal.read(after, deltas=deltas)

    @staticmethod
    def now() -> float:
        """Unix time in seconds."""
        return time.time()

    def note(self, name: str, **data: Any) -> None:
        """Write a fact of a plugin's own, named ``plugin.what``, with plain data."""
        self.emit(ev.PluginEvent(name=name, data=data))

    # --- commands -----------------------------------------------------------------------------------------------------

    async def prompt(self, text: str, *, agent: str = "main", state: Mapping[str, object] | None = None) -> Run:
        """Give an agent something to do; it starts at once, or after what it is doing.

        Args:
            text: What the user says. Plugins may read it as a command, or as addressed to another agent.
            agent: The agent, unless the text addresses one.
            state: What the face knows of the user's workspace (open files, cursor), as plain data.

        Raises:
            UsageError: There is no such agent or model.
        """
        if self.journal.broken is not None:
            raise self.journal.broken
        text = writable(text)
        meant = await self.hooks.first("interpret_prompt", session=self, text=text)
        if isinstance(meant, Interpretation):
            text, agent = meant.text, meant.agent if meant.agent != "main" else agent
            if meant.reply is not None:
                run = Run("", agent, self, reply=meant.reply)
                run.finish(ev.RunEnded(state="completed", text=meant.reply))
                return run
        if agent not in self.agents:
            raise unknown("agent", agent, self.agents)
        actor = self.agents[agent]
        await self.kernel.router.ready(actor)
        if actor.conversation.phase != "idle" and agent not in self._working:
            give_up(actor, "interrupted", "E_INTERRUPTED", "The run was cut off and not resumed.")
        identity = uuid4().hex[:12]
        run = self._runs[identity] = Run(identity, agent, self)
        self.emit(ev.PromptQueued(text=text), actor, identity)
        self._start(actor, dict(state or {}))
        return run

    async def run(self, text: str, **options: Any) -> ev.RunEnded:
        """Prompt and wait for the end. Takes what ``prompt`` takes. Cancelling it stops the run, and waits for that."""
        run = await self.prompt(text, **options)
        try:
            return await run.wait()
        except trio.Cancelled:
            run.stop()
            with trio.CancelScope(shield=True):
                await run.wait()
            raise

    def resume(self) -> list[Run]:
        """Go on with what was cut off when the session was last written, in the middle of a turn if need be.

        Returns:
            The runs that go on, and those of prompts that still waited.
        """
        resumed = []
        for agent in self.agents.values():
            run = agent.conversation.run
            for identity in [run.id if run else "", *(entry[0] for entry in agent.conversation.queue)]:
                if identity and identity not in self._runs:
                    self._runs[identity] = Run(identity, agent.name, self)
                    resumed.append(self._runs[identity])
            if agent.conversation.run or agent.conversation.queue:
                self._start(agent, {})
        return resumed

    def stop(self, agent: str = "") -> None:
        """End what an agent is doing (all agents by default): its run, everything the run started, and waiting prompts."""
        for actor in self.agents.values():
            if agent in ("", actor.name):
                for identity, _ in list(actor.conversation.queue):
                    if identity != actor.starting:
                        self.emit(ev.RunEnded(state="stopped"), actor, identity)
                if actor.scope is not None:
                    actor.scope.cancel()

    def answer(self, approval: str, accepted: bool, *, reason: str = "", remember: str = "once") -> None:
        """Answer an approval.

        Args:
            approval: Its id.
            accepted: Whether the call may run.
            reason: Why not; the model reads it.
            remember: ``session`` lets every later call of this tool run unasked until the session ends.

        Raises:
            UsageError: No such approval is open: it was answered, ran out, or its run ended.
        """
        for actor in self.agents.values():
            run = actor.conversation.run
            for state in run.calls.values() if run else ():
                if state.asked and state.asked.id == approval and not state.answered and approval in self._waiting:
                    given = ev.ApprovalAnswered(id=approval, accepted=accepted, reason=reason, remember=remember)  # type: ignore[arg-type]
                    self.emit(given, actor)
                    return
        raise UsageError(
            f"There is no open approval {approval!r}.", code="E_UNKNOWN", hint="It was answered or ran out."
        )

    def _grant(self, event: ev.ApprovalAnswered) -> None:
        if event.accepted and event.remember == "session":
            run = self.agents[event.agent].conversation.run
            calls = run.calls.values() if run else ()
            self.grants |= {s.asked.call.name for s in calls if s.asked and s.asked.id == event.id}

    def set(self, *, mode: str | None = None, model: str | None = None, approve: str | None = None) -> None:
        """Change what holds from the next turn on.

        Raises:
            UsageError: There is no such mode, model or policy.
        """
        if mode is not None and mode not in self.modes:
            raise unknown("mode", mode, self.modes)
        if model is not None:
            self.kernel.router.model(model)
        if approve is not None and approve not in ("ask_first", "auto", "readonly"):
            raise unknown("approval policy", approve, ("ask_first", "auto", "readonly"))
        change = ev.SessionChanged(
            mode=mode if mode != self._mode else None,
            model=model if model != self.model else None,
            approve=approve if approve != self.approve else None,
        )
        if (change.mode, change.model, change.approve) != (None, None, None):
            self.emit(change)
            self._change(change)

    def _change(self, change: ev.SessionChanged) -> None:
        self._mode, self.approve = change.mode or self._mode, change.approve or self.approve  # type: ignore[assignment]
        if change.model is not None:
            self.model = change.model
            for agent in self.agents.values():
                if agent.conversation.run:
                    agent.conversation.run.model = ""

    def add_mode(self, mode: Mode) -> None:
        """Add a mode, or replace the one of that name."""
        self.modes[mode.name] = mode

    @property
    def mode(self) -> Mode:
        """The mode it is in. An unknown one stands for reading only, until it is set right."""
        return self.modes.get(self._mode) or Mode(self._mode, self.modes["ask"].tools if "ask" in self.modes else _READ)

    def add_agent(self, profile: Profile, parent: str = "") -> Agent:
        """Add an agent.

        Raises:
            UsageError: There is one of that name.
        """
        if profile.name in self.agents:
            raise UsageError(f"There is an agent {profile.name!r} already.", code="E_BUSY")
        agent = self.agents[profile.name] = Agent(profile.name, self, profile, parent)
        self.emit(ev.AgentStarted(parent=parent, profile=attrs.asdict(profile)), agent)
        return agent

    # --- work ---------------------------------------------------------------------------------------------------------

    def _start(self, agent: Agent, state: dict[str, object]) -> None:
        if agent.name not in self._working:
            self._working.add(agent.name)
            self.work.start_soon(self._work, agent, state, name=f"agent {agent.name}")

    async def _work(self, agent: Agent, state: dict[str, object]) -> None:
        """Work on the agent's run and its waiting prompts, one after another."""
        conversation = agent.conversation
        try:
            while conversation.phase != "idle" or conversation.queue:
                await drive(agent, self._begin, state)
                state = {}
        except StoreError as error:
            for run in self._runs.values():
                run.finish(None, error)
        finally:
            self._working.discard(agent.name)

    async def _begin(self, agent: Agent, state: dict[str, object]) -> None:
        """Start the run of the next waiting prompt, with the context gathered for it."""
        identity, text = agent.conversation.queue[0]
        model = self.kernel.router.chain(agent)[0]
        window = self.kernel.router.model(model).info.window
        request = ContextRequest(text, budget=window // 4, state=state)
        blocks: list[Block] = []
        for _, found in await self.hooks.gather("gather_context", agent=agent, request=request):
            if not isinstance(found, Fault):
                blocks += [found] if isinstance(found, Block) else found
        parts = [Text(render(block), f"context:{block.type}") for block in fit(blocks, request.budget)]
        message = UserMessage((Text(text), *parts))
        self.emit(ev.RunStarted(text=text, message=message, model=model, mode=agent.mode.name), agent, identity)

    @contextmanager
    def waiting(self, approval: str) -> Iterator[trio.Event]:
        """Register an open approval; the event is set when it is answered."""
        self._waiting[approval] = event = trio.Event()
        try:
            yield event
        finally:
            del self._waiting[approval]

    @contextmanager
    def in_flight(self, plugin: str) -> Iterator[trio.CancelScope]:
        """Register a running call of a plugin, so that it ends when the plugin crashes."""
        flights = self._flights.setdefault(plugin, set())
        with trio.CancelScope() as scope:
            flights.add(scope)
            try:
                yield scope
            finally:
                flights.discard(scope)

    def write_key(self, path: object) -> str:
        """Name what a path parameter of a writing tool leads to, so that two names of one file are one."""
        try:
            return str(self.workspace.resolve(str(path)))
        except ToolError:
            return str(path)

    def write_lock(self, key: str) -> trio.Lock:
        """Give the lock of a file; calls that write it run one after another."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = trio.Lock()
        return lock

    async def _wrap(self, command: Command) -> Command:
        if reason := self.hooks.refusal():
            raise ToolDenied(reason)
        try:
            wrapped: Command = await self.hooks.pipe("wrap_process", "command", session=self, command=command)
        except HilumError as error:
            raise ToolDenied(f"The command may not start. {error.message}") from error
        return wrapped

    # --- plugins ------------------------------------------------------------------------------------------------------

    def settings(self, section: type[T]) -> T:
        """Give a plugin's settings as they hold for this session's workspace."""
        return self._settings.get(section)

    def half(self, kind: type[T]) -> T | None:
        """Give another plugin's half by its type, ``None`` if that plugin is not there."""
        return next((ls.half for ls in self._lifespans if isinstance(ls.half, kind)), None)

    def report(self, fault: Fault) -> None:
        """Write a fault down; when it switched a plugin off, take the plugin's tools out."""
        self.kernel.faults.append(fault)
        event = ev.PluginFault(plugin=fault.plugin, hook=fault.hook, error=str(fault), switched_off=fault.switched_off)
        if self.journal.broken is None:
            self.emit(event)
        if fault.switched_off:
            self._take_out(fault.plugin)

    def crashed(self, plugin: str, error: BaseException) -> None:
        """A plugin's lifespan failed: its calls in flight and everything it gave end with it."""
        fault = Fault(plugin, "lifespan", error, switched_off=True)
        self.hooks.remove(plugin, f"it crashed: {fault}")
        self.report(fault)

    def _take_out(self, plugin: str) -> None:
        for scope in list(self._flights.get(plugin, ())):
            scope.cancel()
        self.tools = {name: tool for name, tool in self.tools.items() if tool.plugin != plugin}

    def tools_changed(self) -> None:
        """Ask all plugins for their tools again. Agents are told at the end of the round."""
        found: dict[str, Tool] = {}
        for plugin, tool in self.hooks.collect("provide_tools", session=self):
            if tool.name in found:
                clash = ValueError(f"the plugin {found[tool.name].plugin} has a tool {tool.name} already")
                self.hooks.fault(plugin, "provide_tools", clash)
            else:
                found[tool.name] = attrs.evolve(tool, plugin=plugin, signature=tool._signature)
        self.tools = found

    async def start(self) -> None:
        """Open the plugins' halves, fold the events known so far, and make the main agent."""
        events = self.journal.read_all()
        if not events:
            root = str(self.workspace.root)
            self.emit(ev.SessionOpened(session=self.id, workspace=root, kind=self.kind, version=__version__))
        for index, plugin in enumerate(self.kernel.host.plugins.values()):
            function = getattr(plugin.module, "open_session", None)
            if plugin.state == "ready" and hasattr(function, "hilum_impl"):
                await self._open_half(plugin, index, function)
        self.tools_changed()
        for event in events:
            self._replay(event)
        if "main" not in self.agents:
            self.add_agent(Profile())

    async def _open_half(self, plugin: Plugin, index: int, function: Any) -> None:
        lifespan = Lifespan(plugin.name)
        specs = self.hooks.specs
        try:
            half = await lifespan.open(self._halves, function, (self,), specs["open_session"].deadline, self.crashed)
            self._lifespans.append(lifespan)
            if half is not None:
                for hook, impl in list(implementations(half, plugin.name, index, specs, half=True)):
                    self.hooks.add(hook, impl)
        except FAULTS as error:
            fault = Fault(plugin.name, "open_session", error, switched_off=True)
            self.hooks.remove(plugin.name, f"it could not be opened: {fault}")
            self.report(fault)

    def _replay(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.AgentStarted):
            profile = self.kernel.restore(Profile, event.profile)
            self.agents[event.agent] = Agent(event.agent, self, profile, event.parent)
        elif isinstance(event, ev.SessionChanged):
            self._change(event)
        elif event.agent in self.agents:
            self.agents[event.agent].conversation.apply(event)
            if isinstance(event, ev.ApprovalAnswered):
                self._grant(event)

    async def close(self) -> None:
        """Close the halves in reverse order, then the log; readers end."""
        for lifespan in reversed(self._lifespans):
            await lifespan.close()
        for run in self._runs.values():
            run.finish(None, HilumError("The session was closed before the run ended.", code="E_INTERRUPTED"))
        await self.journal.close()


_READ = ToolFilter(allow=("read",))
injected[Session] = lambda call: call.session
