"""SIGKILL while three agents run and five wait: after a restart each is finished, none ran twice, no result is lost."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import trio
from hilum.events import CallDone, PluginEvent

COUNT = 8


async def child(folder: Path, resume: str) -> None:
    """Start the agents, or go on with them; print the session's id, and leave a mark for each call."""
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
        return use("act") if len(request.messages) == 1 else say(f"Did {request.messages[0].parts[0].text}")

    store = SqliteStore(folder / "sessions.db")
    settings = {"model": "scripted/m", "approve": "auto"}
    async with hilum.open_kernel([runs, Acts()], settings=settings, store=store) as kernel:
        kernel.router.replace(ModelProvider({"m": ScriptedModel([answer] * 1000)}))
        async with kernel.open_session(folder, resume=resume) as session:
            half = session.half(Runs)
            assert half is not None
            if resume:
                session.resume()
            else:
                for number in range(COUNT):
                    half.begin(hilum.Profile("worker"), f"number {number}.")
            print(session.id, flush=True)
            for entry in list(half.scheduler.ledger.entries.values()):
                await entry.ended.wait()


def live(folder: Path, resume: str, seconds: float | None) -> str:
    """One life of a process: killed after so many seconds, or left in peace; gives the session's id."""
    environ = os.environ | {"HILUM_DATA": str(folder), "HILUM_CONFIG": str(folder)}
    argv = [sys.executable, __file__, str(folder), resume]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
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


async def trial(dice: random.Random) -> Counter[str]:
    """Kill it once or twice on its way, let it end, and judge what is left; gives the states of the agents."""
    from hilum_store import SqliteStore

    with tempfile.TemporaryDirectory(prefix="agents-") as name:
        folder, session = Path(name), ""
        for _ in range(dice.choice((1, 1, 2))):
            session = await trio.to_thread.run_sync(live, folder, session, dice.uniform(0, 0.25))
        await trio.to_thread.run_sync(live, folder, session, None)
        events = await SqliteStore(folder / "sessions.db").read(session, 0, 10**6)
        ran = Counter((folder / "ran.txt").read_text().split())
    ours = [event for event in events if isinstance(event, PluginEvent)]
    begun = [event.data["agent_id"] for event in ours if event.name == "agents.queued"]
    ended = [event.data for event in ours if event.name == "agents.result"]
    assert sorted(begun) == sorted(data["agent_id"] for data in ended), "a result is lost, or there twice"
    assert max(ran.values()) == 1, f"something ran twice: {ran}"
    told = {event.agent for event in events if isinstance(event, CallDone) and event.result.code == "E_INTERRUPTED"}
    missing = {f"worker-{identity}" for identity in begun} - set(ran)
    assert missing <= told, json.dumps(sorted(missing - told))
    return Counter(data["status"] for data in ended)


async def test_agents_that_ran_and_waited_survive_a_kill() -> None:
    """At random instants."""
    dice = random.Random(20261122)
    with trio.fail_after(300):
        for _ in range(5):
            states = await trial(dice)
            assert set(states) == {"completed"}


if __name__ == "__main__":
    trio.run(child, Path(sys.argv[1]), sys.argv[2])
