"""Spans of real sessions: what each shows, and what is part of what."""

import trio
from hilum import ModelError, ask, tool
from hilum import events as ev
from hilum.events import ApprovalAsked
from hilum.hookspecs import Verdict
from hilum.messages import AssistantMessage, Layer, Text, ToolCall, ToolResult, Usage, UserMessage
from hilum.testing import plugin, say, use
from hilum_agents import runs
from hilum_trace import SpanFold, fold_spans
from hilum_trace.formatting import describe_break, describe_details
from hilum_trace.spans import is_running
from hilum_view import total
from msgspec.structs import replace


@tool(risk="write", effect="idempotent", writes="path")
async def write(path: str, seconds: float = 0.0) -> str:
    """Write."""
    await trio.sleep(seconds)
    return "written"


@tool(risk="read")
async def act() -> str:
    """Act."""
    await trio.lowlevel.checkpoint()
    return "acted"


TOOLS = plugin("tools", provide_tools=lambda: [write, act])


def of(trace, kind):
    return [span for span in trace.spans if span.kind == kind]


def path_of(trace, span):
    """The kinds of a span and of all spans around it, from the inside."""
    kinds = [span.kind]
    while span.parent is not None:
        span = trace.spans[span.parent]
        kinds.append(span.kind)
    return kinds


async def test_a_run_has_turns_with_model_calls_and_tools(bench):
    kit = await bench(TOOLS, answers=[use("act"), "Done."])
    await kit.run("Please act.")
    trace = fold_spans(kit.events)
    assert trace.session == kit.session.id
    (run,) = of(trace, "run")
    assert run.name == "Please act."
    assert run.facts["state"] == "completed"
    assert run.error == ""
    assert [turn.name for turn in of(trace, "turn")] == ["turn 1", "turn 2"]
    (act_span,) = of(trace, "tool")
    assert path_of(trace, act_span) == ["tool", "turn", "run", "session"]
    assert act_span.facts["plugin"] == "tools"
    assert {span.parent for span in of(trace, "model")} == {span.id for span in of(trace, "turn")}
    assert all(span.end is not None for span in trace.spans if span.kind != "session")
    assert not is_running(trace)


async def test_usage_adds_up_from_model_calls_to_the_session(bench):
    first = Usage(1000, 900, output=10, cost=0.5)
    second = Usage(1100, 1000, output=20, cost=0.25)
    kit = await bench(TOOLS, answers=[use("act") + say("", usage=first), say("ok", usage=second)])
    ended = await kit.run("x")
    trace = fold_spans(kit.events)
    totals = trace.totals()
    (run,) = of(trace, "run")
    assert totals[run.id] == totals[0] == ended.usage
    assert ended.usage.input == 2100
    assert of(trace, "model")[0].cached_share == 0.9


async def test_retries_are_attempts_of_one_model_call(bench, autojump_clock):
    broken = ModelError("It failed.", kind="server", status=503)
    kit = await bench(answers=[broken, broken, "ok"])
    await kit.run("x")
    (span,) = of(fold_spans(kit.events), "model")
    assert span.retries == 2
    assert [attempt.action for attempt in span.attempts] == ["retry", "retry", ""]
    assert span.waits["retry"] == 1.5
    assert span.error == ""


async def test_a_model_call_that_fails_for_good_has_the_error(bench):
    kit = await bench(answers=[ModelError("No.", kind="auth", status=401)])
    await kit.run("x")
    trace = fold_spans(kit.events)
    (span,) = of(trace, "model")
    assert span.error == "E_LLM_AUTH"
    assert of(trace, "run")[0].error == "E_LLM_AUTH"


