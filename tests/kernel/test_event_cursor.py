"""Events: one ordered stream, read from any point, by any number of readers, at any speed."""

from collections import Counter
from contextlib import aclosing
from itertools import pairwise

import trio
import trio.testing
from hilum import tool
from hilum.events import FINAL, Delta, ModelStarted, RunEnded, SessionOpened, StateChanged
from hilum.testing import pause, plugin, say, use


async def test_events_are_numbered_without_gaps_and_say_whose_they_are(bench):
    """seq counts from one; events of a run carry its id and agent."""
    kit = await bench(answers=["ok"])
    run = await kit.start("x")
    with kit.guard():
        await run.wait()
    assert [event.seq for event in kit.events] == [*range(1, len(kit.events) + 1)]
    assert isinstance(kit.events[0], SessionOpened)
    inner = kit.events[kit.events.index(kit.of(StateChanged)[0]) :]
    assert {(event.agent, event.run) for event in inner} == {("main", run.id)}
    assert sorted(event.at for event in kit.events) == [event.at for event in kit.events]


async def test_states_of_a_run_are_events(bench):
    """The state machine is visible, and its last state is final."""
    kit = await bench(answers=["ok"])
    await kit.run("x")
    changes = kit.of(StateChanged)
    assert [event.state for event in changes] == ["preparing", "thinking", "completed"]
    assert changes[-1].state in FINAL
    assert all(after.previous == before.state for before, after in pairwise(changes))


async def test_reader_goes_on_after_what_it_knows(bench):
    """Whatever the point, a reader gets the rest, in order, and then what comes."""
    kit = await bench(answers=["a"] * 30)
    for _ in range(15):
        await kit.run("x")
    for after in (0, 1, 50, len(kit.events) - 1):
        seen = []
        async with trio.open_nursery() as nursery, aclosing(kit.session.events(after)) as events:
            nursery.start_soon(kit.run, "y")
            with kit.guard():
                async for event in events:
                    seen.append(event.seq)
                    if (
                        isinstance(event, RunEnded)
                        and event.seq > after + 1
                        and len(kit.events) == seen[-1] + 1
                    ):
                        break
        assert seen == [*range(after + 1, seen[-1] + 1)]


async def test_reader_of_more_than_is_kept_in_memory_misses_nothing(bench):
    """Beyond the events kept in memory the log itself is read."""
    kit = await bench(answers=[])
    for n in range(2500):
        kit.session.note("test.count", n=n)
    count = len(kit.events)
    seen = []
    async with aclosing(kit.session.events()) as events:
        async for event in events:
            seen.append(event.seq)
            if len(seen) == count:
                break
    assert seen == [*range(1, count + 1)]


async def test_readers_end_when_the_session_closes(bench):
    """A reader needs no other sign."""
    kit = await bench(answers=["ok"])
    seen = []

    async def read(session):
        async for event in session.events():
            seen.append(event)

    async with trio.open_nursery() as nursery, kit.kernel.open_session(kit.workspace) as other:
        nursery.start_soon(read, other)
        await other.run("x")
    assert isinstance(
        next(event for event in reversed(seen) if isinstance(event, RunEnded)), RunEnded
    )


async def test_late_reader_gets_the_text_so_far_then_what_is_added(bench):
    """Deltas are not stored, and nobody misses any."""
    go = trio.Event()
    kit = await bench(answers=[say("one ") + "two " + pause(go) + "three " + pause(trio.Event())])
    run = await kit.start("x")
    with kit.guard():
        await kit.model.asked(1)
        await trio.testing.wait_all_tasks_blocked()
        seen = []
        async with aclosing(kit.session.events(len(kit.events), deltas=True)) as events:
            async for event in events:
                seen.append(event)
                if len(seen) == 2:
                    break
                go.set()
        run.stop()
        await run.wait()
    started = kit.of(ModelStarted)[0]
    assert [(delta.text, delta.seq, delta.kind) for delta in seen] == [
        ("one two ", started.seq, "text"),
        ("three ", started.seq, "text"),
    ]


async def test_the_arguments_of_a_call_come_with_the_name_of_its_tool(bench):
    """A face can say what is being written; an unknown name may be a secret, and is not shown."""

    @tool(risk="read")
    async def echo(text: str) -> str:
        """Return a text."""
        return text

    calls = use("echo", text="hello") + use("sk-live-0123456789abcdef", text="x")
    kit = await bench(plugin("own", echo), answers=[calls + pause(trio.Event())])
    run = await kit.start("x")
    with kit.guard():
        await kit.model.asked(1)
        await trio.testing.wait_all_tasks_blocked()
        tools = []
        async with aclosing(kit.session.events(len(kit.events), deltas=True)) as events:
            async for event in events:
                assert event.kind == "arguments"
                tools.append(event.tool)
                if len(tools) == 2:
                    break
        run.stop()
        await run.wait()
    assert tools == ["echo", ""]


