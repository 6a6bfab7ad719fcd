"""Slow hooks, and the waits of calls for each other, are in the log."""

from contextvars import copy_context

import pytest
import trio
from hilum import Interpretation, Profile, tool
from hilum.events import CallStarted, HookCalled, PluginFault, PromptQueued, RunEnded
from hilum.slow_hooks import hold_slow_hook, hold_slow_hooks
from hilum.testing import open_bench, plugin, use


@tool(risk="write", effect="idempotent", writes="path")
async def write(path: str, seconds: float = 0.0) -> str:
    """Write."""
    await trio.sleep(seconds)
    return "written"


TOOLS = plugin("tools", write)
EVERY = {"slow_hook": 1e-9}


def slow(kit, hook):
    return [event for event in kit.of(HookCalled) if event.hook == hook]


async def test_a_slow_hook_is_written_with_its_call_and_its_run(bench):
    def judge(call):
        return None

    gate = plugin("gate", on_tool_call=judge)
    kit = await bench(TOOLS, gate, answers=[use("write", path="a"), "ok"], settings=EVERY)
    ended = await kit.run("x")
    (event,) = slow(kit, "on_tool_call")
    (started,) = kit.of(CallStarted)
    assert (event.plugin, event.call, event.error) == ("gate", started.call.id, "")
    assert (event.agent, event.run) == ("main", ended.run)
    assert event.seconds > 0
    assert event.seq < started.seq


async def test_a_hook_before_the_run_belongs_to_the_run_that_starts(bench):
    gathering = plugin("gathering", gather_context=lambda: [])
    kit = await bench(gathering, answers=["ok"], settings=EVERY)
    ended = await kit.run("x")
    assert [event.run for event in slow(kit, "gather_context")] == [ended.run]


async def test_hooks_that_prepare_a_prompt_belong_to_its_run(bench):
    """The prompt is interpreted before it is queued, and the second one before the first has ended."""
    meaning = plugin("meaning", interpret_prompt=lambda text: None)
    kit = await bench(meaning, answers=["ok", "ok"], settings=EVERY)
    runs = [await kit.start("x"), await kit.start("y")]
    for run in runs:
        await run.wait()
    events = slow(kit, "interpret_prompt")
    assert [event.run for event in events] == [run.id for run in runs]
    queued = kit.of(PromptQueued)
    assert all(0 <= event.at - each.at < 1 for each, event in zip(queued, events, strict=True))
    assert all(event.delay > 0 for event in events)


async def test_a_hook_that_answers_a_prompt_belongs_to_no_run(bench):
    def answer(text):
        return Interpretation("", reply="Done.")

    kit = await bench(plugin("meaning", interpret_prompt=answer), settings=EVERY)
    await kit.run("x")
    (event,) = slow(kit, "interpret_prompt")
    assert (event.agent, event.run) == ("", "")


def test_a_task_that_outlives_the_preparation_of_a_prompt_writes_its_hooks_at_once():
    event = HookCalled(plugin="p", hook="h", seconds=1.0)
    assert not hold_slow_hook(event)
    with hold_slow_hooks(lambda event: None):
        assert hold_slow_hook(event)
        inherited = copy_context()
    assert not inherited.run(hold_slow_hook, event)


async def test_a_hook_that_raised_is_written_with_the_class_of_its_error(bench):
    def remind():
        raise RuntimeError("with a secret")

    kit = await bench(
        TOOLS,
        plugin("bad", remind=remind),
        answers=[use("write", path="a"), "ok"],
        settings=EVERY,
        faults=True,
    )
    await kit.run("x")
    assert [event.error for event in slow(kit, "remind")] == ["RuntimeError"]
    assert len(kit.of(PluginFault)) == 1


class SpecialError(Exception):
    """An error whose name is long enough to be searched for secrets."""


async def test_a_slow_hook_is_written_without_a_search_for_secrets(bench):
    """A search that is slow itself would write another event for each event."""
    seen = []

    def redact_texts(texts):
        seen.extend(texts)
        return texts

    def remind():
        raise SpecialError

    redacting = plugin("redacting", redact_texts=redact_texts, gates=("redact_texts",))
    answers = [use("write", path="a"), "ok"]
    failing = plugin("failing", remind=remind)
    kit = await bench(TOOLS, redacting, failing, answers=answers, settings=EVERY, faults=True)
    await kit.run("x")
    assert [event.error for event in slow(kit, "remind")] == ["SpecialError"]
    assert seen
    assert "SpecialError" not in seen


async def test_a_slow_search_for_secrets_does_not_write_events_without_end(bench):
    redacting = plugin("redacting", redact_texts=lambda texts: [*texts], gates=("redact_texts",))
    kit = await bench(redacting, answers=["An answer of some words."], settings=EVERY)
    await kit.run("A prompt that is long enough to be searched.")
    assert 0 < len(slow(kit, "redact_texts")) < 50
    assert [event.seq for event in kit.events] == [*range(1, len(kit.events) + 1)]


@pytest.mark.parametrize("setting", [0, 60.0])
async def test_fast_hooks_are_not_written(bench, setting):
    kit = await bench(
        TOOLS, answers=[use("write", path="a"), "ok"], settings={"slow_hook": setting}
    )
    await kit.run("x")
    assert kit.of(HookCalled) == []


async def test_a_hook_that_ends_after_the_session_closed_writes_nothing():
    """The hook of a run that is cancelled by the end of the session."""
    begun = trio.Event()

    async def check():
        begun.set()
        await trio.sleep_forever()

    checking = plugin("checking", check_answer=check)
    async with open_bench(checking, answers=["ok"], settings=EVERY) as kit:
        await kit.start("x")
        with kit.guard():
            await begun.wait()
    assert not kit.session.journal.broken


async def test_a_call_that_waited_for_another_one_says_how_long(bench, autojump_clock):
    calls = use("write", path="a", seconds=3) + use("write", path="a") + use("write", path="b")
    kit = await bench(TOOLS, answers=[calls, "ok"])
    await kit.run("x")
    assert sorted(event.waited for event in kit.of(CallStarted)) == [0.0, 0.0, 3.0]
    assert kit.of(RunEnded)[0].state == "completed"


async def test_a_call_that_waited_for_another_agent_s_call_says_how_long(bench, autojump_clock):
    """Two agents write the same file at the same time."""
    answers = {
        "main": [use("write", path="a", seconds=3), "ok"],
        "other": [use("write", path="a", seconds=3), "ok"],
    }
    kit = await bench(TOOLS, answers=[lambda request: answers[request.agent].pop(0)] * 4)
    kit.session.add_agent(Profile("other"))
    runs = [await kit.session.prompt("x", agent=name) for name in ("main", "other")]
    for run in runs:
        await run.wait()
    assert sorted(event.waited for event in kit.of(CallStarted)) == [0.0, 3.0]