async def test_calls_on_one_file_show_the_wait_for_each_other(bench, autojump_clock):
    calls = use("write", path="a", seconds=3) + use("write", path="a") + use("write", path="b")
    kit = await bench(TOOLS, answers=[calls, "ok"])
    await kit.run("x")
    trace = fold_spans(kit.events)
    waits = [span.waits.get("order", 0.0) for span in of(trace, "tool")]
    assert waits == [0.0, 3.0, 0.0]
    (order,) = of(trace, "order")
    assert order.parent == of(trace, "tool")[1].id
    # The wait is in the call and in the wait itself, and counts once for the run.
    assert trace.total_waits()[of(trace, "run")[0].id]["order"] == 3.0


async def test_an_approval_is_a_wait_for_the_user(bench):
    def judge() -> Verdict:
        return ask("Look at it.")

    gate = plugin("gate", on_tool_call=judge)
    kit = await bench(TOOLS, gate, answers=[use("act"), "ok"])
    run = await kit.start("x")
    asked = await kit.wait_for(ApprovalAsked)
    before = fold_spans(kit.events)
    assert is_running(before)
    assert of(before, "approval")[0].end is None
    kit.session.answer(asked.id, False, reason="no")
    await run.wait()
    trace = fold_spans(kit.events)
    (approval,) = of(trace, "approval")
    assert path_of(trace, approval)[:2] == ["approval", "tool"]
    assert approval.facts["accepted"] is False
    assert of(trace, "tool")[0].waits["user"] == approval.waits["user"] == approval.seconds
    assert trace.total_waits()[0]["user"] == approval.seconds


async def test_a_sub_agent_is_part_of_the_call_that_started_it(bench):
    answers = {
        "main": [use("task", description="Find it", prompt="Look."), "I know."],
        "other": [use("act"), "It is a."],
    }

    def answer(request):
        return answers["main" if request.agent == "main" else "other"].pop(0)

    kit = await bench(runs, TOOLS, answers=[answer] * 4)
    await kit.run("Why?")
    trace = fold_spans(kit.events)
    (agent,) = of(trace, "agent")
    assert agent.name == "Find it"
    inner = next(span for span in of(trace, "tool") if span.name == "act")
    kinds = ["tool", "turn", "run", "agent", "tool", "turn", "run", "session"]
    assert path_of(trace, inner) == kinds
    assert agent.end is not None


async def test_the_usage_of_a_sub_agent_is_counted_once(bench):
    """The log charges it to the agent that started it as well; the sums are those of the bill."""
    usage = Usage(1_000, 500, output=10, cost=0.25)
    answers = {
        "main": [
            say("", usage=usage) + use("task", description="Find it", prompt="Look."),
            say("I know.", usage=usage),
        ],
        "other": [say("It is a.", usage=usage)],
    }

    def answer(request):
        return answers["main" if request.agent == "main" else "other"].pop(0)

    kit = await bench(runs, answers=[answer] * 3)
    await kit.run("Why?")
    trace = fold_spans(kit.events)
    assert trace.totals()[0] == total(kit.events).usage
    assert trace.totals()[0].input == 3_000
    assert not of(trace, "plugin_model")
    owned = sorted(seq for span in trace.spans for seq in span.events)
    assert owned == [event.seq for event in kit.events]


async def test_a_slow_hook_is_part_of_its_call(bench):
    async def check(call):
        # A hook of two checkpoints takes longer than a nanosecond on any machine.
        await trio.lowlevel.checkpoint()

    slow = plugin("slow", check_result=check)
    kit = await bench(TOOLS, slow, answers=[use("act"), "ok"], settings={"slow_hook": 1e-9})
    await kit.run("x")
    trace = fold_spans(kit.events)
    found = [span for span in of(trace, "hook") if span.name == "check_result"]
    assert [path_of(trace, span)[:3] for span in found] == [["hook", "tool", "turn"]]
    assert found[0].facts["plugin"] == "slow"
    assert found[0].seconds > 0


