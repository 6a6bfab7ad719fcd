"""Runs the tool calls and agents that clients request, independently of the protocol."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import trio
from hilum import (
    FileChanges,
    HilumError,
    Image,
    Profile,
    Text,
    ToolCall,
    ToolFilter,
    ToolResult,
    UsageError,
)
from hilum.errors import E_FAILED, E_STOPPED
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

from hilum_mcp.serving.client_model import MODEL, ClientModel

if TYPE_CHECKING:
    from hilum import Session
    from hilum.events import AnyEvent

# Maximum number of calls that run at the same time.
MAX_RUNNING = 16

# Maximum number of calls that wait for the client's user, in addition to the running calls.
MAX_WAITING = 64

# Maximum number of characters in one progress message.
MAX_SHOWN = 2_000

AGENT_STATUS = "agents.status"
SUCCESS_STATES = ("completed", "partial_success")
# The tool with which an agent asks its user. The client's user cannot answer its questions.
QUESTION_TOOL = "ask_question"


@attrs.frozen
class Outcome:
    """The result of a request.

    Args:
        parts: Texts and images for the client.
        code: An ``E_…`` code if the request failed; otherwise empty.
        data: The result as structured data, if there is any.
    """

    parts: tuple[Text | Image, ...]
    code: str = ""
    data: dict[str, Any] | None = None

    @classmethod
    def failed(cls, code: str, text: str) -> Outcome:
        """Return the outcome of a failed request."""
        return cls((Text(f"{code}: {text}", "kernel"),), code)


class ClientRequest:
    """A client's request.

    Args:
        key: The name and arguments of the request.

    Attributes:
        actor: Name of the session's agent that runs the request.
        start: The ID of the agent's job in the scheduler; empty for a tool call.
        result: The result of the tool call.
        run_ended: An event that is set once the end of the run has been handled.
        outcome: The outcome, once it is known.
        stopped: An event that is set when no part of the request is running any more.
        approvals: The open approvals, by ID.
        is_attended: Whether a protocol request is waiting for the outcome.
        progress: Progress from 0 to 1, if known.
        changed: An event that is set on the next change.
    """

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.actor = ""
        self.start = ""
        self.result: ToolResult | None = None
        self.outcome: Outcome | None = None
        self.stopped = trio.Event()
        self.run_ended = trio.Event()
        self.changed = trio.Event()
        self.approvals: dict[str, ApprovalAsked] = {}
        self.is_attended = True
        self.progress: float | None = None
        self._scope = trio.CancelScope()
        self._output = ""
        self._partial_line = ""

    def wake(self) -> None:
        """Wake the task that waits for a change."""
        self.changed.set()
        self.changed = trio.Event()

    def finish(self, outcome: Outcome) -> None:
        """Set the outcome. Only the first outcome takes effect."""
        self.outcome = self.outcome or outcome
        self.wake()

    def stop(self) -> None:
        """Cancel the request and everything that it started."""
        self._scope.cancel()

    async def run(self, action: Callable[[], Awaitable[Outcome]]) -> None:
        """Run the action, and set an outcome in any case."""
        try:
            with self._scope:
                self.finish(await action())
        except HilumError as error:
            self.finish(Outcome.failed(error.code, str(error)))
        finally:
            self.stopped.set()
            # `finish` has no effect if the action has already set an outcome.
            self.finish(Outcome.failed(E_STOPPED, "The request was stopped."))

    def add_output(self, text: str) -> None:
        """Add output from the call.

        Only complete lines are forwarded, because a secret can only be recognized as a whole.
        """
        lines, newline, self._partial_line = (self._partial_line + text).rpartition("\n")
        if newline:
            output = f"{self._output}\n{lines}".lstrip("\n")
            self._output = output[-MAX_SHOWN:]
            self.wake()
        self._partial_line = self._partial_line[-MAX_SHOWN:]

    def set_step(self, text: str, progress: float | None) -> None:
        """Set the current step of an agent."""
        self._output = text
        self.progress = progress
        self.wake()

    @property
    def has_output(self) -> bool:
        """Whether there is new output."""
        return bool(self._output)

    def take_output(self) -> str:
        """Return and remove the new output."""
        output = self._output
        self._output = ""
        return output


class RequestRunner:
    """A runner for client requests in one session.

    Args:
        session: The session, of kind ``main``, because clients can be asked questions.
        tools: The tools that are offered.
        nursery: The nursery for the requests.

    Attributes:
        count: The number of requests that have been run.
    """

    def __init__(self, session: Session, tools: ToolFilter, nursery: trio.Nursery) -> None:
        self.session = session
        self.tools = tools
        self.count = 0
        self._nursery = nursery
        self._model = ClientModel()
        self._active: dict[str, ClientRequest] = {}
        self._waiting: dict[str, ClientRequest] = {}
        self._limiter = trio.CapacityLimiter(MAX_RUNNING)
        self._calls = 0
        session.kernel.router.replace(self._model)

    # --- starting ---------------------------------------------------------------------------------

    def start_call(self, name: str, arguments: str, client: str) -> ClientRequest:
        """Start a tool call, which passes all gates.

        Args:
            name: The tool.
            arguments: The call's arguments, as JSON text.
            client: The client's name, for the log.
        """
        self._calls += 1
        request = ClientRequest((name, arguments))
        self._register(request, f"client-{self._calls}")
        run = partial(self._run_call, request, client)
        return self._start(request, run, f"client calls {name}")

    def start_agent(self, agent: str, prompt: str, key: tuple[str, str]) -> ClientRequest:
        """Start an agent with a prompt, in its own conversation."""
        request = ClientRequest(key)
        run = partial(self._run_agent, request, agent, prompt)
        return self._start(request, run, f"client runs {agent}")

    def _start(
        self,
        request: ClientRequest,
        run: Callable[[], Awaitable[Outcome]],
        task: str,
    ) -> ClientRequest:
        self.count += 1
        self._nursery.start_soon(request.run, run, name=task)
        return request

    def stop(self) -> None:
        """Stop all requests. Each client receives an outcome."""
        for request in list(self._active.values()):
            request.stop()

    def _register(self, request: ClientRequest, actor: str) -> None:
        request.actor = actor
        self._active[actor] = request

    async def _run_call(self, request: ClientRequest, client: str) -> Outcome:
        name, arguments = request.key
        actor = request.actor
        async with self._limiter:
            self.session.add_agent(Profile(actor, model=MODEL, tools=self.tools))
            identity = f"client-{os.urandom(6).hex()}"
            self._model.calls[actor] = ToolCall(identity, name, arguments)
            try:
                with self._share_changes(actor, client):
                    run = await self.session.run(f"Called by the MCP client {client}.", agent=actor)
                if run.seq:
                    await request.run_ended.wait()  # wait until the run's events have been handled
            finally:
                self._model.calls.pop(actor, None)
                self._remove_agent(request)
        return Outcome.failed(run.code or E_FAILED, run.error or "The call was not carried out.")

    def _share_changes(self, actor: str, client: str) -> AbstractContextManager[Any]:
        """Treat a file that one of a client's calls has read as read by all calls of that client.

        Each call has a separate agent, but the client does not distinguish between them.
        """
        changes = self.session.plugin(FileChanges)
        if changes is None:
            return nullcontext()
        return changes.sharing(actor, f"client {client}")

    def _remove_agent(self, request: ClientRequest) -> None:
        """Remove the agent of a call, so that agents do not accumulate in memory.

        An agent is kept if its user has approved calls for the whole session.
        """
        self._unregister(request)
        agent = self.session.agents.get(request.actor)
        if agent is not None and not agent.conversation.grants:
            del self.session.agents[request.actor]

    async def _run_agent(self, request: ClientRequest, name: str, prompt: str) -> Outcome:
        runs = self.session.plugin(Runs)
        if runs is None:
            raise UsageError("Agents cannot run here.", hint="Load the plugin scheduler.")
        definition, profile = await runs.prepare(name)
        profile = _deny_tool(profile, QUESTION_TOOL)
        identity = runs.begin(profile, prompt, definition=definition)
        request.start = identity
        self._register(request, runs.actor(identity))
        try:
            result = await runs.wait(identity)
        except trio.Cancelled:
            # The agent runs in a task of the scheduler, which this cancellation does not reach.
            runs.stop(identity)
            with trio.CancelScope(shield=True):
                await runs.wait(identity)
            raise
        finally:
            self._unregister(request)
        code = ""
        if result["status"] not in SUCCESS_STATES:
            code = (result["error"] or {}).get("code") or E_FAILED
        return Outcome((Text(tell(result), "model"),), code, result)

    # --- following --------------------------------------------------------------------------------

    async def follow_events(self) -> None:
        """Read the session's events until it closes."""
        async for item in self.session.events(self.session.journal.last, deltas=True):
            if not isinstance(item, Delta):
                self._handle(item)
            elif item.kind == "output" and item.agent in self._active:
                self._active[item.agent].add_output(item.text)

    def _handle(self, event: AnyEvent) -> None:
        if isinstance(event, PluginEvent) and event.name == AGENT_STATUS:
            self._update_step(event.data)
            return
        request = self._find_request(event.agent)
        if isinstance(event, ApprovalAsked):
            self._handle_question(request, event)
        elif isinstance(event, ApprovalAnswered):
            self._handle_answer(request, event)
        elif request is not None and event.agent == request.actor and not request.start:
            self._follow_call(request, event)

    def _handle_question(self, request: ClientRequest | None, event: ApprovalAsked) -> None:
        # If no client started the agent, the approval would otherwise wait until its time limit.
        if request is None:
            self.refuse(event.id, "no client asked for it.")
        elif len(self._waiting) >= MAX_WAITING:
            self.refuse(
                event.id,
                f"{MAX_WAITING} calls already wait for an answer. Try again when some are "
                "answered.",
            )
        else:
            self._free_place(request, event.id)
            request.approvals[event.id] = event
            request.wake()

    def _handle_answer(self, request: ClientRequest | None, event: ApprovalAnswered) -> None:
        self._take_place(event.id)
        if request is None:
            return
        request.approvals.pop(event.id, None)
        if event.by == "timeout" and request.start and not request.is_attended:
            request.stop()  # no client will return for this agent's answer

    def _follow_call(self, request: ClientRequest, event: AnyEvent) -> None:
        """Follow the events of a call's run.

        The outcome includes plugins' reminders, such as linters' messages about a change.
        """
        if isinstance(event, CallDone):
            request.result = event.result
        elif isinstance(event, RoundEnded) and request.result is not None:
            notes = [Text(note, "kernel") for note in event.notes]
            parts = (*request.result.parts, *notes)
            request.finish(Outcome(parts, request.result.code))
        elif isinstance(event, RunEnded):
            if request.result is not None:
                request.finish(Outcome(request.result.parts, request.result.code))
            request.run_ended.set()

    def _find_request(self, agent: str) -> ClientRequest | None:
        """Return the request on which an agent or one of its ancestors is working."""
        seen = set[str]()
        while agent and agent not in seen:
            request = self._active.get(agent)
            if request is not None:
                return request
            seen.add(agent)
            known = self.session.agents.get(agent)
            agent = known.parent if known is not None else ""
        return None

    def _update_step(self, data: dict[str, Any]) -> None:
        for request in self._active.values():
            if request.start and request.start == data.get("agent_id"):
                step = str(data.get("current_step", ""))
                request.set_step(step, float(data.get("progress") or 0.0))

    # --- approvals --------------------------------------------------------------------------------

    def _free_place(self, request: ClientRequest, approval: str) -> None:
        """Release the slot of a call that waits for the client's user, which can take minutes."""
        self._waiting[approval] = request
        if not request.start:  # only tool calls have slots
            self._limiter.total_tokens += 1

    def _take_place(self, approval: str) -> None:
        """Reclaim the slot of a call immediately, so that only new calls wait."""
        request = self._waiting.pop(approval, None)
        if request is not None and not request.start:
            self._limiter.total_tokens -= 1

    def _unregister(self, request: ClientRequest) -> None:
        """Remove a request, and stop showing its open approvals."""
        self._active.pop(request.actor, None)
        for approval, waiting in list(self._waiting.items()):
            if waiting is request:
                self._take_place(approval)

    def start_approval_clock(self, approval: str) -> float:
        """Start the time limit of an approval that the client's user now sees.

        Returns:
            The deadline in Unix seconds; 0 if the approval is already settled.
        """
        try:
            return self.session.approval_shown(approval)
        except UsageError:  # the approval has expired, or the run has ended
            return 0.0

    def answer(self, approval: str, choice: str) -> None:
        """Answer an approval request with the choice of the client's user.

        Args:
            approval: The ID of the approval.
            choice: ``yes``, ``session``, or any other value for no.
        """
        accepted = choice in ("yes", "session")
        remember = "session" if choice == "session" else "once"
        self._answer(approval, accepted, remember=remember)

    def refuse(self, approval: str, reason: str) -> None:
        """Deny an approval request because nobody can be asked."""
        self._answer(approval, False, reason=reason, by="headless")

    def _answer(self, approval: str, accepted: bool, **more: Any) -> None:
        try:
            self.session.answer(approval, accepted, **more)
        except UsageError:  # the approval has expired, or the run has ended
            pass


def _deny_tool(profile: Profile, tool: str) -> Profile:
    """Return a copy of a profile that denies a tool."""
    tools = msgspec.structs.replace(profile.tools, deny=(*profile.tools.deny, tool))
    return msgspec.structs.replace(profile, tools=tools)
