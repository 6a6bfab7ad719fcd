"""``hilum agents run|results|result|retry|clear|stop`` and the same in a session."""

import json
from io import StringIO
from pathlib import Path

import hilum_agents
import hilum_files
import pytest
import trio
from hilum import Profile, UsageError
from hilum.events import ModelStarted
from hilum.testing import pause
from hilum_agents import runs
from hilum_agents.half import Agents
from hilum_agents.managing import Desk, run
from hilum_agents.runs import Runs
from hilum_agents.runs.actors import stop_file
from hilum_agents.settings import AgentsSettings


async def do(kit, *argv):
    """Run an action as it is run behind /agents; gives what it said."""
    out = StringIO()
    desk = Desk(
        Path(kit.session.workspace.root), AgentsSettings(), out, in_session=kit.session.half(Agents)
    )
    await run([*argv], desk)
    return out.getvalue()


async def test_agents_are_run_listed_shown_retried_cleared_and_stopped_in_a_session(bench):
    """One after another."""
    kit = await bench(
        hilum_agents,
        runs,
        hilum_files,
        answers=[RuntimeError("boom"), "Found it.", pause(trio.Event())],
    )
    half = kit.session.half(Runs)
    assert "explore was started as " in await do(kit, "run", "explore", "Look", "around.")
    (entry,) = half.list()
    with kit.guard():
        await half.wait(entry["agent_id"])
    assert "failed" in await do(kit, "results")
    assert "boom" in await do(kit, "result", entry["agent_id"][:5])
    with kit.guard():
        again = (await do(kit, "retry", entry["agent_id"])).split()[-1].rstrip(".")
        await kit.wait_for(ModelStarted, lambda event: event.agent == "explore")
        half.stop(again)
        await half.wait(again)
    assert json.loads(await do(kit, "result", again, "--json"))["agent_id"] == again
    assert "forgotten" in await do(kit, "clear", "explore")
    identity = half.begin(Profile("x"), "Wait.")
    assert "Stopped" in await do(kit, "stop", identity)
    with kit.guard():
        assert (await half.wait(identity))["status"] == "stopped"
    with pytest.raises(UsageError, match="No agent"):
        await do(kit, "result", "zzz")


async def test_another_process_can_ask_for_a_stop(bench, autojump_clock):
    """Seen within a second."""
    kit = await bench(runs, answers=[pause(trio.Event())])
    half = kit.session.half(Runs)
    identity = half.begin(Profile("x"), "Wait.")
    stop_file(identity).parent.mkdir(parents=True)
    stop_file(identity).touch()
    assert (await half.wait(identity))["status"] == "stopped"
    assert not stop_file(identity).exists()


async def test_a_conversation_is_forked(bench):
    """The other goes on from it; a second time is refused."""
    kit = await bench(hilum_agents, runs, hilum_files, answers=["One.", "Two."])
    half = kit.session.half(Runs)
    await half.wait(half.begin(Profile("explore"), "Hello.", keep=True))
    assert "review goes on" in await do(kit, "fork", "explore", "review")
    await half.wait(half.begin(Profile("review"), "And you.", keep=True))
    assert "Hello." in str(kit.requests[1].messages)
    with pytest.raises(UsageError, match="already"):
        await do(kit, "fork", "explore", "review")
