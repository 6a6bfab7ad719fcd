"""The events of a session: facts, written once, in order.

State is a fold over them (``hilum.state``).

The names of the *phase events* are those of the design: each phase of the loop ends in exactly one
of them. The others tell what a face or a trace wants to know and change no phase.
"""

from __future__ import annotations

import functools
import re
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from hilum_tokens import NOTHING, Size

from hilum.messages import (
    AssistantMessage,
    Data,
    Layer,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)

End = Literal["completed", "partial_success", "failed", "stopped", "timed_out", "interrupted"]
State = Literal[
    "idle", "queued", "preparing", "thinking", "waiting_for_tool", "waiting_for_approval", End
]
FINAL: frozenset[str] = frozenset(get_args(End))


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(Data, frozen=True, tag=_tag, kw_only=True):
    """Base of all events.

    ``seq`` counts from 1 without gaps in a session, ``at`` is Unix time in seconds, ``agent`` and
    ``run`` say whose it is (empty for the session's own).
    """

    seq: int = 0
    at: float = 0.0
    agent: str = ""
    run: str = ""


class SessionOpened(Event, frozen=True):
    """The first event of a session. ``forked`` is the session it was forked from."""

    session: str
    workspace: str
    kind: str = "main"
    version: str = ""
    forked: str = ""


class SessionChanged(Event, frozen=True):
    """A command to the session changed what holds from the next turn on.

    Fields that stay are ``None``.
    """

    mode: str | None = None
    model: str | None = None
    approve: str | None = None


class AgentStarted(Event, frozen=True):
    """An agent joined the session, or began anew.

    ``profile`` is what it may do, ``messages`` what was said before.
    """

    parent: str = ""
    profile: dict[str, Any] = {}
    messages: tuple[Message, ...] = ()


class PromptQueued(Event, frozen=True):
    """A prompt arrived while the agent was busy; it runs next.

    ``piped`` says that another program wrote the text, and not the user: it is worked on as a
    prompt, and what it says is nothing that the user said. ``redacted`` are the names of the
    secrets that were replaced in it.
    """

    text: str
    piped: bool = False
    redacted: tuple[str, ...] = ()


class RunStarted(Event, frozen=True):
    """Phase event: a run began, with the user's message and the context gathered for it."""

    text: str
    message: UserMessage
    model: str = ""
    mode: str = ""


class RunRetried(Event, frozen=True):
    """Phase event: a run continues the conversation where the last one ended without being done.

    Nothing is added to it.

    ``previous`` is the id of the run that ended.
    """

    previous: str
    model: str = ""
    mode: str = ""


class LayersSealed(Event, frozen=True):
    """Phase event: the system prompt and the tool list were built.

    ``cause`` says why now, ``changed`` what differs.

    Names in ``changed`` are ``layer NAME`` and ``tool NAME``. Where it is empty, what was sent is
    sent again unchanged.
    """

    layers: tuple[Layer, ...]
    tools: tuple[ToolSpec, ...]
    cause: Literal["run", "trim", "mode", "model"] = "run"
    mode: str = ""
    model: str = ""
    changed: tuple[str, ...] = ()


class TrimAsked(Event, frozen=True):
    """The conversation is to be cut, at rest at once.

    ``focus`` says what the summary should dwell on.
    """

    focus: str = ""


class Trimmed(Event, frozen=True):
    """Phase event: the conversation of about ``before`` tokens was cut (see ``Trim``), and why.

    ``cause`` is ``window`` (it had grown too big), ``model`` (the window had shrunk), ``too_long``
    (the provider refused it) or ``asked``: with neither ``upto`` nor ``thinned`` there was nothing
    that could be cut. The user's request of the current run stays in any case; ``request`` is what
    replaces it where it is too large to stay in full.
    """

    upto: int = 0
    summary: str = ""
    thinned: dict[str, str] = {}
    before: int = 0
    cause: Literal["window", "model", "too_long", "asked"] = "window"
    request: UserMessage | None = None


class ModelStarted(Event, frozen=True):
    """Phase event: a request of about ``estimate`` tokens goes out.

    ``size`` is what they are by kind, before any correction.

    A new attempt means: drop what was shown of the one before.
    """

    attempt: int = 1
    model: str = ""
    turn: int = 1
    estimate: int = 0
    size: Size = NOTHING


class ModelFailed(Event, frozen=True):
    """A request failed.

    ``action`` is what the kernel does about it, after ``wait`` seconds (``next``: with that model).
    """

    attempt: int
    model: str
    kind: str
    code: str
    message: str
    action: Literal["retry", "fallback", "trim", "give_up"]
    hint: str = ""
    wait: float = 0.0
    next: str = ""


class ModelAnswered(Event, frozen=True):
    """Phase event: a whole answer arrived.

    ``first`` and ``seconds`` are times since the request went out.

    ``redacted`` are the names of the secrets that were replaced in it. ``withheld`` are the ids of
    the calls whose arguments held one: what the model wrote, and what runs, is known only to the
    process that got the answer.
    """

    message: AssistantMessage
    redacted: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0


