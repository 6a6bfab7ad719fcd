"""The messages between the process that has a session open and the terminals that joined it.

Each message is one JSON object, after its length in four bytes (big-endian). Both sides check the
length before they read a message, and the types while they decode it, because any process of the
user may connect.
"""

from __future__ import annotations

import msgspec
import trio

from hilum.agents import Mode
from hilum.errors import (
    HilumError,
    PluginError,
    PromptDenied,
    StoreError,
    ToolError,
    UsageError,
)
from hilum.events import Delta
from hilum.hookspecs import PromptCommand
from hilum.messages import Image
from hilum.services import HistoryScope

PROTOCOL = 3
"""Version of the protocol; both sides must have the same one."""
MAX_MESSAGE = 64 * 1024 * 1024
"""Maximum size of a message in bytes. A prompt with several images is the largest one."""
_HEADER = 4
_CHUNK = 65_536


class _Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


# --- operations: what a joined terminal asks the owner to do ----------------------------------------


class Prompt(_Message, frozen=True):
    """``Session.prompt``; the result is the id of the run and the reply of a command."""

    text: str
    agent: str = "main"
    piped: bool = False
    attached: str = ""
    images: tuple[Image, ...] = ()


class Steer(_Message, frozen=True):
    """``Session.steer``; the result is the id of the message."""

    text: str
    agent: str = "main"


class Withdraw(_Message, frozen=True):
    """``Session.withdraw``; the result tells whether the message was still unread."""

    message: str
    agent: str = "main"


class Answer(_Message, frozen=True):
    """``Session.answer``."""

    approval: str
    accepted: bool
    reason: str = ""
    remember: str = "once"
    arguments: str | None = None
    user: str = ""


class ShowApproval(_Message, frozen=True):
    """``Session.approval_shown``."""

    approval: str


class Stop(_Message, frozen=True):
    """``Session.stop``."""

    agent: str = ""
    run: str = ""


class Change(_Message, frozen=True):
    """``Session.set``."""

    mode: str | None = None
    model: str | None = None
    approve: str | None = None


class Resume(_Message, frozen=True):
    """``Session.resume``."""


class Retry(_Message, frozen=True):
    """``Session.retry``; the result is the id of the run."""

    agent: str = "main"


class RepeatCall(_Message, frozen=True):
    """``Session.repeat_call``; the result is the id of the run."""

    call: str


class Compact(_Message, frozen=True):
    """``Session.compact``."""

    agent: str = "main"
    focus: str = ""


class Revoke(_Message, frozen=True):
    """``Session.revoke``."""

    scope: str


class AnswerQuestion(_Message, frozen=True):
    """``UserQuestions.answer``."""

    question: str
    answers: tuple[str, ...] = ()


class AcceptPlan(_Message, frozen=True):
    """``Plans.accept``; the result is the id of the run.

    Attributes:
        text: The plan as the user edited it; ``None`` for the agent's plan.
        agent: Name of the agent.
        plan: Id of the run that proposed the plan; empty for whichever plan waits.
    """

    text: str | None = None
    agent: str = "main"
    plan: str = ""


class RejectPlan(_Message, frozen=True):
    """``Plans.reject``; the result is the id of the run, empty if none was started.

    Attributes:
        reason: Why the plan is rejected.
        agent: Name of the agent.
        plan: Id of the run that proposed the plan; empty for whichever plan waits.
    """

    reason: str = ""
    agent: str = "main"
    plan: str = ""


class JudgeCall(_Message, frozen=True):
    """``judge_call`` for the main agent; the result is the kind of verdict, the text its reason."""

    tool: str
    arguments: str


class DiffFiles(_Message, frozen=True):
    """``FileHistory.diff``; the data has the changes."""

    scope: HistoryScope
    name: str


class PreviewUndo(_Message, frozen=True):
    """``FileHistory.preview_undo``; the data has the preview."""

    scope: HistoryScope
    name: str
    merge: bool


class Undo(_Message, frozen=True):
    """``FileHistory.undo``."""

    scope: HistoryScope
    name: str
    keep_going: bool
    merge: bool


class SummarizeRuns(_Message, frozen=True):
    """``FileHistory.summarize_runs``; the data has the changes by run."""

    runs: tuple[str, ...]


class ListChangingCalls(_Message, frozen=True):
    """``FileHistory.list_calls``; the data has the calls."""

    limit: int


HistoryOperation = DiffFiles | PreviewUndo | Undo | SummarizeRuns | ListChangingCalls
Operation = (
    Prompt
    | Steer
    | Withdraw
    | Answer
    | ShowApproval
    | Stop
    | Change
    | Resume
    | Retry
    | RepeatCall
    | Compact
    | Revoke
    | AnswerQuestion
    | AcceptPlan
    | RejectPlan
    | JudgeCall
    | HistoryOperation
)


