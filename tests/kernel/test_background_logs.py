"""A log that writes in the background: nothing is shown, acknowledged or done before it is written."""

from random import Random

import pytest
import trio
from hilum import Call, tool
from hilum.errors import StoreError
from hilum.events import (
    CallStarted,
    Delta,
    ModelAnswered,
    ModelStarted,
    PluginEvent,
    PromptQueued,
    RunEnded,
    StateChanged,
)
from hilum.journal import CLOSE_TIMEOUT, DELAY_SHOWN, report_delays
from hilum.testing import open_bench, plugin, say, use
from slow_store import SlowStore


class Effects:
    """Tools that check, when they run, that their start is in the log for good."""

    def __init__(self, store):
        self.ran = []
        self.cancelled = 0
        self.wrong = []

        def check(call):
            [log] = store.logs
            started = [event for event in log.read(0, 10_000) if isinstance(event, CallStarted)]
            [mine] = [event for event in started if event.call.id == call.id]
            self.ran.append(call.name)
            if mine.seq > log.durable:
                self.wrong.append(call)

        @tool(risk="write", effect="once")
        async def send(call: Call) -> str:
            """Send."""
            check(call)
            return "sent"

        @tool(risk="write", effect="idempotent")
        async def put(call: Call) -> str:
            """Put."""
            check(call)
            await trio.lowlevel.checkpoint()
            return "put"

        @tool(risk="read", effect="pure")
        async def look(call: Call) -> str:
            """Look."""
            self.ran.append("look")
            call.emit("looking")
            await trio.sleep(0.01)
            return "seen"

        @tool(risk="read", effect="pure")
        async def hang() -> str:
            """Hang."""
            self.ran.append("hang")
            try:
                await trio.sleep_forever()
            finally:
                self.cancelled += 1

        self.plugin = plugin("effects", send, put, look, hang)


async def write_all(store):
    """Write everything as soon as it comes, until cancelled."""
    while True:
        for log in store.logs:
            log.write(len(log.batches))
        await trio.sleep(0.001)


def any_of(kit, kind):
    """Whether the log has such an event, written or not."""
    return any(isinstance(event, kind) for event in kit.session.journal.since(0))


def is_start(event):
    """Whether a call begins."""
    return isinstance(event, CallStarted)


async def write_until(log, condition):
    """Write one transaction after another until something is in the queue."""
    for _ in range(10_000):
        await trio.sleep(0.01)
        if condition():
            return
        log.write()
    raise AssertionError("It never came.")


async def until(condition):
    """Let the session work until something holds."""
    for _ in range(10_000):
        if condition():
            return
        await trio.sleep(0.01)
    raise AssertionError("It never held.")


@pytest.mark.parametrize("seed", range(60))
async def test_random_histories(seed, autojump_clock):
    """Whatever a log does, readers, tools, prompts and waiters are never ahead of it, and the order
    is kept. A log that fails ends the runs with its error, and the kernel closes in order.
    """
    random = Random(seed)
    fails_after = random.choice([None, None, random.randrange(1, 40)])
    names = ["send", "put", "look"]
    answers = [
        sum((use(random.choice(names)) for _ in range(random.randrange(1, 4))), say("Now"))
        for _ in range(random.randrange(0, 4))
    ]
    answers.append(say("All of it is done."))
    store = SlowStore()
    effects = Effects(store)
    shown = []
    problems = []

    async def write(log):
        steps = 0
        while fails_after is None or steps < fails_after:
            await trio.sleep(random.choice([0, 0.001, 0.2]))
            if log.batches:
                steps += 1
                log.write(random.randrange(1, 4))
        log.fail()

    async def read(session, deltas):
        [log] = store.logs
        async for item in session.events(deltas=deltas):
            if item.seq > log.durable:
                problems.append(item)
            if not isinstance(item, Delta):
                shown.append(item.seq)
            await trio.sleep(random.choice([0, 0, 0.01]))

    error = None
    async with trio.open_nursery() as nursery:
        async with open_bench(effects.plugin, answers=answers, store=store, approve="auto") as kit:
            [log] = store.logs
            nursery.start_soon(write, log)
            nursery.start_soon(read, kit.session, True)
            try:
                run = await kit.session.prompt("x")
                queued = [
                    e.seq for e in kit.session.journal.since(0) if isinstance(e, PromptQueued)
                ]
                assert log.durable >= queued[0]
                if random.random() < 0.3:
                    await trio.sleep(random.random() / 10)
                    run.stop()
                ended = await run.wait()
                assert ended.seq <= log.durable
                assert ended.unfinished == "" or ended.state == "stopped"
            except StoreError as caught:
                error = caught
                with pytest.raises(StoreError):
                    await kit.session.prompt("y")
            assert error is None or kit.session.journal.broken is error
            assert not kit.session.runs or error
        nursery.cancel_scope.cancel()
    assert problems == []
    assert effects.wrong == []
    assert shown == list(range(1, len(shown) + 1))
    assert (error is None) or fails_after is not None