class ModelUsed(Event, frozen=True):
    """A plugin asked a model on behalf of an agent, for ``purpose``.

    What it used counts to the agent's run.

    ``asked`` is the first line of its instructions, ``message`` what came back.
    """

    model: str
    purpose: str
    asked: str = ""
    message: AssistantMessage | None = None
    usage: Usage = Usage()
    seconds: float = 0.0


class ApprovalAsked(Event, frozen=True):
    """Phase event of a call: the user must decide.

    ``scope`` says what a lasting yes holds for, all of the tool if empty.

    ``call`` is what would run. The user has ``seconds`` to answer once the question is shown, see
    ``ApprovalShown``.
    """

    id: str
    call: ToolCall
    risk: str
    reason: str = ""
    scope: str = ""
    seconds: float = 0.0


class ApprovalShown(Event, frozen=True):
    """The question ``id`` is before the user: without an answer by ``deadline``, in Unix seconds,
    the call is not run.

    The clock of the session's oldest open question runs; a face that shows several questions at
    once starts the others'.
    """

    id: str
    deadline: float


class ApprovalAnswered(Event, frozen=True):
    """Phase event of a call: the decision.

    ``by`` is ``user``, ``timeout``, ``headless`` or ``stop``.

    Without ``remember`` it holds for exactly this call; ``always`` outlives the session where a
    plugin keeps such rules.
    """

    id: str
    accepted: bool
    reason: str = ""
    by: str = "user"
    remember: Literal["once", "session", "always"] = "once"


class CallStarted(Event, frozen=True):
    """Phase event of a call: it is about to run. ``effect`` decides what a resume does about it.

    ``call`` is what runs; where plugins changed its arguments, ``original`` are those that the
    model wrote and ``rewritten_by`` are the plugins. ``paths`` are the paths that the call reads
    and writes, as its tool declares them, ``aim`` is what else it is about: for a command, the
    program.
    """

    call: ToolCall
    risk: str = "execute"
    effect: str = "once"
    plugin: str = ""
    original: str | None = None
    rewritten_by: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    aim: str = ""


class CallDone(Event, frozen=True):
    """Phase event of a call: it ended, was refused or was skipped."""

    result: ToolResult
    seconds: float = 0.0


class RoundEnded(Event, frozen=True):
    """Phase event: all calls of an answer have ended, or an answer was objected to.

    ``notes`` go to the tail of the prompt, in order. ``layers`` are those the notes tell anew (an
    empty text: gone); ``tools`` are the names that can be reached now, where that changed.
    ``shortened`` are the texts of results that were too large for the window, by call id, as they
    joined the conversation. ``continued`` says that an answer that was cut off at the output limit
    is continued.
    """

    notes: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    tools: tuple[str, ...] | None = None
    objected: bool = False
    shortened: dict[str, str] = {}
    continued: bool = False


class StopAsked(Event, frozen=True):
    """The run is to be stopped: written before anything of it is ended, so that a resume ends it
    and does not go on.
    """


class RunEnded(Event, frozen=True):
    """Phase event: the run is over. ``code`` and ``error`` say why it did not complete.

    ``text`` is the final answer, empty where there is none; ``commentary`` is then what the model
    said last. ``done`` says what was done (tools that ran, files that were changed), ``left`` what
    is not; both are empty for a run that completed.
    """

    state: State
    text: str = ""
    commentary: str = ""
    done: str = ""
    code: str = ""
    error: str = ""
    hint: str = ""
    left: str = ""
    turns: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()


class StateChanged(Event, frozen=True):
    """The state of an agent changed; written with the event that changed it."""

    state: State
    previous: State


class UserNeeded(Event, frozen=True):
    """Something only the user can settle."""

    code: str
    message: str


class ErrorRaised(Event, frozen=True):
    """An error the user should see; also written when a run times out."""

    code: str
    message: str
    hint: str = ""


class PluginFault(Event, frozen=True):
    """A plugin failed in a hook, a lifespan or a tool.

    The session goes on without that contribution.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool = False


class PluginEvent(Event, frozen=True):
    """A fact of a plugin's own, named ``plugin.what``, with plain data."""

    name: str
    data: dict[str, Any] = {}


if TYPE_CHECKING:
    AnyEvent = Event
else:
    AnyEvent = reduce(
        or_, Event.__subclasses__()
    )  # every event above, for the decoder to tell apart


@functools.cache
def _decoder() -> msgspec.json.Decoder[AnyEvent]:
    return msgspec.json.Decoder(AnyEvent)  # 2 ms, for who reads a log


class Delta(Data, frozen=True):
    """A piece of output on its way: never stored.

    ``seq`` is the event it belongs to (``ModelStarted`` or ``CallStarted``).

    ``kind`` is ``text``, ``thinking``, ``arguments`` (of the call ``call_id``) or ``output`` (of a
    running call).
    """

    seq: int
    agent: str
    run: str
    kind: Literal["text", "thinking", "arguments", "output"]
    text: str
    call_id: str = ""


def encode(event: Event) -> bytes:
    """Encode an event as one line of JSON, without the newline."""
    return msgspec.json.encode(event)


def decode(data: bytes | str) -> AnyEvent:
    """Decode what ``encode`` wrote.

    Raises:
        msgspec.DecodeError: The text is not an event.
    """
    return _decoder().decode(data)
