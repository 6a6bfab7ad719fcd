"""State as a fold over events: an agent's conversation, and the phase of its run.

Only ``Conversation.apply`` changes this state, both live and on resume, so a resumed run has the
same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from hilum import events as ev
from hilum.compaction import apply_compaction, ended_early, replace_texts
from hilum.messages import (
    AssistantMessage,
    Compaction,
    Message,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from hilum.refusals import CallOutcome
from hilum.repeated_calls import make_repeat_report
from hilum.repetition import FailureCounts
from hilum.tokens import NOTHING, TextStats, TokenCalibrator

Phase = Literal["idle", "freeze", "think", "call", "round", "check"]


class CallState(msgspec.Struct):
    """The state of one call.

    Attributes:
        call: The call as in the log and in the conversation.
        withheld: Whether the arguments contained a secret, which is replaced in ``call``.
        written: The call as the model wrote it, if ``call`` differs. The log does not contain it.
        edited: The arguments with which the user replaced the model's, as JSON. The log contains
            these arguments without secrets.
        printed: The tool's output before the call was stopped, as checked by plugins.
        scope: The calls that a lasting approval would cover, as last shown to the user. The log
            contains the scope without secrets.
        waited: Seconds that the call waited for other calls that use the same files or queues.
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
    waited: float = 0.0

    @property
    def to_run(self) -> ToolCall:
        """The call as the model wrote it, which is judged and runs."""
        return self.written or self.call

    @property
    def waits_for_user(self) -> bool:
        """Whether the user has not yet answered the question about the call."""
        return self.asked is not None and self.answered is None and self.done is None

    @property
    def lost(self) -> bool:
        """Whether the model's original call, which the log does not contain, is lost."""
        return self.withheld and self.written is None


class RunState(msgspec.Struct):
    """The current run of an agent, with its turn, calls and usage.

    Attributes:
        continued: Number of times that a response that reached the output limit was continued.
        cut: Whether the last response was cut off at the output limit.
        first_failure: Why the first model failed, if a fallback was called after it.
        answer: The model's last text; the pieces of an answer that was cut off are joined.
        finished: The calls that ended.
        repeats: The call with which the run began because the user repeated it, if any.
        cached: Tokens of the last request that the provider read from its cache or wrote to it.
    """

    id: str
    model: str = ""
    cached: int = 0
    repeats: ev.RepeatedCall | None = None
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

    def is_repeated(self, results: Sequence[ToolResult]) -> bool:
        """Return whether the results of a round are those of the call that the user repeated."""
        repeated = self.repeats.call.id if self.repeats is not None else ""
        return any(result.call_id == repeated for result in results)


def join_answer(first: str, second: str) -> str:
    """Join two pieces of an answer.

    If the second piece repeats the end of the first, the repeated words occur only once in the
    result.
    """
    # Fewer than 16 equal characters may be a coincidence.
    for count in range(min(len(first), len(second), 400), 15, -1):
        if first.endswith(second[:count]):
            return first + second[count:]
    return first + second


def last_request(messages: Sequence[Message]) -> int | None:
    """Return the index of the user's last request; ``None`` if there is no request."""
    for index in reversed(range(len(messages))):
        if isinstance(messages[index], UserMessage):
            return index
    return None


