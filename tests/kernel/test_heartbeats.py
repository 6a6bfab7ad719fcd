"""Heartbeats: the log of a killed process shows until when its agents worked."""

import itertools
from functools import partial

import pytest
import trio
from hilum import ask, tool
from hilum.events import (
    HEARTBEAT_INTERVAL,
    ApprovalAsked,
    CallStarted,
    Heartbeat,
    ModelStarted,
    RunEnded,
    SessionReopened,
    decode,
    encode,
)
from hilum.heartbeats import MAX_HEARTBEATS
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, pause, plugin, use
from hilum.wall_clock import use_clock

BEGIN = 1_700_000_000.0


@tool(timeout=10_000_000)
async def wait_long(seconds: float) -> str:
    """Wait."""
    await trio.sleep(seconds)
    return "done"


TOOLS = plugin("tools", wait_long)


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens benches on one workspace, also after a restart."""
    return partial(open_bench, folder=tmp_path)


async def test_a_killed_call_is_known_to_have_run_until_a_minute_before(opened, autojump_clock):
    store = MemoryStore()
    answers = [use("wait_long", seconds=100_000)]
    with use_clock(lambda: BEGIN + trio.current_time()):
        async with opened(TOOLS, answers=answers, store=store) as kit:
            await kit.start("Wait.")
            await kit.wait_for(CallStarted)
            await trio.sleep(3_599)
            # The copy is the log that a killed process would leave.
            copy = await kit.kernel.fork(kit.session.id)
            killed_at = BEGIN + trio.current_time()
            beats = kit.of(Heartbeat)
        async with opened(TOOLS, answers=["Done."], store=store, resume=copy) as kit:
            (reopened,) = kit.of(SessionReopened)
    assert len(beats) == 59
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(beats)]
    assert max(gaps) == HEARTBEAT_INTERVAL
    assert 0 <= killed_at - reopened.last <= HEARTBEAT_INTERVAL
    assert sum(len(encode(beat)) for beat in beats) < 59 * 100


async def test_a_request_to_a_model_has_heartbeats(bench, autojump_clock):
    model = ScriptedModel([pause(trio.Event())])
    kit = await bench(TOOLS, model=model, settings={"silence": 3_600.0})
    await kit.start("Think.")
    await kit.wait_for(ModelStarted)
    await trio.sleep(HEARTBEAT_INTERVAL * 2.5)
    assert len(kit.of(Heartbeat)) == 2


async def test_a_call_that_hangs_for_days_writes_a_bounded_number(bench, autojump_clock):
    kit = await bench(TOOLS, answers=[use("wait_long", seconds=1_000_000)])
    await kit.start("Wait.")
    await kit.wait_for(CallStarted)
    await trio.sleep(HEARTBEAT_INTERVAL * MAX_HEARTBEATS * 2)
    assert len(kit.of(Heartbeat)) == MAX_HEARTBEATS


async def test_an_idle_session_has_no_heartbeats(bench, autojump_clock):
    kit = await bench(TOOLS, answers=[use("wait_long", seconds=90), "Done."])
    await kit.run("Wait.")
    await trio.sleep(HEARTBEAT_INTERVAL * 10)
    assert len(kit.of(Heartbeat)) == 1
    assert isinstance(kit.events[-2], RunEnded)


async def test_other_events_take_the_place_of_heartbeats(bench, autojump_clock):
    calls = [use("wait_long", seconds=HEARTBEAT_INTERVAL - 1 - turn / 10) for turn in range(5)]
    kit = await bench(TOOLS, answers=[*calls, "Done."])
    await kit.run("Wait.")
    assert kit.of(Heartbeat) == []


async def test_waiting_for_an_approval_is_no_work(bench, autojump_clock):
    kit = await bench(
        TOOLS,
        answers=[use("wait_long", seconds=1), "Done."],
        approve="ask_first",
        settings={"approval_timeout": 10_000_000.0},
    )
    await kit.start("Wait.")
    await kit.wait_for(ApprovalAsked)
    await trio.sleep(HEARTBEAT_INTERVAL * 10)
    assert kit.of(Heartbeat) == []


async def test_a_call_that_runs_beside_one_that_waits_for_approval_is_work(bench, autojump_clock):
    def judge(call):
        return ask("why") if call.id == "call-2" else None

    calls = use("wait_long", seconds=100_000) + use("wait_long", seconds=1)
    kit = await bench(
        TOOLS,
        plugin("gate", on_tool_call=judge),
        answers=[calls],
        settings={"approval_timeout": 10_000_000.0},
    )
    await kit.start("Wait.")
    await kit.wait_for(ApprovalAsked)
    await kit.wait_for(CallStarted)
    await trio.sleep(HEARTBEAT_INTERVAL * 3.5)
    assert len(kit.of(Heartbeat)) == 3


async def test_heartbeats_are_written_again_after_days_of_waiting(bench, autojump_clock):
    """Whether the session waited for an approval, or for a call that wrote nothing."""
    day = HEARTBEAT_INTERVAL * MAX_HEARTBEATS
    kit = await bench(
        TOOLS,
        answers=[use("wait_long", seconds=day * 2)] + [use("wait_long", seconds=200)] * 2,
        approve="ask_first",
        settings={"approval_timeout": 10_000_000.0},
    )
    await kit.start("Wait.")
    asked = await kit.wait_for(ApprovalAsked)
    await trio.sleep(day * 2)
    assert kit.of(Heartbeat) == []
    kit.session.answer(asked.id, True)
    asked = await kit.wait_for(ApprovalAsked, after=asked.seq)
    assert len(kit.of(Heartbeat)) == MAX_HEARTBEATS
    kit.session.answer(asked.id, True)
    await kit.wait_for(ApprovalAsked, after=asked.seq)
    assert len(kit.of(Heartbeat)) == MAX_HEARTBEATS + 3


def test_the_event_of_earlier_versions_is_read_as_the_present_one():
    line = (
        b'{"type":"plugin_event","seq":7,"at":5.0,"name":"session.reopened",'
        b'"data":{"settings":{"turns":4},"interrupted":["main"]}}'
    )
    expected = SessionReopened(seq=7, at=5.0, settings={"turns": 4}, interrupted=("main",))
    assert decode(line) == expected
