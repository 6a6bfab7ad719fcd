"""A session that another process has open, as a terminal that joined it sees it.

The joined session has the same events, agents and settings as the owner's. Its plugins are not
open, and it writes nothing: it sends what the user does to the owner, and shows what comes back.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import trio

from hilum import events as ev
from hilum.agents import Agent, Mode
from hilum.call_finder import find_call
from hilum.errors import E_BUSY, E_TIMEOUT, HilumError, StoreError, ToolDenied, UsageError
from hilum.hooks import PluginFailure, open_nursery
from hilum.hookspecs import PromptCommand
from hilum.images import check_images
from hilum.messages import Image, replace_surrogates
from hilum.processes import Command
from hilum.runs import Run
from hilum.session import Session
from hilum.settings import Settings, use_environment
from hilum.sharing.joined_history import JoinedHistory
from hilum.sharing.joined_services import JoinedConfinement, JoinedPlans, JoinedQuestions
from hilum.sharing.messages import (
    PROTOCOL,
    Answer,
    BadMessage,
    Change,
    Compact,
    Events,
    FromOwner,
    FromTerminal,
    Hello,
    MessageStream,
    Operation,
    Output,
    Ping,
    Prompt,
    RepeatCall,
    Reply,
    Request,
    Resume,
    Retry,
    Revoke,
    ShowApproval,
    State,
    Steer,
    Stop,
    Subscribe,
    Welcome,
    Withdraw,
    make_error_reply,
    read_error,
)
from hilum.sharing.sockets import connect, find_socket
from hilum.store import MemoryLog, SessionInfo, unspell_folder

if TYPE_CHECKING:
    from hilum.kernel import Kernel

T = TypeVar("T")
GREETING_TIMEOUT = 3.0
"""Seconds within which the owner must answer when a terminal joins."""
HISTORY_TIMEOUT = 20.0
"""Seconds within which the owner must send the events up to the time of joining."""
PING_SECONDS = 2.0
"""Seconds between two questions whether the owner still works."""
SILENCE_SECONDS = 6.0
"""Seconds without a message after which the owner counts as suspended."""
REQUEST_SECONDS = 10.0
"""Seconds after which the owner no longer begins to carry out a request."""
_MAX_UNSENT = 200
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
_LEFT = "The terminal that had the session open has left."
_SILENT = "The terminal that has the session open does not respond."
_ELSEWHERE = "This works only in the terminal that has the session open."


@asynccontextmanager
async def join_session(kernel: Kernel, session: str) -> AsyncIterator[JoinedSession | None]:
    """Join a session that another process has open and shares; leaving the block leaves it.

    Args:
        kernel: A kernel whose store has the session, and which provides settings and models.
        session: The id of the session.

    Yields:
        The session; ``None`` if no process shares it.

    Raises:
        StoreError: ``E_BUSY``, the owner does not respond, refuses this process, or has another
            version of hilum.
    """
    with use_environment(kernel.environ):
        path = find_socket(session)
    stream = await connect(path)
    if stream is None:
        yield None
        return
    async with stream:
        connection = MessageStream(stream, FromOwner)
        welcome = await _greet(connection)
        info = await kernel.store.info(session)
        root = Path(unspell_folder(info.workspace))
        settings = kernel.read_settings(root)
        with use_environment(kernel.environ):
            joined = JoinedSession(kernel, info, root, settings, connection, welcome)
        try:
            await joined.load()
            async with open_nursery() as nursery:
                await joined.start(nursery)
                yield joined
                nursery.cancel_scope.cancel()
        finally:
            # This ends the readers; nothing is written.
            await joined.journal.close()


async def is_shared(kernel: Kernel, session: str) -> bool:
    """Return whether a process has a session open that terminals can join.

    Args:
        kernel: A kernel whose store has the session.
        session: The id of the session.
    """
    with use_environment(kernel.environ):
        path = find_socket(session)
    stream = await connect(path)
    if stream is None:
        return False
    await stream.aclose()
    return True


async def _greet(connection: MessageStream) -> Welcome:
    """Exchange the first messages with the owner.

    Raises:
        StoreError: ``E_BUSY``, the terminal cannot join.
    """
    hint = "Continue it (fg, or kill -CONT) or end it, then try again."
    try:
        with trio.fail_after(GREETING_TIMEOUT):
            await connection.send(Hello(PROTOCOL))
            welcome = await connection.receive()
    except trio.TooSlowError:
        raise StoreError(_SILENT, code=E_BUSY, hint=hint) from None
    except (BadMessage, *_GONE):
        welcome = None
    if not isinstance(welcome, Welcome):
        raise StoreError(
            "The process that has the session open refused this terminal.",
            code=E_BUSY,
            hint="Close the session there first, or continue in a copy: hilum sessions fork.",
        )
    if welcome.protocol != PROTOCOL:
        raise StoreError(
            "The session is open in another version of hilum.",
            code=E_BUSY,
            hint="Close the session there first.",
        )
    return welcome


class JoinedSession(Session):
    """A session that another process has open. ``join_session`` creates it.

    Methods that are not async only send the user's wish. If the owner refuses it, ``on_problem`` is
    called later.

    Attributes:
        lost: Set when the owner has left, so that nothing can be sent any more.
        is_silent: Whether the owner does not respond, for example because it is suspended.
        confinement: The kind of sandbox that the owner's commands run in; empty if there is none.
        on_problem: Function that is called with errors of operations whose caller did not wait.
        on_refused: Function that is called with the id of an approval or question whose answer the
            owner refused, after ``on_problem``.
        on_silence: Function that is called when ``is_silent`` changes.
    """

    def __init__(
        self,
        kernel: Kernel,
        info: SessionInfo,
        root: Path,
        settings: Settings,
        connection: MessageStream,
        welcome: Welcome,
    ) -> None:
        self._held = MemoryLog(info)
        super().__init__(kernel, self._held, info, root, settings)
        self.attended: bool = welcome.attended
        self.began_at: int = welcome.last
        self.lost: trio.Event = trio.Event()
        self.is_silent: bool = False
        self.confinement: str = ""
        self.modes: dict[str, Mode] = {}
        self.model: str = ""
        self.approve: Any = ""
        self.on_problem: Callable[[HilumError], None] = lambda error: None
        self.on_refused: Callable[[str], None] = lambda identity: None
        self.on_silence: Callable[[], None] = lambda: None
        self._connection = connection
        self._welcome = welcome
        self._outbox, self._unsent = trio.open_memory_channel[FromTerminal](_MAX_UNSENT)
        self._replies: dict[int, Callable[[Reply], None]] = {}
        self._requests = 0
        self._heard = trio.current_time()
        self._has_state = False
        self._complete = trio.Event()
        # The ids of what was sent from this terminal, and of the questions that wait.
        self._own: set[str] = set()
        self._waiting: set[str] = set()
        self._services = (
            JoinedQuestions(self),
            JoinedPlans(self),
            JoinedConfinement(self),
            JoinedHistory(self),
        )

    # --- what the owner sends ---------------------------------------------------------------------

    async def load(self) -> None:
        """Read from the store the events that the owner does not send."""
        store = self.kernel.store
        while self.journal.last < self._welcome.after:
            page = await store.read(self.id, self.journal.last)
            if not page:
                break
            for event in page:
                if event.seq <= self._welcome.after:
                    self._receive(event)
            await trio.lowlevel.checkpoint()

    async def start(self, nursery: trio.Nursery) -> None:
        """Follow the owner, and wait until its state and the events up to now have arrived.

        Raises:
            StoreError: ``E_BUSY``, the owner left meanwhile, or does not respond.
        """
        self._nursery = nursery
        self._outbox.send_nowait(Subscribe(self.journal.last))
        nursery.start_soon(self._send)
        nursery.start_soon(self._follow)
        nursery.start_soon(self._ping)
        with trio.move_on_after(HISTORY_TIMEOUT):
            await self._complete.wait()
        if self.lost.is_set() or not self._complete.is_set() or "main" not in self.agents:
            raise StoreError(_LEFT if self.lost.is_set() else _SILENT, code=E_BUSY)

    async def _send(self) -> None:
        try:
            async for message in self._unsent:
                await self._connection.send(message)
        except _GONE:
            self._lose()

    async def _ping(self) -> None:
        """Ask regularly whether the owner still works."""
        while not self.lost.is_set():
            await trio.sleep(PING_SECONDS)
            try:
                self._outbox.send_nowait(Ping())
            except trio.WouldBlock:
                pass  # the owner reads nothing
            self._note_silence(trio.current_time() - self._heard > SILENCE_SECONDS)

    def _note_silence(self, is_silent: bool) -> None:
        if is_silent != self.is_silent:
            self.is_silent = is_silent
            self.on_silence()

    async def _follow(self) -> None:
        """Apply what the owner sends, until it leaves."""
        try:
            while (message := await self._connection.receive()) is not None:
                self._heard = trio.current_time()
                self._note_silence(False)
                self._apply(message)
                # A long history must not delay the handling of keys.
                await trio.lowlevel.checkpoint()
        except (BadMessage, msgspec.MsgspecError, StoreError) as error:
            problem = f"The terminal that has the session open sent something unreadable: {error}."
            self.on_problem(StoreError(problem, code=E_BUSY))
        self._lose()

    def _apply(self, message: object) -> None:
        match message:
            case Events(events):
                for event in events:
                    self._receive(ev.decode(bytes(event)))
            case Output(delta):
                key = (delta.seq, delta.kind, delta.call_id)
                self.journal.delta(key, delta.agent, delta.run, delta.text, delta.tool)
            case State():
                self._take_state(message)
            case Reply():
                handle = self._replies.pop(message.id, None)
                if handle is not None:
                    handle(message)
        if self._has_state and self.journal.last >= self.began_at:
            self._complete.set()

    def _receive(self, event: ev.AnyEvent) -> None:
        """Fold an event of the log, and show it to readers.

        Raises:
            BadMessage: An earlier event is missing.
        """
        if event.seq <= self.journal.last:
            return
        if event.seq > self.journal.last + 1:
            raise BadMessage("some events are missing")
        self._replay(event)
        if isinstance(event, ev.PromptQueued | ev.RunRetried):
            self._note_sender(event.run)
        elif isinstance(event, ev.SteeringQueued):
            self._note_sender(event.id)
        elif isinstance(event, ev.ApprovalAsked):
            self._waiting.add(event.id)
        elif isinstance(event, ev.ApprovalAnswered):
            self._waiting.discard(event.id)
            if event.by == "user":
                self._note_sender(event.id)
        self.journal.append([event])
        self._writer._end_output(event)

    def _note_sender(self, identity: str) -> None:
        if identity not in self._own:
            self.sent_elsewhere.add(identity)

    def _take_state(self, state: State) -> None:
        # Only its event ends a run, because the state may be newer than the events that arrived.
        for identity, agent in state.runs.items():
            self.find_run(identity, agent)
        for actor in self.agents.values():
            actor.starting = state.starting.get(actor.name, "")
        self.modes = {mode.name: mode for mode in state.modes}
        self.confinement = state.confinement
        self._has_state = True
        self._mode = state.mode
        self.model = state.model
        self.approve = cast(Any, state.approve)

    def _lose(self) -> None:
        """Record that the owner has left, and end everything that waits for it."""
        if self.lost.is_set():
            return
        self.lost.set()
        self._complete.set()
        hint = f"/resume {self.id} opens it here."
        ended = StoreError(f"{_LEFT} The run has ended or was cut off.", code=E_BUSY, hint=hint)
        for run in self.runs.values():
            run._finish(None, ended)
        self.runs.clear()
        # The owner may have carried out a request whose reply has not arrived.
        error = StoreError(
            f"{_LEFT} It may have received what you just sent.",
            code=E_BUSY,
            hint=f"{hint} Look there before you send it again.",
        )
        for identity, handle in list(self._replies.items()):
            handle(make_error_reply(identity, error))
        self._replies.clear()

    # --- requests ---------------------------------------------------------------------------------

    def _find_problem(self) -> HilumError | None:
        """Return why nothing can be sent to the owner."""
        if self.lost.is_set():
            hint = f"/resume {self.id} opens it here."
            return StoreError(f"{_LEFT} Nothing was sent.", code=E_BUSY, hint=hint)
        if self.is_silent:
            hint = "It may be suspended. Continue or end it there, or wait."
            return HilumError(f"{_SILENT} Nothing was sent.", code=E_TIMEOUT, hint=hint)
        return None

    def send(self, operation: Operation, undo: Callable[[], None] | None = None) -> None:
        """Ask the owner to carry out an operation, without waiting for the result.

        Args:
            operation: The operation.
            undo: Function that is called if the owner refuses it.

        Raises:
            HilumError: The owner has left or does not respond.
        """

        def handle(reply: Reply) -> None:
            self._note_own(operation, reply)
            if reply.error:
                self.on_problem(read_error(reply))
                if undo is not None:
                    undo()

        self._post(operation, handle)

    async def request(self, operation: Operation) -> Reply:
        """Ask the owner to carry out an operation, and return the result.

        Raises:
            HilumError: The owner refuses the operation, has left, or does not respond.
        """
        answered = trio.Event()
        replies: list[Reply] = []

        def handle(reply: Reply) -> None:
            self._note_own(operation, reply)
            replies.append(reply)
            answered.set()

        identity = self._post(operation, handle)
        expires = trio.current_time() + REQUEST_SECONDS
        try:
            while not answered.is_set():
                with trio.move_on_after(PING_SECONDS):
                    await answered.wait()
                # A slow owner is waited for. One that is suspended refuses the request later.
                if self.is_silent and trio.current_time() > expires and not answered.is_set():
                    raise cast(HilumError, self._find_problem())
        finally:
            self._replies.pop(identity, None)
        if replies[0].error:
            raise read_error(replies[0])
        return replies[0]

    def _post(self, operation: Operation, handle: Callable[[Reply], None]) -> int:
        problem = self._find_problem()
        if problem is not None:
            raise problem
        self._requests += 1
        identity = self._requests
        expires = time.monotonic() + REQUEST_SECONDS
        try:
            self._outbox.send_nowait(Request(identity, operation, expires))
        except trio.WouldBlock:
            message = f"{_SILENT} Nothing was sent."
            raise HilumError(message, code=E_TIMEOUT, hint="Try again in a moment.") from None
        self._replies[identity] = handle
        return identity

    def _note_own(self, operation: Operation, reply: Reply) -> None:
        """Remember what was sent from this terminal; the event of it arrives after the reply."""
        if reply.error:
            return
        if isinstance(operation, Answer):
            self._own.add(operation.approval)
        elif reply.result and not isinstance(operation, Withdraw):
            self._own.add(reply.result)

    # --- the session's interface ------------------------------------------------------------------

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
        """Prompt an agent; see ``Session.prompt``. The state of the workspace is not sent."""
        check_images(images)
        operation = Prompt(
            replace_surrogates(text), agent, piped, replace_surrogates(attached), tuple(images)
        )
        reply = await self.request(operation)
        if reply.text is not None:
            run = Run("", agent, self, reply=reply.text)
            run._finish(ev.RunEnded(state="completed", text=reply.text))
            return run
        return self.find_run(reply.result, agent)

    def find_run(self, identity: str, agent: str) -> Run:
        """Return a run of the owner. The event with which it ends has not arrived yet."""
        if identity not in self.runs:
            self.runs[identity] = Run(identity, agent, self, after=self.journal.last)
        return self.runs[identity]

    async def steer(self, text: str, *, agent: str = "main") -> str:
        """Queue a message for the current run of an agent; see ``Session.steer``."""
        return (await self.request(Steer(replace_surrogates(text), agent))).result

    def withdraw(self, message: str, *, agent: str = "main") -> bool:
        """Withdraw a steering message; see ``Session.withdraw``.

        If the agent reads the message meanwhile, the problem is reported later.
        """
        actor = self._find_agent(agent)
        if message not in [each.id for each in actor.conversation.steering]:
            return False

        def handle(reply: Reply) -> None:
            if reply.error:
                self.on_problem(read_error(reply))
            elif not reply.result:
                late = "The agent has already read the message that you took back."
                self.on_problem(UsageError(late, code="E_BAD_ARGS"))

        self._post(Withdraw(message, agent), handle)
        return True

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
        """Answer a request for approval; see ``Session.answer``. The first answer wins."""
        if approval not in self._waiting:
            raise UsageError(
                "The call no longer waits for an answer.",
                hint="It was answered in another terminal, or it expired.",
            )
        operation = Answer(approval, accepted, reason, remember, arguments, user)
        self.send(operation, partial(self.on_refused, approval))

    def approval_shown(self, approval: str) -> float:
        """Start the clock of an approval; see ``Session.approval_shown``.

        The event ``ApprovalShown`` has the time at which it expires; this method returns 0.
        """
        if approval in self._waiting and not self.lost.is_set():
            # It may have been answered meanwhile, which is no problem.
            self._post(ShowApproval(approval), lambda reply: None)
        return 0.0

    def stop(self, agent: str = "", *, run: str = "") -> None:
        """Stop runs; see ``Session.stop``."""
        self.send(Stop(agent, run))

    def set(
        self, *, mode: str | None = None, model: str | None = None, approve: str | None = None
    ) -> None:
        """Change the mode, model or approval policy; see ``Session.set``."""
        self._check_change(mode, model, approve)
        before = ev.SessionChanged(mode=self._mode, model=self.model, approve=self.approve)
        self.send(Change(mode, model, approve), partial(self._change, before))
        # The user sees the choice at once; the event of the owner confirms it.
        self._change(ev.SessionChanged(mode=mode, model=model, approve=cast(Any, approve)))

    async def request_change(
        self, *, mode: str | None = None, model: str | None = None, approve: str | None = None
    ) -> None:
        """Change the mode, model or approval policy; unlike ``set``, wait for the owner's answer.

        Raises:
            HilumError: The owner refuses the change, has left, or does not respond.
        """
        self._check_change(mode, model, approve)
        await self.request(Change(mode, model, approve))
        self._change(ev.SessionChanged(mode=mode, model=model, approve=cast(Any, approve)))

    def resume(self) -> list[Run]:
        """Resume interrupted runs; see ``Session.resume``."""
        left = self._list_left()
        if left:
            self.send(Resume())
        return [self.find_run(identity, agent) for identity, agent in left]

    async def request_resume(self) -> list[Run]:
        """Resume interrupted runs; unlike ``resume``, wait for the owner's answer.

        Raises:
            HilumError: The owner refuses it, has left, or does not respond.
        """
        left = self._list_left()
        if left:
            await self.request(Resume())
        return [self.find_run(identity, agent) for identity, agent in left]

    def _list_left(self) -> list[tuple[str, str]]:
        """Return the id and the agent of each run that an earlier process left."""
        left = []
        for agent in self.agents.values():
            for identity in agent.conversation.pending:
                if identity not in self.runs:
                    left.append((identity, agent.name))
        return left

    async def retry(self, agent: str = "main") -> Run:
        """Continue the agent's last run; see ``Session.retry``."""
        reply = await self.request(Retry(agent))
        return self.find_run(reply.result, agent)

    async def repeat_call(self, call: str) -> Run:
        """Repeat a failed call; see ``Session.repeat_call``."""
        agent = (await find_call(self, call)).agent
        reply = await self.request(RepeatCall(call))
        return self.find_run(reply.result, agent)

    def compact(self, agent: str = "main", *, focus: str = "") -> None:
        """Compact a conversation; see ``Session.compact``."""
        self._find_agent(agent)
        self.send(Compact(agent, focus))

    def revoke(self, scope: str) -> bool:
        """Revoke a lasting approval; see ``Session.revoke``."""
        if scope not in self.grants:
            return False
        self.send(Revoke(scope))
        return True

    def list_commands(self) -> list[tuple[str, PromptCommand]]:
        """Return the commands that the owner's plugins carry out."""
        return list(self._welcome.commands)

    def plugin(self, kind: type[T]) -> T | None:
        """Return the service of a type if it also works here; otherwise ``None``."""
        for service in self._services:
            if isinstance(service, kind):
                return service
        return None

    def emit(self, event: ev.Event, agent: Agent | None = None, run: str = "") -> int:
        """Refuse to write an event, because only the owner writes the log.

        Raises:
            UsageError: Always.
        """
        raise UsageError(_ELSEWHERE, code=E_BUSY)

    def report(self, fault: PluginFailure) -> None:
        """Do nothing: the plugins of this process do not work on the session."""

    def discard(self) -> None:
        """Do nothing: only the owner may delete the session."""

    @property
    def closing(self) -> bool:
        """Whether the terminal is leaving the session, or its owner has left."""
        return self.lost.is_set() or self._nursery.cancel_scope.cancel_called

    async def _wrap(self, command: Command) -> Command:
        # The sandbox belongs to the owner's plugins, so nothing may start here.
        raise ToolDenied(_ELSEWHERE)
