"""Resume: a session that was cut off goes on where it was, with a second kernel on the same
store.
"""

from contextlib import AsyncExitStack
from functools import partial

import pytest
import trio
from hilum import ModelError, Profile, UsageError, Verdict, hookimpl, tool
from hilum.errors import E_INTERRUPTED, E_LLM_AUTH, StoreError
from hilum.events import (
    ApprovalAsked,
    CallDone,
    CallStarted,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    PromptFrozen,
    PromptQueued,
    RunEnded,
    RunStarted,
    SessionReopened,
    decode,
    encode,
)
from hilum.store import MemoryStore, SessionInfo
from hilum.testing import ScriptedModel, open_bench, pause, plugin, say, use


@pytest.fixture
def opened(tmp_path):
    """Opens benches on one workspace, so that a session can be resumed in another kernel."""
    return partial(open_bench, folder=tmp_path)


class Tools:
    """Tools of each effect that note what they did and may be made to hang."""

    def __init__(self):
        self.ran: list[str] = []
        self.hang = False
        self.there = trio.Event()
        ran = self.ran

        async def note(name):
            ran.append(name)
            self.there.set()
            if self.hang:
                await trio.sleep_forever()
            return f"{name} done"

        @tool(risk="read", effect="pure")
        async def read() -> str:
            """Read."""
            return await note("read")

        @tool(risk="write", effect="idempotent")
        async def put() -> str:
            """Put."""
            return await note("put")

        @tool(risk="execute", effect="once")
        async def send() -> str:
            """Send."""
            return await note("send")

        @tool(risk="read", effect="pure")
        def quick() -> str:
            """Be quick."""
            ran.append("quick")
            return "quick done"

        self.plugin = plugin("tools", read, put, send, quick)


async def cut_off(opened, store, tools, answers, *, until, **options):
    """Play until a point, then drop the session as a crash would.

    Gives its id and what was asked of the model.
    """
    async with opened(tools.plugin, answers=answers, store=store, **options) as kit:
        await kit.start("the task")
        with kit.guard():
            await until(kit)
        return kit.session.id, kit.requests


async def go_on(kit):
    """Resume and wait for all that goes on."""
    with kit.guard():
        return [await run.wait() for run in kit.session.resume()]


@pytest.mark.parametrize(("name", "again"), [("read", True), ("put", True), ("send", False)])
async def test_call_in_flight_is_run_again_only_if_that_does_no_harm(name, again, opened):
    """Pure and idempotent calls run again.

    A once call is reported as interrupted; finished ones are never repeated.
    """
    store, tools = MemoryStore(), Tools()
    tools.hang = True

    async def until(kit):
        await tools.there.wait()
        await kit.wait_for(CallDone)

    session, before = await cut_off(opened, store, tools, [use(name) + use("quick")], until=until)
    tools.hang = False
    async with opened(tools.plugin, answers=["done"], store=store, resume=session) as kit:
        (ended,) = await go_on(kit)
        assert (ended.state, ended.text) == ("completed", "done")
        assert tools.ran.count(name) == 1 + again
        assert tools.ran.count("quick") == 1
        result = kit.result(name)
        assert result.code == ("" if again else E_INTERRUPTED)
        if not again:
            assert f"`{name}` was cut off when hilum ended and may or may not" in result.text
        assert len(kit.of(RunStarted)) == 1
        (noted,) = kit.of(SessionReopened)
        assert noted.interrupted == ("main",)
        assert noted.last == kit.events[noted.seq - 2].at < noted.at
        assert len(kit.of(PromptFrozen)) == 1
        assert kit.requests[0].body.startswith(before[0].body[:-2])
        assert [result.name for result in kit.requests[0].messages[-1].results] == [name, "quick"]


async def test_answer_on_its_way_is_asked_for_again(opened):
    """A stream that was cut off leaves no half answer.

    The same request goes out as a new attempt.
    """
    store, tools = MemoryStore(), Tools()

    async def until(kit):
        await kit.model.asked(1)

    answers = [say("half") + pause(trio.Event())]
    session, before = await cut_off(opened, store, tools, answers, until=until)
    async with opened(tools.plugin, answers=["whole"], store=store, resume=session) as kit:
        (ended,) = await go_on(kit)
        assert ended.text == "whole"
        assert kit.requests[0].body == before[0].body
        assert [event.attempt for event in kit.of(ModelStarted)] == [1, 2]
        assert len(kit.of(ModelAnswered)) == 1


