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
from hilum_agents.agents import Agents
from hilum_agents.command_context import CommandContext
from hilum_agents.dispatch import run
from hilum_agents.runs import Runs
from hilum_agents.runs.pool import stop_file
from hilum_agents.settings import AgentsSettings


async def do(kit, *argv):
    """Run an action of ``/agents`` and return its output."""
    out = StringIO()
    context = CommandContext(
        Path(kit.session.workspace.root),
        AgentsSettings(),
        out,
        in_session=kit.session.plugin(Agents),
    )
    await run([*argv], context)
    return out.getvalue()


async def test_agents_are_run_listed_shown_retried_cleared_and_stopped_in_a_session(bench):
    """The agents run one after another."""
    kit = await bench(
        hilum_agents,
        runs,
        hilum_files,
        answers=[RuntimeError("boom"), "Found it.", pause(trio.Event())],
    )
    agent_runs = kit.session.plugin(Runs)
    assert "explore was started as " in await do(kit, "run", "explore", "Look", "around.")
    (entry,) = agent_runs.list()
    with kit.guard():
        await agent_runs.wait(entry["agent_id"])
    assert "failed" in await do(kit, "results")
    assert "boom" in await do(kit, "result", entry["agent_id"][:5])
    with kit.guard():
        again = (await do(kit, "retry", entry["agent_id"])).split()[-1].rstrip(".")
        await kit.wait_for(ModelStarted, lambda event: event.agent == "explore")
        agent_runs.stop(again)
        await agent_runs.wait(again)
    assert json.loads(await do(kit, "result", again, "--json"))["agent_id"] == again
    assert "was deleted" in await do(kit, "clear", "explore")
    identity = agent_runs.begin(Profile("x"), "Wait.")
    assert "Stopped" in await do(kit, "stop", identity)
    with kit.guard():
        assert (await agent_runs.wait(identity))["status"] == "stopped"
    with pytest.raises(UsageError, match="No agent"):
        await do(kit, "result", "zzz")


@pytest.mark.parametrize("names", ["", " ", ",", "explore,"])
async def test_an_empty_name_is_no_agent(bench, names):
    """It comes from a variable without a value."""
    kit = await bench(hilum_agents, runs, answers=[])
    with pytest.raises(UsageError, match="empty name"):
        await do(kit, "run", names, "Look.")


async def test_another_process_can_ask_for_a_stop(bench, autojump_clock):
    """The request is taken within a second."""
    kit = await bench(runs, answers=[pause(trio.Event())])
    agent_runs = kit.session.plugin(Runs)
    identity = agent_runs.begin(Profile("x"), "Wait.")
    stop_file(identity).parent.mkdir(parents=True)
    stop_file(identity).touch()
    assert (await agent_runs.wait(identity))["status"] == "stopped"
    assert not stop_file(identity).exists()


async def test_a_conversation_is_forked(bench):
    """The other agent continues from the copy; a second fork is an error."""
    kit = await bench(hilum_agents, runs, hilum_files, answers=["One.", "Two."])
    agent_runs = kit.session.plugin(Runs)
    await agent_runs.wait(agent_runs.begin(Profile("explore"), "Hello.", keep=True))
    assert "review continues" in await do(kit, "fork", "explore", "review")
    await agent_runs.wait(agent_runs.begin(Profile("review"), "And you.", keep=True))
    assert "Hello." in str(kit.requests[1].messages)
    with pytest.raises(UsageError, match="already"):
        await do(kit, "fork", "explore", "review")