class Steps(trio.abc.Instrument):
    """Counts how often each task runs."""

    def __init__(self):
        self.counts = Counter()

    def before_task_step(self, task):
        """Count."""
        self.counts[task.name] += 1


async def test_output_wakes_only_readers_of_output(bench):
    """A model streams hundreds of pieces, and many plugins follow the events."""
    kit = await bench(answers=[])
    journal = kit.session.journal
    seen = {"events": [], "output": []}

    async def read(name):
        async for item in kit.session.events(journal.last, deltas=name == "output"):
            seen[name].append(item)

    steps = Steps()
    with kit.guard():
        async with trio.open_nursery() as nursery:
            for name in seen:
                nursery.start_soon(read, name, name=name)
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.add_instrument(steps)
            for _ in range(20):
                journal.delta((journal.last, "text", ""), "main", "r", "x")
                await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.remove_instrument(steps)
            nursery.cancel_scope.cancel()
    assert "".join(delta.text for delta in seen["output"]) == "x" * 20
    assert steps.counts["output"] >= 20
    assert steps.counts["events"] == 0


async def test_a_reader_of_some_kinds_is_woken_by_these_only(bench):
    """A turn writes six events, and most plugins follow one kind. None is missed, even if more
    than the memory keeps was written in between.
    """
    kit = await bench(answers=["one", "two"])
    seen = []

    async def read():
        async for event in kit.session.events(kit.session.journal.last, kinds=(RunEnded,)):
            seen.append(event.text)

    steps = Steps()
    with kit.guard():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, name="reader")
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.add_instrument(steps)
            for number in range(2500):
                kit.session.note("test.count", n=number)
                if number % 100 == 0:
                    await trio.testing.wait_all_tasks_blocked()
            assert steps.counts["reader"] == 0
            await kit.run("x")
            kit.session.note("test.count", n=0)
            await kit.run("y")
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.remove_instrument(steps)
            nursery.cancel_scope.cancel()
    assert seen == ["one", "two"]
    assert steps.counts["reader"] <= 3


async def test_a_reader_of_some_kinds_reads_earlier_events_and_ends_with_the_session(bench):
    """A plugin may open after the events that it is for."""
    kit = await bench(answers=["one", "two"])
    await kit.run("x")
    for number in range(1200):
        kit.session.note("test.count", n=number)
    seen = []

    async def read(session):
        async for event in session.events(kinds=(RunEnded, SessionOpened)):
            seen.append(type(event))

    with kit.guard():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, kit.session)
            await trio.testing.wait_all_tasks_blocked()
            assert seen == [SessionOpened, RunEnded]
            nursery.cancel_scope.cancel()
        seen.clear()
        async with trio.open_nursery() as nursery, kit.kernel.open_session(kit.workspace) as other:
            nursery.start_soon(read, other)
            await other.run("y")
    assert seen == [SessionOpened, RunEnded]


async def test_reader_without_deltas_sees_none(bench):
    """Output on its way is asked for, or left out."""
    kit = await bench(answers=["ok"])
    await kit.run("x")
    stream = []
    async with aclosing(kit.session.events()) as events:
        async for event in events:
            stream.append(event)
            if isinstance(event, RunEnded):
                break
    assert not [event for event in stream if isinstance(event, Delta)]


async def test_a_dropped_prompt_takes_no_text_from_the_answer_to_another(bench):
    """Only the output of the run that ended is dropped, even if nobody has read it yet."""
    go = trio.Event()
    kit = await bench(answers=[say("one ") + pause(go) + "two " + pause(trio.Event())])
    run = await kit.start("x")
    with kit.guard():
        await kit.model.asked(1)
        await trio.testing.wait_all_tasks_blocked()
        queued = await kit.session.prompt("y")
        # No reader runs between the text and the end of the queued prompt.
        queued.stop()
        go.set()
        await trio.testing.wait_all_tasks_blocked()
        async with aclosing(kit.session.events(len(kit.events), deltas=True)) as events:
            async for event in events:
                assert event.text == "one two "
                break
        run.stop()
        assert (await run.wait()).unfinished == "one two"
