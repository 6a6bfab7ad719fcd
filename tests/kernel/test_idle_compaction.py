"""Compactions of an agent that has nothing to do: made at once, told even when they change nothing, and
harmless to cut off.
"""

import pytest
import trio
from hilum import Compaction
from hilum.events import (
    Compacted,
    ErrorRaised,
    PromptFrozen,
    PromptQueued,
    RunEnded,
    RunRetried,
    RunStarted,
)
from hilum.messages import NoteMessage, Text, UserMessage
from hilum.state import Conversation
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, pause, plugin
from hilum.testing.models import JsonWire
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked


async def test_a_compaction_of_an_agent_at_rest_is_made_at_once(bench):
    """No prompt is needed.

    The next one goes on from the summary, and neither is a run begun nor the phase changed.
    """

    def trim_context(agent, messages):
        assert agent.conversation.run is None
        return Compaction(
            len(messages) - 1, f"Short: {agent.conversation.compaction_requested.focus}."
        )

    model = ScriptedModel(["a", "b"])
    kit = await bench(plugin("memory", trim_context=trim_context), model=model)
    await kit.run("x" * 2_000)
    kit.session.compact(focus="tests")
    compacted = await kit.wait_for(Compacted)
    conversation = kit.session.agents["main"].conversation
    assert (compacted.cause, compacted.upto, compacted.run) == ("asked", 1, "")
    assert (conversation.phase, conversation.state, conversation.compaction_requested) == (
        "idle",
        "completed",
        None,
    )
    assert conversation.messages[0] == NoteMessage("Short: tests.")
    await kit.run("y")
    assert model.requests[-1].messages[0] == NoteMessage("Short: tests.")
    assert [sealed.cause for sealed in kit.of(PromptFrozen)] == ["run", "run"]
    assert len(kit.of(Compacted)) == 1


async def test_a_compaction_at_rest_that_finds_nothing_to_cut_says_so_once(bench):
    """Before the first prompt, and where nobody knows how to cut well what fits."""
    kit = await bench(answers=["a"])
    kit.session.compact()
    await wait_all_tasks_blocked()
    await kit.run("x")
    kit.session.compact()
    await wait_all_tasks_blocked()
    assert [(event.upto, event.summary, event.cause) for event in kit.of(Compacted)] == [
        (0, "", "asked")
    ] * 2
    assert kit.session.agents["main"].conversation.compaction_requested is None


async def test_a_compaction_that_is_asked_for_while_the_last_answer_comes_is_made_after_it(bench):
    """It waits for the run's next request; when there is none, it is made at its end."""

    def check_answer(agent):
        agent.session.compact()

    memory = plugin("memory", trim_context=lambda messages: Compaction(len(messages) - 1, "Short."))
    kit = await bench(memory, plugin("asking", check_answer=check_answer), answers=["a"])
    await kit.run("x" * 2_000)
    await kit.wait_for(Compacted)
    names = [type(event) for event in kit.events]
    assert names.index(RunEnded) < names.index(Compacted)


async def test_a_prompt_during_a_compaction_at_rest_waits_for_it_and_keeps_what_the_face_knew(
    bench,
):
    go, seen = trio.Event(), []

    async def trim_context(messages):
        await go.wait()
        return Compaction(len(messages) - 1, "Short.")

    kit = await bench(
        plugin(
            "memory",
            trim_context=trim_context,
            gather_context=lambda request: seen.append(request.state) or [],
        ),
        answers=["a", "b", "c"],
    )
    await kit.run("x" * 2_000)
    kit.session.compact()
    await wait_all_tasks_blocked()
    runs = [await kit.session.prompt(text, state={"active_file": f"{text}.py"}) for text in "yz"]
    go.set()
    for run in runs:
        await run.wait()
    names = [type(event) for event in kit.events if isinstance(event, Compacted | RunStarted)]
    assert names == [RunStarted, Compacted, RunStarted, RunStarted]
    assert seen == [{}, {"active_file": "y.py"}, {"active_file": "z.py"}]


async def test_a_compaction_at_rest_can_be_stopped(bench):
    """Nothing was cut then, and it is not tried again."""

    async def trim_context():
        await trio.sleep_forever()

    kit = await bench(plugin("memory", trim_context=trim_context), answers=["a", "b"])
    await kit.run("x")
    kit.session.compact()
    await wait_all_tasks_blocked()
    kit.session.stop()
    await wait_all_tasks_blocked()
    assert [(event.upto, event.thinned) for event in kit.of(Compacted)] == [(0, {})]
    assert (await kit.run("y")).state == "completed"


