"""Faults that hilum once had, put back on purpose: the simulator must find each of them.

To add one: a function that returns what to replace, marked with ``@mutant``; its docstring is shown
by ``--list-mutants``.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import hilum.hooks
import msgspec
import trio
from hilum.messages import ToolCall

Replacement = tuple[Any, str, Any]
REQUEST = "the request of the user is in every request"
INNOCENT = "no innocent call is refused"
SAME = "only the same call counts as repeated"
ORDER = "calls that meet run in order"
SUB_AGENTS = "sub-agents of one answer start in order"
GATES = "closed gates let nothing through"
ANSWER = "no part of an answer is lost"
ENDS = "every run ends"
CLOSED = "what was opened is closed"
TIME = "the user has time to answer"
KERNEL = "the kernel never fails"
PLUGINS = "real plugins and the kernel do not fail"
LOG = "the log can be read"
TERMINAL = "the command line shows the answer"
SECRETS = "nothing that is written holds a secret"
LOST = "a call runs as its model wrote it"
ENDS_ONCE = "calls end once"
RUNS_ONCE = "calls run once"
RESULTS = "results go back in call order"
STOP = ("a stop stops", "nothing runs after a stop")
USAGE = "usage adds up"
PREFIX = ("any prefix of the log leads to the same request", "a resume sends the same request")
FOLD = "the log leads to the same request"

# What hilum promises, by the invariants that check it: each promise has a mutant that no other
# invariant finds.
PROMISES = {
    "the request is in every request to the model": (REQUEST,),
    "every call ends exactly once": (ENDS_ONCE, RUNS_ONCE),
    "meeting calls act in order": (ORDER, SUB_AGENTS),
    "closed gates let nothing through": (GATES,),
    "no innocent call is refused": (INNOCENT, SAME),
    "any prefix of the log resumes to the same requests": (
        *PREFIX,
        FOLD,
        "any prefix of the log can be resumed",
    ),
    "nothing runs after a stop": (*STOP, "nothing runs after the end"),
    "usage adds up": (USAGE,),
}


class Mutant(msgspec.Struct, frozen=True):
    """A known fault.

    Attributes:
        breaks: What it does.
        found_by: Names of the invariants that must find it.
        replacements: Returns what to replace: owner, attribute and new value.
    """

    breaks: str
    found_by: tuple[str, ...]
    replacements: Callable[[], Sequence[Replacement]]


MUTANTS: dict[str, Mutant] = {}


def mutant(*found_by: str) -> Callable[[Callable[[], Sequence[Replacement]]], None]:
    """Register a mutant, named after its function."""

    def register(function: Callable[[], Sequence[Replacement]]) -> None:
        MUTANTS[function.__name__.replace("_", "-")] = Mutant(
            function.__doc__ or "", found_by, function
        )

    return register


@contextmanager
def applied(name: str) -> Iterator[None]:
    """Put a fault back for as long as the block runs; nothing without a name."""
    replacements = MUTANTS[name].replacements() if name else ()
    saved = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in replacements]
    for owner, attribute, value in replacements:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for owner, attribute, value in saved:
            setattr(owner, attribute, value)


def edited(module: Any, function: Any, old: str, new: str) -> Any:
    """Return a function with a piece of its source replaced."""
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise ValueError(
            f"{old!r} is not once in {function.__qualname__}: the mutant must follow the code."
        )
    flags = __future__.annotations.compiler_flag
    code = compile(
        source.replace(old, new), inspect.getsourcefile(function) or "", "exec", flags=flags
    )
    found: dict[str, Any] = {}
    exec(code, vars(module), found)
    return found[function.__name__]


@mutant(INNOCENT, SAME)
def repeats_are_counted_for_ever() -> Sequence[Replacement]:
    """A failing call is refused the fourth time, whatever was changed in between."""
    repetition = import_module("hilum.repetition")
    return [
        (repetition, "may_have_changed", lambda started, result: False),
        (repetition.FailureCounts, "clear", lambda self, call="", aim=(): None),
    ]


@mutant(ORDER, SUB_AGENTS)
def calls_run_in_any_order() -> Sequence[Replacement]:
    """Calls of one answer that change the same begin in the order in which the scheduler starts
    tasks.
    """
    order = import_module("hilum.order")

    async def wait(place: Any) -> None:
        await trio.lowlevel.checkpoint()

    async def turn(place: Any) -> None:
        place.judged.set()
        await trio.lowlevel.checkpoint()

    return [(order.Place, "wait", wait), (order.Place, "turn", turn)]


@mutant(GATES)
def gates_fall_open() -> Sequence[Replacement]:
    """Calls run while a plugin that guards them has failed to open, is late, or yields nothing."""
    real = hilum.hooks.Table.record_failure

    def fault(table: Any, plugin: str, hook: str, error: BaseException, reason: str = "") -> Any:
        found = real(table, plugin, hook, error, reason)
        if hook == "open_session":
            table.reopen(plugin)
        return found

    return [(hilum.hooks.Table, "record_failure", fault)]


@mutant(REQUEST)
def compaction_drops_the_request() -> Sequence[Replacement]:
    """The user's request goes with the old messages when the conversation is compacted."""
    compaction, state = import_module("hilum.compaction"), import_module("hilum.state")
    real = compaction.apply_compaction

    def apply_compaction(messages: Any, plan: Any, request: int | None, quoted: Any = None) -> Any:
        kept, place = real(messages, plan, None)
        if request is not None and request >= plan.upto:
            place = request - plan.upto + bool(plan.summary)
        return kept, place

    return [(state, "apply_compaction", apply_compaction)]


