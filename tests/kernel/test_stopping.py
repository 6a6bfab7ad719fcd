"""Stop: wherever a run is, it ends at once, closes what it opened, and the session goes on."""

import os

import pytest
import trio
from hilum import Call, Mode, allow, ask, tool
from hilum.errors import E_STOPPED
from hilum.events import (
    ApprovalAsked,
    CallDone,
    CallStarted,
    ModelStarted,
    PromptQueued,
    RunEnded,
    StateChanged,
)
from hilum.testing import open_bench, pause, plugin, say, use

PLACES = ["model", "tool", "approval", "gather_context", "check_answer", "remind"]


@pytest.mark.parametrize("place", PLACES)
async def test_stop_ends_a_run_wherever_it_is(bench, place, autojump_clock):
    """The run ends as stopped without waiting for anything, its calls are closed, and the next
    prompt is answered.
    """
    there = trio.Event()

    async def reached():
        there.set()
        await trio.sleep_forever()

    @tool(risk="execute" if place == "approval" else "read")
    async def work(call: Call) -> str:
        """Work."""
        if place == "tool":
            await reached()
        return "worked"

    hooks = {place: reached} if place in ("gather_context", "check_answer", "remind") else {}
    answers = [say("so ") + pause(trio.Event())] if place == "model" else [use("work"), "ok"]
    kit = await bench(plugin("tools", work, **hooks), answers=answers, approve="ask_first")
    run = await kit.start("x")
    with kit.guard():
        if place == "model":
            await kit.wait_for(ModelStarted)
            await kit.model.asked(1)
        elif place == "approval":
            await kit.wait_for(ApprovalAsked)
        else:
            await there.wait()
        began = trio.current_time()
        run.stop()
        ended = await run.wait()
    assert trio.current_time() == began
    assert (ended.state, ended.code) == ("stopped", E_STOPPED)
    assert kit.of(StateChanged)[-1].state == "stopped"
    if place in ("tool", "approval"):
        assert kit.results[0].code == E_STOPPED
    # A call that waited for an approval was not cut off, because it had not begun.
    left = {"tool": "Calls that were cut off: work.", "approval": "Calls that were not run: work."}
    assert ended.left == left.get(place, ended.left)
    assert (await again(kit)).state == "completed"


async def again(kit):
    """Prompt once more, with the hook that hung out of the way."""
    kit.session.hooks.remove("tools", "")
    kit.session.hooks.closed.clear()
    kit.model.next("here")
    return await kit.run("y")


async def test_stop_ends_the_processes_of_a_call(bench):
    """The child process of a running call is gone when the run is."""
    pids = []
    up = trio.Event()

    @tool
    async def serve(call: Call) -> str:
        """Serve."""
        async with call.processes.open(["sleep", "600"]) as process:
            pids.append(process.pid)
            up.set()
            return str(await process.wait())

    kit = await bench(plugin("tools", serve), answers=[use("serve")])
    run = await kit.start("x")
    with kit.guard():
        await up.wait()
        os.kill(pids[0], 0)
        run.stop()
        await run.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_stop_drops_the_prompts_that_wait(bench):
    """Each waiting prompt ends as stopped; none of them runs."""
    kit = await bench(answers=[say("so ") + pause(trio.Event()), "later"])
    first = await kit.start("one")
    with kit.guard():
        await kit.model.asked(1)
        waiting = [await kit.start("two"), await kit.start("three")]
        kit.session.stop()
        states = [(await run.wait()).state for run in [first, *waiting]]
    assert states == ["stopped"] * 3
    assert len(kit.requests) == 1
    assert (await kit.run("four")).text == "later"


async def test_a_run_that_is_stopped_stops_no_other(bench):
    """Neither the one before it nor those behind it.

    `run` that is cancelled while it waits is one of them.
    """
    kit = await bench(answers=[say("1") + pause(trio.Event()), "3"])
    with kit.guard():
        first = await kit.start("one")
        await kit.model.asked(1)
        second, third = await kit.start("two"), await kit.start("three")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.session.run, "four")
            fourth = await kit.wait_for(PromptQueued, lambda event: event.text == "four")
            nursery.cancel_scope.cancel()
        assert [event.run for event in kit.of(RunEnded)] == [fourth.run]
        second.stop()
        assert (await second.wait()).state == "stopped"
        assert (first.result, third.result) == (None, None)
        first.stop()
        assert ((await first.wait()).state, (await third.wait()).text) == ("stopped", "3")
        second.stop()
        assert (
            await kit.run("five", state={})
        ).state == "failed"  # nothing is scripted for it: it did begin


