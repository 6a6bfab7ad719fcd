"""State as a fold over events: the conversation of one agent, and the phase its run is in.

``Conversation.apply`` is the only place that changes it, live and on resume alike. That makes a resumed run the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs
import msgspec

from hilum import events as ev
from hilum.messages import Message, NoteMessage, Text, ToolCall, ToolMessage, Usage

Phase = Literal["idle", "seal", "think", "call", "round", "check"]
THREE = 3


@attrs.define
class CallState:
    """How far one call has come."""

    call: ToolCall
    asked: ev.ApprovalAsked | None = None
    answered: ev.ApprovalAnswered | None = None
    started: ev.CallStarted | None = None
    done: ev.CallDone | None = None


@attrs.define
class RunState:
    """The run an agent is on: its turn, its open calls, what it used."""

    id: str
    text: str
    began: float
    model: str = ""
    turn: int = 0
    attempt: int = 0
    failures: dict[str, int] = attrs.field(factory=dict)
    failed: ev.ModelFailed | None = None
    objections: int = 0
    trims: int = 0
    answer: str = ""
    usage: Usage = Usage()
    calls: dict[str, CallState] = attrs.field(factory=dict)
    finished: int = 0
    cause: Literal["run", "trim", "mode", "model"] = "run"


@attrs.define
class Strikes:
    """Failures in a row: of one tool with one code, and of one call repeated unchanged."""

    codes: dict[tuple[str, str], int] = attrs.field(factory=dict)
    repeats: dict[tuple[str, str], int] = attrs.field(factory=dict)

    def count(self, call: ToolCall, code: str) -> None:
        """Count the outcome of a call; success clears the tool's strikes."""
        key = (call.name, call.arguments)
        if not code:
            self.repeats.pop(key, None)
            for known in [k for k in self.codes if k[0] == call.name]:
                del self.codes[known]
            return
        self.repeats[key] = self.repeats.get(key, 0) + 1
        if code == "E_UNKNOWN_TOOL":
            code = "E_BAD_ARGS"
        self.codes[call.name, code] = self.codes.get((call.name, code), 0) + 1

    def of(self, tool: str, code: str) -> int:
        """How often in a row this tool failed with this code."""
        return self.codes.get((tool, "E_BAD_ARGS" if code == "E_UNKNOWN_TOOL" else code), 0)

    def repeated(self, call: ToolCall) -> int:
        """How often this very call failed."""
        return self.repeats.get((call.name, call.arguments), 0)