async def test_open_approval_is_asked_again(opened):
    """The old question is void, a new one is asked, and the call runs after its yes."""
    store, tools = MemoryStore(), Tools()

    async def until(kit):
        await kit.wait_for(ApprovalAsked)

    session, _ = await cut_off(
        opened, store, tools, [use("send")], until=until, approve="ask_first"
    )
    assert tools.ran == []
    async with opened(
        tools.plugin, answers=["ok"], store=store, resume=session, approve="ask_first"
    ) as kit:
        old = kit.of(ApprovalAsked)[0]
        (run,) = kit.session.resume()
        new = await kit.wait_for(ApprovalAsked, after=old.seq)
        assert new.id != old.id
        assert new.call == old.call
        kit.session.answer(new.id, True)
        with kit.guard():
            assert (await run.wait()).state == "completed"
    assert tools.ran == ["send"]


async def test_given_approval_is_not_asked_again(opened):
    """A yes that was logged before the crash counts for exactly that call."""
    store, tools = MemoryStore(), Tools()
    tools.hang = True

    async def until(kit):
        asked = await kit.wait_for(ApprovalAsked)
        kit.session.answer(asked.id, True)
        await tools.there.wait()

    session, _ = await cut_off(opened, store, tools, [use("put")], until=until, approve="ask_first")
    tools.hang = False
    async with opened(
        tools.plugin, answers=["ok"], store=store, resume=session, approve="ask_first"
    ) as kit:
        assert (await go_on(kit))[0].state == "completed"
        assert len(kit.of(ApprovalAsked)) == 1
    assert tools.ran == ["put", "put"]


@pytest.mark.parametrize(("later", "questions"), [("runs a", 1), ("runs b", 2)])
async def test_a_given_approval_counts_only_for_the_same_effects(opened, later, questions):
    """A script may have changed while hilum was not running."""
    store, tools = MemoryStore(), Tools()
    tools.hang = True
    found = {"runs a"}

    def judge(call):
        return Verdict("ask", "Really?", effects=frozenset(found))

    gate = plugin("gate", on_tool_call=hookimpl(judge))

    async def until(kit):
        asked = await kit.wait_for(ApprovalAsked)
        assert len(asked.effects) == 64
        kit.session.answer(asked.id, True)
        await tools.there.wait()

    both = partial(opened, gate)
    session, _ = await cut_off(both, store, tools, [use("put")], until=until)
    tools.hang = False
    found.clear()
    found.add(later)
    async with both(tools.plugin, answers=["ok"], store=store, resume=session) as kit:
        (run,) = kit.session.resume()
        if questions == 2:
            seen = kit.of(ApprovalAsked)[0].seq
            asked = await kit.wait_for(ApprovalAsked, after=seen)
            kit.session.answer(asked.id, False)
        with kit.guard():
            await run.wait()
        assert len(kit.of(ApprovalAsked)) == questions
    assert tools.ran == ["put"] * (3 - questions)


async def test_yes_for_the_session_outlives_it(opened):
    """What was granted for the session still holds when it is resumed."""
    store, tools = MemoryStore(), Tools()

    async def until(kit):
        asked = await kit.wait_for(ApprovalAsked)
        kit.session.answer(asked.id, True, remember="session")
        await kit.wait_for(RunEnded)

    session, _ = await cut_off(
        opened, store, tools, [use("send"), "ok"], until=until, approve="ask_first"
    )
    async with opened(
        tools.plugin, answers=[], store=store, resume=session, approve="ask_first"
    ) as kit:
        assert (await kit.call("send")).text == "send done"


async def test_gates_judge_again_what_had_not_started(opened):
    """A call that was only asked for is judged by the gates there are now."""
    from hilum import deny

    store, tools = MemoryStore(), Tools()

    async def until(kit):
        await kit.wait_for(ApprovalAsked)

    session, _ = await cut_off(
        opened, store, tools, [use("send")], until=until, approve="ask_first"
    )
    gate = plugin("gate", on_tool_call=lambda: deny("Not any more."))
    async with opened(tools.plugin, gate, answers=["ok"], store=store, resume=session) as kit:
        await go_on(kit)
        assert "Not any more." in kit.result("send").text
    assert tools.ran == []