async def test_a_prompt_that_changed_is_a_break_with_its_cause(bench):
    layers = [Layer(40, "rules", "one"), Layer(50, "skills", "many")]
    kit = await bench(plugin("layers", build_prompt_layer=lambda: layers), answers=["a", "b", "c"])
    await kit.run("x")
    await kit.run("x")
    layers[:] = [Layer(40, "rules", "two"), Layer(60, "servers", "new")]
    await kit.run("x")
    breaks = [span.breaks for span in of(fold_spans(kit.events), "model")]
    assert [len(found) for found in breaks] == [0, 0, 1]
    assert breaks[2][0].cause == "run"
    assert breaks[2][0].changed == {
        "layer rules": "changed",
        "layer skills": "removed",
        "layer servers": "added",
    }
    assert describe_break(breaks[2][0]) == (
        "new run: layer rules changed, layer skills removed, layer servers added"
    )


def numbered(*events):
    """Events of the main agent in the run r, a second apart."""
    return [
        replace(event, seq=seq, at=float(seq), agent="main", run="r")
        for seq, event in enumerate(events, 1)
    ]


def model_call(turn, usage, model="a/b"):
    message = AssistantMessage((Text("ok"),), model)
    return [
        ev.ModelStarted(turn=turn, model=model),
        ev.ModelAnswered(message=message, usage=usage),
        ev.RoundEnded(),
    ]


def test_a_fall_of_the_cached_count_without_a_reason_is_the_provider_s():
    started = ev.RunStarted(text="x", message=UserMessage((Text("x"),)))
    first = model_call(1, Usage(10_000, 9_000))
    lost = model_call(2, Usage(11_000, 2_000))
    kept = model_call(3, Usage(12_000, 11_000))
    trace = fold_spans(numbered(started, *first, *lost, *kept))
    one, two, three = of(trace, "model")
    assert one.breaks == three.breaks == []
    (found,) = two.breaks
    assert (found.cause, found.cached_before, found.cached) == ("provider", 9_000, 2_000)


def test_a_compaction_and_another_model_explain_a_fall_of_the_cached_count():
    started = ev.RunStarted(text="x", message=UserMessage((Text("x"),)))
    first = model_call(1, Usage(10_000, 9_000))
    frozen = ev.PromptFrozen(layers=(), tools=(), cause="compaction", changed=("layer rules",))
    second = model_call(2, Usage(5_000, 0))
    third = model_call(3, Usage(5_000, 0), "a/c")
    events = numbered(started, *first, ev.Compacted(upto=3), frozen, *second, *third)
    _, two, three = of(fold_spans(events), "model")
    assert [(found.cause, found.changed) for found in two.breaks] == [
        ("compaction", {"layer rules": "changed"})
    ]
    assert [found.cause for found in three.breaks] == ["model"]


def test_what_a_process_left_open_ends_with_the_run_as_interrupted():
    call = ToolCall("c", "act", "{}")
    message = AssistantMessage((call,), "a/b", "calls")
    trace = fold_spans(
        numbered(
            ev.RunStarted(text="x", message=UserMessage((Text("x"),))),
            ev.ModelStarted(turn=1, model="a/b"),
            ev.ModelAnswered(message=message),
            ev.CallStarted(call=call),
            ev.RunEnded(state="interrupted"),
        )
    )
    assert of(trace, "tool")[0].error == "E_INTERRUPTED"
    assert of(trace, "tool")[0].end == 5.0
    assert of(trace, "run")[0].error == "interrupted"


def test_a_model_call_that_a_resumed_session_repeats_is_one_span():
    trace = fold_spans(
        numbered(
            ev.RunStarted(text="x", message=UserMessage((Text("x"),))),
            ev.ModelStarted(turn=1, model="a/b"),
            *model_call(1, Usage(1)),
        )
    )
    (span,) = of(trace, "model")
    assert [attempt.error for attempt in span.attempts] == ["E_INTERRUPTED", ""]


