"""A session: one user's work in one workspace.

The session owns the event log, the agents and the plugin instances. Faces send commands
(``prompt``, ``answer``, ``stop``, ``set`` …) and read ``events``; the loop never calls a face.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from hilum import __version__
from hilum import events as ev
from hilum.agents import Agent, Mode, Profile, ToolFilter
from hilum.call_finder import check_not_repeated, find_call
from hilum.calls_in_flight import CallsInFlight
from hilum.errors import (
    COMMAND_WITHHELD,
    E_BAD_ARGS,
    E_INTERRUPTED,
    HilumError,
    PluginError,
    StoreError,
    ToolDenied,
    ToolError,
    UsageError,
    unknown_name_error,
)
from hilum.event_writer import EventWriter
from hilum.heartbeats import Heartbeats
from hilum.hooks import PluginFailure
from hilum.hookspecs import Interpretation, PromptCommand
from hilum.identifiers import make_id
from hilum.images import check_images
from hilum.instances import PluginInstances
from hilum.journal import Journal, Kinds, Reader
from hilum.late_imports import LateImports
from hilum.loop import compact_idle, drive, find_next_run, give_up
from hilum.messages import Image, Message, replace_surrogates
from hilum.plugins import GateTable
from hilum.processes import Command, Processes
from hilum.prompt_order import PromptOrder
from hilum.redaction import Redaction, notice
from hilum.repeated_calls import describe_repeat
from hilum.runs import Run
from hilum.settings import KINDS, KernelSettings, Settings, use_environment
from hilum.slow_hooks import HeldHooks, hold_slow_hooks
from hilum.store import Log, SessionInfo, spell_folder, suggest_rescue
from hilum.tools import Tool, injected
from hilum.unread_outputs import ATTACHED, UnreadOutputs
from hilum.workspace import Workspace

if TYPE_CHECKING:
    from hilum.kernel import Kernel

T = TypeVar("T")
POLICIES = ("ask_first", "auto", "readonly")
REQUEST_SECONDS = 0.05
"""Seconds in which a request is sent once its prompt is complete."""
# A command or an agent's name at the beginning of a prompt. Paths, decorators and comments do not
# match.
_SHORTCUT = re.compile(r"\s*([/@][A-Za-z][\w:-]*)(?:[ \t]|\s*$)")
_READ = ToolFilter(allow=("read",))


class Session:
    """One user's work in one workspace. ``Kernel.open_session`` creates it.

    Attributes:
        id: The session's id.
        kernel: The kernel that the session belongs to.
        workspace: The folder that the session works in.
        kind: ``main``, ``shared`` or ``headless``. A rule may apply only to some kinds of
            sessions.
        attended: Whether a user is present to answer requests for approval and questions.
        options: The kernel's settings for this session's workspace.
        model: The model in use, as ``provider/name``; if empty, a provider chooses.
        approve: The approval policy.
        agents: The session's agents by name; ``main`` always exists.
        runs: The runs that have not ended, by id.
        modes: The available modes by name.
        processes: The object that starts child processes; there is no other way to start one.
        journal: The session's event log and the readers of the log.
        hooks: The hooks of the session's plugins.
        redaction: The object that removes secrets from events before they are written.
        began_at: Sequence number of the last event before the session was opened; 0 for a new
            session.
        expects_deferred_tools: Whether a plugin's tools may arrive late, as set by the plugin; if
            so, ``find_tools`` and ``call_tool`` are in the tool list from the start.
        deferred_tools_ready: A trio event that such a plugin sets when its tools are loaded;
            ``find_tools`` waits for the event for at most 30 seconds.
        sent_elsewhere: Ids of the prompts, messages and answers that the user gave in another
            terminal (see ``hilum.sharing``).
        answered_on_page: Names of the users who answered in a browser that this process serves, by
            the id of the approval, question or plan.
        unread_outputs: Outputs of the user's commands, which the main agent reads with its next
            prompt.
    """

    # Names that begin with an underscore are for the kernel's own modules. Faces and plugins use
    # the other names.
    _nursery: trio.Nursery

    def __init__(
        self, kernel: Kernel, log: Log, info: SessionInfo, root: Path, settings: Settings
    ) -> None:
        self.id: str = info.id
        self.kernel = kernel
        self.kind: str = info.kind
        self.options: KernelSettings = settings.get(KernelSettings)
        self.attended: bool = info.kind != "headless"
        self.workspace: Workspace = Workspace(root, self.options.extra_roots)
        self.journal: Journal = Journal(log)
        self.journal.on_broken = self._cancel_runs
        self.began_at: int = self.journal.last
        self.agents: dict[str, Agent] = {}
        self.runs: dict[str, Run] = {}
        self.modes: dict[str, Mode] = {"agent": Mode("agent")}
        self.model: str = self.options.model
        self.approve = self.options.approve
        self.expects_deferred_tools = False
        self.deferred_tools_ready: trio.Event | None = None
        self.sent_elsewhere: set[str] = set()
        self.answered_on_page: dict[str, str] = {}
        self.unread_outputs: UnreadOutputs = UnreadOutputs()
        self._mode = self.options.mode
        self._settings = settings
        self._calls_in_flight: CallsInFlight = CallsInFlight(self.workspace)
        self._instances: PluginInstances = PluginInstances(self)
        self.hooks: GateTable = self._instances.hooks
        self.redaction: Redaction = Redaction(self.hooks)
        self.processes: Processes = Processes(kernel.warden, self._wrap, str(root), kernel.environ)
        self._writer = EventWriter(self.journal, self.redaction, self.agents, self.runs)
        self._discarded = False
        self._working: set[str] = set()
        self._heartbeats = Heartbeats(self.journal, self._writer, self.agents, self._working)
        self._late_imports = LateImports(
            self.wait_for_request, expects_prompt=kernel.expects_prompt
        )
        self._prompts = PromptOrder()

    # --- events -----------------------------------------------------------------------------------

    def emit(self, event: ev.Event, agent: Agent | None = None, run: str = "") -> int:
        """Write an event to the log, fold it and show it to readers.

        With the standard store, the event is durable when this method returns. Another store may
        write in the background; readers get the event when it is durable. What must not happen
        before that waits for ``journal.flush``.

        Secrets in the event are replaced first. The event is folded in the form in which it is
        written, so that a resumed session sends the model the same requests. Only a request
        for approval is shown with its secrets, because the user must see what would run.

        Returns:
            The sequence number of the event.

        Raises:
            StoreError: The event could not be written; the session accepts no more events.
        """
        return self._writer.write(event, agent, run)

    def events(
        self,
        after: int = 0,
        *,
        deltas: bool = False,
        kinds: Kinds = (),
    ) -> Reader:
        """Read the session's events in order, from any point, until the session closes.

        Args:
            after: Sequence number of the last event that the caller already knows.
            deltas: Whether to read output while it arrives, as ``Delta``. A late reader gets the
                text so far and then the additions.
            kinds: The classes of the events to read, all by default. Use it for a task that waits
                for rare events: other events do not wake the task.
        """
        return Reader(self.journal, after, deltas, kinds)

    def import_later(self, *modules: str) -> None:
        """Import modules before their first use, while hilum waits for the model or for a prompt.

        A plugin calls this while its session opens, for modules that it does not import at once
        because the first request does not need them. A thread imports them; a module that cannot be
        imported is left out.

        Args:
            modules: The full names of the modules, in the order in which they are imported.
        """
        self._late_imports.add(modules)

    async def wait_for_request(self) -> None:
        """Wait until the session's first request to a model is under way.

        A plugin that prepares something for later does not hold up the request if it begins then.
        """
        async for _ in self.events(self.began_at, kinds=(ev.PromptFrozen,)):
            break
        await trio.sleep(REQUEST_SECONDS)

    def note(self, name: str, **data: Any) -> None:
        """Write a plugin's event, named in the form ``plugin.what``, with plain data."""
        self.emit(ev.PluginEvent(name=name, data=data))

    # --- commands ---------------------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
        attached: str = "",
        images: Sequence[Image] = (),
    ) -> Run:
        """Prompt an agent. The run starts immediately or after the agent's earlier prompts.

        Args:
            text: The user's text. Plugins may interpret the text as a command or as addressed to
                another agent.
            agent: Name of the agent, unless the text addresses another one.
            state: State of the user's workspace that the face reports (open files, cursor), as
                plain data.
            piped: Whether another program, and not the user, wrote the text. A text from another
                program is never a command and never addresses another agent, and plugins that trust
                the user's words do not trust it.
            attached: Data from another program that comes with the text, such as the output of a
                command. The agent reads this data as a separate block.
            images: Images that come with the text. A model that accepts no images gets a line of
                text in place of each.

        Raises:
            UsageError: The agent or model does not exist, or the prompt is empty, or there are too
                many images, or an image is too large (``E_BAD_ARGS``), or the session is being
                closed (``E_INTERRUPTED``), or a plugin refuses the prompt (``E_DENIED``) or the
                command that the text contains.
            PluginError: A plugin that removes secrets from texts does not work.
        """
        self._check_open()
        check_images(images)
        # Interpreting and redacting take varying amounts of time, but prompts must run in the order
        # in which they were given.
        with (
            self._prompts.turn(agent) as earlier,
            hold_slow_hooks(self._instances.write_slow_hook) as hooks,
        ):
            given = ev.PromptQueued(
                text=replace_surrogates(text),
                piped=piped,
                attached=replace_surrogates(attached),
                images=tuple(images),
            )
            return await self._prompt(given, agent, state or {}, earlier, hooks)

    async def _prompt(
        self,
        given: ev.PromptQueued,
        agent: str,
        state: Mapping[str, object],
        earlier: Sequence[trio.Event],
        hooks: HeldHooks,
    ) -> Run:
        """Interpret a prompt, remove its secrets, and queue it behind earlier prompts."""
        meant = await self._interpret(given, agent)
        if meant.agent != "main":
            agent = meant.agent
        if meant.reply is not None:
            run = Run("", agent, self, reply=meant.reply)
            run._finish(ev.RunEnded(state="completed", text=meant.reply))
            return run
        if meant.attached:
            attached = "\n\n".join(filter(None, [given.attached, meant.attached]))
            given = replace(given, attached=replace_surrogates(attached))
        if not (meant.text.strip() or given.attached.strip() or given.images):
            raise _empty_error("prompt")
        actor = self._find_agent(agent)
        # The model is checked before anything is logged, because without a model, the prompt is
        # refused and not queued.
        await self.kernel.router.ready(actor)
        # Outputs are removed at once, so that another prompt does not contain them, too.
        taken = self.unread_outputs.take() if agent == "main" else {}
        try:
            # Plugins interpret the full text of a prompt; only then is it redacted.
            queued = await self.redaction.prompt(
                meant.text,
                "\n\n".join(filter(None, [*taken.values(), given.attached])),
                given.text if meant.text != given.text else "",
                by_model=bool(actor.parent),
            )
            for before in earlier:
                await before.wait()
            # The log is checked again, because it may have broken during the waits above.
            self._check_open()
            self.end_interrupted(actor.name)
            run = self._new_run(agent, state)
            queued = replace(queued, piped=given.piped, images=given.images, outputs=tuple(taken))
            self.emit(queued, actor, run.id)
            for slow in hooks.take():
                self._instances.write_slow_hook(slow, actor, run.id)
        except BaseException:
            # The prompt was refused or cancelled, so the agent does not read them with it.
            self.unread_outputs.put_back(taken)
            raise
        if queued.redacted and not actor.parent:
            say = notice(queued.redacted)
            self.note("redaction.prompt", say=say, names=list(queued.redacted))
        if given.images:
            self._warn_without_images(actor)
        self._start(actor)
        await self._acknowledge(run)
        return run

    async def _acknowledge(self, run: Run) -> None:
        """Wait until the events of a run that was requested are durable.

        The run begins meanwhile; it stops if the request for it is cancelled.

        Raises:
            StoreError: The events could not be written.
        """
        try:
            await self.journal.flush()
        except trio.Cancelled:
            if self.journal.broken is None:
                run.stop()
            raise

    def _warn_without_images(self, agent: Agent) -> None:
        """Inform the user if an agent's model does not accept the images of a prompt."""
        model = self.kernel.router.chain(agent)[0]
        try:
            accepts_images = self.kernel.router.model(model).info.images
        except HilumError:  # the run itself reports it
            return
        if not accepts_images:
            say = f"{model} does not accept images; it reads only that an image was sent."
            self.note("prompt.images_left_out", say=say, model=model)

    def _check_open(self) -> None:
        """Check that the log accepts events, and that agents may still begin to work.

        Raises:
            StoreError: The log accepts no more events.
            UsageError: The session is being closed, or is closed (``E_INTERRUPTED``).
        """
        if self.journal.broken is not None:
            raise self.journal.broken
        if self.closing:
            raise UsageError(
                "The session is being closed, so nothing new can begin in it.",
                code=E_INTERRUPTED,
                hint="Open the session again, and repeat your request.",
            )

    def _find_agent(self, name: str) -> Agent:
        """Return an agent by its name.

        Raises:
            UsageError: The agent does not exist.
        """
        if name not in self.agents:
            raise unknown_name_error("agent", name, self.agents)
        return self.agents[name]

    def _new_run(self, agent: str, state: Mapping[str, object] | None = None) -> Run:
        identity = make_id("run")
        # The id is random, so that new runs in a fork and in the original session have different
        # ids.
        run = Run(identity, agent, self, state or {}, after=self.journal.last)
        self.runs[identity] = run
        return run

    async def _interpret(self, given: ev.PromptQueued, agent: str) -> Interpretation:
        """Return the plugins' interpretation of a prompt to an agent.

        Text from another program is never a command and does not choose the agent; otherwise a
        piped file could switch modes or approve something.
        """
        plain = Interpretation(given.text)
        if given.piped:
            self._note_shortcut(given.text)
            return plain
        meant = await self.hooks.first(
            "interpret_prompt", session=self, text=given.text, agent_name=agent
        )
        return plain if meant is None else meant

    def _note_shortcut(self, text: str) -> None:
        """Inform the user that the command at the start of a piped prompt is not carried out."""
        shortcut = _SHORTCUT.match(text)
        if shortcut is not None:
            say = (
                f"{shortcut[1]} is read as text: commands and calls to agents have an effect only"
                " in text that you type, not in piped text."
            )
            self.note("prompt.shortcut_ignored", say=say, shortcut=shortcut[1])

    async def run(
        self,
        text: str,
        *,
        agent: str = "main",
        state: Mapping[str, object] | None = None,
        piped: bool = False,
        attached: str = "",
        images: Sequence[Image] = (),
    ) -> ev.RunEnded:
        """Prompt an agent and wait for the end of the run.

        The arguments are those of ``prompt``. If this method is cancelled, it stops the run and
        waits until the run has ended.
        """
        run = await self.prompt(
            text, agent=agent, state=state, piped=piped, attached=attached, images=images
        )
        try:
            return await run.wait()
        except trio.Cancelled:
            run.stop()
            # Without the shield, the caller would continue while the run still changes files.
            with trio.CancelScope(shield=True):
                await run._over.wait()
            raise

    def resume(self) -> list[Run]:
        """Resume the runs that were interrupted when the session last ended.

        A run may continue in the middle of a turn. Prompts that were queued when the session last
        ended run only after they are resumed; ``stop`` drops them.

        Returns:
            The runs that continue, and the runs of prompts that were still queued.

        Raises:
            UsageError: The session is being closed (``E_INTERRUPTED``).
        """
        self._check_open()
        resumed = []
        for agent in self.agents.values():
            after = self.journal.last
            for identity in agent.conversation.pending:
                if identity not in self.runs:
                    run = Run(identity, agent.name, self, after=after)
                    self.runs[identity] = run
                    resumed.append(run)
            self._start(agent)
        return resumed

    def end_interrupted(self, agent: str = "main") -> None:
        """End an agent's run that an earlier process began and that was not resumed.

        Without such a run, nothing changes. A new prompt to the agent does the same.

        Raises:
            UsageError: The agent does not exist.
        """
        actor = self._find_agent(agent)
        if actor.conversation.phase != "idle" and agent not in self._working:
            give_up(actor, "interrupted", E_INTERRUPTED, "The run was cut off and not resumed.")

    async def retry(self, agent: str = "main") -> Run:
        """Continue the agent's last run if it ended before it was complete.

        Finished calls do not run again.

        Args:
            agent: The agent whose run failed for a temporary reason, timed out or was stopped.

        Raises:
            UsageError: The agent or model does not exist, or the agent's last run is complete.
        """
        self._check_open()
        actor = self._find_agent(agent)
        _check_retryable(actor)
        await self.kernel.router.ready(actor)
        _check_retryable(actor)  # another task may have retried the run meanwhile
        ended = actor.conversation.ended
        assert ended is not None
        run = self._new_run(agent)
        model = self.kernel.router.chain(actor)[0]
        retried = ev.RunRetried(previous=ended.run, model=model, mode=actor.mode.name)
        self.emit(retried, actor, run.id)
        self._start(actor)
        await self._acknowledge(run)
        return run

    async def repeat_call(self, call: str) -> Run:
        """Repeat a failed call with the same arguments, in a run of its own.

        The call gets a new id and goes through all checks and approvals again. The agent then reads
        the result, and continues with its work. If the agent is working, the call waits like a
        prompt.

        Args:
            call: The id of the failed call.

        Raises:
            UsageError: There is no such call, it has not failed, it is being repeated already, its
                arguments are not in the log, or the call was made by an agent that works for
                another one.
        """
        self._check_open()
        found = await find_call(self, call)
        repeated = found.copy_call(make_id("call"))
        actor = self._find_agent(found.agent)
        if actor.parent:
            raise UsageError(
                f"The call belongs to the agent {actor.name}, which works for another agent.",
                code=E_BAD_ARGS,
                hint="Prompt the agent that you talk to.",
            )
        await self.kernel.router.ready(actor)
        with self._prompts.turn(actor.name) as earlier:
            for before in earlier:
                await before.wait()
            self._check_open()
            check_not_repeated(actor, call)
            self.end_interrupted(actor.name)
            run = self._new_run(actor.name)
            # No user wrote the text, so it must not count as the user's words.
            queued = ev.PromptQueued(
                text=describe_repeat(repeated),
                piped=True,
                repeats=ev.RepeatedCall(repeated, call),
            )
            self.emit(queued, actor, run.id)
            self._start(actor)
        await self._acknowledge(run)
        return run

    def stop(self, agent: str = "", *, run: str = "") -> None:
        """Stop runs with everything that they started, and drop queued prompts.

        Args:
            agent: The only agent to stop; by default, all agents.
            run: Id of the only run to stop; by default, all runs.
        """
        for actor in self.agents.values():
            if agent in ("", actor.name):
                self._stop_agent(actor, run)

    def _stop_agent(self, agent: Agent, run: str) -> None:
        # Queued prompts are ended first, so that none of them starts when the current run ends.
        for prompt in list(agent.conversation.queue):
            if prompt.run != agent.starting and run in ("", prompt.run):
                self.emit(ev.RunEnded(state="stopped"), agent, prompt.run)
        if agent.scope is not None and run in ("", agent.starting):
            # The cancellation takes effect at the next checkpoint of the run, so the event below is
            # written before any part of the run ends.
            agent.scope.cancel()
            self.emit(ev.StopAsked(), agent, agent.starting)

    def stop_call(self, call: str, *, agent: str = "main") -> bool:
        """Stop one running call with its processes, on behalf of the user; the run continues.

        The agent reads that the user stopped the call (``E_STOPPED``), and its output so far.

        Args:
            call: The id of the call.
            agent: The agent that made the call.

        Returns:
            Whether the call was running. It may still end normally, if it is about to.
        """
        return self._calls_in_flight.stop(agent, call)

    async def steer(self, text: str, *, agent: str = "main") -> str:
        """Queue a message for the current run of an agent.

        The agent reads the message after the calls in its current response, or instead of ending
        the run. If the run ends earlier, for example because it is stopped, the message is not
        read.

        Args:
            text: The user's text. The text is not interpreted as a command.
            agent: The agent.

        Returns:
            The id of the message (see ``withdraw``).

        Raises:
            UsageError: The agent does not exist, or it has no run (use ``prompt``), or the text is
                empty.
            PluginError: A plugin that removes secrets from texts does not work.
        """
        self._check_open()
        if not text.strip():
            raise _empty_error("message")
        actor = self._find_agent(agent)
        # Prompts and steering messages are read in the order in which they were given.
        with self._prompts.turn(f"steering {agent}") as earlier:
            message = await self.redaction.steering(make_id("steering"), replace_surrogates(text))
            for before in earlier:
                await before.wait()
            self._check_open()
            pending = actor.conversation.pending
            if not pending:
                raise UsageError(
                    f"The agent {agent} is not working.",
                    code="E_BAD_ARGS",
                    hint="Send the text as a prompt.",
                )
            self.emit(message, actor, pending[0])
        await self.journal.flush()
        return message.id

    def withdraw(self, message: str, *, agent: str = "main") -> bool:
        """Withdraw a steering message, and return whether the agent had not read it yet.

        Args:
            message: The id of the message.
            agent: The agent.

        Raises:
            UsageError: The agent does not exist.
        """
        actor = self._find_agent(agent)
        queued = [each for each in actor.conversation.steering if each.id == message]
        if not queued:
            return False
        self.emit(ev.SteeringWithdrawn(id=message), actor, queued[0].run)
        return True

    def compact(self, agent: str = "main", *, focus: str = "") -> None:
        """Compact a conversation: now if the agent is idle, otherwise before its next request.

        The event ``Compacted`` shows the outcome. If a crash interrupts the compaction, it is
        carried out when the session is resumed.

        Args:
            agent: The agent.
            focus: The subject on which the summary should concentrate.

        Raises:
            UsageError: The agent does not exist, or the session is being closed.
        """
        self._check_open()
        actor = self._find_agent(agent)
        self.emit(ev.CompactionRequested(focus=focus), actor)
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
        arguments: str | None = None,
        user: str = "",
    ) -> None:
        """Answer a request for approval.

        Args:
            approval: The id of the approval.
            accepted: Whether the call may run.
            reason: Why the call may not run; the model reads it.
            remember: ``once`` allows only this call. ``session`` allows, until the session ends,
                all calls in the approval's scope (without a scope, all calls of the same tool).
                With ``always``, the plugin that set the scope also stores a rule.
            by: ``headless`` if a face refuses because no user is present.
            arguments: If the call is accepted: a complete set of arguments, as JSON, with which the
                user replaces the model's. Gates judge these arguments, and the model is informed.
            user: Name of the person who answers, for a face that knows several.

        Raises:
            UsageError: The approval is not open, because it was answered, it expired, or its run
                ended. The error is also raised if the arguments do not fit the tool, or if the
                answer would cover more calls although only this one can be approved; the approval
                then stays open.
        """
        if accepted and remember != "once":
            self._check_lasting(approval)
        if arguments is not None:
            self._check_edited(approval, arguments)
        opened = self._calls_in_flight.take(approval)
        answer = ev.ApprovalAnswered(
            id=approval,
            accepted=accepted,
            reason=reason,
            remember=remember,  # type: ignore[arg-type]
            by=by,
            arguments=arguments if accepted else None,
            user=user,
        )
        self.emit(answer, opened.agent)
        # The call is released after the event is written, because it may run only once its approval
        # is in the log.
        opened.answered.set()
        opened.first.set()

    def _check_lasting(self, approval: str) -> None:
        """Check that an approval may cover later calls.

        Raises:
            UsageError: It may not.
        """
        agent = self._calls_in_flight.agent_of(approval)
        for state in agent.run.calls.values():
            if state.asked is not None and state.asked.id == approval and state.asked.once_only:
                raise UsageError(
                    "This call is dangerous, so only this call can be allowed.",
                    code=E_BAD_ARGS,
                    hint="Answer with remember = once.",
                )

    def _check_edited(self, approval: str, arguments: str) -> None:
        """Check that the arguments that the user wrote fit the tool.

        Raises:
            UsageError: The arguments do not fit.
        """
        agent = self._calls_in_flight.agent_of(approval)
        for state in agent.run.calls.values():
            if state.asked is None or state.asked.id != approval:
                continue
            # The tool is that of the approved call; the model may have used `call_tool`.
            name = state.asked.call.name
            if name not in self.tools:
                raise unknown_name_error("tool", name, self.tools)
            try:
                self.tools[name].check(arguments)
            except ToolError as error:
                message = f"The edited call does not fit the tool. {error.message}"
                raise UsageError(message, code=error.code, hint=error.hint) from None

    def approval_shown(self, approval: str) -> float:
        """Start the clock of an approval, because the user now sees the question.

        The clock of the oldest open approval starts automatically.

        Args:
            approval: The id of the approval.

        Returns:
            Unix time at which the approval expires, as in the event ``ApprovalShown``.

        Raises:
            UsageError: The approval is not open, because it was answered, it expired, or its run
                ended.
        """
        return self._calls_in_flight.show(approval)

    def set(
        self, *, mode: str | None = None, model: str | None = None, approve: str | None = None
    ) -> None:
        """Change the mode, model or approval policy from the next turn on.

        Raises:
            UsageError: The mode, model or approval policy does not exist.
        """
        self._check_change(mode, model, approve)
        change = ev.SessionChanged(
            mode=mode if mode != self._mode else None,
            model=model if model != self.model else None,
            approve=approve if approve != self.approve else None,
        )
        if change != ev.SessionChanged():
            self.emit(change)
            self._change(change)

    def _check_change(self, mode: str | None, model: str | None, approve: str | None) -> None:
        """Check new values for the session before anything is changed.

        Raises:
            UsageError: The mode, model or approval policy does not exist.
        """
        if mode is not None and mode not in self.modes:
            raise unknown_name_error("mode", mode, self.modes)
        if approve is not None and approve not in POLICIES:
            raise unknown_name_error("approval policy", approve, POLICIES)
        if model is not None:
            self.kernel.router.model(model)

    def _change(self, change: ev.SessionChanged) -> None:
        for agent in self.agents.values():  # refused calls may now be allowed
            agent.conversation.failures.clear()
        self._mode = change.mode or self._mode
        self.approve = change.approve or self.approve  # type: ignore[assignment]
        if change.model is None:
            return
        self.model = change.model
        for agent in self.agents.values():
            if agent.conversation.run:
                # The run's current model, such as a fallback, must not take precedence over the
                # user's choice.
                agent.conversation.run.model = ""

    @property
    def grants(self) -> frozenset[str]:
        """Return the scopes and tool names that the user approved for the rest of the session."""
        granted: set[str] = set()
        for agent in self.agents.values():
            granted |= agent.conversation.grants
        return frozenset(granted)

    def revoke(self, scope: str) -> bool:
        """Revoke a lasting approval in this session, and return whether there was one.

        Stored rules are not changed.

        Args:
            scope: The scope of the approval, or the name of the tool, as in ``grants``.
        """
        found = False
        for agent in list(self.agents.values()):
            if scope in agent.conversation.grants:
                self.emit(ev.GrantRevoked(scope=scope), agent)
                found = True
        return found

    def add_mode(self, mode: Mode) -> None:
        """Add a mode, or replace an existing one with the same name."""
        self.modes[mode.name] = mode

    @property
    def mode(self) -> Mode:
        """The current mode. An unknown mode allows only reading until the user chooses another."""
        known = self.modes.get(self._mode)
        if known is not None:
            return known
        tools = self.modes["ask"].tools if "ask" in self.modes else _READ
        return Mode(self._mode, tools)

    def add_agent(
        self, profile: Profile, parent: str = "", messages: Sequence[Message] = ()
    ) -> Agent:
        """Add an agent.

        Args:
            profile: The agent's instructions, model, tools and limits.
            parent: Name of the agent that creates this one.
            messages: The messages of an earlier session, which the agent's conversation continues.

        Raises:
            UsageError: An agent with this name already exists.
        """
        if profile.name in self.agents:
            raise UsageError(f"There is an agent {profile.name!r} already.", code="E_BUSY")
        agent = Agent(profile.name, self, profile, parent)
        self.agents[profile.name] = agent
        started = ev.AgentStarted(
            parent=parent, profile=msgspec.to_builtins(profile), messages=tuple(messages)
        )
        self.emit(started, agent)
        return agent

    def discard(self) -> None:
        """Delete the session when it closes, because nothing happened in it."""
        self._discarded = True

    # --- plugins ----------------------------------------------------------------------------------

    def settings(self, section: type[T]) -> T:
        """Return a plugin's settings for this session's workspace."""
        return self._settings.get(section)

    @property
    def tools(self) -> dict[str, Tool]:
        """The session's tools by name."""
        return self._instances.tools

    def tools_changed(self) -> None:
        """Collect the tools of all plugins again.

        Agents are informed about changes after the current round.
        """
        self._instances.take_tools()

    def list_commands(self) -> list[tuple[str, PromptCommand]]:
        """Return the commands that plugins carry out, each with the plugin's name."""
        return self.hooks.collect("list_commands", session=self)

    def plugin(self, kind: type[T]) -> T | None:
        """Return the plugin instance of a type; ``None`` if there is no such instance."""
        return self._instances.plugin(kind)

    def report(self, fault: PluginFailure) -> None:
        """Write a plugin's failure to the log."""
        self._instances.report(fault)

    @property
    def closing(self) -> bool:
        """Whether the session is being closed, so that its agents are cancelled."""
        return self._nursery.cancel_scope.cancel_called

    # --- for the kernel ---------------------------------------------------------------------------

    async def _open(self, nursery: trio.Nursery) -> None:
        """Open the plugin instances, replay the events in the log, and add the main agent.

        Args:
            nursery: The nursery for the tasks of the session's agents.
        """
        self._nursery = nursery
        events = self.journal.read_all()
        if not events:
            opened = ev.SessionOpened(
                session=self.id,
                workspace=spell_folder(self.workspace.root),
                kind=self.kind,
                version=__version__,
                plugins=tuple(_describe_plugins(self.kernel)),
                mode=self._mode,
                model=self.model,
                approve=self.approve,
                settings=self._settings.recorded,
            )
            self.emit(opened)
        # The instances are opened before the replay, because they fold the plugins' events.
        await self._instances.open()
        # Before this point, it is not a failure if the plugins that remove secrets have not opened.
        self.redaction.opened = True
        for event in events:
            self._replay(event)
        if events:
            self._note_reopening(events)
        if "main" not in self.agents:
            self.add_agent(Profile())
        nursery.start_soon(self._late_imports.run, name="late imports")

    def _note_reopening(self, events: Sequence[ev.AnyEvent]) -> None:
        """Log in a resumed session which settings changed and which runs were cut off."""
        known: Mapping[str, object] = {}
        for event in events:
            if isinstance(event, ev.SessionOpened | ev.SessionReopened):
                known = event.settings
        settings = self._settings.recorded
        interrupted = tuple(
            agent.name
            for agent in self.agents.values()
            if agent.conversation.phase != "idle" or agent.conversation.pending
        )
        if interrupted or settings != known:
            reopened = ev.SessionReopened(
                last=events[-1].at, settings=settings, interrupted=interrupted
            )
            self.emit(reopened)

    def _replay(self, event: ev.AnyEvent) -> None:
        """Fold an event of the log.

        Raises:
            StoreError: The event does not fit the events before it, so the log is damaged.
        """
        try:
            self._restore(event)
        except HilumError:
            raise
        # A log from another program may contain any event at any place: the answer of a model that
        # nobody asked, the result of a call that never began.
        except Exception as error:
            raise StoreError(
                f"Session {self.id} is damaged: event {event.seq} ({event.__struct_config__.tag})"
                " does not fit the events before it.",
                hint=suggest_rescue(self.id, event.seq),
            ) from error

    def _restore(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.AgentStarted):
            profile = msgspec.convert(event.profile, Profile)
            self.agents[event.agent] = Agent(event.agent, self, profile, event.parent)
        if isinstance(event, ev.PluginEvent) and event.name == ATTACHED:
            self.unread_outputs.restore(event.data)
        if isinstance(event, ev.PromptQueued):
            self.unread_outputs.remove(event.outputs)
        if isinstance(event, ev.PromptQueued | ev.ModelAnswered):
            self.redaction.names.update(event.redacted)
        if isinstance(event, ev.SessionChanged):
            self._change(event)
        elif event.agent in self.agents:
            self._writer.fold(event, self.agents[event.agent])

    async def _close(self) -> None:
        """Close the instances in reverse order, then the log, which ends its readers."""
        await self._instances.close()
        await self.journal.close()

    def _start(self, agent: Agent) -> None:
        # Each agent has one task, which also takes the prompts that arrive meanwhile.
        if agent.name not in self._working:
            self._working.add(agent.name)
            self._heartbeats.start(self._nursery.start_soon)
            self._nursery.start_soon(self._work, agent, name=f"agent {agent.name}")

    async def _work(self, agent: Agent) -> None:
        """Work on the agent's run and its queued prompts, one after another."""
        conversation = agent.conversation
        try:
            with use_environment(self.kernel.environ):
                while True:
                    if find_next_run(agent):
                        await drive(agent)
                        # Whoever waits for the run learns its end when it is durable.
                        await self.journal.flush()
                    elif conversation.compaction_requested:
                        await compact_idle(agent)
                    else:
                        break
        # All agents share the log, so no run in the session can be logged any more.
        except StoreError as error:
            for run in self.runs.values():
                run._finish(None, error)
        finally:
            self._working.discard(agent.name)
            if not self._working:
                self._heartbeats.stop()
            for run in self.runs.values():
                if run.agent == agent.name and not run._over.is_set():
                    message = "The session was closed before the run ended."
                    run._finish(None, HilumError(message, code="E_INTERRUPTED"))

    def _cancel_runs(self) -> None:
        """Cancel what all agents are doing, because none of it can be logged any more."""
        for agent in self.agents.values():
            if agent.scope is not None:
                agent.scope.cancel()

    async def _wrap(self, command: Command) -> Command:
        """Return a command in the form in which plugins allow it to start.

        Raises:
            ToolDenied: A plugin refuses the command, or a plugin that guards commands does not
                work.
        """
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
            message = f"The command may not start. {error.message}"
            raise ToolDenied(message, hint=error.hint) from error
        return wrapped


def check_kind(kind: str) -> None:
    """Check the kind of a session; an empty kind stands for the setting.

    Raises:
        UsageError: The kind does not exist.
    """
    if kind and kind not in KINDS:
        raise unknown_name_error("session kind", kind, KINDS)


def _describe_plugins(kernel: Kernel) -> Iterator[str]:
    """Yield the plugins that work, each as its name and the version of its distribution."""
    for plugin in kernel.host.plugins.values():
        if plugin.state == "ready":
            version = plugin.point.version if plugin.point is not None else ""
            yield f"{plugin.name} {version}".strip()


def _empty_error(what: str) -> UsageError:
    return UsageError(
        f"The {what} is empty.", code="E_BAD_ARGS", hint="Write what the agent should do."
    )


def _check_retryable(agent: Agent) -> None:
    if not agent.conversation.retryable:
        hint = "Send a prompt to continue the conversation."
        raise UsageError("The last run left nothing to retry.", hint=hint)


injected[Session] = lambda call: call.session
