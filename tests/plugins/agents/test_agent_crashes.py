"""Crashes at any instant: every agent continues or is marked as interrupted.

No call runs twice, and no result is lost.
"""

import random

import pytest
import trio
import trio.testing
from hilum import Profile, StoreError, tool
from hilum.events import PluginEvent, PromptQueued, RoundEnded, RunEnded, RunStarted
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, plugin, say, use
from hilum_agents import runs
from hilum_agents.runs import Runs, scheduler

REVIEW = Profile("review")


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch):
    """The scheduler looks after a resumed session at its next tick."""
    monkeypatch.setattr(scheduler, "STATUS_INTERVAL", 0.02)


@tool(risk="execute")
async def act() -> str:
    """Act."""
    return "acted"


TOOLS = plugin("tools", provide_tools=lambda: [act])


class Dies(MemoryStore):
    """A store that takes a limited number of events, as if the process had died then."""

    def __init__(self):
        super().__init__()
        self.room = 10**9

    async def open(self, session):
        """Open a log."""
        log = await super().open(session)
        append = type(log).append

        def limited(events):
            if log.last >= self.room:
                raise StoreError("dead")
            append(log, events)

        log.append = limited
        return log


def model():
    """A model with which each agent acts once and then repeats its prompt."""

    async def answer(request):
        await trio.lowlevel.checkpoint()
        if len(request.messages) == 1:
            return use("act")
        return say(f"Did {request.messages[0].parts[0].text}")

    return [answer] * 100


async def live(folder, store, resume=""):
    """Run one life of a process and return the session's id and the events at its end."""
    kit_of = open_bench(
        runs,
        TOOLS,
        folder=folder,
        store=store,
        resume=resume,
        answers=model(),
        faults=True,
        patience=5,
    )
    identity = resume
    try:
        async with kit_of as kit:
            identity = kit.session.id
            agent_runs = kit.session.plugin(Runs)
            if resume:
                kit.session.resume()
            else:
                for number in range(8):
                    agent_runs.begin(REVIEW, f"number {number}.")
            with trio.move_on_after(5):
                for entry in list(agent_runs.scheduler.jobs.by_id.values()):
                    await entry.ended.wait()
    except* StoreError:
        pass
    return identity


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("seed", range(12))
async def test_wherever_it_dies_every_agent_ends_once(tmp_path, seed):
    """Three agents run and five wait; the process dies after any event, up to three times."""
    dice, store = random.Random(seed), Dies()
    identity = ""
    store.room = dice.randint(10, 60)
    identity = await live(tmp_path, store)
    for _ in range(dice.randint(0, 2)):
        store.room += dice.randint(10, 60)
        await live(tmp_path, store, identity)
    store.room = 10**9
    begun = {
        e.data["agent_id"]
        for e in await store.read(identity, 0, 10**6)
        if getattr(e, "name", "") == "agents.queued"
    }
    await live(tmp_path, store, identity)
    events = await store.read(identity, 0, 10**6)
    ended = [e.data for e in events if isinstance(e, PluginEvent) and e.name == "agents.result"]
    assert sorted(data["agent_id"] for data in ended) == sorted(begun)
    assert {data["status"] for data in ended} <= {"completed"}
    assert len({data["text"] for data in ended}) == len(begun)


async def test_without_a_resume_interrupted_jobs_are_marked_and_can_be_retried(tmp_path):
    """The user prompts something else; running and waiting jobs are marked."""
    store = MemoryStore()
    async with open_bench(
        runs, store=store, folder=tmp_path, answers=[pause(trio.Event())] * 3
    ) as kit:
        started = [kit.session.plugin(Runs).begin(REVIEW, f"n {n}") for n in range(4)]
        await trio.testing.wait_all_tasks_blocked()
        identity = kit.session.id
    async with open_bench(
        runs, store=store, folder=tmp_path, resume=identity, answers=["Hi.", "Done."]
    ) as kit:
        agent_runs = kit.session.plugin(Runs)
        await kit.run("Something else.")
        with kit.guard():
            results = [await agent_runs.wait(one) for one in started]
        assert {result["status"] for result in results} == {"interrupted"}
        assert {result["error"]["code"] for result in results} == {"E_INTERRUPTED"}
        # Every run has ended in the log, so that the session can be exported.
        begun = {event.run for event in kit.of(RunStarted)}
        assert begun == {event.run for event in kit.of(RunEnded)}
        again = await agent_runs.wait(await agent_runs.retry(started[0]))
        assert (again["status"], again["text"]) == ("completed", "Done.")
        assert len(kit.requests) == 2