@pytest.mark.parametrize("early", [False, True])
async def test_run_that_was_being_stopped_is_not_taken_up(early, opened):
    """A stop holds although hilum died before anything of it was carried out.

    Before the run's first event, too.
    """
    store, tools = MemoryStore(), Tools()
    tools.hang = True
    gathering = trio.Event()

    async def gather_context():
        if early:
            gathering.set()
            await trio.sleep_forever()

    slow = plugin("slow", gather_context=gather_context)
    async with opened(tools.plugin, slow, answers=[use("put")], store=store) as kit:
        await kit.start("the task")
        with kit.guard():
            await (gathering if early else tools.there).wait()
        kit.session.stop()
        cut_off = await kit.kernel.fork(
            kit.session.id
        )  # the log at this instant: memory is copied without a pause
    async with opened(tools.plugin, answers=["again"], store=store, resume=cut_off) as kit:
        assert kit.of(RunEnded) == []
        (ended,) = await go_on(kit)
        assert ended.state == "stopped"
        assert kit.requests == []
        assert (await kit.run("go on")).text == "again"
    assert tools.ran == ["put"] * (not early)


async def test_waiting_prompts_are_kept(opened):
    """Prompts that waited when the session was cut off run after the one that goes on."""
    store, tools = MemoryStore(), Tools()

    async def until(kit):
        await kit.model.asked(1)
        await kit.start("second")
        await kit.start("third")

    session, _ = await cut_off(opened, store, tools, [pause(trio.Event())], until=until)
    async with opened(tools.plugin, answers=["1", "2", "3"], store=store, resume=session) as kit:
        assert [ended.text for ended in await go_on(kit)] == ["1", "2", "3"]
        assert [event.text for event in kit.of(RunStarted)] == ["the task", "second", "third"]
        assert len(kit.of(PromptQueued)) == 3


async def test_prompt_instead_of_resume_closes_what_was_open(opened):
    """A new prompt in a session that was cut off gives the old run up, with its calls, and is
    answered.
    """
    store, tools = MemoryStore(), Tools()
    tools.hang = True

    async def until(kit):
        await tools.there.wait()

    session, _ = await cut_off(opened, store, tools, [use("send") + use("quick")], until=until)
    async with opened(tools.plugin, answers=["new"], store=store, resume=session) as kit:
        assert (await kit.run("something else")).text == "new"
        assert [(event.state, event.code) for event in kit.of(RunEnded)] == [
            ("interrupted", E_INTERRUPTED),
            ("completed", ""),
        ]
        assert kit.result("send").code == E_INTERRUPTED
        assert tools.ran.count("send") == 1


async def test_mode_model_and_agents_are_as_they_were(opened):
    """What was switched in the session holds when it is resumed."""
    from hilum import Mode

    def modes():
        return plugin("modes", open_session=lambda session: session.add_mode(Mode("plan")))

    store = MemoryStore()
    other = ScriptedModel(["from other"] * 2, name="scripted/other")
    async with opened(modes(), store=store, models={"other": other}, approve="readonly") as kit:
        kit.session.set(mode="plan", model="scripted/other")
        kit.session.add_agent(Profile("helper", prompt="Help.", turns=3))
        await kit.run("x", agent="helper")
        session = kit.session.id
    async with opened(
        modes(), store=store, models={"other": other}, resume=session, approve=None
    ) as kit:
        assert (kit.session.mode.name, kit.session.model, kit.session.approve) == (
            "plan",
            "scripted/other",
            "readonly",
        )
        helper = kit.session.agents["helper"]
        assert (helper.profile.prompt, helper.limit("turns")) == ("Help.", 3)
        assert [message for message in helper.conversation.messages if "from other" in str(message)]
        assert (await kit.run("y", agent="helper")).text == "from other"


