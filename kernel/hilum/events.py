"""The events of a session: facts that are written once and in order.

The state of a session is a fold over these events (``hilum.state``).

A *phase event* records a step of the loop, of a run or of a call. All other events are for faces
and traces, and do not change the phase.
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
    Count,
    Data,
    Image,
    Layer,
    Message,
    Price,
    ToolCall,
    ToolResult,
    ToolSpec,
    UnixTime,
    Usage,
    UserMessage,
)
from hilum.tokens import NOTHING

End = Literal["completed", "partial_success", "failed", "stopped", "timed_out", "interrupted"]
State = Literal[
    "idle", "queued", "preparing", "thinking", "waiting_for_tool", "waiting_for_approval", End
]
FINAL: frozenset[str] = frozenset(get_args(End))
HEARTBEAT_INTERVAL = 60.0
"""Seconds without another event after which working agents write a ``Heartbeat``."""
_REOPENED = "session.reopened"


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(Data, frozen=True, tag=_tag, kw_only=True):
    """Base class of all events.

    Within a session, ``seq`` counts from 1 without gaps. ``at`` is a Unix time in seconds.
    ``agent`` is the name of the agent and ``run`` the id of the run; both are empty for events of
    the session itself.
    """

    seq: Count = 0
    at: UnixTime = 0.0
    agent: str = ""
    run: str = ""


class SessionOpened(Event, frozen=True):
    """The first event of a session.

    ``forked`` is the id of the session that this one was forked from. ``plugins`` lists the plugins
    that work, each with the version of its distribution; ``mode``, ``model`` and ``approve`` are
    the settings with which the session begins. ``settings`` contains the other settings that are not
    the defaults, by dotted key, except for texts and lists. Logs of earlier versions lack these five.
    """

    session: str
    workspace: str
    kind: str = "main"
    version: str = ""
    forked: str = ""
    plugins: tuple[str, ...] = ()
    mode: str = ""
    model: str = ""
    approve: str = ""
    settings: dict[str, bool | int | float | str] = {}


class SessionReopened(Event, frozen=True):
    """The session was opened again, with other settings or after its process ended during runs.

    The next process writes this event when it opens the session, before it resumes or ends the
    runs. ``last`` is the Unix time of the last event before; the runs did nothing in between. It is 0
    in logs of earlier versions, which have ``RunsCutOff`` for it. ``settings`` contains all settings
    that are not the defaults (see ``SessionOpened``); ``interrupted`` lists the names of agents with
    unfinished runs or queued prompts.
    """

    last: UnixTime = 0.0
    settings: dict[str, bool | int | float | str] = {}
    interrupted: tuple[str, ...] = ()


class Heartbeat(Event, frozen=True):
    """An agent is working, although nothing else was written for ``HEARTBEAT_INTERVAL`` seconds.

    If the process is killed, the log shows until when the agents worked.
    """


class SessionChanged(Event, frozen=True):
    """The mode, model or approval policy was changed, with effect from the next turn.

    Unchanged fields are ``None``.
    """

    mode: str | None = None
    model: str | None = None
    approve: str | None = None


class AgentStarted(Event, frozen=True):
    """An agent joined the session, or started again.

    ``profile`` contains the agent's limits and tools, ``messages`` the conversation that the agent
    continues.
    """

    parent: str = ""
    profile: dict[str, Any] = {}
    messages: tuple[Message, ...] = ()


class RepeatedCall(Data, frozen=True):
    """A failed call that the user has repeated.

    ``call`` has the same arguments and a new id; ``previous`` is the id of the failed call.
    """

    call: ToolCall
    previous: str


class PromptQueued(Event, frozen=True):
    """A prompt was queued; it runs immediately or after earlier prompts.

    If ``piped`` is set, another program wrote the text, which then does not count as the user's
    words. ``attached`` is data that came with the text and that another program wrote. ``typed`` is
    what the user typed if a plugin replaced the text, as for a command such as ``/init``.
    ``images`` came with the text. ``redacted``
    lists the names of the secrets that were replaced in either text. If ``repeats`` is set, the
    user did not write a prompt, but had a failed call repeated, which ``text`` describes.
    ``outputs`` are the ids of the outputs of the user's commands that ``attached`` contains.
    """

    text: str
    piped: bool = False
    attached: str = ""
    redacted: tuple[str, ...] = ()
    typed: str = ""
    images: tuple[Image, ...] = ()
    repeats: RepeatedCall | None = None
    outputs: tuple[str, ...] = ()


class SteeringQueued(Event, frozen=True):
    """The user wrote a steering message, which the agent reads within its current run.

    The agent reads the message after the calls in its current response (see ``RoundEnded``).
    ``redacted`` lists the names of the secrets that were replaced in the text.
    """

    id: str
    text: str
    redacted: tuple[str, ...] = ()


class SteeringWithdrawn(Event, frozen=True):
    """The user withdrew a steering message before the agent read it."""

    id: str


class RunStarted(Event, frozen=True):
    """Phase event: a run began, with the user's message and the context gathered for it.

    Images have no data in ``message``: they are in the run's ``PromptQueued``, so that the log
    contains them once (see ``UserMessage.with_image_data``). If ``repeats`` is set, the run begins
    with this call, whose result the model reads in a report (see ``make_repeat_report``).
    ``gathered_by`` lists the plugins that gathered the context, one for each of its blocks in
    ``message``, in order.
    """

    text: str
    message: UserMessage
    model: str = ""
    mode: str = ""
    repeats: RepeatedCall | None = None
    gathered_by: tuple[str, ...] = ()


class RunRetried(Event, frozen=True):
    """Phase event: a run continues the conversation of the previous run, which was not complete.

    Nothing is added to the conversation. ``previous`` is the id of the previous run.
    """

    previous: str
    model: str = ""
    mode: str = ""


class RunsCutOff(Event, frozen=True):
    """The session's process ended during runs, in logs of earlier versions.

    Since then, ``SessionReopened`` reports it. ``last`` is the Unix time of the last event before.
    """

    last: UnixTime


class PromptFrozen(Event, frozen=True):
    """Phase event: the system prompt and the tool list were built.

    ``cause`` is the reason; ``changed`` lists the layers and tools that were added, removed or
    changed since the last prompt, as ``layer NAME`` and ``tool NAME``, and ``order of layers`` or
    ``order of tools`` if they come in another order. If ``changed`` is empty, the same prompt is sent
    again. ``sources`` maps the same names to the plugins that the layers and tools come from; those
    of the kernel are not listed.
    """

    layers: tuple[Layer, ...]
    tools: tuple[ToolSpec, ...]
    cause: Literal["run", "compaction", "mode", "model"] = "run"
    mode: str = ""
    model: str = ""
    changed: tuple[str, ...] = ()
    sources: dict[str, str] = {}


class CompactionRequested(Event, frozen=True):
    """A compaction was requested; it happens immediately if the agent is idle.

    ``focus`` is the subject on which the summary should concentrate.
    """

    focus: str = ""


class Compacted(Event, frozen=True):
    """Phase event: the conversation, which had about ``before`` tokens, was compacted.

    ``cause`` is ``window`` (the conversation was too large), ``model`` (the new model has a smaller
    window), ``too_long`` (the provider refused the conversation as too long) or ``asked`` (the user
    requested it). If both ``upto`` and ``thinned`` are empty, nothing could be removed. The user's
    request in the current run is always kept; if it is too large, ``request`` is its shortened
    form. ``plugin`` is the plugin that planned the compaction; empty for the kernel's own plan.
    """

    upto: Count = 0
    summary: str = ""
    thinned: dict[str, str] = {}
    before: Count = 0
    cause: Literal["window", "model", "too_long", "asked"] = "window"
    request: UserMessage | None = None
    plugin: str = ""


class ModelStarted(Event, frozen=True):
    """Phase event: a request with about ``estimate`` tokens is sent.

    ``size`` is the uncorrected estimate, by kind of text. ``window`` and ``max_output`` are the
    limits of the model in tokens; they are 0 in logs of earlier versions. When a new attempt begins, faces drop the
    output of the previous one.
    """

    attempt: Count = 1
    model: str = ""
    turn: Count = 1
    estimate: Count = 0
    size: tuple[Count, Count, Count, Count] = NOTHING
    window: Count = 0
    max_output: Count = 0


class ModelFailed(Event, frozen=True):
    """A request to a model failed.

    The kernel carries out ``action`` after ``wait`` seconds, with the model ``next`` if that is
    set.
    """

    attempt: Count
    model: str
    kind: str
    code: str
    message: str
    action: Literal["retry", "fallback", "compact", "give_up"]
    hint: str = ""
    wait: float = 0.0
    next: str = ""


class ModelAnswered(Event, frozen=True):
    """Phase event: a complete response arrived.

    ``first`` is the time in seconds from the request to the first chunk, ``seconds`` is the time
    to the end of the response. ``price`` is the price of the model's tokens, if it is known.

    ``redacted`` lists the names of the secrets that were replaced in the response. ``withheld``
    lists the ids of the calls whose arguments contained a secret. The real arguments, with which
    such a call runs, are only in the memory of the process that received the response.
    """

    message: AssistantMessage
    redacted: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    usage: Usage = Usage()
    first: float = 0.0
    seconds: float = 0.0
    price: Price | None = None


class ModelUsed(Event, frozen=True):
    """A plugin called a model on behalf of an agent, for ``purpose``.

    The usage counts towards the agent's run. ``asked`` is the first line of the instructions,
    ``message`` the model's response. ``plugin`` is the plugin, and ``price`` the price of the
    model's tokens, if they are known.
    """

    model: str
    purpose: str
    asked: str = ""
    message: AssistantMessage | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    plugin: str = ""
    price: Price | None = None


class ApprovalAsked(Event, frozen=True):
    """Phase event of a call: the user must approve or reject the call.

    A lasting approval covers the calls that ``scope`` describes, or all calls of the tool if
    ``scope`` is empty. ``call`` is the call that would run. Once the question is shown (see
    ``ApprovalShown``), the user has ``seconds`` seconds to answer. ``effects`` is a hash of the
    effects of the call that its arguments do not show; empty if there are none. If ``once_only`` is
    set, no lasting approval can be given.
    """

    id: str
    call: ToolCall
    risk: str
    reason: str = ""
    scope: str = ""
    seconds: float = 0.0
    effects: str = ""
    once_only: bool = False


class ApprovalShown(Event, frozen=True):
    """The question ``id`` is shown to the user.

    If the user does not answer by ``deadline``, a Unix time in seconds, the call is denied. The
    clock of the oldest open question starts automatically; a face that shows several questions at
    once starts the clocks of the others.
    """

    id: str
    deadline: UnixTime


class ApprovalAnswered(Event, frozen=True):
    """Phase event of a call: the call was approved or rejected.

    ``by`` is ``user``, ``timeout``, ``headless`` or ``stop``, depending on who or what decided.

    If ``remember`` is ``once``, the decision applies to exactly this call; ``always`` outlives the
    session if a plugin stores such rules. ``arguments`` contains, as JSON, the arguments with which
    the user replaced the model's. ``user`` is the name of the person who answered, if the face
    knows several.
    """

    id: str
    accepted: bool
    reason: str = ""
    by: str = "user"
    remember: Literal["once", "session", "always"] = "once"
    arguments: str | None = None
    user: str = ""


class GrantRevoked(Event, frozen=True):
    """The user revoked a lasting approval in this session.

    ``scope`` is the scope of the approval, or the name of the tool.
    """

    scope: str


class CallStarted(Event, frozen=True):
    """Phase event of a call: the call is about to run.

    ``effect`` decides whether a resumed session repeats the call.

    ``call`` is the call that runs; if plugins changed its arguments, ``original`` contains those
    that the model wrote, and ``rewritten_by`` lists the plugins. ``paths`` lists the paths that the
    call reads and writes, as declared by its tool; ``aim`` is a target that is not a path, such as
    the program that a command runs. ``waited`` is the time in seconds that the call waited for
    other calls that use the same files or queues.
    """

    call: ToolCall
    risk: str = "execute"
    effect: str = "once"
    plugin: str = ""
    original: str | None = None
    rewritten_by: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    aim: str = ""
    waited: float = 0.0


class CallDone(Event, frozen=True):
    """Phase event of a call: the call ended, was refused or was skipped."""

    result: ToolResult
    seconds: float = 0.0


class RoundEnded(Event, frozen=True):
    """Phase event: all calls in a response have ended, or a plugin objected to a final answer.

    ``notes`` are added to the end of the prompt, in order. ``layers`` contains the layers that the
    notes restate (a removed layer has an empty text); ``tools`` lists the names of the tools that
    can now be called, if they changed. ``shortened`` maps call ids to the shortened texts of
    results that were too large for the window. ``continued`` is set if the model is to continue a
    response that was cut off at the output limit. ``steering`` lists the ids of the user's steering
    messages that follow the notes. ``noted_by`` lists the plugins that the notes come from, one for
    each note, in order; the name is empty for a note of the kernel.
    """

    notes: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    tools: tuple[str, ...] | None = None
    objected: bool = False
    shortened: dict[str, str] = {}
    continued: bool = False
    steering: tuple[str, ...] = ()
    noted_by: tuple[str, ...] = ()


class StopAsked(Event, frozen=True):
    """A stop of the run was requested.

    The event is written before any part of the run ends, so that a resumed session also ends the
    run.
    """


class RunEnded(Event, frozen=True):
    """Phase event: the run is over.

    ``code`` and ``error`` contain the reason if the run did not complete.

    ``text`` is the final answer. If the run has no final answer, ``commentary`` is the model's last
    text. ``done`` describes the finished work (tools that ran, files that were changed), ``left``
    the remaining work; both are empty if the run completed. ``unfinished`` is the text of the answer
    that the model was writing when the run ended; the model does not read it again.
    """

    state: State
    text: str = ""
    commentary: str = ""
    done: str = ""
    code: str = ""
    error: str = ""
    hint: str = ""
    left: str = ""
    unfinished: str = ""
    turns: Count = 0
    seconds: float = 0.0
    usage: Usage = Usage()


class StateChanged(Event, frozen=True):
    """The state of an agent changed.

    ``StateChanged`` is written together with the event that caused the change.
    """

    state: State
    previous: State


class UserNeeded(Event, frozen=True):
    """A problem that only the user can solve."""

    code: str
    message: str


class ErrorRaised(Event, frozen=True):
    """An error that the user should see, for example that a run timed out."""

    code: str
    message: str
    hint: str = ""


class PluginFault(Event, frozen=True):
    """A plugin failed in a hook, a lifespan or a tool.

    The session continues without the plugin's contribution.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool = False


