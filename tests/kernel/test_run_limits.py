"""Limits of a run: turns, tokens, wall clock."""

import pytest
import trio
from hilum import Profile, ToolError, tool
from hilum.errors import E_TIMEOUT, E_TOKEN_LIMIT, E_TURN_LIMIT
from hilum.events import CallStarted, ErrorRaised, RoundEnded, StateChanged
from hilum.messages import Usage
from hilum.testing import pause, plugin, say, use


@tool(risk="read")
async def step(n: int) -> str:
    """Take a step."""
    await trio.sleep(1)
    return f"step {n}"


async def test_turn_limit_ends_as_partial_success_that_can_go_on(bench, autojump_clock):
    """25 turns are the default.

    Finished work is kept, what is left is said, and a new message continues.
    """
    kit = await bench(plugin("tools", step), answers=[use("step", n=n) for n in range(30)])
    ended = await kit.run("x")
    assert (ended.state, ended.code, ended.turns) == ("partial_success", E_TURN_LIMIT, 25)
    assert "All finished work is kept" in ended.hint
    assert ended.done == "Tools run: step × 25."
    assert len(kit.results) == 25
    assert "One turn is left" in kit.of(RoundEnded)[-2].notes[-1]
    kit.model.next("Done at last.")
    ended = await kit.run("go on")
    assert (ended.state, ended.text, ended.turns) == ("completed", "Done at last.", 1)
    assert len(kit.requests[-1].messages) == 1 + 25 * 2 + 1 + 1


async def test_turns_are_a_setting_and_a_profile(bench, autojump_clock):
    """The setting holds for all, a profile for its agent."""
    kit = await bench(
        plugin("tools", step), answers=[use("step", n=n) for n in range(30)], settings={"turns": 3}
    )
    assert (await kit.run("x")).turns == 3
    kit.session.add_agent(Profile("helper", turns=2))
    assert (await kit.run("x", agent="helper")).turns == 2


async def test_token_limit_ends_as_partial_success(bench, autojump_clock):
    """What was used counts, turn by turn."""
    answers = [say("", usage=Usage(input=400, output=50)) + use("step", n=n) for n in range(9)]
    kit = await bench(plugin("tools", step), answers=answers, settings={"token_limit": 1000})
    ended = await kit.run("x")
    assert (ended.state, ended.code, ended.turns) == ("partial_success", E_TOKEN_LIMIT, 3)
    assert (ended.usage.input, ended.usage.output) == (1200, 150)


@pytest.mark.parametrize("where", ["model", "tool", "pause between attempts"])
async def test_wall_clock_ends_the_run_wherever_it_is(bench, autojump_clock, where):
    """Out of time: state timed_out, an error event, open calls closed; a new message continues."""

    @tool(risk="read", timeout=1e6)
    async def endless() -> str:
        """Never end."""
        await trio.sleep_forever()

    from hilum import ModelError

    answers = {
        "model": [say("thinking") + pause(20) + say("...") + pause(20) + say("!")],
        "tool": [use("endless")],
        "pause between attempts": [ModelError("busy", kind="rate_limit", retry_after=100)],
    }[where]
    kit = await bench(plugin("tools", endless), answers=answers, settings={"timeout": 35.0})
    began = trio.current_time()
    ended = await kit.run("x")
    assert trio.current_time() - began == pytest.approx(35)
    assert (ended.state, ended.code) == ("timed_out", E_TIMEOUT)
    assert kit.of(ErrorRaised)[0].code == E_TIMEOUT
    assert kit.of(StateChanged)[-1].state == "timed_out"
    assert len(kit.results) == (1 if where == "tool" else 0)
    kit.model.then("here again")
    assert (await kit.run("y")).text == "here again"


async def test_main_agents_have_no_time_limit_by_default(bench, autojump_clock):
    """A day is fine."""
    kit = await bench(
        answers=[[pause(25.0)] * 3000 + ["finally"]],
        settings={"silence": 1e6, "answer_timeout": 1e6},
    )
    assert (await kit.run("x")).text == "finally"


@tool(risk="write", writes="path")
def put(path: str) -> str:
    """Write a file."""
    if path == "bad.py":
        raise ToolError("No.")
    return "written"


async def test_the_end_at_a_limit_says_what_was_done_and_what_is_left(bench):
    """Files and tools come from the calls that ended.

    What the model said beside its calls is no answer.
    """
    answers = [
        [say("First the model."), use("put", path="a.py"), use("put", path="bad.py")],
        [say("Now the tests."), use("put", path="b.py"), use("put", path="a.py")],
    ]
    kit = await bench(plugin("tools", put), answers=answers, settings={"turns": 2})
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", E_TURN_LIMIT)
    assert (ended.text, ended.commentary) == ("", "Now the tests.")
    assert ended.done == "Files written: a.py, b.py. Tools run: put × 4 (1 failed)."
    assert ended.left == "The last announced step may be unfinished: Now the tests."


async def test_a_stopped_run_says_which_call_was_cut_off(bench):
    kit = await bench(plugin("tools", step), answers=[[say("I take a step."), use("step", n=1)]])
    run = await kit.start("x")
    await kit.wait_for(CallStarted)
    run.stop()
    ended = await run.wait()
    assert (ended.state, ended.text, ended.commentary) == ("stopped", "", "I take a step.")
    assert "Calls that were cut off: step." in ended.left


async def test_a_completed_run_has_its_answer_and_nothing_else(bench):
    kit = await bench(
        plugin("tools", put), answers=[[say("First."), use("put", path="a.py")], "Done."]
    )
    ended = await kit.run("x")
    assert (ended.text, ended.commentary, ended.done, ended.left) == ("Done.", "", "", "")
