"""State as a fold over events: the conversation of one agent, and the phase its run is in.

``Conversation.apply`` is the only place that changes it, live and on resume alike. That makes a
resumed run the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from hilum_tokens import NOTHING, Gauge, Size

from hilum import events as ev
from hilum.compaction import compacted, replace_texts
from hilum.errors import RETRYABLE
from hilum.messages import (
    AssistantMessage,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    Trim,
    Usage,
    UserMessage,
)
from hilum.refusals import CallOutcome
from hilum.repetition import FailureCounts

MAX_PATH = 4096  # characters, as on Linux
Phase = Literal["idle", "seal", "think", "call", "round", "check"]


class CallState(msgspec.Struct):
    """How far one call has come.

    Attributes:
        call: The call as it is in the log and in the conversation.
        withheld: Whether its arguments held a secret, which is replaced there.
        written: The call as the model wrote it, where it was withheld. A process that reads the log
            does not have it.
        scope: What a lasting yes would hold for, as the user was asked last. The log has it without
            secrets.
    """

    call: ToolCall
    withheld: bool = False
    written: ToolCall | None = None
    scope: str = ""
    asked: ev.ApprovalAsked | None = None
    answered: ev.ApprovalAnswered | None = None
    started: ev.CallStarted | None = None
    done: ev.CallDone | None = None
    began: float | None = None

    @property
    def to_run(self) -> ToolCall:
        """The call that is judged and runs: as the model wrote it."""
        return self.written or self.call

    @property
    def lost(self) -> bool:
        """Whether nobody knows any more what the model wrote."""
        return self.withheld and self.written is None


class FinishedCall(msgspec.Struct, frozen=True):
    """What a run remembers of a call that ended. Whole arguments may be large files.

    Attributes:
        name: Name of the tool.
        code: Its failure, empty for success.
        texts: Those of its arguments that may be paths.
    """

    name: str
    code: str
    texts: dict[str, str]

    @classmethod
    def of(cls, call: ToolCall, code: str) -> FinishedCall:
        """Create it from a call and its code."""
        try:
            arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            arguments = {}
        texts = {
            key: text
            for key, text in arguments.items()
            if isinstance(text, str) and len(text) <= MAX_PATH
        }
        return cls(call.name, code, {} if code else texts)


class RunState(msgspec.Struct):
    """The run an agent is on: its turn, its open calls, what it used.

    Attributes:
        continued: How often an answer that was cut off at the output limit was continued.
        cut: Whether the last answer was cut off there.
        first_failure: Why the first model failed, where a fallback was asked then.
        answer: What the model said last; the pieces of an answer that was cut off are joined.
        finished: The calls that ended.
        outcomes: What counts of them for whether the run had an effect.
    """

    id: str
    model: str = ""
    turn: int = 0
    attempt: int = 0
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    failed: ev.ModelFailed | None = None
    objections: int = 0
    continued: int = 0
    shortened: bool = False
    cut: bool = False
    first_failure: str = ""
    finished: list[FinishedCall] = msgspec.field(default_factory=list)
    outcomes: list[CallOutcome] = msgspec.field(default_factory=list)
    trims: int = 0
    size: Size = NOTHING
    answer: str = ""
    usage: Usage = Usage()
    calls: dict[str, CallState] = msgspec.field(default_factory=dict)
    cause: Literal["run", "trim", "mode", "model"] = "run"


def join_answer(first: str, second: str) -> str:
    """Join two pieces of an answer.

    Words that the second piece repeats from the end of the first are there once.
    """
    for count in range(min(len(first), len(second), 400), 15, -1):
        if first.endswith(second[:count]):
            return first + second[count:]
    return first + second


def last_request(messages: Sequence[Message]) -> int | None:
    """Return where the user's last request is, ``None`` where there is none."""
    for index in reversed(range(len(messages))):
        if isinstance(messages[index], UserMessage):
            return index
    return None


