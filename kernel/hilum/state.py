"""State as a fold over events: the conversation of one agent, and the phase its run is in.

``Conversation.apply`` is the only place that changes it, live and on resume alike. That makes a resumed run the same run.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec
from hilum_tokens import NOTHING, Gauge, Size

from hilum import events as ev
from hilum.messages import Message, NoteMessage, Text, ToolCall, ToolMessage, Usage

Phase = Literal["idle", "seal", "think", "call", "round", "check"]
THREE = 3


class CallState(msgspec.Struct):
    """How far one call has come."""

    call: ToolCall
    asked: ev.ApprovalAsked | None = None
    answered: ev.ApprovalAnswered | None = None
    started: ev.CallStarted | None = None
    done: ev.CallDone | None = None
    began: float | None = None


class RunState(msgspec.Struct):
    """The run an agent is on: its turn, its open calls, what it used."""

    id: str
    model: str = ""
    turn: int = 0
    attempt: int = 0
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    failed: ev.ModelFailed | None = None
    objections: int = 0
    trims: int = 0
    size: Size = NOTHING
    answer: str = ""
    usage: Usage = Usage()
    calls: dict[str, CallState] = msgspec.field(default_factory=dict)
    cause: Literal["run", "trim", "mode", "model"] = "run"


class Strikes(msgspec.Struct):
    """Failures in a row: of one tool with one code, and of one call repeated unchanged."""

    codes: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    repeats: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)

    def count(self, call: ToolCall, code: str) -> None:
        """Count the outcome of a call; success clears the tool's strikes."""
        same = call.name, call.arguments
        if code:
            self.repeats[same] += 1
            self.codes[_strike(call.name, code)] += 1
        else:
            del self.repeats[same]
            self.codes = Counter({strike: count for strike, count in self.codes.items() if strike[0] != call.name})

    def of(self, tool: str, code: str) -> int:
        """How often in a row this tool failed with this code."""
        return self.codes[_strike(tool, code)]

    def repeated(self, call: ToolCall) -> int:
        """How often this very call failed."""
        return self.repeats[call.name, call.arguments]


def _strike(tool: str, code: str) -> tuple[str, str]:
    return tool, "E_BAD_ARGS" if code == "E_UNKNOWN_TOOL" else code  # a name that does not exist is a bad argument too