async def test_output_waits_for_its_event_and_stays_until_the_next(autojump_clock):
    """Streamed text appears when its request is written, and does not vanish before the whole answer
    can be shown in its place.
    """
    store = SlowStore()
    effects = Effects(store)
    async with open_bench(effects.plugin, answers=["The answer."], store=store) as kit:
        [log] = store.logs
        journal = kit.session.journal
        log.write(100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.session.prompt, "x")
            await write_until(log, lambda: any_of(kit, ModelStarted))
            assert not any_of(kit, ModelAnswered)
            while log.batches:
                log.write()
            await until(lambda: any_of(kit, ModelAnswered))
            [answered] = [e for e in journal.since(0) if isinstance(e, ModelAnswered)]
            assert journal.durable_since(0)[-1].seq < answered.seq
            assert journal.read_answer("main") == ""  # it is complete
            reader = kit.session.events(log.durable, deltas=True)
            seen = []
            while not any(isinstance(item, Delta) for item in seen):
                seen.append(await anext(reader))
            assert seen[-1].text == "The answer."
            log.write(100)
            while not isinstance(seen[-1], RunEnded):
                log.write(100)
                seen.append(await anext(reader))
            assert not journal.streams
        log.write(100)
        nursery.cancel_scope.cancel()


async def test_request_and_call_with_an_effect_wait_for_the_log(autojump_clock):
    """A call that only reads runs meanwhile; one that is stopped while it waits never runs."""
    store = SlowStore()
    effects = Effects(store)
    answers = [use("look"), use("send"), "done"]
    async with open_bench(effects.plugin, answers=answers, store=store, approve="auto") as kit:
        [log] = store.logs
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.session.prompt, "x")
            await write_until(log, lambda: any_of(kit, ModelStarted))
            await trio.sleep(60)
            assert not any_of(kit, ModelAnswered)
            await write_until(log, lambda: any_of(kit, ModelAnswered))
            await trio.sleep(60)
            assert effects.ran == ["look"]
            assert sum(isinstance(e, ModelStarted) for e in kit.session.journal.since(0)) == 2
            await write_until(
                log,
                lambda: (
                    [e.call.name for e in kit.session.journal.since(0) if is_start(e)]
                    == ["look", "send"]
                ),
            )
            await trio.sleep(60)
            kit.session.stop()
            await trio.sleep(1)
            log.write(100)
        assert effects.ran == ["look"]
        log.write(100)
        assert kit.session.agents["main"].conversation.state == "stopped"


async def test_fenced_log_cancels_running_calls_at_once(autojump_clock):
    """A call that would run for hours is cancelled when another process has taken the session."""
    store = SlowStore()
    effects = Effects(store)
    async with open_bench(effects.plugin, answers=[use("hang")], store=store) as kit:
        [log] = store.logs
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_all, store)
            run = await kit.session.prompt("x")
            await until(lambda: effects.ran == ["hang"])
            log.fail()
            began = trio.current_time()
            with pytest.raises(StoreError, match="Another process has the session") as caught:
                await run.wait()
            assert trio.current_time() - began < 1
            assert effects.cancelled == 1
            assert caught.value.hint
            nursery.cancel_scope.cancel()
        assert [event.seq async for event in kit.session.events()] == list(
            range(1, log.durable + 1)
        )