class HookCalled(Event, frozen=True):
    """A hook of a plugin took longer than the setting ``slow_hook``; written when it has ended.

    ``call`` is the id of the call that the hook was called for, ``error`` the class of the exception
    that it raised. Both may be empty. ``delay`` is the time in seconds from the end of the hook to
    this event: the hooks that prepare a prompt are written when the prompt is queued.
    """

    plugin: str
    hook: str
    seconds: float
    call: str = ""
    error: str = ""
    delay: float = 0.0


class PluginEvent(Event, frozen=True):
    """An event that a plugin defines, named in the form ``plugin.what``, with plain data."""

    name: str
    data: dict[str, Any] = {}


if TYPE_CHECKING:
    # A type checker cannot evaluate the union that is computed below.
    AnyEvent = Event
else:
    AnyEvent = reduce(
        or_, Event.__subclasses__()
    )  # every event class above, as a tagged union for the decoder


@functools.cache
def _decoder() -> msgspec.json.Decoder[AnyEvent]:
    return msgspec.json.Decoder(AnyEvent)  # takes 2 ms, needed only to read a log


class Delta(Data, frozen=True):
    """A piece of output that is still arriving. It is never stored.

    ``seq`` is the number of the event that the output belongs to (``ModelStarted`` or
    ``CallStarted``).

    ``kind`` is ``text``, ``thinking``, ``arguments`` (of the call ``call_id``) or ``output`` (of a
    running call). For ``arguments``, ``tool`` is the tool's name; the first such piece of a call
    may have no text yet.
    """

    seq: Count
    agent: str
    run: str
    kind: Literal["text", "thinking", "arguments", "output"]
    text: str
    call_id: str = ""
    tool: str = ""