async def test_prompt_that_is_stopped_before_it_starts_never_runs(bench):
    """Stop at once after prompt: no request goes out and the state is final."""
    kit = await bench(answers=["never"])
    run = await kit.start("x")
    run.stop()
    with kit.guard():
        assert (await run.wait()).state == "stopped"
    assert kit.requests == []
    assert kit.session.agents["main"].conversation.state == "stopped"


async def test_stop_of_an_idle_session_does_nothing(bench):
    """There is nothing to stop."""
    kit = await bench(answers=["hi"])
    before = len(kit.events)
    kit.session.stop()
    assert len(kit.events) == before
    assert (await kit.run("x")).text == "hi"


async def test_session_that_is_left_ends_its_runs(bench):
    """Leaving the session's block cancels what runs; a resume would go on with it."""
    kit = await bench(answers=[say("so ") + pause(trio.Event())])
    async with kit.kernel.open_session(kit.workspace) as other:
        await other.prompt("x")
        with kit.guard():
            await kit.model.asked(1)
    events = await kit.kernel.store.read(other.id)
    assert not [event for event in events if isinstance(event, RunEnded)]


async def test_stop_of_one_agent_leaves_the_others_alone(bench):
    """stop(agent) ends that agent's run only."""
    from hilum import Profile

    go = trio.Event()
    kit = await bench(answers=[say("a") + pause(go), say("b") + pause(trio.Event())])
    kit.session.add_agent(Profile("helper"))
    with kit.guard():
        main = await kit.start("x")
        await kit.model.asked(1)
        helper = await kit.start("y", agent="helper")
        await kit.model.asked(2)
        kit.session.stop("helper")
        assert (await helper.wait()).state == "stopped"
        go.set()
        assert (await main.wait()).state == "completed"


async def test_prompts_queue_and_run_in_order(bench):
    """A prompt that comes while the agent works is noted at once and runs next."""
    go = trio.Event()
    kit = await bench(answers=[say("1") + pause(go), "2", "3"])
    with kit.guard():
        runs = [await kit.start("one")]
        await kit.model.asked(1)
        runs += [await kit.start("two"), await kit.start("three")]
        assert [event.text for event in kit.of(PromptQueued)] == ["one", "two", "three"]
        go.set()
        assert [(await run.wait()).text for run in runs] == ["1", "2", "3"]
    assert [len(request.messages) for request in kit.requests] == [1, 3, 5]
    assert [event.run for event in kit.of(RunEnded)] == [run.id for run in runs]
    assert kit.of(CallDone) == []


async def test_what_is_cancelled_around_a_session_ends():
    """A time limit of the embedding program around kernel, session and run ends all three, and
    waits for nothing else.
    """
    waiting = trio.Event()
    ended = []

    @tool(risk="read", effect="pure")
    async def wait() -> str:
        """Wait for ever."""
        waiting.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("call")

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def embed():
                try:
                    async with open_bench(plugin("waits", wait), answers=[use("wait")]) as opened:
                        await opened.session.run("Go.")
                        ended.append("run went on")
                finally:
                    ended.append("kernel")

            nursery.start_soon(embed)
            await waiting.wait()
            nursery.cancel_scope.cancel()
    assert ended == ["call", "kernel"]


async def test_what_a_face_says_comes_with_the_prompt_it_was_said_for(bench):
    """Also where that prompt has to wait: its open files are its own, not those of the one before,
    and not lost.
    """
    go, seen = trio.Event(), []
    look = plugin("look", gather_context=lambda request: seen.append((request.text, request.state)))
    kit = await bench(look, answers=[say("1") + pause(go), "2", "3"])
    with kit.guard():
        runs = [await kit.start("one", state={"active_file": "a.py"})]
        await kit.model.asked(1)
        runs += [await kit.start("two", state={"active_file": "b.py"}), await kit.start("three")]
        go.set()
        for run in runs:
            await run.wait()
    assert seen == [
        ("one", {"active_file": "a.py"}),
        ("two", {"active_file": "b.py"}),
        ("three", {}),
    ]


async def test_a_call_that_is_stopped_has_run_for_its_time(bench, autojump_clock):
    """Its end says how long it ran."""
    there = trio.Event()

    @tool(risk="read")
    async def work() -> str:
        """Work."""
        await trio.sleep(2)
        there.set()
        await trio.sleep_forever()
        return ""

    kit = await bench(plugin("tools", work), answers=[use("work"), "ok"])
    run = await kit.start("x")
    with kit.guard():
        await there.wait()
        run.stop()
        await run.wait()
    (done,) = kit.of(CallDone)
    assert done.seconds >= 2