def fold_killed(*later):
    """Return the fold of a run that was killed in a call after 4 seconds, and of later events."""
    call = ToolCall("c", "act", "{}")
    events = numbered(
        ev.RunStarted(text="x", message=UserMessage((Text("x"),))),
        ev.ModelStarted(turn=1, model="a/b"),
        ev.ModelAnswered(message=AssistantMessage((call,), "a/b", "calls")),
        ev.CallStarted(call=call),
    )
    fold = SpanFold()
    for event in events:
        fold.apply(event)
    for at, event in later:
        is_of_session = isinstance(event, ev.RunsCutOff | ev.SessionReopened | ev.Heartbeat)
        whose = {} if is_of_session else {"agent": "main", "run": "r"}
        fold.apply(replace(event, at=at, **whose))
    return fold


def test_a_killed_call_ends_with_the_last_event_of_its_process():
    fold = fold_killed()
    fold.finish()
    (tool_span,) = of(fold.trace, "tool")
    (run,) = of(fold.trace, "run")
    assert (tool_span.end, tool_span.error) == (4.0, "E_INTERRUPTED")
    assert (run.end, run.error) == (4.0, "E_INTERRUPTED")
    assert fold.trace.root.end == 4.0


def test_a_killed_call_of_a_resumed_session_ends_with_the_last_event_of_its_process():
    result = ToolResult("c", "act", (Text("E_INTERRUPTED: It was cut off."),), "E_INTERRUPTED")
    fold = fold_killed(
        (60.0, ev.RunsCutOff(last=4.0)),
        (60.1, ev.CallDone(result=result)),
        (60.2, ev.RoundEnded()),
        (61.0, ev.RunEnded(state="completed")),
    )
    fold.finish()
    (tool_span,) = of(fold.trace, "tool")
    (run,) = of(fold.trace, "run")
    assert (tool_span.end, tool_span.error) == (4.0, "E_INTERRUPTED")
    assert "ran" not in tool_span.facts
    assert (run.end, run.error, run.waits["down"]) == (61.0, "", 56.0)


def test_a_killed_call_lasts_until_the_last_heartbeat():
    reopened = ev.SessionReopened(last=64.0, interrupted=("main",))
    for later in ([], [(900.0, reopened)]):
        fold = fold_killed((64.0, ev.Heartbeat()), *later)
        fold.finish()
        (tool_span,) = of(fold.trace, "tool")
        assert (tool_span.end, tool_span.error) == (64.0, "E_INTERRUPTED")


def test_the_two_events_of_earlier_versions_end_a_call_once():
    fold = fold_killed((60.0, ev.RunsCutOff(last=4.0)), (60.0, ev.SessionReopened()))
    fold.finish()
    (tool_span,) = of(fold.trace, "tool")
    (run,) = of(fold.trace, "run")
    assert (tool_span.end, run.waits["down"]) == (4.0, 56.0)


def test_a_killed_call_that_runs_again_is_a_span_of_its_own():
    call = ToolCall("c", "act", "{}")
    result = ToolResult("c", "act", (Text("ok"),))
    fold = fold_killed(
        (60.0, ev.RunsCutOff(last=4.0)),
        (60.5, ev.CallStarted(call=call)),
        (62.0, ev.CallDone(result=result, seconds=1.5)),
    )
    one, two = of(fold.trace, "tool")
    assert (one.end, one.error) == (4.0, "E_INTERRUPTED")
    assert (two.start, two.end, two.error) == (60.5, 62.0, "")


def test_a_request_that_was_killed_ends_with_the_last_event_of_its_process():
    events = numbered(
        ev.RunStarted(text="x", message=UserMessage((Text("x"),))),
        ev.ModelStarted(turn=1, model="a/b"),
        ev.RunsCutOff(last=2.0),
        *model_call(1, Usage(1)),
    )
    one, two = of(fold_spans(events), "model")
    assert (one.end, one.error, one.attempts[0].error) == (2.0, *["E_INTERRUPTED"] * 2)
    assert (two.start, two.end, two.error) == (4.0, 5.0, "")


