"""The events of a session: facts, written once, in order.

The state of a session is a fold over them (``hilum.state``).

A *phase event* records a step of the loop, of a run or of a call. The other events are for faces
and traces and do not change the phase.
"""

from __future__ import annotations

import functools
import re
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

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
from hilum.tokens import NOTHING, TextStats

End = Literal["completed", "partial_success", "failed", "stopped", "timed_out", "interrupted"]
State = Literal[
    "idle", "queued", "preparing", "thinking", "waiting_for_tool", "waiting_for_approval", End
]
FINAL: frozenset[str] = frozenset(get_args(End))


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(Data, frozen=True, tag=_tag, kw_only=True):
    """Base class of all events.

    ``seq`` counts from 1 without gaps in a session, ``at`` is Unix time in seconds, ``agent`` and
    ``run`` name its agent and run (empty for events of the session).
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
    """The mode, model or approval policy was changed, with effect from the next turn.

    Unchanged fields are ``None``.
    """

    mode: str | None = None
    model: str | None = None
    approve: str | None = None


class AgentStarted(Event, frozen=True):
    """An agent joined the session, or started again.

    ``profile`` has its limits and tools, ``messages`` the conversation that it continues.
    """

    parent: str = ""
    profile: dict[str, Any] = {}
    messages: tuple[Message, ...] = ()


class PromptQueued(Event, frozen=True):
    """A prompt was queued; it runs immediately, or after earlier ones.

    If ``piped``, another program wrote the text: it is a prompt, but does not count as the user's
    words. ``attached`` is data that came with the text and that another program wrote. ``redacted``
    lists the names of the secrets that were replaced in either text.
    """

    text: str
    piped: bool = False
    attached: str = ""
    redacted: tuple[str, ...] = ()


class SteeringQueued(Event, frozen=True):
    """The user wrote a message while the agent works, for the agent to read within its current run.

    The agent reads it after the calls of its answer (see ``RoundEnded``). ``redacted`` lists the
    names of the secrets that were replaced in the text.
    """

    id: str
    text: str
    redacted: tuple[str, ...] = ()


class SteeringWithdrawn(Event, frozen=True):
    """The user took back a steering message before the agent read it."""

    id: str


class RunStarted(Event, frozen=True):
    """Phase event: a run began, with the user's message and the context gathered for it."""

    text: str
    message: UserMessage
    model: str = ""
    mode: str = ""


class RunRetried(Event, frozen=True):
    """Phase event: a run continues the conversation of the last one, which was not complete.

    Nothing is added to the conversation. ``previous`` is the id of the run that ended.
    """

    previous: str
    model: str = ""
    mode: str = ""


class PromptFrozen(Event, frozen=True):
    """Phase event: the system prompt and the tool list were built.

    ``cause`` is the reason, ``changed`` lists the differences as ``layer NAME`` and ``tool NAME``.
    If ``changed`` is empty, the same prompt is sent again.
    """

    layers: tuple[Layer, ...]
    tools: tuple[ToolSpec, ...]
    cause: Literal["run", "compaction", "mode", "model"] = "run"
    mode: str = ""
    model: str = ""
    changed: tuple[str, ...] = ()


class CompactionRequested(Event, frozen=True):
    """A compaction was requested: it happens immediately if the agent is idle.

    ``focus`` is the subject on which the summary should concentrate.
    """

    focus: str = ""


class Compacted(Event, frozen=True):
    """Phase event: the conversation of about ``before`` tokens was compacted.

    ``cause`` is ``window`` (it was too large), ``model`` (the new model has a smaller window),
    ``too_long`` (the provider refused it) or ``asked``. If both ``upto`` and ``thinned`` are empty,
    nothing could be removed. The user's request in the current run is always kept; ``request``
    replaces it if it is too large to be kept in full.
    """

    upto: int = 0
    summary: str = ""
    thinned: dict[str, str] = {}
    before: int = 0
    cause: Literal["window", "model", "too_long", "asked"] = "window"
    request: UserMessage | None = None


class ModelStarted(Event, frozen=True):
    """Phase event: a request of about ``estimate`` tokens is sent.

    ``size`` is the estimate by kind, before any correction. On a new attempt, faces drop the output
    of the previous one.
    """

    attempt: int = 1
    model: str = ""
    turn: int = 1
    estimate: int = 0
    size: TextStats = NOTHING


class ModelFailed(Event, frozen=True):
    """A request failed.

    The kernel reacts with ``action`` after ``wait`` seconds, with the model ``next`` if it is set.
    """

    attempt: int
    model: str
    kind: str
    code: str
    message: str
    action: Literal["retry", "fallback", "compact", "give_up"]
    hint: str = ""
    wait: float = 0.0
    next: str = ""