@attrs.define(eq=False)
class Conversation:
    """One agent's messages and where it stands.

    Attributes:
        messages: What was said, oldest first; the prompt is layers plus these.
        epoch: Grows when the past changed (a trim); encoded pieces of an older epoch are void.
        sealed: The prompt's layers and tools as sent, ``None`` before the first.
        told: Layers by name as last told at the tail, where they differ from the sealed ones.
        tools: Names of the tools that the model was last told it can reach.
        queue: Prompts that wait, as (run id, text).
    """

    messages: list[Message] = attrs.field(factory=list)
    epoch: int = 0
    sealed: ev.LayersSealed | None = None
    told: dict[str, str] = attrs.field(factory=dict)
    tools: frozenset[str] = frozenset()
    phase: Phase = "idle"
    state: ev.State = "idle"
    run: RunState | None = None
    queue: list[tuple[str, str]] = attrs.field(factory=list)
    usage: Usage = Usage()
    strikes: Strikes = attrs.field(factory=Strikes)
    factor: float = 1.0

    def apply(self, event: ev.Event) -> None:
        """Fold one event into the state."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def open_calls(self) -> list[CallState]:
        """The calls of the last answer that have not ended, in call order."""
        return [state for state in self.run.calls.values() if state.done is None] if self.run else []

    def _queued(self, event: ev.PromptQueued) -> None:
        self.queue.append((event.run, event.text))
        if self.run is None:
            self.state = "preparing"

    def _started(self, event: ev.RunStarted) -> None:
        self.queue = [entry for entry in self.queue if entry[0] != event.run]
        self.run = RunState(event.run, event.text, event.at, event.model)
        self.messages.append(event.message)
        self.strikes = Strikes()
        self.phase, self.state = "seal", "preparing"

    def _sealed(self, event: ev.LayersSealed) -> None:
        self.sealed, self.told = event, {}
        self.tools = frozenset(spec.name for spec in event.tools)
        self.phase = "think"

    def _trimmed(self, event: ev.Trimmed) -> None:
        kept = self.messages[event.upto :]
        if event.thinned:
            kept = [_thin(message, event.thinned) for message in kept]
        summary: list[Message] = [NoteMessage(event.summary)] if event.summary else []
        self.messages = summary + kept
        self.epoch += 1
        self.phase = "seal"
        if self.run:
            self.run.cause, self.run.failed = "trim", None
            self.run.trims += 1

    def _asking(self, event: ev.ModelStarted) -> None:
        if self.run:
            self.run.attempt, self.run.model, self.run.failed = event.attempt, event.model, None
        self.phase, self.state = "think", "thinking"

    def _missed(self, event: ev.ModelFailed) -> None:
        run = self.run
        if run is None:
            return
        run.failures[event.kind] = run.failures.get(event.kind, 0) + 1
        run.failed, run.attempt = event, event.attempt
        if event.action == "fallback":
            run.model, run.failures = event.next, {}

    def _answered(self, event: ev.ModelAnswered) -> None:
        run = self.run
        if run is None:
            return
        run.turn, run.attempt, run.finished, run.failures, run.trims = run.turn + 1, 0, 0, {}, 0
        run.usage += event.usage
        self.usage += event.usage
        run.answer = event.message.text or run.answer
        run.calls = {call.id: CallState(call) for call in event.message.calls}
        self.messages.append(event.message)
        self.phase = "call" if run.calls else "check"
        if run.calls:
            self.state = "waiting_for_tool"

    def _call(self, event: ev.ApprovalAsked | ev.ApprovalAnswered | ev.CallStarted | ev.CallDone) -> None:
        run = self.run
        if run is None:
            return
        match event:
            case ev.ApprovalAsked(call=call):
                run.calls[call.id].asked, run.calls[call.id].answered = event, None
            case ev.ApprovalAnswered(id=ask):
                for state in run.calls.values():
                    if state.asked and state.asked.id == ask:
                        state.answered = event
            case ev.CallStarted(call=call):
                run.calls[call.id].started = event
            case ev.CallDone(result=result):
                state = run.calls[result.call_id]
                state.done = event
                run.finished += 1
                self.strikes.count(state.call, result.code)
                if run.finished == len(run.calls):
                    self.phase = "round"
        waiting = any(s.asked and not s.answered and not s.done for s in run.calls.values())
        self.state = "waiting_for_approval" if waiting else "waiting_for_tool"

    def _round(self, event: ev.RoundEnded) -> None:
        run = self.run
        if run is None:
            return
        if run.calls:
            done = (state.done for state in run.calls.values())
            self.messages.append(ToolMessage(tuple(d.result for d in done if d)))
        if event.notes:
            self.messages.append(NoteMessage("\n\n".join(event.notes)))
        if event.objected:
            run.objections += 1
        self.told.update({layer.name: layer.text for layer in event.layers})
        if event.tools is not None:
            self.tools = frozenset(event.tools)
        run.calls = {}
        self.phase = "think"

    def _ended(self, event: ev.RunEnded) -> None:
        self.queue = [entry for entry in self.queue if entry[0] != event.run]
        if (self.run is None and self.queue) or (self.run is not None and self.run.id != event.run):
            return
        self.run, self.phase, self.state = None, "idle", event.state


def _thin(message: Message, thinned: dict[str, str]) -> Message:
    if not isinstance(message, ToolMessage) or not any(r.call_id in thinned for r in message.results):
        return message
    return ToolMessage(
        tuple(
            msgspec.structs.replace(r, parts=(Text(thinned[r.call_id], f"tool:{r.name}"),))
            if r.call_id in thinned
            else r
            for r in message.results
        )
    )


_HANDLERS: dict[type[ev.Event], Callable[[Conversation, Any], None]] = {
    ev.PromptQueued: Conversation._queued,
    ev.RunStarted: Conversation._started,
    ev.LayersSealed: Conversation._sealed,
    ev.Trimmed: Conversation._trimmed,
    ev.ModelStarted: Conversation._asking,
    ev.ModelFailed: Conversation._missed,
    ev.ModelAnswered: Conversation._answered,
    ev.ApprovalAsked: Conversation._call,
    ev.ApprovalAnswered: Conversation._call,
    ev.CallStarted: Conversation._call,
    ev.CallDone: Conversation._call,
    ev.RoundEnded: Conversation._round,
    ev.RunEnded: Conversation._ended,
}
