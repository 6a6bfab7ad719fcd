"""What must hold after every event.

The checker reads the log as it is written, the requests, and what tools do.

To add an invariant: a method that begins with ``_on_`` and the tag of an event runs after that
event was folded; ``request`` runs for each request; ``body_started`` and its neighbours run when
tools act. Report with ``self.violated(name, text)``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import trio
from hilum import Agent, Call, ToolCall
from hilum import events as ev
from hilum.messages import AssistantMessage, NoteMessage, ToolMessage, Usage
from hilum.models import Request, Wire
from hilum.state import Conversation

from simulator.scenario import HIDDEN, SECRET

MAX_EVENTS = 6_000
MAX_REQUESTS = 400
WRITERS = frozenset({"put", "bump", "write_file", "edit_file", "multi_edit", "delete_file"})
SHELLS = frozenset({"command", "check"})
# Calls of these change nothing, whatever their risk says.
NO_EFFECT = frozenset({"check", "boom"})
# A body that refuses its cancellation may be left behind; what it could do, it does not.
LINGERS = frozenset({"shield"})
# Failures after which a model may be told to stop trying: of one call, of a path, of a tool that it
# cannot call.
MAX_FAILURES = 3
MAX_SAME_RESULTS = 10
WRONG_CALL = frozenset({"E_BAD_ARGS", "E_UNKNOWN_TOOL"})
CURED_BY_READING = frozenset({"E_STALE", "E_NOT_FOUND", "E_MULTIPLE_MATCHES"})
STOP_SECONDS = 90.0


class Violation(msgspec.Struct, frozen=True):
    """An invariant that did not hold.

    Attributes:
        name: The invariant.
        text: What happened.
        seq: Number of the last event at that time.
    """

    name: str
    text: str
    seq: int = 0

    def __str__(self) -> str:
        return f"[{self.name}] after event {self.seq}: {self.text}"


class CallTrack(msgspec.Struct, eq=False):
    """One call of an answer."""

    call: ToolCall
    index: int
    turn: int
    started: list[int] = []
    effect: str = ""
    risk: str = ""
    done: int = 0
    code: str = ""
    changed: bool = True

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, empty if they are no object."""
        try:
            found = msgspec.json.decode(self.call.arguments or "{}")
        except (msgspec.DecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def readable(self) -> bool:
        """Whether the arguments are one object without a key that occurs twice."""
        text = self.call.arguments or "{}"
        try:
            found = msgspec.json.decode(text)
            json.loads(text, object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict)

    @property
    def same(self) -> tuple[str, str]:
        """What is equal for calls that count as one, however their JSON is spelled.

        No arguments are an empty object.

        Those that cannot be read count as one, for none of them can ever be run.
        """
        return self.call.name, _one_spelling(self.arguments) if self.readable else "unreadable"

    @property
    def path(self) -> str:
        """The path that it changes, empty for none."""
        path = self.arguments.get("path")
        return path if self.call.name in WRITERS and isinstance(path, str) else ""


class AgentView(msgspec.Struct, eq=False):
    """What the log says of one agent."""

    name: str
    conversation: Conversation
    parent: str = ""
    run: str = ""
    over: bool = True
    text: str = ""
    usage: Usage = Usage()
    session_usage: Usage = Usage()
    calls: dict[str, CallTrack] = {}
    pieces: list[str] = []
    cut: bool = False
    failures: dict[tuple[str, str], list[str]] = {}
    turns_failed: dict[tuple[str, str, str], set[int]] = {}
    same_results: dict[tuple[str, str], list[str]] = {}
    stop_asked: float | None = None
    in_flight: bytes | None = None
    last_body: bytes = b""


class Checker:
    """Reads everything that happens in a run and notes what must not happen.

    Args:
        guarded: Whether a plugin judges every call.

    Attributes:
        violations: What did not hold.
        events: All events of all lives.
        requests: Bodies of all requests, with the number of events before each.
    """

    def __init__(self, *, guarded: bool, serial_limit: float) -> None:
        self.violations: list[Violation] = []
        self.events: list[ev.AnyEvent] = []
        self.requests: list[tuple[int, str, bytes]] = []
        self.views: dict[str, AgentView] = {}
        self._guarded = guarded
        self._serial_limit = serial_limit
        self._judged: dict[tuple[str, int, str], str] = {}
        self._grants: set[str] = set()
        self._accepted: set[tuple[str, str]] = set()
        self._asked: dict[str, ev.ApprovalAsked] = {}
        self._shown: dict[str, float] = {}
        self._queued: dict[str, str] = {}
        self._ended: dict[str, int] = defaultdict(int)
        self._bodies: dict[int, tuple[str, str, str]] = {}
        self._writing: dict[str, int] = {}
        self._outside: set[str] = set()
        self._sub_agents: list[tuple[str, int]] = []
        self._broken_log = False
        self._open_plugins: Counter[str] = Counter()
        self.too_much: Callable[[], None] = lambda: None
        self.opened: Callable[[str], None] = lambda plugin: None
        self.dead = False

    def violated(self, name: str, text: str) -> None:
        """Note that an invariant did not hold. What a dead process does, nobody sees."""
        if not self.dead and len(self.violations) < 20:
            self.violations.append(Violation(name, text, len(self.events)))

    # --- lives ------------------------------------------------------------------------------------

    def life_begins(self) -> None:
        """Forget what only the process that died knew."""
        self.dead = False
        self._judged.clear()
        self._bodies.clear()
        self._writing.clear()
        self._open_plugins.clear()
        self._shown.clear()
        self._broken_log = False
        for view in self.views.values():
            view.stop_asked = None

    def life_ends(self, *, dead: bool) -> None:
        """Check what must hold when a session is closed."""
        left = sorted(body for body in self._bodies.values() if body[2] not in LINGERS)
        open_plugins = sorted(name for name, count in self._open_plugins.items() if count > 0)
        if not dead and open_plugins:
            self.violated("what was opened is closed", f"still open: {', '.join(open_plugins)}")
        if not dead and left:
            self.violated("no task is left", f"tools still run: {left}")

    def session_deleted(self) -> None:
        """Note that the session is gone, because nobody ever saw it."""
        if self._queued:
            self.violated("nothing that was said is lost", "a session with prompts was deleted")
        self.events.clear()
        self.requests.clear()
        self.views.clear()

    def all_over(self) -> None:
        """Check that every prompt was answered once."""
        for run, text in self._queued.items():
            if self._ended[run] == 0:
                self.violated("every prompt ends", f"the run {run} of {text[:40]!r} never ended")
        for view in self.views.values():
            if view.conversation.phase != "idle":
                self.violated(
                    "every prompt ends",
                    f"{view.name} is left in the phase {view.conversation.phase}",
                )

    def log_failed(self) -> None:
        """Note that the store takes no more events: runs of this life cannot end."""
        self._broken_log = True

    # --- events -----------------------------------------------------------------------------------

    def event(self, event: ev.AnyEvent) -> None:
        """Fold an event, as it comes back from the log, and check what must hold after it."""
        self.events.append(event)
        if len(self.events) == MAX_EVENTS:
            self.violated("every run ends", "it writes events without end")
            self.too_much()
        if SECRET in _all_texts(ev.encode(event).decode()):
            tag = type(event).__struct_config__.tag
            self.violated(
                "nothing that is written holds a secret", f"event {len(self.events)}, {tag}"
            )
        if event.seq != len(self.events):
            self.violated(
                "numbers have no gap", f"event {len(self.events)} has the number {event.seq}"
            )
        try:
            event = ev.decode(ev.encode(event))
        except Exception as error:
            self.violated("the log can be read", f"{type(event).__name__}: {error!r}")
            return
        if isinstance(event, ev.AgentStarted):
            self.views[event.agent] = AgentView(event.agent, Conversation(), event.parent)
        view = self.views.get(event.agent)
        tag = type(event).__struct_config__.tag
        before = getattr(self, f"_before_{tag}", None)
        if before is not None and view is not None:
            before(event, view)
        if view is not None:
            view.conversation.apply(event)
        check = getattr(self, f"_on_{tag}", None)
        if check is not None:
            check(event, view)

    def _on_prompt_queued(self, event: ev.PromptQueued, view: AgentView) -> None:
        self._queued[event.run] = event.text

    def _on_run_started(self, event: ev.RunStarted, view: AgentView) -> None:
        if not view.over:
            self.violated("one run at a time", f"{view.name} began a run within another one")
        if self._ended[event.run]:
            self.violated("nothing runs after the end", f"the run {event.run} began after its end")
        view.text = event.text
        view.failures, view.turns_failed, view.same_results = {}, {}, {}
        self._begin(view, event.run)

    def _on_run_retried(self, event: ev.Event, view: AgentView) -> None:
        """A run that failed is taken up again, under a new id and for the same prompt."""
        self._queued[event.run] = view.text
        self._begin(view, event.run)

    def _begin(self, view: AgentView, run: str) -> None:
        view.run, view.over = run, False
        view.usage = Usage()
        view.pieces, view.cut = [], False
        view.calls = {}
        view.stop_asked, view.in_flight = None, None

    def _on_model_started(self, event: ev.ModelStarted, view: AgentView) -> None:
        self._must_run(event, view, "a request to the model")
        view.in_flight = b""

    def _must_run(self, event: ev.AnyEvent, view: AgentView, what: str) -> None:
        if view.over or event.run != view.run:
            self.violated(
                "nothing runs after the end", f"{view.name}: {what} after the end of its run"
            )
        if view.stop_asked is not None:
            self.violated("nothing runs after a stop", f"{view.name}: {what} after the stop")

    def _on_model_used(self, event: ev.ModelUsed, view: AgentView) -> None:
        if not view.over:
            view.usage += event.usage
        view.session_usage += event.usage

    def _on_model_failed(self, event: ev.ModelFailed, view: AgentView) -> None:
        view.in_flight = None

    def _on_model_answered(self, event: ev.ModelAnswered, view: AgentView) -> None:
        view.in_flight = None
        view.usage += event.usage
        view.session_usage += event.usage
        message = event.message
        view.pieces = [*view.pieces, message.text] if view.cut else [message.text]
        view.cut = False
        run = view.conversation.run
        turn = run.turn if run is not None else 0
        view.calls = {}
        for index, call in enumerate(message.calls):
            if call.id in view.calls:
                self.violated(
                    "call ids are unique", f"{view.name}: {call.id!r} stands twice in one answer"
                )
            view.calls[call.id] = CallTrack(call, index, turn, [])

    def _on_approval_asked(self, event: ev.ApprovalAsked, view: AgentView) -> None:
        self._must_run(event, view, f"a question about {event.call.name}")
        self._asked[event.id] = event
        track = view.calls.get(event.call.id)
        if track is None or track.done:
            self.violated("questions are about open calls", f"{event.call.name} is no open call")

    def _on_approval_answered(self, event: ev.ApprovalAnswered, view: AgentView) -> None:
        asked = self._asked.get(event.id)
        if asked is None:
            self.violated("answers have questions", f"{event.id} was never asked")
            return
        if event.accepted:
            self._accepted.add((view.name, asked.call.id))
            if event.remember != "once":
                self._grants.add(asked.scope or asked.call.name)
        if event.by == "timeout":
            shown = self._shown.get(event.id)
            now = trio.current_time()
            if shown is None or now - shown < self._serial_limit - 0.001:
                since = (
                    "was never shown" if shown is None else f"was shown for {now - shown:g} seconds"
                )
                self.violated(
                    "the user has time to answer",
                    f"the question about {asked.call.name} ran out and {since}",
                )

    def question_shown(self, approval: str) -> None:
        """Note that the user sees a question from now on."""
        self._shown[approval] = trio.current_time()

    def _on_call_started(self, event: ev.CallStarted, view: AgentView) -> None:
        self._must_run(event, view, f"the call {event.call.name}")
        track = view.calls.get(event.call.id)
        if track is None:
            self.violated(
                "calls end once", f"{event.call.name} began and is no call of the last answer"
            )
            return
        if track.done:
            self.violated("calls end once", f"{event.call.name} began after its end")
        if track.started and event.effect == "once":
            self.violated("calls run once", f"{event.call.name}, which may run once, began twice")
        track.started = [*track.started, event.seq]
        track.effect, track.risk = event.effect, event.risk
        self._check_gate(view, track)
        self._check_order(view, track)

    def _check_gate(self, view: AgentView, track: CallTrack) -> None:
        if not self._guarded:
            return
        verdict = self._judged.get((view.name, track.turn, track.call.id))
        if verdict is None:
            self.violated(
                "closed gates let nothing through",
                f"{track.call.name} ran and the sentry has not judged it",
            )
        elif verdict == "deny":
            self.violated(
                "closed gates let nothing through",
                f"{track.call.name} ran although the sentry denied it",
            )
        elif verdict == "ask":
            granted = self._grants & {f"{track.call.name} questions", track.call.name}
            if not granted and (view.name, track.call.id) not in self._accepted:
                self.violated(
                    "closed gates let nothing through",
                    f"{track.call.name} ran without the user's yes",
                )

    def judged(self, agent: Agent, call: ToolCall, verdict: str) -> None:
        """Note what the sentry said of a call."""
        self._judged[agent.name, agent.run.turn, call.id] = verdict

    def _check_order(self, view: AgentView, track: CallTrack) -> None:
        """Calls of one answer that meet run one after another, in call order."""
        for other in view.calls.values():
            if other is track or not _meet(other, track):
                continue
            if other.index > track.index and other.started:
                what = f"{other.call.name} (call {other.index}) before {track.call.name} (call {track.index})"
                self.violated(
                    "calls that meet run in order",
                    f"{what}, both about {track.path or other.path!r}",
                )
            elif other.index < track.index and other.started and not other.done:
                what = (
                    f"{track.call.name} (call {track.index}) began before {other.call.name} ended"
                )
                self.violated("calls that meet run in order", what)
            elif other.index < track.index and not other.done:
                what = f"{track.call.name} (call {track.index}) began and {other.call.name} (call {other.index}) had not"
                self.violated("calls that meet run in order", what)

    def _on_call_done(self, event: ev.CallDone, view: AgentView) -> None:
        result = event.result
        track = view.calls.get(result.call_id)
        if track is None:
            self.violated(
                "calls end once", f"{result.name} ended and is no call of the last answer"
            )
            return
        if track.done:
            self.violated("calls end once", f"{result.name} ended twice")
        track.done, track.code, track.changed = event.seq, result.code, result.changed
        self._count(view, track, result.text)

    def _count(self, view: AgentView, track: CallTrack, text: str) -> None:
        """Count what the model was told by the end of a call, to judge what it is refused later."""
        same = track.same
        if track.code == "E_REPEATED":
            if not track.readable and "arguments" not in text:
                self.violated(
                    "no innocent call is refused",
                    f"{track.call.name} was not told what is wrong: {text[:200]}",
                )
            failures, results = len(view.failures.get(same, ())), view.same_results.get(same, [])
            if failures < MAX_FAILURES and len(results) < MAX_SAME_RESULTS:
                what = f"{track.call.name} {track.call.arguments[:80]} was refused after {failures} failures"
                self.violated(
                    "no innocent call is refused",
                    f"{what} and {len(results)} same results without a change",
                )
        elif track.code in ("E_STOPPED", "E_INTERRUPTED"):
            return
        elif track.code:
            view.failures.setdefault(same, []).append(track.code)
            path = track.arguments.get("path")
            about = (
                ""
                if track.code in WRONG_CALL
                else f"{path}"
                if track.call.name in WRITERS
                else same[1]
            )
            view.turns_failed.setdefault((track.call.name, about, track.code), set()).add(
                track.turn
            )
            view.same_results.pop(same, None)
        else:
            self._count_success(view, track, text)

    def _count_success(self, view: AgentView, track: CallTrack, text: str) -> None:
        same = track.same
        view.failures.pop(same, None)
        has_effect = track.changed and track.call.name not in NO_EFFECT
        if track.risk and track.risk != "read" and has_effect:
            for other in self.views.values():
                other.failures, other.turns_failed, other.same_results = {}, {}, {}
        results = view.same_results.setdefault(same, [])
        if results and results[-1] != text:
            results.clear()
        results.append(text)
        if track.call.name == "read_file":
            self._forget_stale(view, track.arguments.get("path"))

    def _forget_stale(self, view: AgentView, path: object) -> None:
        """Reading a file anew makes another try of an edit worth while."""
        for same, codes in list(view.failures.items()):
            if _one_spelling(path) in same[1]:
                view.failures[same] = [code for code in codes if code not in CURED_BY_READING]

    def _on_round_ended(self, event: ev.RoundEnded, view: AgentView) -> None:
        for track in view.calls.values():
            if not track.done:
                self.violated("calls end once", f"the round ended before {track.call.name} did")
        if event.objected or getattr(event, "continued", False):
            last = view.conversation.messages[-2] if len(view.conversation.messages) > 1 else None
            view.cut = isinstance(last, AssistantMessage) and last.stop == "length"
        for note in event.notes:
            if "three times" in note and not self._three_times(view):
                self.violated(
                    "only the same call counts as repeated", f"the model was told {note[:100]!r}"
                )
        results = [m for m in view.conversation.messages if isinstance(m, ToolMessage)]
        if view.calls and results:
            order = [result.call_id for result in results[-1].results]
            if order != list(view.calls):
                self.violated("results go back in call order", f"{order} for {list(view.calls)}")
        view.calls = {}

    def _three_times(self, view: AgentView) -> bool:
        turns = view.turns_failed.values()
        return any(len(codes) >= MAX_FAILURES for codes in view.failures.values()) or any(
            len(t) >= MAX_FAILURES for t in turns
        )

    def _on_stop_asked(self, event: ev.StopAsked, view: AgentView) -> None:
        if not view.over:
            view.stop_asked = trio.current_time()

    def _before_run_ended(self, event: ev.RunEnded, view: AgentView) -> None:
        if event.run == view.run and not view.over:
            for track in view.calls.values():
                if not track.done:
                    self.violated("calls end once", f"the run ended before {track.call.name} did")

    def _on_run_ended(self, event: ev.RunEnded, view: AgentView) -> None:
        self._ended[event.run] += 1
        if self._ended[event.run] > 1:
            self.violated(
                "every prompt ends", f"the run {event.run} ended {self._ended[event.run]} times"
            )
        if event.run not in self._queued:
            self.violated("every prompt ends", f"the run {event.run} ended and was never prompted")
        if "kernel failed" in event.error:
            self.violated("the kernel never fails", event.error)
        if event.run != view.run or view.over:
            return
        view.over = True
        if view.stop_asked is not None and event.state not in ("stopped",):
            late = trio.current_time() - view.stop_asked
            if event.state != "timed_out":
                self.violated(
                    "a stop stops",
                    f"{view.name} was stopped and ended as {event.state} after {late:g} seconds",
                )
        for agent, run, tool in self._bodies.values():
            if agent == view.name and run == view.run and tool not in LINGERS:
                self.violated(
                    "nothing runs after the end",
                    f"{tool} still runs at the end of the run of {agent}",
                )
        if event.usage != view.usage:
            self.violated(
                "usage adds up",
                f"{view.name}: the run says {event.usage}, its requests {view.usage}",
            )
        if view.conversation.usage != view.session_usage:
            self.violated(
                "usage adds up",
                f"{view.name}: {view.conversation.usage}, its requests {view.session_usage}",
            )
        if event.state == "completed":
            whole = "".join(view.pieces)
            if event.text != whole:
                self.violated(
                    "no part of an answer is lost",
                    f"{event.text[:60]!r} in place of {whole[:60]!r}",
                )
            last = view.conversation.messages[-1] if view.conversation.messages else None
            if isinstance(last, AssistantMessage) and last.stop == "length":
                self.violated(
                    "no part of an answer is lost", "an answer that is cut off counts as complete"
                )

    def _on_session_changed(self, event: ev.SessionChanged, view: AgentView | None) -> None:
        if event.mode is None and event.approve is None:
            return
        for each in self.views.values():  # what was denied may be allowed now
            for same, codes in list(each.failures.items()):
                each.failures[same] = [code for code in codes if code != "E_DENIED"]

    def _on_plugin_fault(self, event: ev.PluginFault, view: AgentView | None) -> None:
        # The lives at a command line have a gate of the test's in the place of the guard, and hilum
        # says so.
        left_out = event.plugin == "guard" and event.hook == "load"
        if event.plugin not in ("sentry", "faulty", "world") and not left_out:
            text = f"{event.plugin}, {event.hook}: {event.error}"
            self.violated("real plugins and the kernel do not fail", text)

    def _on_plugin_event(self, event: ev.PluginEvent, view: AgentView | None) -> None:
        if event.name == "agents.queued" and event.data.get("owner"):
            self._check_queue(str(event.data["owner"]), str(event.data.get("key", "")))

    def _check_queue(self, owner: str, key: str) -> None:
        """Sub-agents of one answer enter the queue in call order."""
        view = self.views.get(owner)
        track = view.calls.get(key.rpartition("/")[2]) if view is not None else None
        if view is None or track is None:
            return
        for agent, index in self._sub_agents:
            if agent == f"{owner}/{view.run}/{track.turn}" and index > track.index:
                text = f"task {track.index} of {owner} was queued after task {index}"
                self.violated("sub-agents of one answer start in order", text)
        self._sub_agents.append((f"{owner}/{view.run}/{track.turn}", track.index))

    # --- requests ---------------------------------------------------------------------------------

    def request(self, request: Request, wire: Wire) -> None:
        """Check a request: it holds what it must, and the log alone leads to the same bytes."""
        if self.dead:
            return
        self.requests.append((len(self.events), request.agent, request.body))
        if SECRET in _all_texts(request.body.decode()):
            self.violated("no request holds a secret", f"request {len(self.requests)}")
        if len(self.requests) == MAX_REQUESTS:
            self.violated("every run ends", "it sends requests without end")
            self.too_much()
        if "/" in request.agent:
            return
        view = self.views.get(request.agent)
        if view is None:
            self.violated("requests have a log", f"nobody knows the agent {request.agent!r}")
            return
        if view.over:
            self.violated(
                "nothing runs after the end", f"{view.name}: a request after the end of its run"
            )
        word = view.text.partition(" ")[0]
        if word.encode() not in request.body:
            self.violated("the request of the user is in every request", f"{word!r} is missing")
        self._check_pairs(request)
        sealed = view.conversation.frozen
        folded = wire.body(
            wire.head(sealed.layers, sealed.tools),
            [wire.message(message) for message in view.conversation.messages],
        )
        if folded != request.body:
            at = next(
                (i for i, (a, b) in enumerate(zip(folded, request.body, strict=False)) if a != b),
                -1,
            )
            text = f"{view.name}: at byte {at}, {request.body[at - 40 : at + 40]!r} for {folded[at - 40 : at + 40]!r}"
            self.violated("the log leads to the same request", text)
        expected = view.last_body if view.in_flight == b"resumed" else b""
        if expected and expected != request.body:
            self.violated(
                "a resume sends the same request",
                f"{view.name} was cut off in a request and sent another one",
            )
        view.in_flight = b""
        view.last_body = request.body

    def expect_same_requests(self) -> None:
        """After a kill: whoever waited for the model must send the same again when resumed."""
        for view in self.views.values():
            if view.in_flight is not None and view.last_body:
                view.in_flight = b"resumed"

    def _check_pairs(self, request: Request) -> None:
        """Every call in a request is followed by its result, in call order, as all providers
        demand.
        """
        waiting: list[str] = []
        for message in request.messages:
            if isinstance(message, ToolMessage):
                results = [result.call_id for result in message.results]
                if results != waiting:
                    self.violated(
                        "results go back in call order", f"{results} for the calls {waiting}"
                    )
                waiting = []
            elif waiting and not isinstance(message, NoteMessage):
                self.violated("results go back in call order", f"no results for {waiting}")
                waiting = []
            if isinstance(message, AssistantMessage):
                waiting = [call.id for call in message.calls]

    # --- plugins ----------------------------------------------------------------------------------

    def plugin_opened(self, name: str) -> None:
        """Note that a plugin's lifespan came up."""
        self._open_plugins[name] += 1
        self.opened(name)

    def plugin_closed(self, name: str) -> None:
        """Note that a plugin's lifespan ended."""
        self._open_plugins[name] -= 1

    # --- tools ------------------------------------------------------------------------------------

    def body_started(self, call: Call) -> None:
        """Note that the body of a tool runs."""
        run = call.agent.conversation.run
        if HIDDEN in str(call.arguments):
            self.violated("a call runs as its model wrote it", f"{call.name} got a placeholder")
        self._bodies[id(call)] = (call.agent.name, run.id if run is not None else "", call.name)
        view = self.views.get(call.agent.name)
        if view is not None and view.over:
            self.violated(
                "nothing runs after the end", f"{call.name} began after the end of the run"
            )

    def body_ended(self, call: Call) -> None:
        """Note that the body of a tool has ended."""
        self._bodies.pop(id(call), None)

    def writing_started(self, call: Call, path: str) -> None:
        """Note that a tool is about to change something."""
        self._writing[path] = self._writing.get(path, 0) + 1
        if self._writing[path] > 1:
            self.violated(
                "calls that meet run in order",
                f"{call.name} changes {path} while another call does",
            )

    def writing_ended(self, call: Call, path: str) -> None:
        """Note that the change is made."""
        self._writing[path] = max(self._writing.get(path, 0) - 1, 0)

    def effect(self, call: Call) -> None:
        """Check a change at the moment it happens."""
        if id(call) not in self._bodies:
            self.violated("nothing runs after the end", f"{call.name} had an effect after its end")

    def changed_outside(self, path: str) -> None:
        """Note a change by another process."""
        self._outside.add(path)


def _all_texts(text: str) -> str:
    """Return JSON with the escapes taken out of it, those of JSON within JSON as well."""
    return text.replace("\\", "").replace("u00e4", "\u00e4")


def _one_spelling(value: object) -> str:
    """Return JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A key occurs twice.")
    return found


def _meet(one: CallTrack, two: CallTrack) -> bool:
    """Whether two calls change the same, as far as the program can know: a command may change
    anything.
    """
    if one.path and two.path:
        return one.path == two.path
    names = {one.call.name, two.call.name}
    return bool(names & SHELLS) and bool(names & WRITERS)
