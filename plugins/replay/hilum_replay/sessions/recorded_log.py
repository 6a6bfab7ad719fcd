"""The recorded log of a session, by calls, answers of models, and actions of the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import attrs
import msgspec
from hilum.events import (
    AgentStarted,
    AnyEvent,
    ApprovalAnswered,
    ApprovalAsked,
    CallDone,
    CallStarted,
    Compacted,
    CompactionRequested,
    Event,
    GrantRevoked,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    ModelUsed,
    PluginEvent,
    PromptQueued,
    RoundEnded,
    RunEnded,
    RunRetried,
    RunStarted,
    SessionChanged,
    SessionOpened,
    SessionReopened,
    SteeringQueued,
    SteeringWithdrawn,
    StopAsked,
    UserNeeded,
)
from hilum.messages import Message, Price, ToolCall, UserMessage
from hilum.shell_lines import ENDED
from hilum_files.journal.records import COMMAND

from hilum_replay.sessions.guest_log import find_crashes, is_guest_event, is_guest_model
from hilum_replay.sessions.recorded_editor import EditorEvent, read_editor_event
from hilum_replay.sessions.recording import FileEdit

QUESTION_ASKED = "plan.question_asked"
QUESTION_ANSWERED = "plan.question_answered"
PLAN_DECIDED = ("plan.accepted", "plan.rejected")
AUTOMATIC_PROMPT = "agents.prompted"
# The output of a command that the user ran, which the agent reads with the next prompt.
OUTPUT_ATTACHED = "shell_line.attached"
COMMAND_EXPANDED = "commands.expanded"
# The events that show how far a session has come.
_MILESTONES = (RunStarted, ModelStarted, CallStarted, ApprovalAsked, CallDone, Compacted, RunEnded)
# The events that record an action of the user.
_ACTIONS = (
    SteeringQueued,
    SteeringWithdrawn,
    RunRetried,
    CompactionRequested,
    GrantRevoked,
    SessionReopened,
    StopAsked,
    SessionChanged,
)
# Kinds of ids, by the name of the plugin's event that contains them.
_ID_EVENTS = {
    QUESTION_ASKED: ("question", "id"),
    "files.changing": ("change", "id"),
    "files.command": ("command", "id"),
    "agents.queued": ("job", "agent_id"),
}
# The kernel's note before the last turn.
_LAST_TURN = re.compile("One turn is left")
# The plugin that reminds of the user's rules, which a replay does not have.
RULES_PLUGIN = "rules"
CallKey = tuple[str, str]
# What a prompt decides about a plan.
Decision = Literal["", "accepted", "rejected", "edited"]


@attrs.define
class RecordedCall:
    """One call in the recorded log.

    Attributes:
        agent: The agent that made the call.
        call: The call as the model wrote it.
        name: Name of the tool that runs, also if it was called through ``call_tool``.
        asked: The request for approval.
        answer: The answer to the request.
        started: The start of the call; ``None`` if it did not run.
        done: The end of the call; ``None`` if the log has no result.
        questions: The answers to the questions that the call asked.
        problem: The problem with which the call ended, if only the user can solve it.
        editor: What the editor showed and did when the call accessed it.
    """

    agent: str
    call: ToolCall
    name: str
    asked: ApprovalAsked | None = None
    answer: ApprovalAnswered | None = None
    started: CallStarted | None = None
    done: CallDone | None = None
    questions: list[PluginEvent] = attrs.field(factory=list)
    problem: UserNeeded | None = None
    editor: list[EditorEvent] = attrs.field(factory=list)

    @property
    def key(self) -> str:
        """The name of the call in a recording."""
        return f"{self.agent}/{self.call.id}"


@attrs.frozen
class RequestOutcome:
    """How a request to a model ended: with an answer, with a failure, or not at all.

    Attributes:
        seq: Sequence number of the event that shows it.
        failure: The failure.
        ended: The end of the run during the request to a guest.
        is_cut_off: Whether hilum ended during the request to a guest.
    """

    seq: int
    failure: ModelFailed | None = None
    ended: RunEnded | None = None
    is_cut_off: bool = False

    @property
    def is_unanswered(self) -> bool:
        """Whether the run went no further."""
        is_given_up = self.failure is not None and self.failure.action == "give_up"
        return is_given_up or self.is_cut_off or self.ended is not None


@attrs.frozen
class Milestone:
    """A count of events of one type and agent, which a session reaches."""

    agent: str
    kind: type[Event]
    count: int


@attrs.frozen
class UserAction:
    """Something that happened from outside of the session.

    Attributes:
        seq: Sequence number of its event.
        event: The event, or the edit of a file.
        after: What the session had reached before.
        own: What the agent itself had reached before, if the program of a guest acted.
        decides: For a prompt that carries out or revises a plan: ``accepted`` or ``rejected``.
        reason: The reason why a plan was rejected.
    """

    seq: int
    event: AnyEvent | FileEdit
    after: Milestone | None
    decides: Decision = ""
    reason: str = ""
    own: Milestone | None = None


class RecordedLog:
    """A recorded log.

    Args:
        events: All events, in order, with the paths of this machine.
        edits: Changes of files that the session did not make.

    Attributes:
        opened: The first event.
        calls: The calls of each agent and id, in order.
        outcomes: The outcomes of each agent's requests, in order.
        actions: The actions of the user, in order.
        models: The names of all models.
        ids: The ids of each kind, in order.
        outputs: The outputs of the user's commands, by id.
        expanded: The runs whose prompts contain what a custom command read before they began.
        prompts: The messages with which runs began, by the id of the run.
        prices: The prices of models, as far as they are known.
        crashes: Where hilum was killed; see ``find_crashes``.
        turns: The limit of turns, if a run came near it; otherwise 0. Logs of earlier versions lack
            the settings.
    """

    def __init__(self, events: Sequence[AnyEvent], edits: Sequence[FileEdit] = ()) -> None:
        self.events = tuple(events)
        first = self.events[0]
        assert isinstance(first, SessionOpened)
        self.opened = first
        self.calls: dict[CallKey, list[RecordedCall]] = {}
        self.outcomes: dict[str, list[RequestOutcome]] = {}
        self.actions: list[UserAction] = []
        self.models: dict[str, ModelStarted] = {}
        self.outputs: dict[str, str] = {}
        self.expanded: set[str] = set()
        self._expanding = ""
        self.ids: dict[str, list[str]] = {}
        self.prompts: dict[str, UserMessage] = {}
        self.prices: dict[str, Price] = {}
        self.turns = 0
        self._turns: dict[str, int] = {}
        self._rounds: dict[tuple[str, int], list[tuple[str, str]]] = {}
        self.crashes = find_crashes(self.events)
        # The open request of each guest, and the run to which it belongs.
        self._open_requests: dict[str, str] = {}
        self._questions: dict[str, RecordedCall] = {}
        self._problems: dict[str, UserNeeded] = {}
        self._parents: dict[str, str] = {}
        self._automatic: list[tuple[str, str]] = []
        self._counts: dict[tuple[str, type[Event]], int] = {}
        self._last: Milestone | None = None
        self._steering: set[str] = set()
        self._last_of: dict[str, Milestone] = {}
        self._decisions = {
            event.run: event
            for event in self.events
            if isinstance(event, PluginEvent) and event.name in PLAN_DECIDED
        }
        waiting = list(edits)
        for event in self.events:
            while waiting and waiting[0].seq <= event.seq:
                edit = waiting.pop(0)
                self.actions.append(UserAction(edit.seq, edit, self._last))
            self._read(event)
        self.actions += [UserAction(edit.seq, edit, self._last) for edit in waiting]

    def call(self, agent: str, call: str, number: int) -> RecordedCall | None:
        """Return the n-th call of an agent with an id, starting at 0."""
        found = self.calls.get((agent, call), [])
        return found[number] if number < len(found) else None

    def has_work(self, messages: Sequence[Message]) -> bool:
        """Return whether the last message of the user is one of the recorded session.

        Another model may give a guest other work than the recorded one.

        Args:
            messages: The conversation of a guest.
        """
        known = {message.request for message in self.prompts.values()} | self._steering
        given = [message.request for message in messages if isinstance(message, UserMessage)]
        return not given or given[-1] in known

    def find_call(self, identity: str) -> RecordedCall | None:
        """Return the first call with an id, whichever agent made it."""
        found = [calls for (_, known), calls in self.calls.items() if known == identity]
        return found[0][0] if found else None

    def calls_of(self, agent: str) -> list[RecordedCall]:
        """Return all calls of an agent, in order."""
        return [call for call in self._all_calls() if call.agent == agent]

    def restore_reminders(
        self, run: str, turn: int, reminders: list[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Return the reminders of a round with those that the user's rules gave in the recording.

        Args:
            run: Id of the recorded run.
            turn: Number of the turn in the run.
            reminders: The plugins of the replay, each with its reminder.
        """
        recorded = self._rounds.get((run, turn))
        if recorded is None:
            return reminders
        left = [pair for pair in reminders if pair[0] != RULES_PLUGIN]
        restored = []
        for plugin, text in recorded:
            if plugin == RULES_PLUGIN:
                restored.append((plugin, text))
                continue
            restored += [pair for pair in left if pair[0] == plugin]
            left = [pair for pair in left if pair[0] != plugin]
        return restored + left

    def resumes_after(self, reopened: SessionReopened) -> bool:
        """Return whether interrupted runs went on after the session was opened again.

        Otherwise the next prompt ended them.
        """
        ends = [
            event
            for event in self.events
            if isinstance(event, RunEnded) and event.seq > reopened.seq
        ]
        return not ends or ends[0].code != "E_INTERRUPTED"

    def _read(self, event: AnyEvent) -> None:
        match event:
            case AgentStarted() | RunStarted() | RunEnded() | RoundEnded():
                self._read_run_event(event)
            case ModelStarted() | ModelAnswered() | ModelFailed():
                self._read_request_event(event)
            case ApprovalAsked() | ApprovalAnswered() | CallStarted() | CallDone() | UserNeeded():
                self._read_call_event(event)
            case PromptQueued():
                self._read_prompt(event)
            case _ if is_guest_event(event):
                self._read_guest_event(event)
            case PluginEvent():
                self._read_plugin_event(event)
            case _ if isinstance(event, _ACTIONS):
                self._read_action(event)
        if is_milestone(event):
            key = (event.agent, type(event))
            self._counts[key] = self._counts.get(key, 0) + 1
            self._last = Milestone(*key, self._counts[key])
            self._last_of[event.agent] = self._last

    def _read_run_event(self, event: AgentStarted | RunStarted | RunEnded | RoundEnded) -> None:
        match event:
            case AgentStarted():
                self._parents[event.agent] = event.parent
            case RunStarted():
                self.prompts[event.run] = event.message
            case RunEnded():
                if event.agent == "main" and event.code == "E_TURN_LIMIT":
                    self.turns = event.turns
                if self._open_requests.get(event.agent) == event.run:
                    del self._open_requests[event.agent]
                    self.outcomes.setdefault(event.agent, []).append(
                        RequestOutcome(event.seq, ended=event)
                    )
            case RoundEnded():
                self._read_round(event)

    def _read_request_event(self, event: ModelStarted | ModelAnswered | ModelFailed) -> None:
        self._open_requests.pop(event.agent, None)
        match event:
            case ModelStarted():
                self.models.setdefault(event.model, event)
                if is_guest_model(event.model):
                    self._open_requests[event.agent] = event.run
            case ModelAnswered():
                self._read_answer(event)
            case ModelFailed(action="compact" | "give_up"):
                self._outcome(event, event)
            case ModelFailed(action="retry") if self._may_repeat(event):
                self._outcome(event, event)

    def _read_call_event(
        self, event: ApprovalAsked | ApprovalAnswered | CallStarted | CallDone | UserNeeded
    ) -> None:
        match event:
            case ApprovalAsked():
                self._id("approval", event.id)
                call = self._open_call(event.agent, event.call.id)
                if call is not None:
                    call.asked = event
            case ApprovalAnswered():
                for call in self._all_calls():
                    if call.asked is not None and call.asked.id == event.id:
                        call.answer = event
            case CallStarted():
                call = self._open_call(event.agent, event.call.id)
                if call is not None:
                    call.started = event
            case CallDone():
                call = self._open_call(event.agent, event.result.call_id)
                if call is not None:
                    call.done = event
                    self._read_problem(call, event)
            case UserNeeded():
                self._problems[event.agent] = event

    def _all_calls(self) -> list[RecordedCall]:
        return [call for calls in self.calls.values() for call in calls]

    def _open_call(self, agent: str, identity: str) -> RecordedCall | None:
        """Return the last call with an id if it has no result yet."""
        found = self.calls.get((agent, identity), [])
        if found and found[-1].done is None:
            return found[-1]
        return None

    def _id(self, kind: str, identity: str) -> None:
        self.ids.setdefault(kind, []).append(identity)

    def _add_call(self, agent: str, call: ToolCall) -> None:
        recorded = RecordedCall(agent, call, find_tool_name(call))
        self.calls.setdefault((agent, call.id), []).append(recorded)

    def _read_answer(self, event: ModelAnswered) -> None:
        self._turns[event.run] = self._turns.get(event.run, 0) + 1
        if event.price is not None:
            self.prices[event.message.model] = event.price
        self._outcome(event)
        for call in event.message.calls:
            self._add_call(event.agent, call)

    def _read_round(self, event: RoundEnded) -> None:
        turn = self._turns.get(event.run, 0)
        if event.agent == "main" and any(map(_LAST_TURN.match, event.notes)):
            self.turns = turn + 1
        restated = [layer.text for layer in event.layers if layer.text]
        notes = []
        for text, plugin in zip(event.notes, event.noted_by, strict=False):
            if plugin and not any(layer in text for layer in restated):
                notes.append((plugin, text))
        self._rounds[event.run, turn] = notes

    def _may_repeat(self, event: ModelFailed) -> bool:
        """Return whether a replay repeats a failure without a wait: all but long rate limits."""
        if event.kind != "rate_limit":
            return True
        earlier = self.outcomes.get(event.agent, [])
        failure = earlier[-1].failure if earlier else None
        return failure is None or failure.kind != "rate_limit"

    def _outcome(self, event: AnyEvent, failure: ModelFailed | None = None) -> None:
        self.outcomes.setdefault(event.agent, []).append(RequestOutcome(event.seq, failure))

    def _read_problem(self, call: RecordedCall, event: CallDone) -> None:
        """Find the problem that a call reported to the user just before it ended."""
        problem = self._problems.pop(event.agent, None)
        if problem is not None and event.result.text.startswith(f"{problem.code}: "):
            call.problem = problem

    def _read_guest_event(self, event: AnyEvent) -> None:
        """Read an event that the program of a guest caused, which a replay repeats."""
        if isinstance(event, PluginEvent) and event.name == COMMAND:
            self._id("program", str(event.data.get("id", "")))
        own = self._last_of.get(event.agent)
        self.actions.append(UserAction(event.seq, event, self._last, own=own))

    def _read_plugin_event(self, event: PluginEvent) -> None:
        if event.name == "files.changing" and event.data.get("tool") == "undo":
            self._id("undo", str(event.data.get("id", "")))
            self._read_action(event)
        elif event.name == ENDED or _is_output(event):
            self._read_action(event)
        else:
            self._read_service_event(event)

    def _read_service_event(self, event: PluginEvent) -> None:
        """Read an event of a plugin that is no action of the user."""
        accessed = read_editor_event(event)
        if accessed is not None:
            call = self._open_call(event.agent, accessed.record.call)
            if call is not None:
                call.editor.append(accessed)
        if event.name in _ID_EVENTS:
            kind, field = _ID_EVENTS[event.name]
            identity = str(event.data.get(field, ""))
            # The job of an agent that the user called has the id of its run.
            if identity not in self.ids.get("run", ()):
                self._id(kind, identity)
        if event.name == QUESTION_ASKED:
            call = self._open_call(event.agent, str(event.data.get("call", "")))
            if call is not None:
                self._questions[str(event.data.get("id"))] = call
        elif event.name == QUESTION_ANSWERED:
            asking = self._questions.get(str(event.data.get("id")))
            if asking is not None:
                asking.questions.append(event)
        elif event.name == COMMAND_EXPANDED:
            self._expanding = str(event.data.get("command", ""))
        elif event.name == AUTOMATIC_PROMPT:
            self._automatic.append((str(event.data.get("to")), str(event.data.get("text"))))

    def waits_for_reopening(self, prompt: PromptQueued) -> bool:
        """Return whether the run of a prompt began only after the session was opened again."""
        is_closed = False
        for event in self.events[prompt.seq :]:
            if isinstance(event, SessionReopened):
                is_closed = True
            elif isinstance(event, RunStarted) and event.run == prompt.run:
                return is_closed
        return False

    def find_attached(self, prompt: PromptQueued) -> tuple[str, bool]:
        """Return what came with a prompt besides the outputs of the user's commands.

        Returns:
            The text, and whether the recorded outputs were found at its beginning. Otherwise, the
            text contains them.
        """
        outputs = "\n\n".join(self.outputs.get(each, "") for each in prompt.outputs)
        if prompt.attached.startswith(outputs):
            return prompt.attached.removeprefix(outputs).removeprefix("\n\n"), True
        return prompt.attached, False

    def _read_prompt(self, event: PromptQueued) -> None:
        self._id("run", event.run)
        if self._expanding and event.typed.startswith(f"/{self._expanding}"):
            self.expanded.add(event.run)
        self._expanding = ""
        if event.repeats is not None:
            self._id("call", event.repeats.call.id)
            self._add_call(event.agent, event.repeats.call)
        if self._parents.get(event.agent):
            return  # another agent prompted it
        if (event.agent, event.text) in self._automatic:
            self._automatic.remove((event.agent, event.text))
            return
        decides: Decision = ""
        reason = ""
        decision = self._decisions.get(event.run)
        if decision is not None and decision.name == "plan.accepted":
            decides = "edited" if decision.data.get("edited") else "accepted"
            self._drop_mode_change()
        elif decision is not None:
            decides = "rejected"
            reason = str(decision.data.get("reason", ""))
        self.actions.append(UserAction(event.seq, event, self._last, decides, reason))

    def _read_action(self, event: AnyEvent) -> None:
        """Read an action of the user that is no prompt."""
        if isinstance(event, SteeringQueued):
            self._id("steering", event.id)
            self._steering.add(event.text)
        elif isinstance(event, RunRetried):
            self._id("run", event.run)
        elif isinstance(event, PluginEvent) and event.name == OUTPUT_ATTACHED:
            self.outputs[event.data["identity"]] = event.data["text"]
        elif isinstance(event, SessionReopened):
            for agent in self._open_requests:
                self.outcomes.setdefault(agent, []).append(
                    RequestOutcome(event.seq, is_cut_off=True)
                )
            self._open_requests.clear()
        self.actions.append(UserAction(event.seq, event, self._last))

    def _drop_mode_change(self) -> None:
        """Drop the change of the mode that belongs to the acceptance of a plan."""
        last = self.actions[-1].event if self.actions else None
        if isinstance(last, SessionChanged) and last.mode is not None and last.model is None:
            self.actions.pop()