async def test_one_that_was_being_stopped_does_not_go_on(tmp_path):
    """A job is stopped after a crash, before the session is resumed."""
    store = MemoryStore()
    async with open_bench(runs, store=store, folder=tmp_path, answers=[pause(trio.Event())]) as kit:
        one = kit.session.plugin(Runs).begin(REVIEW, "Work.")
        await trio.testing.wait_all_tasks_blocked()
        identity = kit.session.id
    async with open_bench(runs, store=store, folder=tmp_path, resume=identity) as kit:
        agent_runs = kit.session.plugin(Runs)
        agent_runs.stop(one)
        assert (await agent_runs.wait(one))["status"] == "stopped"
        ended = [await run.wait() for run in kit.session.resume()]
        assert [run.state for run in ended] == ["stopped"]
        assert sum(event.name == "agents.result" for event in kit.of(PluginEvent)) == 1
        assert not kit.requests


async def test_an_exception_on_an_event_ends_nothing(bench):
    """The exception is reported, and the agents continue."""
    broken = plugin("broken", provide_tools=lambda: [])
    kit = await bench(runs, broken, answers=["Fine."], faults=True)
    agent_runs = kit.session.plugin(Runs)
    follow, failed = agent_runs.scheduler._follow, []

    def fails(entry, event):
        if not failed:
            failed.append(event)
            raise RuntimeError("a fault")
        follow(entry, event)

    agent_runs.scheduler._follow = fails
    assert (await agent_runs.wait(agent_runs.begin(REVIEW, "Look.")))["text"] == "Fine."
    assert any("a fault" in str(fault) for fault in kit.faults)


async def background(folder, store, identity=""):
    """Run a session whose main agent has two background tasks, and return its id."""

    async def answer(request):
        await trio.lowlevel.checkpoint()
        if request.agent != "main":
            return use("act") if len(request.messages) == 1 else say("Found.")
        if len(request.messages) == 1:
            more = use("task", description="Look there", prompt="there", background=True)
            return use("task", description="Look here", prompt="here", background=True) + more
        return say("Good.")

    answers = [answer] * 50
    try:
        async with open_bench(
            runs,
            TOOLS,
            folder=folder,
            store=store,
            resume=identity,
            answers=answers,
            faults=True,
            patience=5,
        ) as kit:
            identity, agent_runs = kit.session.id, kit.session.plugin(Runs)
            main, journal = kit.session.agents["main"], kit.session.journal
            agent_runs.resume()
            if not kit.of(PromptQueued):
                await kit.start("Go.")
            with trio.move_on_after(5):
                while journal.broken is None and (agent_runs.busy() or main.conversation.pending):  # noqa: ASYNC110 - all of it
                    await trio.sleep(0.002)
    except* StoreError:
        pass
    return identity


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("first", range(4))
async def test_wherever_it_dies_the_owner_of_a_background_task_is_woken_exactly_once(
    tmp_path, first
):
    """The process dies after any event, once.

    At the end each task has one result, and its owner was notified once.
    """
    whole = MemoryStore()
    total = len(await whole.read(await background(tmp_path, whole), 0, 10**6))
    for point in range(4 + first, total, 4):
        store = Dies()
        store.room = point
        identity = await background(tmp_path, store)
        store.room = 10**9
        await background(tmp_path, store, identity)
        events = await store.read(identity, 0, 10**6)
        ours = [event for event in events if isinstance(event, PluginEvent)]
        begun = [event.data["agent_id"] for event in ours if event.name == "agents.queued"]
        ended = [event.data for event in ours if event.name == "agents.result"]
        assert len(begun) == 2, point
        assert sorted(data["agent_id"] for data in ended) == sorted(begun), point
        assert {data["status"] for data in ended} == {"completed"}, point
        told = [
            event.text
            for event in events
            if isinstance(event, PromptQueued) and event.agent == "main"
        ]
        told += [note for event in events if isinstance(event, RoundEnded) for note in event.notes]
        assert [sum(text.count(f"[agent {one}]") for text in told) for one in begun] == [1, 1], (
            point
        )
