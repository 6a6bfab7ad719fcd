"""State as a fold over events: the conversation of one agent, and the phase its run is in.

Only ``Conversation.apply`` changes it, live and on resume, so a resumed run has the same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from hilum import events as ev
from hilum.compaction import apply_compaction, replace_texts
from hilum.errors import RETRYABLE
from hilum.messages import (
    AssistantMessage,
    Compaction,
    Message,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hilum.refusals import CallOutcome
from hilum.repetition import FailureCounts
from hilum.tokens import NOTHING, TextStats, TokenCalibrator

Phase = Literal["idle", "freeze", "think", "call", "round", "check"]


class CallState(msgspec.Struct):
    """The state of one call.

    Attributes:
        call: The call as it is in the log and in the conversation.
        withheld: Whether its arguments contained a secret, which is replaced in ``call``.
        written: The call as the model wrote it, if it was withheld. It is not in the log.
        edited: The arguments that the user wrote instead of the model's, as JSON. The log contains
            them without secrets.
        printed: The output of the tool before the call was stopped, after the plugins' checks.
        scope: The calls that a lasting approval would cover, as last shown to the user. The log
            contains it without secrets.
    """

    call: ToolCall
    withheld: bool = False
    written: ToolCall | None = None
    scope: str = ""
    edited: str | None = None
    printed: str = ""
    asked: ev.ApprovalAsked | None = None
    answered: ev.ApprovalAnswered | None = None
    started: ev.CallStarted | None = None
    done: ev.CallDone | None = None
    began: float | None = None

    @property
    def to_run(self) -> ToolCall:
        """The call that is judged and runs, as the model wrote it."""
        return self.written or self.call

    @property
    def waits_for_user(self) -> bool:
        """Whether the user has yet to answer the question about it."""
        return self.asked is not None and self.answered is None and self.done is None

    @property
    def lost(self) -> bool:
        """Whether the call as the model wrote it is lost."""
        return self.withheld and self.written is None


class RunState(msgspec.Struct):
    """The current run of an agent: its turn, its open calls, its usage.

    Attributes:
        continued: How often an answer that reached the output limit was continued.
        cut: Whether the last answer was cut off at the output limit.
        first_failure: Why the first model failed, if a fallback was then called.
        answer: The last text of the model; the pieces of an answer that was cut off are joined.
        finished: The calls that ended.
    """

    id: str
    model: str = ""
    turn: int = 0
    attempt: int = 0
    failures: dict[str, int] = {}
    failed: ev.ModelFailed | None = None
    objections: int = 0
    continued: int = 0
    shortened: bool = False
    cut: bool = False
    first_failure: str = ""
    finished: list[CallOutcome] = []
    compactions: int = 0
    size: TextStats = NOTHING
    answer: str = ""
    usage: Usage = Usage()
    calls: dict[str, CallState] = {}
    cause: Literal["run", "compaction", "mode", "model"] = "run"


def join_answer(first: str, second: str) -> str:
    """Join two pieces of an answer.

    Words at the end of the first piece that the second one repeats occur once in the result.
    """
    # Fewer than 16 characters may be equal by chance.
    for count in range(min(len(first), len(second), 400), 15, -1):
        if first.endswith(second[:count]):
            return first + second[count:]
    return first + second


def last_request(messages: Sequence[Message]) -> int | None:
    """Return the index of the user's last request, ``None`` if there is none."""
    for index in reversed(range(len(messages))):
        if isinstance(messages[index], UserMessage):
            return index
    return None