# --- messages of a joined terminal ------------------------------------------------------------------


class Hello(_Message, frozen=True):
    """The first message on a connection."""

    protocol: int


class Subscribe(_Message, frozen=True):
    """The request for all events after a sequence number, and for streamed output."""

    after: int


class Request(_Message, frozen=True):
    """The request to carry out an operation.

    An owner that was suspended must not carry out what the user has given up on meanwhile:
    ``expires`` is the time after which the request is refused, on the monotonic clock, which all
    processes of a machine share.
    """

    id: int
    operation: Operation
    expires: float


class Ping(_Message, frozen=True):
    """The question whether the other process still works."""


# --- messages of the owner --------------------------------------------------------------------------


class Welcome(_Message, frozen=True):
    """The answer to ``Hello``.

    The terminal reads the events up to ``after`` from the store, and gets all later ones from the
    owner. ``last`` is the sequence number of the last event.
    """

    protocol: int
    after: int
    last: int
    attended: bool = True
    commands: tuple[tuple[str, PromptCommand], ...] = ()


class State(_Message, frozen=True):
    """The part of the session's state that its events do not contain.

    ``runs`` has the agent of each run that has not ended, and ``starting`` the run that each agent
    is working on. ``confinement`` is the kind of sandbox.
    """

    runs: dict[str, str] = {}
    starting: dict[str, str] = {}
    modes: tuple[Mode, ...] = ()
    mode: str = ""
    model: str = ""
    approve: str = ""
    confinement: str = ""


class Events(_Message, frozen=True):
    """Some events of the log, in order, each as ``hilum.events.encode`` returns it."""

    events: tuple[msgspec.Raw, ...]


class Output(_Message, frozen=True):
    """Output that is still arriving."""

    delta: Delta


class Reply(_Message, frozen=True):
    """The result of a request; ``error`` is the code of an error.

    ``kind`` names the class of the error. ``data`` is a result that is no text.
    """

    id: int
    result: str = ""
    text: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    message: str = ""
    hint: str = ""
    kind: str = ""


class Pong(_Message, frozen=True):
    """The answer to ``Ping``."""


FromTerminal = Hello | Subscribe | Request | Ping
FromOwner = Welcome | State | Events | Output | Reply | Pong
# The first class that fits an error is sent.
_KINDS = (PromptDenied, UsageError, PluginError, StoreError, ToolError)
_ERRORS = {kind.__name__: kind for kind in _KINDS}


def make_error_reply(request: int, error: HilumError) -> Reply:
    """Return the reply to a request that failed."""
    kind = next((name for name, each in _ERRORS.items() if isinstance(error, each)), "")
    return Reply(request, error=error.code, message=error.message, hint=error.hint, kind=kind)


def read_error(reply: Reply) -> HilumError:
    """Return the error that a reply reports."""
    kind = _ERRORS.get(reply.kind, HilumError)
    return kind(reply.message, code=reply.error, hint=reply.hint)


class BadMessage(Exception):
    """The other side sent something that is not a message."""


class MessageStream:
    """A connection on which each side sends messages.

    Args:
        stream: The connection.
        incoming: The types of the messages that the other side may send.
    """

    def __init__(self, stream: trio.SocketStream, incoming: object) -> None:
        self._stream = stream
        self._decoder: msgspec.json.Decoder[object] = msgspec.json.Decoder(incoming)
        self._buffer = bytearray()
        self._lock = trio.StrictFIFOLock()

    async def send(self, message: FromTerminal | FromOwner) -> None:
        """Send a message; messages arrive in the order in which they were sent.

        Raises:
            trio.BrokenResourceError: The other side closed the connection.
            trio.ClosedResourceError: This side closed the connection.
        """
        data = msgspec.json.encode(message)
        async with self._lock:
            await self._stream.send_all(len(data).to_bytes(_HEADER, "big") + data)

    async def receive(self) -> object | None:
        """Return the next message; ``None`` if the other side closed the connection.

        Raises:
            BadMessage: The other side sent something else.
        """
        if not await self._fill(_HEADER):
            return None
        size = int.from_bytes(self._buffer[:_HEADER], "big")
        if size > MAX_MESSAGE:
            raise BadMessage(f"a message of {size} bytes")
        if not await self._fill(_HEADER + size):
            return None
        data = bytes(self._buffer[_HEADER : _HEADER + size])
        del self._buffer[: _HEADER + size]
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise BadMessage(str(error)) from error

    async def _fill(self, size: int) -> bool:
        """Read until the buffer has some bytes; return whether the connection was still open."""
        while len(self._buffer) < size:
            try:
                data = await self._stream.receive_some(_CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return False
            if not data:
                return False
            self._buffer += data
        return True

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()