class ModelAnswered(Event, frozen=True):
    """Phase event: a complete answer arrived.

    ``first`` and ``seconds`` are the seconds from the request to the first chunk and to the end.

    ``redacted`` lists the names of the secrets that were replaced in it. ``withheld`` lists the ids
    of the calls whose arguments contained one: the real arguments, with which the call runs, are
    only in the memory of the process that received the answer.
    """

    message: AssistantMessage
    redacted: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0


class ModelUsed(Event, frozen=True):
    """A plugin called a model on behalf of an agent, for ``purpose``.

    The usage counts towards the agent's run. ``asked`` is the first line of the instructions,
    ``message`` the answer.
    """

    model: str
    purpose: str
    asked: str = ""
    message: AssistantMessage | None = None
    usage: Usage = Usage()
    seconds: float = 0.0


class ApprovalAsked(Event, frozen=True):
    """Phase event of a call: the user must decide.

    A lasting approval covers the calls of ``scope``, or all calls of the tool if it is empty.
    ``call`` is the call that would run. The user has ``seconds`` to answer once the question is
    shown, see ``ApprovalShown``.
    """

    id: str
    call: ToolCall
    risk: str
    reason: str = ""
    scope: str = ""
    seconds: float = 0.0


class ApprovalShown(Event, frozen=True):
    """The question ``id`` is shown to the user.

    Without an answer by ``deadline``, in Unix seconds, the call is denied. The clock of the oldest
    open question starts automatically; a face that shows several questions at once starts the
    others.
    """

    id: str
    deadline: float


class ApprovalAnswered(Event, frozen=True):
    """Phase event of a call: the decision.

    ``by`` is ``user``, ``timeout``, ``headless`` or ``stop``.

    Without ``remember`` it applies to exactly this call; ``always`` outlives the session if a
    plugin stores such rules. ``arguments`` are those that the user wrote instead of the model's,
    as JSON.
    """

    id: str
    accepted: bool
    reason: str = ""
    by: str = "user"
    remember: Literal["once", "session", "always"] = "once"
    arguments: str | None = None


class GrantRevoked(Event, frozen=True):
    """The user took back a lasting approval of the session.

    ``scope`` is the scope of the approval, or the name of the tool.
    """

    scope: str


class CallStarted(Event, frozen=True):
    """Phase event of a call: it is about to run. ``effect`` decides whether a resume repeats it.

    ``call`` is the call that runs; if plugins changed its arguments, ``original`` contains those
    that the model wrote, and ``rewritten_by`` lists the plugins. ``paths`` lists the paths that the
    call reads and writes, as its tool declares them; ``aim`` is its other target, such as the
    program of a command.
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
    """Phase event: all calls of an answer have ended, or a plugin objected to an answer.

    ``notes`` are added at the end of the prompt, in order. ``layers`` contains the layers that the
    notes restate (with an empty text for a removed one); ``tools`` lists the names of the tools
    that can be called now, if that changed. ``shortened`` contains, by call id, the shortened texts
    of results that were too large for the window. ``continued`` is set if an answer that was cut
    off at the output limit is continued. ``steering`` lists the ids of the user's steering messages
    that follow the notes.
    """

    notes: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    tools: tuple[str, ...] | None = None
    objected: bool = False
    shortened: dict[str, str] = {}
    continued: bool = False
    steering: tuple[str, ...] = ()


class StopAsked(Event, frozen=True):
    """A stop of the run was requested.

    It is written before any part of the run is ended, so that a resume also ends the run.
    """


class RunEnded(Event, frozen=True):
    """Phase event: the run is over. ``code`` and ``error`` are the reason if it did not complete.

    ``text`` is the final answer. If there is none, ``commentary`` is the last text of the model.
    ``done`` lists the finished work (tools that ran, files that were changed), ``left`` the
    remaining work; both are empty for a run that completed.
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
    """A problem that only the user can solve."""

    code: str
    message: str


class ErrorRaised(Event, frozen=True):
    """An error that the user should see; also written when a run times out."""

    code: str
    message: str
    hint: str = ""


class PluginFault(Event, frozen=True):
    """A plugin failed in a hook, a lifespan or a tool.

    The session continues without that contribution.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool = False


class PluginEvent(Event, frozen=True):
    """An event that a plugin defines, named ``plugin.what``, with plain data."""

    name: str
    data: dict[str, Any] = {}


if TYPE_CHECKING:
    # A type checker cannot evaluate the union that is computed below.
    AnyEvent = Event
else:
    AnyEvent = reduce(
        or_, Event.__subclasses__()
    )  # every event above, as a tagged union for the decoder


@functools.cache
def _decoder() -> msgspec.json.Decoder[AnyEvent]:
    return msgspec.json.Decoder(AnyEvent)  # takes 2 ms, needed only to read a log


class Delta(Data, frozen=True):
    """A piece of output that is still arriving. It is never stored.

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