class Conversation(msgspec.Struct, eq=False):
    """An agent's messages and the state of its run.

    Attributes:
        messages: The messages, oldest first; the prompt consists of the layers and these messages.
        request: Index in ``messages`` of the user's request for the last run; ``None`` if there is
            no such request.
        shortened: Whether a result in an earlier run was shortened because it was too large for the
            window.
        epoch: A number that increases with each compaction. Encoded messages from an earlier epoch
            are invalid.
        frozen: The prompt's layers and tools as they were sent; empty before the first request.
        told: The texts of layers, by name, as last stated in notes, if they differ from the frozen
            layers.
        tools: Names of the available tools, as last reported to the model.
        queue: Queued prompts.
        steering: The user's messages that the agent will read after the calls in its current
            response.
        failures: Counts of calls that failed or returned the same result repeatedly.
        grants: Scopes of lasting approvals, and names of tools, whose calls need no further
            approval.
        stopped_run: Id of the last run for which a stop was requested.
        calibrators: The calibrators, by model, that correct token estimates by the provider's
            counts.
        compaction_requested: The requested compaction, until it is carried out.
        ended: The event with which the last run ended; ``None`` before the first run and during a
            run.
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

        The method with the event's name folds the event; most events have no such method.
        """
        fold = getattr(self, f"_{type(event).__struct_config__.tag}", None)
        if fold is not None:
            fold(event, self.run)
        if self.run is not None and self.phase in ("call", "round"):
            waiting = any(state.waits_for_user for state in self.run.calls.values())
            self.state = "waiting_for_approval" if waiting else "waiting_for_tool"

    @property
    def pending(self) -> list[str]:
        """Ids of the current run and of the queued runs."""
        queued = [prompt.run for prompt in self.queue]
        return [self.run.id, *queued] if self.run else queued

    def calibrator(self, model: str) -> TokenCalibrator:
        """Return the calibrator of a model's token estimates."""
        return self.calibrators.get(model) or TokenCalibrator()

    def open_calls(self) -> list[CallState]:
        """Return the calls in the last response that have not ended, in call order."""
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
        images = [image for each in self.queue if each.run == event.run for image in each.images]
        self.queue = [prompt for prompt in self.queue if prompt.run != event.run]
        self.run = RunState(event.run, event.model, repeats=event.repeats)
        self.ended = None
        # A repeated call is no request of its own: the agent continues with the last one.
        if event.repeats is None:
            self.request = len(self.messages)
        elif self.request is None:
            self.request = last_request(self.messages)
        self.messages.append(event.message.with_image_data(images))
        # The user may have changed something between the runs.
        self.failures.clear()
        self.state = "preparing"
        if event.repeats is None:
            self.phase = "freeze"
        else:
            call = event.repeats.call
            self.run.calls = {call.id: CallState(call)}
            self.phase = "call"

    def _run_retried(self, event: ev.RunRetried, run: RunState | None) -> None:
        self.run = RunState(event.run, event.model)
        self.ended = None
        self.state = "preparing"
        if self.request is None:
            self.request = last_request(self.messages)
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage) and not last.calls:
            # The answer was complete. In another request, the model would continue its own text.
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

        The kept request is that of the current run, or of a run that may be retried.
        """
        if self.run is not None or self._ended_early:
            return self.request
        return None

    @property
    def _ended_early(self) -> bool:
        return self.ended is not None and ended_early(self.ended.state, self.ended.code)

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
        # The compaction may have removed the content of files, so reading them again does not count
        # as a repetition.
        self.failures.results.clear()
        # The prompt is frozen again, because a compaction invalidates the provider's cache anyway.
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
        # Retries with the fallback are counted separately.
        if event.action == "fallback":
            run.model = event.next
            run.failures = {}
            run.first_failure = run.first_failure or event.message

    def _model_answered(self, event: ev.ModelAnswered, run: RunState) -> None:
        run.turn += 1
        run.attempt = 0
        run.failures = {}
        run.compactions = 0
        run.cached = event.usage.cached + event.usage.cache_write
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
        # If there are calls, the loop continues in any case, and incomplete arguments are detected
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
        # An answer to an earlier question about this call does not answer the new question.
        state = run.calls[event.call.id]
        state.asked = event
        state.answered = None

    def _approval_answered(self, event: ev.ApprovalAnswered, run: RunState) -> None:
        for state in run.calls.values():
            if state.asked and state.asked.id == event.id:
                state.answered = event
                # The user may have changed something before answering. After a refusal, however,
                # failures of the same call still count.
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
        is_report = False
        if run.calls:
            results = [state.done.result for state in run.calls.values() if state.done]
            whole = ToolMessage(tuple(results))
            message = replace_texts(whole, event.shortened, images=True)
            is_report = run.is_repeated(results)
            if is_report:
                message = make_repeat_report(message)
            self.messages.append(message)
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
        # The prompt is frozen when a run begins, but a repeated call runs before that.
        self.phase = "freeze" if is_report else "think"

    def _read_steering(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        texts = [Text(each.text, "user") for each in self.steering if each.id in ids]
        self.messages.append(UserMessage(tuple(texts)))
        self.steering = [each for each in self.steering if each.id not in ids]
        # After the user's message, a call that failed before may succeed.
        self.failures.clear()

    def _stop_asked(self, event: ev.StopAsked, run: RunState | None) -> None:
        self.stopped_run = event.run

    def _run_ended(self, event: ev.RunEnded, run: RunState | None) -> None:
        self.queue = [prompt for prompt in self.queue if prompt.run != event.run]
        if run is not None:
            self.shortened = self.shortened or run.shortened
        # If a queued prompt was stopped before its run began, the current run continues.
        if run.id == event.run if run else not self.queue:
            self.run = None
            # A message for this run must not steer another run. Faces give such messages back to
            # the user.
            self.steering = []
            self.phase = "idle"
            self.state = event.state
            self.ended = event