def test_a_running_call_lasts_until_now():
    fold = fold_killed()
    fold.finish(now=34.0)
    (tool_span,) = of(fold.trace, "tool")
    assert tool_span.end is None
    assert fold.trace.seconds(tool_span) == 31.0


def test_a_run_that_nobody_resumes_does_not_run_although_the_session_is_open():
    fold = fold_killed((60.0, ev.RunsCutOff(last=4.0)), (90.0, ev.RunsCutOff(last=60.0)))
    fold.finish(now=99.0)
    (run,) = of(fold.trace, "run")
    assert (run.end, run.error) == (4.0, "E_INTERRUPTED")


def test_a_killed_sub_agent_ends_with_its_run():
    """Also if another process has opened the session and not resumed it."""
    started = ev.RunStarted(text="x", message=UserMessage((Text("x"),)))
    fold = fold_killed()
    for at, event in (
        (5.0, ev.AgentStarted(parent="main", agent="t1")),
        (6.0, replace(started, agent="t1", run="r2")),
        (60.0, ev.RunsCutOff(last=6.0)),
    ):
        fold.apply(replace(event, at=at))
    fold.finish(now=99.0)
    (agent,) = of(fold.trace, "agent")
    assert [(run.end, run.error) for run in of(fold.trace, "run")] == [(6.0, "E_INTERRUPTED")] * 2
    assert (agent.end, agent.error) == (6.0, "E_INTERRUPTED")
    assert not [span for span in fold.trace.spans[1:] if span.end is None]


def test_hooks_without_an_agent_belong_to_the_prompt_that_is_being_prepared():
    hook = ev.HookCalled(plugin="guard", hook="wrap_process", seconds=0.5)
    stopped = replace(hook, hook="on_tool_call", error="Cancelled")
    started = ev.RunStarted(text="x", message=UserMessage((Text("x"),)))
    queued, first, begun, ended = numbered(
        ev.PromptQueued(text="x"), hook, started, ev.RunEnded(state="completed")
    )
    outside = replace(stopped, seq=5, at=9.0)
    trace = fold_spans([queued, replace(first, agent="", run=""), begun, ended, outside])
    one, two = of(trace, "hook")
    assert path_of(trace, one)[:2] == ["hook", "queue"]
    assert path_of(trace, two) == ["hook", "session"]
    assert two.error == ""
    assert describe_details(two, two.usage) == ["cancelled", "outside of runs"]


async def test_hooks_that_interpret_a_prompt_are_part_of_its_wait(bench):
    meaning = plugin("meaning", interpret_prompt=lambda text: None)
    kit = await bench(meaning, answers=["ok"], settings={"slow_hook": 1e-9})
    await kit.run("x")
    trace = fold_spans(kit.events)
    (span,) = [span for span in of(trace, "hook") if span.name == "interpret_prompt"]
    assert path_of(trace, span) == ["hook", "queue", "session"]
    assert "outside of runs" not in describe_details(span, span.usage)
    (queue,) = of(trace, "queue")
    assert queue.start <= span.start < span.end <= queue.end


def test_a_hook_ends_before_its_event_was_written():
    hook = ev.HookCalled(plugin="p", hook="interpret_prompt", seconds=2.0, delay=0.5)
    queued, called = numbered(ev.PromptQueued(text="x"), hook)
    (span,) = of(fold_spans([queued, called]), "hook")
    assert (span.start, span.end) == (called.at - 2.5, called.at - 0.5)


def test_a_result_with_a_code_is_an_error():
    result = ToolResult("c", "act", (Text("E_X: It failed."),), "E_X")
    started = ev.RunStarted(text="x", message=UserMessage((Text("x"),)))
    trace = fold_spans(numbered(started, ev.CallDone(result=result, seconds=1.0)))
    (span,) = of(trace, "tool")
    assert (span.error, span.message) == ("E_X", "E_X: It failed.")