@mutant(SAME)
def failures_are_counted_by_tool() -> Sequence[Replacement]:
    """Three failures of one tool with one code count as one failure three times, whatever the calls
    were.
    """
    repetition = import_module("hilum.repetition")
    return [(repetition, "_aim", lambda call, started, code: (call.name, "anything", code))]


@mutant(ANSWER)
def only_the_last_piece_is_kept() -> Sequence[Replacement]:
    """Of an answer that was cut off and continued only the last piece is returned."""
    state = import_module("hilum.state")
    return [(state, "join_answer", lambda first, second: second)]


@mutant(INNOCENT, SAME)
def reading_cures_nothing() -> Sequence[Replacement]:
    """An edit that was refused three times because the file was not read is refused after it was
    read, too.
    """
    repetition = import_module("hilum.repetition")
    return [(repetition.FailureCounts, "_clear_cured", lambda self, paths: None)]


@mutant(KERNEL, PLUGINS, LOG)
def nesting_is_not_bounded() -> Sequence[Replacement]:
    """Arguments of any depth are logged; encoders and faces fail on them."""
    call_arguments = import_module("hilum.arguments")
    real = call_arguments.safe_call

    def safe_call(call: ToolCall) -> ToolCall:
        safe = real(call)
        return (
            ToolCall(safe.id, safe.name, call.arguments, safe.vendor)
            if "levels deep" in safe.problem
            else safe
        )

    return [(call_arguments, "safe_call", safe_call)]


@mutant(ENDS, CLOSED)
def a_cancelled_opening_is_forgotten() -> Sequence[Replacement]:
    """A lifespan that comes up while its session is cancelled is never closed."""
    lifespans = import_module("hilum.hooks.lifespans")

    async def enter(self: Any, plugin: str, manager: Any) -> object:
        lifespan = lifespans._Lifespan(plugin, manager, self.crashed)
        lifespan.begin()
        await lifespan.settled.wait()
        await trio.lowlevel.checkpoint()
        self._open.append(lifespan)
        if not lifespan.up:
            raise lifespan.failure()
        return lifespan.instance

    return [(lifespans.Lifespans, "_enter", enter)]


@mutant(TIME)
def all_questions_share_one_clock() -> Sequence[Replacement]:
    """The time to answer a question runs from when it is asked, although the user sees one after
    another.
    """
    calls_in_flight = import_module("hilum.calls_in_flight")

    def start_oldest(self: Any) -> None:
        for opened in self._approvals.values():
            opened.first.set()

    return [(calls_in_flight.CallsInFlight, "start_oldest", start_oldest)]