class Conversation(msgspec.Struct, eq=False):
    """One agent's messages and where it stands.

    Attributes:
        messages: What was said, oldest first; the prompt is layers plus these.
        request: Where in them the user's request of the last run is, ``None`` where there is none.
        shortened: Whether an earlier run had a result that was too large for the window and was
            shortened.
        epoch: Grows when the past changed (a trim); encoded pieces of an older epoch are void.
        sealed: The prompt's layers and tools as sent, none before the first.
        told: Layers by name as last told at the tail, where they differ from the sealed ones.
        tools: Names of the tools that the model was last told it can reach.
        queue: Prompts that wait, as (run id, text).
        failures: Calls that failed, or gave the same result, again and again.
        grants: What the user lets run unasked from now on: scopes of approvals, and names of tools.
        stopped: Id of the run that was last asked to stop.
        gauges: By model, what its provider's counts have taught about its tokens.
        trim_asked: Set while somebody waits for a trim.
        ended: How the last run ended; ``None`` before the first, and while one runs.
    """

    messages: list[Message] = msgspec.field(default_factory=list)
    request: int | None = None
    shortened: bool = False
    epoch: int = 0
    sealed: ev.LayersSealed = ev.LayersSealed(layers=(), tools=())
    told: dict[str, str] = msgspec.field(default_factory=dict)
    tools: frozenset[str] = frozenset()
    phase: Phase = "idle"
    state: ev.State = "idle"
    run: RunState | None = None
    queue: list[tuple[str, str]] = msgspec.field(default_factory=list)
    usage: Usage = Usage()
    failures: FailureCounts = msgspec.field(default_factory=FailureCounts)
    gauges: dict[str, Gauge] = msgspec.field(default_factory=dict)
    trim_asked: ev.TrimAsked | None = None
    grants: set[str] = msgspec.field(default_factory=set)
    stopped: str = ""
    ended: ev.RunEnded | None = None

    def apply(self, event: ev.Event) -> None:
        """Fold one event into the state.

        The method that is named like the event does it; most events have none.
        """
        fold = getattr(self, f"_{type(event).__struct_config__.tag}", None)
        if fold is not None:
            fold(event, self.run)
        if self.run is not None and self.phase in ("call", "round"):
            waiting = any(
                s.asked and not s.answered and not s.done for s in self.run.calls.values()
            )
            self.state = "waiting_for_approval" if waiting else "waiting_for_tool"

    @property
    def pending(self) -> list[str]:
        """Ids of the run it is on and of those that wait."""
        return [*([self.run.id] if self.run else []), *(identity for identity, _ in self.queue)]

    def gauge(self, model: str) -> Gauge:
        """What corrects an estimate of tokens for a model."""
        return self.gauges.get(model) or Gauge()

    def open_calls(self) -> list[CallState]:
        """The calls of the last answer that have not ended, in call order."""
        if self.run:
            return [state for state in self.run.calls.values() if state.done is None]
        return []

    def _agent_started(self, event: ev.AgentStarted, run: RunState | None) -> None:
        self.messages = [*event.messages]
        self.request = None

    def _prompt_queued(self, event: ev.PromptQueued, run: RunState | None) -> None:
        self.queue.append((event.run, event.text))
        if run is None:
            self.state = "preparing"

    def _run_started(self, event: ev.RunStarted, run: RunState | None) -> None:
        self.queue = [entry for entry in self.queue if entry[0] != event.run]
        self.run = RunState(event.run, event.model)
        self.ended = None
        self.request = len(self.messages)
        self.messages.append(event.message)
        self.failures.clear()
        self.phase = "seal"
        self.state = "preparing"

    def _run_retried(self, event: ev.RunRetried, run: RunState | None) -> None:
        self.run = RunState(event.run, event.model)
        self.ended = None
        self.state = "preparing"
        if self.request is None:
            self.request = last_request(self.messages)
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage) and not last.calls:
            # The whole answer had arrived; asking again would have the model continue its own text.
            self.run.answer = last.text
            self.phase = "check"
        else:
            self.phase = "seal"

    @property
    def retryable(self) -> bool:
        """Whether the last run ended without being done, for a reason that may have passed."""
        return self._ended_early and not self.pending

    @property
    def kept_request(self) -> int | None:
        """Where the request is that every compaction keeps: that of the current run, and of one
        that may be retried.
        """
        if self.run is not None or self._ended_early:
            return self.request
        return None

    @property
    def _ended_early(self) -> bool:
        if self.ended is None:
            return False
        if self.ended.state in ("stopped", "timed_out"):
            return True
        return self.ended.state == "failed" and self.ended.code in RETRYABLE

    def _layers_sealed(self, event: ev.LayersSealed, run: RunState) -> None:
        self.sealed = event
        self.told = {}
        self.tools = frozenset(spec.name for spec in event.tools)
        self.phase = "think"
        run.size = NOTHING

    def _trim_asked(self, event: ev.TrimAsked, run: RunState | None) -> None:
        self.trim_asked = event

    def _trimmed(self, event: ev.Trimmed, run: RunState | None) -> None:
        trim = Trim(event.upto, event.summary, event.thinned)
        self.messages, self.request = compacted(
            self.messages, trim, self.kept_request, event.request
        )
        self.epoch = self.epoch + 1
        self.trim_asked = None
        # What was read may be gone from the conversation, and must be read again
        self.failures.results.clear()
        if run is not None:
            self.phase = "seal"
            run.cause = "trim"
            run.failed = None
            run.trims = run.trims + 1

    def _model_started(self, event: ev.ModelStarted, run: RunState) -> None:
        run.attempt = event.attempt
        run.model = event.model
        run.failed = None
        run.size = event.size
        self.phase = "think"
        self.state = "thinking"
        self.trim_asked = None

    def _model_failed(self, event: ev.ModelFailed, run: RunState) -> None:
        run.failures[event.kind] = run.failures.get(event.kind, 0) + 1
        run.failed = event
        run.attempt = event.attempt
        if event.action == "fallback":
            run.model = event.next
            run.failures = {}
            run.first_failure = run.first_failure or event.message

    def _model_answered(self, event: ev.ModelAnswered, run: RunState) -> None:
        run.turn = run.turn + 1
        run.attempt = 0
        run.failures = {}
        run.trims = 0
        self._model_used(event, run)
        if any(run.size) and event.usage.input:
            self.gauges[run.model] = self.gauge(run.model).learn(run.size, event.usage.input)
        text = event.message.text
        run.answer = join_answer(run.answer, text) if run.cut else text or run.answer
        run.cut = event.message.stop == "length" and not event.message.calls
        run.first_failure = ""
        run.calls = {
            call.id: CallState(call, call.id in event.withheld) for call in event.message.calls
        }
        self.messages.append(event.message)
        self.phase = "call" if run.calls else "check"

    def _model_used(self, event: ev.ModelUsed | ev.ModelAnswered, run: RunState | None) -> None:
        self.usage += event.usage
        if run is not None:
            run.usage += event.usage

    def _approval_asked(self, event: ev.ApprovalAsked, run: RunState) -> None:
        run.calls[event.call.id].asked, run.calls[event.call.id].answered = event, None

    def _approval_answered(self, event: ev.ApprovalAnswered, run: RunState) -> None:
        for state in run.calls.values():
            if state.asked and state.asked.id == event.id:
                state.answered = event
                # Whoever was asked may have done something meanwhile; but a no does not make the
                # same call right.
                if event.accepted:
                    self.failures.clear()
                elif event.by == "user":
                    self.failures.keep_only(state.call)
                if event.accepted and event.remember != "once":
                    self.grants.add(state.asked.scope or state.asked.call.name)

    def _call_started(self, event: ev.CallStarted, run: RunState) -> None:
        run.calls[event.call.id].started = event

    def _call_done(self, event: ev.CallDone, run: RunState) -> None:
        state = run.calls[event.result.call_id]
        state.done = event
        run.finished.append(FinishedCall.of(state.call, event.result.code))
        run.outcomes.append(CallOutcome.of(state.call, state.started, event.result))
        self.failures.record(state.call, state.started, event.result, run.turn)
        if not self.open_calls():
            self.phase = "round"

    def _round_ended(self, event: ev.RoundEnded, run: RunState) -> None:
        if run.calls:
            results = ToolMessage(
                tuple(state.done.result for state in run.calls.values() if state.done)
            )
            self.messages.append(replace_texts(results, event.shortened, images=True))
        self.failures.mark_noted()
        if event.notes:
            self.messages.append(NoteMessage("\n\n".join(event.notes)))
        run.objections += event.objected
        run.continued += event.continued
        run.shortened = run.shortened or bool(event.shortened)
        self.told.update({layer.name: layer.text for layer in event.layers})
        if event.tools is not None:
            self.tools = frozenset(event.tools)
        run.calls = {}
        self.phase = "think"

    def _stop_asked(self, event: ev.StopAsked, run: RunState | None) -> None:
        self.stopped = event.run

    def _run_ended(self, event: ev.RunEnded, run: RunState | None) -> None:
        self.queue = [entry for entry in self.queue if entry[0] != event.run]
        if run is not None:
            self.shortened = self.shortened or run.shortened
        if run.id == event.run if run else not self.queue:
            self.run = None
            self.phase = "idle"
            self.state = event.state
            self.ended = event