class Conversation(msgspec.Struct, eq=False):
    """One agent's messages and where it stands.

    Attributes:
        messages: What was said, oldest first; the prompt is layers plus these.
        epoch: Grows when the past changed (a trim); encoded pieces of an older epoch are void.
        sealed: The prompt's layers and tools as sent, none before the first.
        told: Layers by name as last told at the tail, where they differ from the sealed ones.
        tools: Names of the tools that the model was last told it can reach.
        queue: Prompts that wait, as (run id, text).
        grants: What the user lets run unasked from now on: scopes of approvals, and names of tools.
        stopped: Id of the run that was last asked to stop.
        gauges: By model, what its provider's counts have taught about its tokens.
        trim_asked: Set while somebody waits for a trim.
    """

    messages: list[Message] = msgspec.field(default_factory=list)
    epoch: int = 0
    sealed: ev.LayersSealed = ev.LayersSealed(layers=(), tools=())
    told: dict[str, str] = msgspec.field(default_factory=dict)
    tools: frozenset[str] = frozenset()
    phase: Phase = "idle"
    state: ev.State = "idle"
    run: RunState | None = None
    queue: list[tuple[str, str]] = msgspec.field(default_factory=list)
    usage: Usage = Usage()
    strikes: Strikes = msgspec.field(default_factory=Strikes)
    gauges: dict[str, Gauge] = msgspec.field(default_factory=dict)
    trim_asked: ev.TrimAsked | None = None
    grants: set[str] = msgspec.field(default_factory=set)
    stopped: str = ""

    def apply(self, event: ev.Event) -> None:
        """Fold one event into the state. The method that is named like the event does it; most events have none."""
        fold = getattr(self, f"_{type(event).__struct_config__.tag}", None)
        if fold is not None:
            fold(event, self.run)
        if self.run is not None and self.phase in ("call", "round"):
            waiting = any(s.asked and not s.answered and not s.done for s in self.run.calls.values())
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
        return [state for state in self.run.calls.values() if state.done is None] if self.run else []

    def _agent_started(self, event: ev.AgentStarted, run: RunState | None) -> None:
        self.messages = [*event.messages]

    def _prompt_queued(self, event: ev.PromptQueued, run: RunState | None) -> None:
        self.queue.append((event.run, event.text))
        if run is None:
            self.state = "preparing"

    def _run_started(self, event: ev.RunStarted, run: RunState | None) -> None:
        self.queue = [entry for entry in self.queue if entry[0] != event.run]
        self.run = RunState(event.run, event.model)
        self.messages.append(event.message)
        self.strikes = Strikes()
        self.phase, self.state = "seal", "preparing"

    def _layers_sealed(self, event: ev.LayersSealed, run: RunState) -> None:
        self.sealed, self.told = event, {}
        self.tools = frozenset(spec.name for spec in event.tools)
        self.phase, run.size = "think", NOTHING

    def _trim_asked(self, event: ev.TrimAsked, run: RunState | None) -> None:
        self.trim_asked = event

    def _trimmed(self, event: ev.Trimmed, run: RunState | None) -> None:
        kept = [_thin(message, event.thinned) for message in self.messages[event.upto :]]
        self.messages = [NoteMessage(event.summary), *kept] if event.summary else kept
        self.epoch, self.trim_asked = self.epoch + 1, None
        if run is not None:
            self.phase, run.cause, run.failed, run.trims = "seal", "trim", None, run.trims + 1

    def _model_started(self, event: ev.ModelStarted, run: RunState) -> None:
        run.attempt, run.model, run.failed, run.size = event.attempt, event.model, None, event.size
        self.phase, self.state, self.trim_asked = "think", "thinking", None

    def _model_failed(self, event: ev.ModelFailed, run: RunState) -> None:
        run.failures[event.kind] = run.failures.get(event.kind, 0) + 1
        run.failed, run.attempt = event, event.attempt
        if event.action == "fallback":
            run.model, run.failures = event.next, {}

    def _model_answered(self, event: ev.ModelAnswered, run: RunState) -> None:
        run.turn, run.attempt, run.failures, run.trims = run.turn + 1, 0, {}, 0
        self._model_used(event, run)
        if any(run.size) and event.usage.input:
            self.gauges[run.model] = self.gauge(run.model).learn(run.size, event.usage.input)
        run.answer = event.message.text or run.answer
        run.calls = {call.id: CallState(call) for call in event.message.calls}
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
                if event.accepted and event.remember != "once":
                    self.grants.add(state.asked.scope or state.asked.call.name)

    def _call_started(self, event: ev.CallStarted, run: RunState) -> None:
        run.calls[event.call.id].started = event

    def _call_done(self, event: ev.CallDone, run: RunState) -> None:
        state = run.calls[event.result.call_id]
        state.done = event
        self.strikes.count(state.call, event.result.code)
        if not self.open_calls():
            self.phase = "round"

    def _round_ended(self, event: ev.RoundEnded, run: RunState) -> None:
        if run.calls:
            self.messages.append(ToolMessage(tuple(state.done.result for state in run.calls.values() if state.done)))
        if event.notes:
            self.messages.append(NoteMessage("\n\n".join(event.notes)))
        run.objections += event.objected
        self.told.update({layer.name: layer.text for layer in event.layers})
        if event.tools is not None:
            self.tools = frozenset(event.tools)
        run.calls = {}
        self.phase = "think"

    def _stop_asked(self, event: ev.StopAsked, run: RunState | None) -> None:
        self.stopped = event.run

    def _run_ended(self, event: ev.RunEnded, run: RunState | None) -> None:
        self.queue = [entry for entry in self.queue if entry[0] != event.run]
        if run.id == event.run if run else not self.queue:
            self.run, self.phase, self.state = None, "idle", event.state


def _thin(message: Message, thinned: dict[str, str]) -> Message:
    if not isinstance(message, ToolMessage) or not thinned:
        return message
    results = [
        msgspec.structs.replace(r, parts=(Text(thinned[r.call_id], f"tool:{r.name}"),)) if r.call_id in thinned else r
        for r in message.results
    ]
    return ToolMessage(tuple(results))