def _is_output(event: PluginEvent) -> bool:
    """Return whether an event has the output of a command of the user; any plugin may write one."""
    if event.name != OUTPUT_ATTACHED:
        return False
    data = event.data
    return isinstance(data.get("identity"), str) and isinstance(data.get("text"), str)


# Tools that change files themselves, in the recording and in the replay alike.
_EDIT_TOOLS = frozenset({"write_file", "edit_file"})


def is_milestone(event: Event) -> bool:
    """Return whether an event shows how far a session has come."""
    if isinstance(event, ModelUsed):
        # Between runs, a plugin may call a model, for example to remember something.
        return not event.run
    # What the program of a guest does meanwhile belongs before or after its answer; a hook's program
    # that judges a call, after the answer with the call.
    if isinstance(event, ModelAnswered):
        return True
    if isinstance(event, PluginEvent):
        # A program that follows a tool, such as a hook, must not change a file before the tool does.
        return event.name == "files.changed" and event.data.get("tool") in _EDIT_TOOLS
    return isinstance(event, _MILESTONES) and not _is_retry(event)


def _is_retry(event: Event) -> bool:
    """Return whether an event is another attempt of the same request."""
    return isinstance(event, ModelStarted) and event.attempt > 1


def find_tool_name(call: ToolCall) -> str:
    """Return the name of the tool that a call runs, also if it is made through ``call_tool``."""
    if call.name != "call_tool":
        return call.name
    try:
        name = msgspec.json.decode(call.arguments).get("name")
    except (msgspec.DecodeError, AttributeError, RecursionError):
        return call.name
    return name if isinstance(name, str) else call.name