async def test_cancelled_prompt_does_not_run(autojump_clock):
    """Who gives up while the log is away leaves no run behind that goes on unseen."""
    store = SlowStore()
    effects = Effects(store)
    answers = [use("send"), "done"]
    async with open_bench(effects.plugin, answers=answers, store=store, approve="auto") as kit:
        with trio.move_on_after(5) as scope:
            await kit.session.run("x")
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_all, store)
            await until(lambda: not kit.session.runs)
            nursery.cancel_scope.cancel()
        assert effects.ran == []
        ends = [e for e in kit.session.journal.since(0) if isinstance(e, RunEnded)]
        assert [event.state for event in ends] == ["stopped"]


async def test_state_and_event_are_shown_together(autojump_clock):
    """An event and its change of state are one transaction, so a reader never has one alone."""
    store = SlowStore()
    effects = Effects(store)
    async with open_bench(effects.plugin, answers=["done"], store=store) as kit:
        [log] = store.logs
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.session.prompt, "x")
            await trio.sleep(1)
            while log.batches:
                log.write()
                events = kit.session.journal.durable_since(0)
                follower = kit.session.journal.since(events[-1].seq)[:1]
                assert not (follower and isinstance(follower[0], StateChanged))
                await trio.sleep(0.01)


async def test_closing_session_waits_for_its_events_but_not_for_ever(autojump_clock):
    """Closing writes what is queued; if the log stays away, it closes with what it has."""
    store = SlowStore()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        async with open_bench(answers=["done"], store=store):
            [log] = store.logs
            nursery.start_soon(write_all, store)
        nursery.cancel_scope.cancel()
    assert log.closed_with == log.last
    assert trio.current_time() - began < 1
    away = SlowStore()
    began = trio.current_time()
    async with open_bench(answers=["done"], store=away):
        pass
    [log] = away.logs
    assert log.closed_with == 0
    assert CLOSE_TIMEOUT <= trio.current_time() - began < CLOSE_TIMEOUT + 5


async def test_user_learns_of_a_delay_and_of_its_end(autojump_clock):
    """A short delay is not worth a word; a long one is told once, with its end."""
    store = SlowStore()
    told = []
    async with open_bench(store=store) as kit, trio.open_nursery() as nursery:
        [log] = store.logs
        nursery.start_soon(report_delays, kit.session.journal, told.append)
        away = StoreError("The database is away.", hint="Start it.")
        for seconds in (DELAY_SHOWN / 2, 60.0):
            log.delay = away
            log.write(0)
            await trio.sleep(seconds)
            log.delay = None
            log.write(100)
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert told == [away, None]


async def test_a_reader_of_some_kinds_gets_each_event_when_it_is_written():
    """Several events of its kinds may wait in the queue; others between them do not matter."""
    store = SlowStore()
    async with open_bench(store=store) as kit:
        [log] = store.logs
        log.write(len(log.batches))
        before = log.last
        seen = []

        async def read():
            async for event in kit.session.events(before, kinds=(PluginEvent,)):
                seen.append(event.data["n"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number in range(3):
                kit.session.note("test.count", n=number)
                kit.session.approve = "auto" if number % 2 else "ask_first"
                await trio.testing.wait_all_tasks_blocked()
            assert seen == []
            while log.batches:
                log.write(1)
                await trio.testing.wait_all_tasks_blocked()
                written = [each for each in log.read(0, 1000) if each.seq <= log.durable]
                assert seen == [each.data["n"] for each in written if isinstance(each, PluginEvent)]
            assert seen == [0, 1, 2]
            nursery.cancel_scope.cancel()