@mutant(TERMINAL)
def an_old_end_counts_as_the_answer() -> Sequence[Replacement]:
    """The end of a run that was cut off by a kill is shown in place of the answer to the new
    prompt.
    """
    headless = import_module("hilum_cli.headless")
    return [
        (
            headless,
            "_with_later",
            edited(headless, headless._with_later, " and later.seq > first", ""),
        )
    ]


@mutant(SECRETS)
def arguments_are_written_as_they_are() -> Sequence[Replacement]:
    """Secrets are taken out of texts, but not out of the arguments of calls."""
    redaction = import_module("hilum.redaction")
    return [(redaction, "_walk_arguments", lambda text, lookup: text)]


@mutant(LOST)
def placeholders_run_in_place_of_secrets() -> Sequence[Replacement]:
    """A call runs with what the log has of its arguments, live and after a crash."""
    state = import_module("hilum.state")
    return [
        (state.CallState, "to_run", property(lambda call: call.call)),
        (state.CallState, "lost", property(lambda call: False)),
    ]


@mutant(ENDS_ONCE)
def calls_end_twice() -> Sequence[Replacement]:
    """A call whose result is an error ends a second time."""
    calls = import_module("hilum.calls")
    old = "agent.emit(done)"
    new = f"[{old} for _ in range(2 if result.code else 1)]"
    return [(calls, "_run_one_call", edited(calls, calls._run_one_call, old, new))]


@mutant(ENDS_ONCE)
def stopped_calls_have_no_end() -> Sequence[Replacement]:
    """A run that is given up leaves its open calls open."""
    loop = import_module("hilum.loop")
    return [(loop, "end_calls", lambda agent, code, text: None)]


@mutant(RUNS_ONCE)
def cut_off_calls_run_again() -> Sequence[Replacement]:
    """A call that may run once and was cut off by a kill is carried out again on resume."""
    calls = import_module("hilum.calls")
    old = 'state.started and state.started.effect == "once"'
    return [(calls, "_check_interrupted", edited(calls, calls._check_interrupted, old, "False"))]


@mutant(RESULTS)
def results_go_back_as_they_come() -> Sequence[Replacement]:
    """The results of an answer's calls are in the order in which the calls ended."""
    state = import_module("hilum.state")
    old = "for state in run.calls.values() if state.done"
    new = "for state in sorted(run.calls.values(), key=lambda each: each.done.seq)"
    function = edited(state, state.Conversation._round_ended, old, new)
    return [(state.Conversation, "_round_ended", function)]


@mutant(*STOP)
def a_stop_is_only_written_down() -> Sequence[Replacement]:
    """The user's stop is in the log, and the run goes on."""
    session = import_module("hilum.session")
    function = edited(session, session.Session._stop_agent, "agent.scope.cancel()", "pass")
    return [(session.Session, "_stop_agent", function)]


@mutant(USAGE)
def only_answers_are_counted() -> Sequence[Replacement]:
    """Tokens of attempts that failed, and of summaries, are missing in what a run says that it
    used.
    """
    state = import_module("hilum.state")
    real = state.Conversation._model_used

    def counted(conversation: Any, event: Any, run: Any) -> None:
        real(conversation, event, run if event.__struct_config__.tag == "model_answered" else None)

    return [(state.Conversation, "_model_used", counted)]


@mutant(*PREFIX)
def a_resume_tells_the_model() -> Sequence[Replacement]:
    """A resumed run begins with a note that it was cut off."""
    session = import_module("hilum.session")
    real = session.Session.resume

    def resume(self: Any) -> Any:
        for agent in self.agents.values():
            if agent.conversation.phase == "think" and agent.conversation.run.turn:
                agent.emit(import_module("hilum.events").RoundEnded(notes=("You were cut off.",)))
        return real(self)

    return [(session.Session, "resume", resume)]


@mutant(FOLD)
def notes_are_logged_and_not_sent() -> Sequence[Replacement]:
    """A note is in the log, and the model never reads it."""
    event_writer = import_module("hilum.event_writer")
    real = event_writer.EventWriter.fold

    def fold(self: Any, event: Any, agent: Any) -> None:
        real(self, event, agent)
        if getattr(event, "notes", ()):
            agent.conversation.messages.pop()

    return [(event_writer.EventWriter, "fold", fold)]
