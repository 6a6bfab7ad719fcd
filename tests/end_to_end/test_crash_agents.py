"""SIGKILL while agents run and wait, or work in the background of another: after a restart each is
finished, none ran twice.

No result is lost, and who owns a background task is told of its end exactly once.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hilum.events import CallDone, PluginEvent, PromptQueued, RoundEnded

COUNT = 8


async def child(folder: Path, kind: str, resume: str) -> None:
    """Start the agents, or go on with them; print the session's id, and leave a mark for each call.

    Args:
        folder: Where the log, the marks and the sessions are.
        kind: ``queue`` for eight that wait their turn, ``background`` for two tasks that the main
            agent hands on.
        resume: A session to go on with.
    """
    import hilum
    from hilum import hookimpl, tool
    from hilum.testing import ModelProvider, ScriptedModel, say, use
    from hilum_agents import runs
    from hilum_agents.runs import Runs
    from hilum_store import SqliteStore

    marks = os.open(folder / "ran.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @tool(risk="execute", effect="once")
    async def act(call: hilum.Call) -> str:
        """Act."""
        await trio.sleep(0.02)
        os.write(marks, f"{call.agent.name}\n".encode())
        await trio.sleep(0.02)
        return "acted"

    class Acts:
        @hookimpl
        def provide_tools(self):  # type: ignore[no-untyped-def]
            return [act]

    async def answer(request):  # type: ignore[no-untyped-def]
        await trio.sleep(0.03)
        first = len(request.messages) == 1
        if request.agent == "main":
            here, there = (
                use("task", description=d, prompt=d, background=True) for d in ("here", "there")
            )
            return here + there if first else say("Good.")
        return use("act") if first else say(f"Did {request.messages[0].parts[0].text}")

    store = SqliteStore(folder / "sessions.db")
    settings = {"model": "scripted/m", "approve": "auto"}
    async with hilum.open_kernel([runs, Acts()], settings=settings, store=store) as kernel:
        kernel.router.replace(ModelProvider({"m": ScriptedModel([answer] * 1000)}))
        async with kernel.open_session(folder, resume=resume) as session:
            agent_runs = session.plugin(Runs)
            assert agent_runs is not None
            if kind == "queue" and not resume:
                for number in range(COUNT):
                    agent_runs.begin(hilum.Profile("worker"), f"number {number}.")
                # An agent that is not in the log yet when the process is killed was never begun.
                await session.journal.flush()
            print(session.id, flush=True)
            if resume:
                session.resume()
            if kind == "background":
                await background(session)
                return
            for entry in list(agent_runs.scheduler.jobs.by_id.values()):
                await entry.ended.wait()


async def background(session: Any) -> None:
    """Have the main agent prompted, unless it was in an earlier life, and see all of it through."""
    from hilum_agents.runs import Runs

    agent_runs, main = session.plugin(Runs), session.agents["main"]
    if not any(
        isinstance(event, PromptQueued)
        for event in await session.kernel.store.read(session.id, 0, 10**6)
    ):
        await session.run("Go.")
    while agent_runs.busy() or main.conversation.pending:  # noqa: ASYNC110 - no one event means all of it
        await trio.sleep(0.002)


def live(folder: Path, kind: str, resume: str, seconds: float | None) -> str:
    """One life of a process: killed after so many seconds, or left in peace.

    Gives the session's id.
    """
    environ = os.environ | {"HILUM_DATA": str(folder), "HILUM_CONFIG": str(folder)}
    argv = [sys.executable, __file__, str(folder), kind, resume]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stdout
        session = process.stdout.readline().strip()
        try:
            process.wait(seconds if seconds is not None else 60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert session, errors
        assert process.returncode in (0, -signal.SIGKILL), errors
    return session


async def lives(folder: Path, kind: str, dice: random.Random) -> tuple[list[Any], Counter[str]]:
    """Kill it once or twice on its way, and let it end.

    Gives its log and who has acted how often.
    """
    from hilum_store import SqliteStore

    session = ""
    for _ in range(dice.choice((1, 1, 2))):
        session = await trio.to_thread.run_sync(live, folder, kind, session, dice.uniform(0, 0.25))
    await trio.to_thread.run_sync(live, folder, kind, session, None)
    events = await SqliteStore(folder / "sessions.db").read(session, 0, 10**6)
    return list(events), Counter((folder / "ran.txt").read_text().split())


async def trial(dice: random.Random, kind: str = "queue") -> Counter[str]:
    """Judge what kills have left; gives the states of the agents."""
    with tempfile.TemporaryDirectory(prefix="agents-") as name:
        events, ran = await lives(Path(name), kind, dice)
    ours = [event for event in events if isinstance(event, PluginEvent)]
    begun = [event.data["agent_id"] for event in ours if event.name == "agents.queued"]
    ended = [event.data for event in ours if event.name == "agents.result"]
    assert len(begun) == (COUNT if kind == "queue" else 2), "one was not begun, or twice"
    assert sorted(begun) == sorted(data["agent_id"] for data in ended), (
        "a result is lost, or there twice"
    )
    assert not ran or max(ran.values()) == 1, f"something ran twice: {ran}"
    told = {
        event.agent
        for event in events
        if isinstance(event, CallDone) and event.result.code == "E_INTERRUPTED"
    }
    acted = {
        data["agent_id"]
        for data in ended
        if any(name.endswith(data["agent_id"]) for name in [*ran, *told])
    }
    assert acted == set(begun), json.dumps(sorted(set(begun) - acted))
    if kind == "background":
        notes = [
            event.text
            for event in events
            if isinstance(event, PromptQueued) and event.agent == "main"
        ]
        notes += [note for event in events if isinstance(event, RoundEnded) for note in event.notes]
        assert [sum(text.count(f"[agent {one}]") for text in notes) for one in begun] == [1, 1], (
            notes
        )
    return Counter(data["status"] for data in ended)


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("kind", ["queue", "background"])
async def test_agents_survive_a_kill(kind: str, trials: Callable[[int, int], int]) -> None:
    """At random instants."""
    dice = random.Random(20261122)
    with trio.fail_after(300):
        for _ in range(trials(1, 5)):
            states = await trial(dice, kind)
            assert set(states) == {"completed"}


if __name__ == "__main__":
    trio.run(child, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