class Conversation(msgspec.Struct, eq=False):
    """An agent's messages and the state of its run.

    Attributes:
        messages: The messages, oldest first; the prompt consists of layers and these.
        request: Index in ``messages`` of the user's request of the last run, ``None`` if there is
            none.
        shortened: Whether an earlier run had a result that was too large for the window and was
            shortened.
        epoch: Increases with each compaction; encoded messages of an older epoch are invalid.
        frozen: The prompt's layers and tools as sent; none before the first request.
        told: Layers by name as last stated in a note, if they differ from the frozen ones.
        tools: Names of the tools that the model was last told are available.
        queue: Queued prompts.
        steering: The user's messages that the agent reads after the calls of its current answer.
        failures: Calls that failed, or returned the same result, again and again.
        grants: Scopes of approvals and names of tools whose calls run without approval from now on.
        stopped_run: Id of the last run for which a stop was requested.
        calibrators: By model, the corrections of token estimates by its provider's counts.
        compaction_requested: Set until a requested compaction is carried out.
        ended: How the last run ended; ``None`` before the first run, and during a run.
    """

    messages: list[Message] = []
    request: int | None = None
    shortened: bool = False
    epoch: int = 0
    frozen: ev.PromptFrozen = ev.PromptFrozen(layers=(), tools=())
    told: dict[str, str] = {}
    tools: frozenset[str] = frozenset()
    phase: Phase = "idle"
    state: ev.State = "idle"
    run: RunState | None = None
    queue: list[ev.PromptQueued] = []
    steering: list[ev.SteeringQueued] = []
    usage: Usage = Usage()
    failures: FailureCounts = msgspec.field(default_factory=FailureCounts)
    calibrators: dict[str, TokenCalibrator] = {}
    compaction_requested: ev.CompactionRequested | None = None
    grants: set[str] = set()
    stopped_run: str = ""
    ended: ev.RunEnded | None = None

    def apply(self, event: ev.Event) -> None:
        """Fold one event into the state.

        The method with the event's name folds it; most events have none.
        """
        fold = getattr(self, f"_{type(event).__struct_config__.tag}", None)
        if fold is not None:
            fold(event, self.run)
        if self.run is not None and self.phase in ("call", "round"):
            waiting = any(state.waits_for_user for state in self.run.calls.values())
            self.state = "waiting_for_approval" if waiting else "waiting_for_tool"

    @property
    def pending(self) -> list[str]:
        """Ids of the current run and of the queued ones."""
        queued = [prompt.run for prompt in self.queue]
        return [self.run.id, *queued] if self.run else queued

    def calibrator(self, model: str) -> TokenCalibrator:
        """Return the calibrator of a model's token estimates."""
        return self.calibrators.get(model) or TokenCalibrator()

    def open_calls(self) -> list[CallState]:
        """Return the calls of the last answer that have not ended, in call order."""
        if self.run:
            return [state for state in self.run.calls.values() if state.done is None]
        return []

    def _agent_started(self, event: ev.AgentStarted, run: RunState | None) -> None:
        self.messages = [*event.messages]
        self.request = None

    def _prompt_queued(self, event: ev.PromptQueued, run: RunState | None) -> None:
        self.queue.append(event)
        if run is None:
            self.state = "preparing"

    def _steering_queued(self, event: ev.SteeringQueued, run: RunState | None) -> None:
        self.steering.append(event)

    def _steering_withdrawn(self, event: ev.SteeringWithdrawn, run: RunState | None) -> None:
        self.steering = [message for message in self.steering if message.id != event.id]

    def _run_started(self, event: ev.RunStarted, run: RunState | None) -> None:
        self.queue = [prompt for prompt in self.queue if prompt.run != event.run]
        self.run = RunState(event.run, event.model)
        self.ended = None
        self.request = len(self.messages)
        self.messages.append(event.message)
        # The user may have changed something between two runs.
        self.failures.clear()
        self.phase = "freeze"
        self.state = "preparing"

    def _run_retried(self, event: ev.RunRetried, run: RunState | None) -> None:
        self.run = RunState(event.run, event.model)
        self.ended = None
        self.state = "preparing"
        if self.request is None:
            self.request = last_request(self.messages)
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage) and not last.calls:
            # The whole answer had arrived; with another request the model would continue its own
            # text.
            self.run.answer = last.text
            self.phase = "check"
        else:
            self.phase = "freeze"

    @property
    def retryable(self) -> bool:
        """Whether the last run ended before it was complete, for a reason that may be temporary."""
        return self._ended_early and not self.pending

    @property
    def kept_request(self) -> int | None:
        """The index of the request that every compaction keeps.

        It is the request of the current run, or of a run that may be retried.
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

    def _prompt_frozen(self, event: ev.PromptFrozen, run: RunState) -> None:
        self.frozen = event
        self.told = {}
        self.tools = frozenset(spec.name for spec in event.tools)
        self.phase = "think"
        run.size = NOTHING

    def _compaction_requested(self, event: ev.CompactionRequested, run: RunState | None) -> None:
        self.compaction_requested = event

    def _compacted(self, event: ev.Compacted, run: RunState | None) -> None:
        plan = Compaction(event.upto, event.summary, event.thinned)
        self.messages, self.request = apply_compaction(
            self.messages, plan, self.kept_request, event.request
        )
        self.epoch += 1
        self.compaction_requested = None
        # The content of files may be gone from the conversation, so reading them again is no
        # repetition.
        self.failures.results.clear()
        # The prompt is frozen again: the provider's cache is lost with a compaction anyway.
        if run is not None:
            self.phase = "freeze"
            run.cause = "compaction"
            run.failed = None
            run.compactions += 1

    def _model_started(self, event: ev.ModelStarted, run: RunState) -> None:
        run.attempt = event.attempt
        run.model = event.model
        run.failed = None
        run.size = event.size
        self.phase = "think"
        self.state = "thinking"
        self.compaction_requested = None

    def _model_failed(self, event: ev.ModelFailed, run: RunState) -> None:
        run.failures[event.kind] = run.failures.get(event.kind, 0) + 1
        run.failed = event
        run.attempt = event.attempt
        # The retries of the fallback are counted separately.
        if event.action == "fallback":
            run.model = event.next
            run.failures = {}
            run.first_failure = run.first_failure or event.message

    def _model_answered(self, event: ev.ModelAnswered, run: RunState) -> None:
        run.turn += 1
        run.attempt = 0
        run.failures = {}
        run.compactions = 0
        self._model_used(event, run)
        # Some servers do not count tokens.
        if any(run.size) and event.usage.input:
            self.calibrators[run.model] = self.calibrator(run.model).learn(
                run.size, event.usage.input
            )
        text = event.message.text
        if run.cut:
            run.answer = join_answer(run.answer, text)
        elif text:
            run.answer = text
        # If there are calls, the loop continues in any case; their arguments are checked
        # separately.
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
        # An answer to an earlier question about this call does not answer the new one.
        state = run.calls[event.call.id]
        state.asked = event
        state.answered = None

    def _approval_answered(self, event: ev.ApprovalAnswered, run: RunState) -> None:
        for state in run.calls.values():
            if state.asked and state.asked.id == event.id:
                state.answered = event
                # The user may have changed something before answering. But after a refusal, the
                # same call is still wrong.
                if event.accepted:
                    self.failures.clear()
                elif event.by == "user":
                    self.failures.keep_only(state.call)
                if event.accepted and event.remember != "once":
                    self.grants.add(state.asked.scope or state.asked.call.name)

    def _grant_revoked(self, event: ev.GrantRevoked, run: RunState | None) -> None:
        self.grants.discard(event.scope)

    def _call_started(self, event: ev.CallStarted, run: RunState) -> None:
        run.calls[event.call.id].started = event

    def _call_done(self, event: ev.CallDone, run: RunState) -> None:
        state = run.calls[event.result.call_id]
        state.done = event
        run.finished.append(CallOutcome.of(state.call, state.started, event.result))
        self.failures.record(state.call, state.started, event.result, run.turn)
        if not self.open_calls():
            self.phase = "round"

    def _round_ended(self, event: ev.RoundEnded, run: RunState) -> None:
        if run.calls:
            results = [state.done.result for state in run.calls.values() if state.done]
            message = ToolMessage(tuple(results))
            self.messages.append(replace_texts(message, event.shortened, images=True))
        self.failures.mark_noted()
        if event.notes:
            self.messages.append(NoteMessage("\n\n".join(event.notes)))
        self._read_steering(event.steering)
        run.objections += event.objected
        run.continued += event.continued
        run.shortened = run.shortened or bool(event.shortened)
        self.told.update({layer.name: layer.text for layer in event.layers})
        if event.tools is not None:
            self.tools = frozenset(event.tools)
        run.calls = {}
        self.phase = "think"

    def _read_steering(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        texts = [Text(each.text, "user") for each in self.steering if each.id in ids]
        self.messages.append(UserMessage(tuple(texts)))
        self.steering = [each for each in self.steering if each.id not in ids]
        # What failed before may be right after the user's correction.
        self.failures.clear()

    def _stop_asked(self, event: ev.StopAsked, run: RunState | None) -> None:
        self.stopped_run = event.run

    def _run_ended(self, event: ev.RunEnded, run: RunState | None) -> None:
        self.queue = [prompt for prompt in self.queue if prompt.run != event.run]
        if run is not None:
            self.shortened = self.shortened or run.shortened
        # Not if a queued prompt was stopped before it began: the current run then continues.
        if run.id == event.run if run else not self.queue:
            self.run = None
            # A message for this run must not steer another one; faces give it back to the user.
            self.steering = []
            self.phase = "idle"
            self.state = event.state
            self.ended = event