@pytest.mark.parametrize("verdict", [allow(), ask("It is questionable.")], ids=["allow", "ask"])
async def test_nothing_begins_when_a_gate_decides_at_the_moment_of_a_stop(bench, verdict):
    """The gate's verdict and the stop come together: the tool does not run, and the user is not
    asked.
    """
    at_gate = trio.Event()
    decided = trio.Event()
    ran = []

    @tool(risk="write")
    async def work() -> str:
        """Work."""
        ran.append("work")
        return "worked"

    async def gate():
        at_gate.set()
        await decided.wait()
        return verdict

    kit = await bench(plugin("tools", work, on_tool_call=gate), answers=[use("work"), "ok"])
    run = await kit.start("x")
    with kit.guard():
        await at_gate.wait()
        # The gate's task is scheduled from now on, so the stop cannot cancel its wait any more.
        decided.set()
        run.stop()
        ended = await run.wait()
    assert ended.state == "stopped"
    assert kit.results[0].code == E_STOPPED
    assert ran == []
    assert kit.of(CallStarted) == []
    assert kit.of(ApprovalAsked) == []


async def test_a_call_that_is_approved_at_the_moment_of_a_stop_does_not_run(bench):
    """The user approves a call and stops the run before the call can begin: the stop decides."""
    ran = []

    @tool(risk="write")
    async def work() -> str:
        """Work."""
        ran.append("work")
        return "worked"

    kit = await bench(plugin("tools", work), answers=[use("work"), "ok"], approve="ask_first")
    run = await kit.start("x")
    with kit.guard():
        asked = await kit.wait_for(ApprovalAsked)
        kit.session.answer(asked.id, True)
        run.stop()
        ended = await run.wait()
    assert ended.state == "stopped"
    assert kit.results[0].code == E_STOPPED
    assert ran == []
    assert kit.of(CallStarted) == []


async def test_no_request_is_sent_when_the_prompt_is_composed_at_the_moment_of_a_stop(bench):
    """The mode changed, so the prompt is composed again before a request: a stop meanwhile means
    that none is sent.
    """
    composing = trio.Event()
    go_on = trio.Event()
    modes = []

    @tool(risk="read")
    async def work(call: Call) -> str:
        """Work."""
        call.session.set(mode="plan")
        return "worked"

    async def compose(agent):
        modes.append(agent.mode.name)
        if len(modes) > 1:
            composing.set()
            await go_on.wait()

    kit = await bench(
        plugin("tools", work, build_prompt_layer=compose), answers=[use("work"), "ok"]
    )
    kit.session.modes["plan"] = Mode("plan")
    run = await kit.start("x")
    with kit.guard():
        await composing.wait()
        go_on.set()
        run.stop()
        ended = await run.wait()
    assert ended.state == "stopped"
    assert len(kit.of(ModelStarted)) == 1


async def test_one_call_is_stopped_and_the_run_continues(bench, autojump_clock):
    """The agent reads that the user stopped it, with the output so far; the other call ends."""
    both = []
    up = trio.Event()
    stopped = trio.Event()

    @tool(risk="read")
    async def work(call: Call, name: str) -> str:
        """Work."""
        call.output_so_far = lambda: f"{name} so far"
        both.append(name)
        if len(both) == 2:
            up.set()
        if name == "endless":
            await trio.sleep_forever()
        await stopped.wait()
        return "worked"

    asked = use("work", name="endless") + use("work", name="quick")
    kit = await bench(plugin("tools", work), answers=[asked, "I see."])
    run = await kit.start("x")
    with kit.guard():
        await up.wait()
        [endless] = [each for each in kit.of(CallStarted) if "endless" in each.call.arguments]
        identity = endless.call.id
        assert not kit.session.stop_call("unknown")
        assert not kit.session.stop_call(identity, agent="other")
        assert kit.session.stop_call(identity)
        done = await kit.wait_for(CallDone)
        stopped.set()
        ended = await run.wait()
    assert done.result.code == E_STOPPED
    assert "stopped by the user" in done.result.text
    assert done.result.text.endswith("Its output so far:\nendless so far")
    assert ended.state == "completed"
    assert {result.text for result in kit.results} == {done.result.text, "worked"}
    assert not kit.session.stop_call(identity)


async def test_a_stopped_call_that_ignores_its_cancellation_is_abandoned(bench, autojump_clock):
    up = trio.Event()

    @tool(risk="read", grace=0.5)
    async def work(call: Call) -> str:
        """Work."""
        up.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(30)
        return "worked"

    kit = await bench(plugin("tools", work), answers=[use("work"), "I see."])
    run = await kit.start("x")
    with kit.guard():
        await up.wait()
        began = trio.current_time()
        assert kit.session.stop_call(kit.of(CallStarted)[0].call.id)
        ended = await run.wait()
    assert trio.current_time() - began == pytest.approx(0.5)
    assert kit.results[0].code == E_STOPPED
    assert ended.state == "completed"