async def test_resume_at_every_event_of_a_run_sends_the_same_prompts(opened):
    """Whatever event the process died after, the resumed run sends what the uninterrupted one would
    have sent.
    """
    store, tools = MemoryStore(), Tools()
    notes = plugin(
        "notes", remind=lambda results: f"{len(results)} results", gather_context=lambda: []
    )
    script = [use("read") + use("put"), use("quick"), use("put"), "done"]

    async def finish(store, session, answers):
        async with opened(tools.plugin, notes, answers=answers, store=store, resume=session) as kit:
            with kit.guard():
                for run in kit.session.resume():
                    await run.wait()
            return [request.body for request in kit.requests], kit.events

    async with opened(tools.plugin, notes, answers=script, store=store) as kit:
        await kit.run("the task")
        whole, events, session = (
            [request.body for request in kit.requests],
            list(kit.events),
            kit.session.id,
        )
    first = next(n for n, event in enumerate(events) if isinstance(event, PromptQueued))
    for upto in range(first + 1, len(events)):
        info = await store.info(session)
        copy = MemoryStore()
        log = await copy.create(SessionInfo(info.id, info.workspace))
        log.append([decode(encode(event)) for event in events[:upto]])
        await log.close()
        answered = sum(isinstance(event, ModelAnswered) for event in events[:upto])
        bodies, after = await finish(copy, session, script[answered:])
        assert bodies == whole[answered:], f"cut off after {type(events[upto - 1]).__name__}"
        assert after[-1].state == "completed"
        assert sum(isinstance(event, RunEnded) for event in after) == 1


async def test_session_in_use_cannot_be_opened_twice(bench, opened):
    """One session is written by one kernel."""
    kit = await bench(answers=["ok"], store=MemoryStore())
    with pytest.raises(StoreError, match="in use"):
        async with kit.kernel.open_session(resume=kit.session.id):
            raise AssertionError("opened twice")


async def test_failed_run_is_taken_up_by_a_new_prompt(bench, autojump_clock):
    """Work that was finished before a failure is in the next prompt's conversation."""
    from hilum import ModelError

    tools = Tools()
    answers = [use("send"), *[ModelError("down", kind="server")] * 4, "now"]
    kit = await bench(tools.plugin, answers=answers)
    assert (await kit.run("x")).state == "failed"
    assert (await kit.run("go on")).text == "now"
    assert tools.ran == ["send"]
    assert "send done" in str(kit.requests[-1].messages)
    assert [event.action for event in kit.of(ModelFailed)] == ["retry"] * 3 + ["give_up"]


async def test_fork_copies_a_session_up_to_a_point(bench):
    """The copy has its own id and future; the original does not change."""
    store = MemoryStore()
    kit = await bench(answers=["a", "b", "from the fork", "c"], store=store)
    await kit.run("one")
    point = len(kit.events)
    await kit.run("two")
    forked = await kit.kernel.fork(kit.session.id, upto=point)
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(kit.kernel.open_session(resume=forked))
        assert (await other.run("three")).text == "from the fork"
        first = other.journal.since(0)[0]
        assert (first.session, first.forked) == (forked, kit.session.id)
    assert len(kit.requests[2].messages) == 3
    assert (await kit.run("four")).text == "c"
    assert len(kit.requests[3].messages) == 5
    assert (await store.info(forked)).forked == kit.session.id


async def test_fork_in_mid_turn_goes_on_by_itself(opened):
    """A copy cut in the middle of a turn is resumed there."""
    store, tools = MemoryStore(), Tools()
    async with opened(tools.plugin, answers=[use("quick"), "done"], store=store) as kit:
        await kit.run("x")
        started = kit.of(CallStarted)[0].seq
        forked = await kit.kernel.fork(kit.session.id, upto=started)
    async with opened(
        tools.plugin, answers=["done in the fork"], store=store, resume=forked
    ) as kit:
        assert [ended.text for ended in await go_on(kit)] == ["done in the fork"]
    assert tools.ran == ["quick", "quick"]


async def test_a_prompt_that_waited_when_hilum_died_waits_until_it_is_resumed(tmp_path):
    """It was accepted, so it is not lost; but the user may have forgotten it, so it is not run."""
    async with open_bench(answers=["new answer", "old answer"], folder=tmp_path) as kit:
        kit.session.emit(PromptQueued(text="old"), kit.session.agents["main"], "old-run")
        assert (await kit.run("new")).text == "new answer"
        assert [prompt.text for prompt in kit.session.agents["main"].conversation.queue] == ["old"]
        (old,) = kit.session.resume()
        with kit.guard():
            assert (await old.wait()).text == "old answer"