def encode(event: Event) -> bytes:
    """Encode an event as one line of JSON, without the newline."""
    return msgspec.json.encode(event)


def decode(data: bytes | str) -> AnyEvent:
    """Decode what ``encode`` wrote.

    Raises:
        msgspec.DecodeError: The text is not an event, is nested too deeply, or contains a number
            that cannot be right, such as a time in the far future.
    """
    try:
        return _upgrade(_decoder().decode(data))
    except msgspec.DecodeError:
        raise
    # A reader of a log knows one kind of damage: bytes that are not UTF-8 and lists in lists in
    # lists must not end a program that is prepared for invalid JSON.
    except (ValueError, RecursionError, OverflowError) as error:
        raise msgspec.DecodeError(str(error)) from None


class EventHeader(msgspec.Struct):
    """The fields that all events have had so far."""

    type: str
    seq: Count = 0
    at: UnixTime = 0.0
    agent: str = ""
    run: str = ""


def decode_header(data: bytes | str) -> EventHeader | None:
    """Decode the common fields of an event that ``decode`` rejects; ``None`` if it is damaged."""
    try:
        return msgspec.json.decode(data, type=EventHeader)
    except (ValueError, TypeError, RecursionError):
        return None


def is_known_type(name: str) -> bool:
    """Return whether this version has events of a type."""
    return any(each.__struct_config__.tag == name for each in get_args(AnyEvent))


def _upgrade(event: AnyEvent) -> AnyEvent:
    """Return an event of an earlier version in its present form.

    ``SessionReopened`` was an event with a name and plain data.
    """
    if not isinstance(event, PluginEvent) or event.name != _REOPENED:
        return event
    data = {**event.data, "seq": event.seq, "at": event.at}
    return msgspec.convert(data, SessionReopened)