@pytest.mark.parametrize("asked_again", [False, True])
async def test_a_compaction_that_a_crash_cut_off_is_made_when_the_session_goes_on(
    tmp_path, asked_again
):
    """Not before: a session that is only opened writes nothing by itself."""
    store, there = MemoryStore(), trio.Event()

    async def hang():
        there.set()
        await trio.sleep_forever()

    async with open_bench(
        plugin("memory", trim_context=hang), answers=["a"], store=store, folder=tmp_path
    ) as kit:
        await kit.run("x" * 2_000)
        kit.session.compact(focus="tests")
        await there.wait()
        session = kit.session.id

    def trim_context(agent, messages):
        return Compaction(
            len(messages) - 1, f"Short: {agent.conversation.compaction_requested.focus}."
        )

    memory = plugin("memory", trim_context=trim_context)
    async with open_bench(
        memory, answers=["b"], store=store, resume=session, folder=tmp_path
    ) as kit:
        await wait_all_tasks_blocked()
        assert kit.of(Compacted) == []
        if asked_again:
            kit.session.compact(focus="names")
        else:
            assert kit.session.resume() == []
        assert (
            await kit.wait_for(Compacted)
        ).summary == f"Short: {'names' if asked_again else 'tests'}."
        assert (await kit.run("y")).text == "b"


async def test_asking_for_a_compaction_starts_no_run_that_a_crash_cut_off(tmp_path):
    """That is for ``resume``; the compaction is made then, before the next request."""
    store = MemoryStore()
    async with open_bench(answers=[pause(trio.Event())], store=store, folder=tmp_path) as kit:
        await kit.start("x" * 2_000)
        await kit.model.asked(1)
        session = kit.session.id
    async with open_bench(answers=["b"], store=store, resume=session, folder=tmp_path) as kit:
        kit.session.compact()
        await wait_all_tasks_blocked()
        assert kit.requests == []
        (run,) = kit.session.resume()
        assert (await run.wait()).text == "b"


async def test_a_fault_in_a_compaction_at_rest_is_told_and_the_session_goes_on(bench):
    """Here of the gateway, whose text of the conversation the compaction measures."""

    class Brittle(JsonWire):
        broken = False

        def message(self, message):
            if self.broken:
                raise ZeroDivisionError
            return super().message(message)

    brittle = Brittle()

    class Bad(ScriptedModel):
        wire = property(lambda self: brittle)

    model = Bad(["a", "b"])
    kit = await bench(model=model)
    await kit.run("x")
    brittle.broken = True
    kit.session.compact()
    assert (await kit.wait_for(Compacted)).upto == 0
    brittle.broken = False
    assert [event.message for event in kit.of(ErrorRaised)] == [
        "The conversation was not compacted: ZeroDivisionError()"
    ]
    assert (await kit.run("y")).state == "completed"


ENDS = [
    ("stopped", ""),
    ("timed_out", "E_TIMEOUT"),
    ("failed", "E_LLM_FAIL"),
    ("completed", ""),
    ("failed", "E_PLUGIN"),
]
STEP = st.one_of(
    st.tuples(st.just("run"), st.sampled_from(ENDS), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.integers(0, 12), st.booleans()),
    st.tuples(st.just("queued prompt is stopped")),
    st.tuples(st.just("retry"), st.sampled_from(ENDS), st.integers(0, 3)),
)


@given(st.lists(STEP, max_size=12))
def test_what_may_be_retried_keeps_its_request(steps):
    """Whatever is compacted between the end of a run and its retry: the request is there, and known
    to be it.
    """
    conversation, wanted, count = Conversation(), None, 0
    for step in steps:
        count += 1
        identity = f"run-{count}"
        if step[0] == "compact":
            conversation.apply(
                Compacted(upto=min(step[1], len(conversation.messages)), summary="so far" * step[2])
            )
            continue
        if step[0] == "queued prompt is stopped":
            conversation.apply(PromptQueued(run=identity, text="never begun"))
            conversation.apply(RunEnded(run=identity, state="stopped"))
            continue
        if step[0] == "run":
            wanted = UserMessage((Text(f"request {count}", "user"),))
            conversation.apply(RunStarted(run=identity, text="x", message=wanted))
        elif conversation.retryable and wanted is not None and wanted in conversation.messages:
            conversation.apply(RunRetried(run=identity, previous=""))
        else:
            continue
        assert conversation.messages[conversation.request] == wanted
        for turn in range(step[2]):
            conversation.messages.append(NoteMessage(f"turn {turn}"))
        (state, code) = step[1]
        conversation.apply(RunEnded(run=identity, state=state, code=code))
        if conversation.retryable:
            assert conversation.messages[conversation.request] == wanted
    if conversation.retryable and wanted is not None and conversation.kept_request is not None:
        assert conversation.messages[conversation.kept_request] == wanted


@pytest.mark.parametrize("ended", ENDS[:3])
def test_a_run_that_is_retried_after_a_compaction_has_its_request(ended):
    """The compaction takes the whole conversation but what was asked."""
    request = UserMessage((Text("the request", "user"),))
    conversation = Conversation()
    conversation.apply(RunStarted(run="one", text="x", message=request))
    conversation.apply(RunEnded(run="one", state=ended[0], code=ended[1]))
    conversation.apply(Compacted(upto=1, summary="so far"))
    conversation.apply(RunRetried(run="two", previous="one"))
    assert conversation.messages == [NoteMessage("so far"), request]
    assert conversation.request == 1