@pytest.mark.parametrize("times", [1, 3])
async def test_a_failure_that_passes_is_tried_again_from_the_last_state(opened, times):
    """Retry repeats the request that failed.

    Finished calls stay finished, in another kernel, too, and so does the context.
    """
    store, tools = MemoryStore(), Tools()
    refused = [ModelError("No.", kind="auth")] * times
    async with opened(tools.plugin, answers=[use("send"), *refused], store=store) as kit:
        assert (await kit.run("the task")).code == E_LLM_AUTH
        for _ in refused[1:]:
            assert (await (await kit.session.retry()).wait()).code == E_LLM_AUTH
        session, before = kit.session.id, kit.requests
    async with opened(tools.plugin, answers=["done"], store=store, resume=session) as kit:
        assert kit.session.resume() == []
        ended = await (await kit.session.retry()).wait()
        assert (ended.state, ended.text, tools.ran) == ("completed", "done", ["send"])
        assert kit.requests[0].messages == before[-1].messages
        with pytest.raises(UsageError):
            await kit.session.retry()


async def test_an_answer_that_had_arrived_is_not_asked_for_again(opened):
    """A stop after the whole answer: the retry checks that answer and ends with it."""
    store, tools = MemoryStore(), Tools()
    checking = trio.Event()

    class Checker:
        hang = True

        @hookimpl
        async def check_answer(self):
            checking.set()
            if Checker.hang:
                await trio.sleep_forever()

    async with opened(tools.plugin, Checker(), answers=["the answer"], store=store) as kit:
        run = await kit.start("the task")
        with kit.guard():
            await checking.wait()
            run.stop()
            assert (await run.wait()).state == "stopped"
            Checker.hang = False
            ended = await (await kit.session.retry()).wait()
        assert (ended.state, ended.text) == ("completed", "the answer")
        assert len(kit.requests) == 1


async def test_prompts_of_an_earlier_process_run_only_after_they_are_resumed(bench):
    """A new prompt runs at once; the old ones stay in the queue until they are resumed or dropped."""
    kit = await bench(answers=["a", "new", "old"], store=MemoryStore())
    first = await kit.start("one")
    await kit.start("two")
    await kit.start("three")
    await first.wait()
    point = next(event.seq for event in kit.events if isinstance(event, RunEnded))
    copy = await kit.kernel.fork(kit.session.id, upto=point)
    kit.session.stop()
    kit.model.then("new", "old")
    async with kit.kernel.open_session(resume=copy) as session:
        queue = session.agents["main"].conversation.queue
        assert [prompt.text for prompt in queue] == ["two", "three"]
        with kit.guard():
            new = await session.prompt("new")
            await new.wait()
            assert not session.runs
        started = [e.text for e in session.journal.read_all() if isinstance(e, RunStarted)]
        assert started == ["one", "new"]
        queue = session.agents["main"].conversation.queue
        assert [prompt.text for prompt in queue] == ["two", "three"]
        session.stop(run=queue[0].run)
        with kit.guard():
            (old,) = session.resume()
            await old.wait()
        started = [e.text for e in session.journal.read_all() if isinstance(e, RunStarted)]
        assert started == ["one", "new", "three"]


async def test_a_fork_can_leave_out_prompts_that_had_not_started(bench):
    """A queued prompt in a copy would otherwise run before the next prompt."""
    kit = await bench(answers=["a", "b"], store=MemoryStore())
    first = await kit.start("one")
    await kit.start("two")
    await first.wait()
    point = next(event.seq for event in kit.events if isinstance(event, RunEnded))
    with_queue = await kit.kernel.fork(kit.session.id, upto=point)
    without = await kit.kernel.fork(kit.session.id, upto=point, queued=False)
    async with kit.kernel.open_session(resume=with_queue) as session:
        assert len(session.agents["main"].conversation.queue) == 1
    async with kit.kernel.open_session(resume=without) as session:
        assert not session.agents["main"].conversation.pending
        events = session.journal.read_all()
        assert [event.seq for event in events[:point]] == list(range(1, point + 1))
