"""Sharing an open session with other terminals: the owner's side of the socket.

The owner carries out what the terminals ask for, one operation after another on its own thread, so
that the first answer to a question wins. Each terminal reads the session's journal at its own pace:
events that a slow terminal has not read stay in the log, and pieces of output are joined.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
import trio

from hilum import events as ev
from hilum.errors import (
    E_BAD_ARGS,
    E_BUSY,
    E_INTERNAL,
    E_TIMEOUT,
    E_UNKNOWN,
    HilumError,
    UsageError,
)
from hilum.hooks import open_nursery
from hilum.rewinding import find_history
from hilum.services import Confinement, Plans, UserQuestions
from hilum.session import Session
from hilum.settings import use_environment
from hilum.sharing.joined_history import perform_on_history
from hilum.sharing.messages import (
    PROTOCOL,
    AcceptPlan,
    Answer,
    AnswerQuestion,
    BadMessage,
    Change,
    Compact,
    DiffFiles,
    Events,
    FromTerminal,
    Hello,
    JudgeCall,
    ListChangingCalls,
    MessageStream,
    Operation,
    Output,
    Ping,
    Pong,
    PreviewUndo,
    Prompt,
    RejectPlan,
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
    SummarizeRuns,
    Undo,
    Welcome,
    Withdraw,
    make_error_reply,
)
from hilum.sharing.sockets import explain_refusal, find_socket, has_sockets, listen
from hilum.store import MemoryStore
from hilum.verdicts import judge_call

MAX_TERMINALS = 8
"""Maximum number of terminals that can join a session at the same time."""
MAX_REQUESTS = 16
"""Maximum number of requests of one terminal that are carried out at the same time."""
HELLO_TIMEOUT = 5.0
"""Seconds within which a process that connects must send its first message."""
_MESSAGE_SIZE = 1_000_000
"""Number of bytes of events that are sent in one message, unless a single event is larger."""
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


@asynccontextmanager
async def share_session(session: Session) -> AsyncIterator[None]:
    """Serve a session to other terminals of the user while the block runs.

    Where sockets are not available, the session is not shared, and other terminals are told that
    it is in use.

    Args:
        session: The open session.
    """
    listener = await _listen(session)
    if listener is None:
        yield
        return
    server = _Server(session)
    path = find_socket(session.id)
    try:
        async with open_nursery() as nursery:
            nursery.start_soon(_accept, listener, server.serve)
            yield
            nursery.cancel_scope.cancel()
    finally:
        # The file is removed while this process still has the lease, so that it cannot be the file
        # of the next owner.
        with use_environment(session.kernel.environ), suppress(OSError):
            path.unlink(missing_ok=True)


async def _listen(session: Session) -> trio.SocketListener | None:
    """Create the socket of a session; report and return ``None`` if this is not possible."""
    # Other processes cannot find a session that is only in the memory of this one.
    if not has_sockets() or isinstance(session.kernel.store, MemoryStore):
        return None
    with use_environment(session.kernel.environ):
        path = find_socket(session.id)
    try:
        return listen(path)
    except OSError as error:
        say = f"Other terminals cannot join this session: {error}."
        session.note("sharing.unavailable", say=say)
        return None


async def _accept(
    listener: trio.SocketListener, serve: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    await trio.serve_listeners(serve, [listener])


class _Server:
    """The owner of a session, for the terminals that joined it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connections = 0
        self._joined = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends. Whatever arrives, the session continues."""
        async with stream:
            try:
                refused = explain_refusal(stream)
            except OSError:
                return
            if refused or self._connections >= MAX_TERMINALS:
                return
            self._connections += 1
            try:
                await _Terminal(self._session, stream, self._note_joined).run()
            except Exception as bug:
                # A mistake in this module must not end the work of the session.
                self._note(f"Another terminal was disconnected because of an error: {bug!r}")
            finally:
                self._connections -= 1

    def _note_joined(self, change: int) -> None:
        """Send all terminals the news that one has joined (1) or left (-1)."""
        self._joined += change
        if self._joined:
            say = (
                f"This conversation is open in {self._joined + 1} terminals. All show everything,"
                " and the first answer to a question counts."
            )
        else:
            say = "The other terminal has left this conversation."
        self._note(say)

    def _note(self, say: str) -> None:
        # If the log cannot be written, the terminals learn that anyway.
        with suppress(HilumError):
            self._session.note("sharing.terminals", say=say, terminals=self._joined + 1)


class _Terminal:
    """A terminal that joined the session.

    Args:
        session: The session.
        stream: The connection.
        note_joined: Function to call with 1 when the terminal has joined, and with -1 when it has
            left.
    """

    def __init__(
        self, session: Session, stream: trio.SocketStream, note_joined: Callable[[int], None]
    ) -> None:
        self._session = session
        self._note_joined = note_joined
        self._stream = MessageStream(stream, FromTerminal)
        self._limit = trio.CapacityLimiter(MAX_REQUESTS)
        self._shown = State()

    async def run(self) -> None:
        """Serve the terminal until it leaves, or sends something that is not a message."""
        after = None
        with trio.move_on_after(HELLO_TIMEOUT), suppress(BadMessage, *_GONE):
            after = await self._greet()
        if after is None:
            return
        self._note_joined(1)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_events, after, nursery.cancel_scope)
                await self._read_requests(nursery)
                nursery.cancel_scope.cancel()
        except Exception:
            # The terminal is disconnected because of the error, so it has left as well.
            self._note_joined(-1)
            raise
        # Not in a ``finally``: when the session closes, nobody is left to read it.
        self._note_joined(-1)

    async def _greet(self) -> int | None:
        """Exchange the first messages; return the sequence number after which events are sent.

        Returns:
            ``None`` if the terminal has another version, or is not a terminal.
        """
        hello = await self._stream.receive()
        if not isinstance(hello, Hello):
            return None
        # A terminal of another version also gets the answer, and reports the difference.
        await self._stream.send(self._welcome())
        if hello.protocol != PROTOCOL:
            return None
        subscribe = await self._stream.receive()
        return subscribe.after if isinstance(subscribe, Subscribe) else None

    def _welcome(self) -> Welcome:
        session = self._session
        last = session.journal.durable
        after = last
        for agent in session.agents.values():
            run = agent.conversation.run
            if run is None:
                continue
            for call in run.calls.values():
                # The log does not contain the secrets of a question, but the user must see what
                # would run. The journal in memory has the question as it was asked.
                if call.asked is not None and call.waits_for_user:
                    after = min(after, call.asked.seq - 1)
        return Welcome(
            PROTOCOL,
            after=max(after, 0),
            last=last,
            attended=session.attended,
            commands=tuple(session.list_commands()),
        )

    # --- events -----------------------------------------------------------------------------------

    async def _send_events(self, after: int, scope: trio.CancelScope) -> None:
        """Send events and output as fast as the terminal reads them, until the session closes."""
        session = self._session
        reader = session.events(after, deltas=True)
        with suppress(*_GONE):
            await self._send_state()
            ready: list[bytes] = []
            size = 0
            async for item in reader:
                if isinstance(item, ev.Delta):
                    await self._stream.send(Output(item))
                    continue
                ready.append(ev.encode(item))
                size += len(ready[-1])
                # Many events in one message are faster, but a message must not become too large.
                if size < _MESSAGE_SIZE and item.seq < session.journal.durable:
                    continue
                await self._stream.send(Events(tuple(map(msgspec.Raw, ready))))
                ready = []
                size = 0
                await self._send_state()
        # The session was closed, or the terminal left.
        scope.cancel()

    async def _send_state(self) -> None:
        """Send the session's state, if it has changed."""
        session = self._session
        confinement = session.plugin(Confinement)
        state = State(
            runs={run.id: run.agent for run in session.runs.values()},
            starting={name: agent.starting for name, agent in session.agents.items()},
            modes=tuple(session.modes.values()),
            mode=session.mode.name,
            model=session.model,
            approve=session.approve,
            confinement=confinement.describe_confinement() if confinement is not None else "",
        )
        if state != self._shown:
            self._shown = state
            await self._stream.send(state)

    # --- requests ---------------------------------------------------------------------------------

    async def _read_requests(self, nursery: trio.Nursery) -> None:
        """Carry out the terminal's requests, until it leaves or sends something else."""
        with suppress(BadMessage, *_GONE):
            while (message := await self._stream.receive()) is not None:
                if isinstance(message, Ping):
                    # Some of the state changes without an event.
                    await self._send_state()
                    await self._stream.send(Pong())
                elif isinstance(message, Request):
                    # A terminal that does not read its replies must not collect tasks here.
                    borrower = object()
                    await self._limit.acquire_on_behalf_of(borrower)
                    nursery.start_soon(self._handle, message, borrower)
                else:
                    return

    async def _handle(self, request: Request, borrower: object) -> None:
        try:
            reply = await self._carry_out(request)
            with suppress(*_GONE):
                # Nothing may come in between: the terminal must learn the id of its prompt before
                # it gets the event of the prompt.
                await self._stream.send(reply)
                await self._send_state()
        finally:
            self._limit.release_on_behalf_of(borrower)

    async def _carry_out(self, request: Request) -> Reply:
        """Carry out a request, and return the reply."""
        if time.monotonic() > request.expires:
            message = "The terminal that has the session open responded too late."
            error: HilumError = HilumError(message, code=E_TIMEOUT, hint="Send it again.")
            return make_error_reply(request.id, error)
        try:
            return await self._perform(request.id, request.operation)
        except HilumError as failed:
            return make_error_reply(request.id, failed)
        except Exception as bug:
            # A mistake in one operation must not end the session of the other terminal.
            message = f"The terminal that has the session open failed: {bug!r}"
            return make_error_reply(request.id, HilumError(message, code=E_INTERNAL))

    async def _perform(self, identity: int, operation: Operation) -> Reply:
        """Carry out an operation.

        Raises:
            HilumError: The session refuses the operation.
        """
        session = self._session
        reply = partial(Reply, identity)
        match operation:
            case Prompt(text, agent, piped, attached, images):
                run = await session.prompt(
                    text, agent=agent, piped=piped, attached=attached, images=images
                )
                session.sent_elsewhere.add(run.id)
                return reply(result=run.id, text=run.reply)
            case Steer(text, agent):
                message = await session.steer(text, agent=agent)
                session.sent_elsewhere.add(message)
                return reply(result=message)
            case Withdraw(message, agent):
                return reply(result="yes" if session.withdraw(message, agent=agent) else "")
            case Answer():
                self._answer(operation)
            case ShowApproval(approval):
                session.approval_shown(approval)
            case Stop(agent, run_id):
                session.stop(agent, run=run_id)
            case Change(mode, model, approve):
                session.set(mode=mode, model=model, approve=approve)
            case Resume():
                session.resume()
            case Retry(agent):
                run = await session.retry(agent)
                session.sent_elsewhere.add(run.id)
                return reply(result=run.id)
            case RepeatCall(call):
                run = await session.repeat_call(call)
                session.sent_elsewhere.add(run.id)
                return reply(result=run.id)
            case Compact(agent, focus):
                session.compact(agent, focus=focus)
            case Revoke(scope):
                session.revoke(scope)
            case AnswerQuestion(question, answers):
                self._answer_question(question, answers)
            case AcceptPlan(text, agent, plan):
                run = await self._find_plans(agent, plan).accept(text, agent=agent)
                session.sent_elsewhere.add(run.id)
                return reply(result=run.id)
            case RejectPlan(reason, agent, plan):
                started = await self._find_plans(agent, plan).reject(reason, agent=agent)
                return reply(result=started.id if started is not None else "")
            case JudgeCall(tool, tool_arguments):
                verdict = await judge_call(session.agents["main"], tool, tool_arguments)
                return reply(result=verdict.kind, text=verdict.reason)
            case DiffFiles() | PreviewUndo() | Undo() | SummarizeRuns() | ListChangingCalls():
                history = find_history(session)
                return reply(data=await perform_on_history(history, operation))
        return reply()

    def _answer(self, answer: Answer) -> None:
        """Answer an approval, unless another terminal was faster.

        Raises:
            UsageError: The approval is not open, or the answer is not valid.
        """
        if answer.remember not in ("once", "session", "always"):
            # An event with another word could not be read from the log.
            raise UsageError(f"There is no approval for {answer.remember!r}.", code=E_BAD_ARGS)
        try:
            self._session.answer(
                answer.approval,
                answer.accepted,
                reason=answer.reason,
                remember=answer.remember,
                arguments=answer.arguments,
                user=answer.user,
            )
        except UsageError as error:
            if error.code != E_UNKNOWN:
                raise
            raise UsageError(
                "Your answer was too late: the call was answered in another terminal, or its time"
                " was over.",
                code=E_BUSY,
                hint="The conversation shows how it was decided.",
            ) from None
        self._session.sent_elsewhere.add(answer.approval)

    def _answer_question(self, question: str, answers: tuple[str, ...]) -> None:
        questions = self._session.plugin(UserQuestions)
        if questions is None or not questions.is_open(question):
            raise UsageError(
                "The question is no longer open.",
                code=E_BUSY,
                hint="It was answered in another terminal, or it expired.",
            )
        questions.answer(question, answers)
        self._session.sent_elsewhere.add(question)

    def _find_plans(self, agent: str, plan: str) -> Plans:
        """Return the plans, after checking that the plan that the user saw is still the one.

        Raises:
            UsageError: There are no plans, or another plan was proposed meanwhile.
        """
        plans = self._session.plugin(Plans)
        if plans is None:
            raise UsageError("This session has no plans.")
        if plan:
            proposal = plans.proposal(agent)
            if proposal is None or proposal.run != plan:
                raise UsageError(
                    "The plan no longer waits for a decision.",
                    code=E_BUSY,
                    hint="It was decided in another terminal, or replaced by another plan.",
                )
        return plans
