"""Agents that run side by side: started, queued, watched and stopped, with stored results."""

from collections import Counter
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
import trio
from hilum import Profile, UsageError, tool
from hilum.events import ApprovalAsked, CallStarted, Delta, ErrorRaised, ModelStarted, PluginEvent
from hilum.testing import pause, plugin, say, use
from hilum_agents import runs
from hilum_agents.runs import Runs

REVIEW = Profile("review", prompt="You review.", turns=4)


@tool(risk="read", effect="pure")
async def linger() -> None:
    """Never end."""
    await trio.sleep_forever()


@tool(risk="execute")
async def act() -> str:
    """Act."""
    return "acted"


TOOLS = plugin("tools", provide_tools=lambda: [linger, act])


def agent_runs(kit) -> Runs:
    """Return the plugin under test."""
    return kit.session.plugin(Runs)


def told(kit, name, identity=""):
    """Return the data of our events of one name."""
    found = [event.data for event in kit.of(PluginEvent) if event.name == f"agents.{name}"]
    return [data for data in found if data["agent_id"] == (identity or data["agent_id"])]


async def test_a_start_returns_an_id_and_writes_a_status_at_once(bench):
    """Both exist before any other task runs."""
    kit = await bench(runs, answers=["Fine."])
    identity = agent_runs(kit).begin(REVIEW, "Look at a.py.")
    assert told(kit, "status", identity)[0] == {
        "agent_id": identity, "status": "queued", "progress": 0.0, "current_step": "Begins now.", "place": 0,
    }  # fmt: skip
    result = await agent_runs(kit).wait(identity)
    assert (result["status"], result["text"], result["turns"], result["error"]) == (
        "completed",
        "Fine.",
        1,
        None,
    )
    states = [data["status"] for data in told(kit, "status", identity)]
    assert states[0] == "queued"
    assert states[-1] == "completed"
    assert "running" in states
    assert agent_runs(kit).status(identity[:6])["progress"] == 1.0


async def test_status_comes_each_second_and_progress_never_falls(bench, autojump_clock):
    """The clock is that of trio."""
    kit = await bench(runs, TOOLS, answers=[use("act"), say("Still") + pause(10.0) + say(" here.")])
    identity = agent_runs(kit).begin(REVIEW, "Look.")
    await agent_runs(kit).wait(identity)
    status = told(kit, "status", identity)
    assert len(status) >= 12
    shares = [data["progress"] for data in status]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert any("Running act" in data["current_step"] for data in status)
    assert "waiting_for_tool" in [data["status"] for data in status]


async def test_output_is_reported_as_text_code_and_tool_calls(bench, autojump_clock):
    """The joined chunks are the model's answer."""
    answer = "Look:\n```python\nprint(1)\n```\nThat is all."
    first = say("I act. ") + use("act")
    kit = await bench(runs, TOOLS, answers=[first, say(answer[:9]) + pause(2.0) + say(answer[9:])])
    identity = agent_runs(kit).begin(REVIEW, "Say.")
    await agent_runs(kit).wait(identity)
    output = [(data["chunk_type"], data["chunk"]) for data in told(kit, "output", identity)]
    assert output[:2] == [("text", "I act. "), ("tool_call", "act {}")]
    assert "".join(chunk for kind, chunk in output[2:]) == answer
    assert (
        "".join(chunk for kind, chunk in output if kind == "code") == "```python\nprint(1)\n```\n"
    )
    assert told(kit, "tool_call", identity) == [
        {"agent_id": identity, "tool": "act", "arguments": "{}"}
    ]
    assert {"level": "info", "message": "act is done."}.items() <= told(kit, "log", identity)[
        0
    ].items()


async def test_at_most_three_run_at_once_and_the_queue_moves(bench, autojump_clock):
    """Places are reported and decrease."""
    kit = await bench(runs, answers=[say("Done.") + pause(5.0)] * 8)
    started = [agent_runs(kit).begin(REVIEW, f"Number {n}.") for n in range(8)]
    assert [agent_runs(kit).status(one)["place"] for one in started] == [0, 0, 0, 1, 2, 3, 4, 5]
    for one in started:
        await agent_runs(kit).wait(one)
    assert trio.current_time() == pytest.approx(15, abs=0.5)
    places = [data["place"] for data in told(kit, "status", started[7]) if "place" in data]
    assert places == sorted(places, reverse=True)
    ended = [data["agent_id"] for data in told(kit, "result")]
    assert [set(ended[n : n + 3]) for n in (0, 3, 6)] == [
        set(started[n : n + 3]) for n in (0, 3, 6)
    ]


async def test_urgent_jobs_begin_first_and_owners_take_turns(bench, autojump_clock):
    """An owner with many jobs does not keep another one waiting.

    Jobs that are not urgent begin, too.
    """
    kit = await bench(
        runs, settings={"scheduler.at_once": 1}, answers=[say("Done.") + pause(1.0)] * 8
    )
    names = {}
    for owner, urgent, count in (("a", False, 3), ("b", False, 2), ("", True, 2)):
        for n in range(count):
            identity = agent_runs(kit).begin(REVIEW, f"{owner}{n}", urgent=urgent, owner=owner)
            names[identity] = f"{owner or 'user'}{n}"
    for one in names:
        await agent_runs(kit).wait(one)
    order = [names[data["agent_id"]] for data in told(kit, "result")]
    assert order == ["a0", "user0", "user1", "a1", "b0", "a2", "b1"]


@pytest.mark.parametrize("where", ["queue", "model", "tool", "approval"])
async def test_a_stop_ends_a_job_in_any_state(bench, where):
    """A second stop changes nothing."""
    answers = {"tool": [use("linger")], "approval": [use("act")]}.get(where, [pause(trio.Event())])
    kit = await bench(
        runs, TOOLS, settings={"scheduler.at_once": 1}, answers=answers * 2, approve="ask_first"
    )
    identity = agent_runs(kit).begin(REVIEW, "Work.")
    kinds = {"tool": CallStarted, "approval": ApprovalAsked}
    await kit.wait_for(kinds.get(where, ModelStarted))
    other = identity
    if where == "queue":
        identity = agent_runs(kit).begin(REVIEW, "Wait.")
    agent_runs(kit).stop(identity)
    agent_runs(kit).stop(identity)
    with kit.guard():
        result = await agent_runs(kit).wait(identity)
    assert result["status"] == "stopped"
    assert result["not_done"]
    assert told(kit, "status", identity)[-1]["status"] == "stopped"
    assert len(told(kit, "result", identity)) == 1
    assert (agent_runs(kit).status(other)["status"] == "stopped") == (where != "queue")
    agent_runs(kit).stop()


async def test_a_timeout_stops_a_job_and_keeps_its_findings(bench, autojump_clock):
    """An error event follows."""
    kit = await bench(runs, answers=[say("I found two") + pause(trio.Event())])
    identity = agent_runs(kit).begin(REVIEW, "Look.", timeout=30)
    result = await agent_runs(kit).wait(identity)
    assert (result["status"], result["text"], result["error"]["code"]) == (
        "timed_out",
        "I found two",
        "E_TIMEOUT",
    )
    assert [event.code for event in kit.of(ErrorRaised)] == ["E_TIMEOUT"]
    assert "error" in [data["level"] for data in told(kit, "log", identity)]


async def test_one_that_fails_ends_alone_and_is_retried_from_where_it_stood(bench):
    """Finished work is not repeated."""
    counted = Counter()

    @tool(risk="read")
    async def count() -> str:
        """Count."""
        counted["x"] += 1
        return "counted"

    answers = [use("count"), RuntimeError("boom"), "Other.", "All done."]
    kit = await bench(runs, plugin("count", provide_tools=lambda: [count]), answers=answers)
    identity = agent_runs(kit).begin(REVIEW, "Count.")
    result = await agent_runs(kit).wait(identity)
    assert result["status"] == "failed"
    assert "boom" in result["error"]["message"]
    assert [action["tool"] for action in result["actions"]] == ["count"]
    other = await agent_runs(kit).wait(agent_runs(kit).begin(Profile("explore"), "Look."))
    assert other["text"] == "Other."
    again = await agent_runs(kit).wait(await agent_runs(kit).retry(identity))
    assert (again["status"], again["text"], counted["x"]) == ("completed", "All done.", 1)
    assert "counted" in str(kit.requests[-1].messages)
    with pytest.raises(UsageError, match="completed"):
        await agent_runs(kit).retry(again["agent_id"])


async def test_a_model_that_is_not_there_is_an_honest_failure(bench):
    """No job keeps an open status."""
    kit = await bench(runs)
    result = await agent_runs(kit).wait(
        agent_runs(kit).begin(Profile("review", model="nobody/x"), "Look.")
    )
    assert result["status"] == "failed"
    assert "nobody" in result["error"]["message"]


async def test_a_result_names_the_files_of_the_run(bench):
    """Only the files of that run are listed."""
    answers = [
        use("read_file", path="old.txt") + use("read_file", path="gone.txt"),
        use("write_file", path="new.txt", content="n")
        + use("write_file", path="old.txt", content="2"),
        use("delete_file", path="gone.txt"),
        "Done.",
    ]
    kit = await bench(runs, hilum_files, answers=answers, files={"old.txt": "1", "gone.txt": "g"})
    result = await agent_runs(kit).wait(agent_runs(kit).begin(REVIEW, "Write."))
    assert (result["files_made"], result["files_changed"], result["files_deleted"]) == (
        ["new.txt"],
        ["old.txt"],
        ["gone.txt"],
    )
    assert [action["tool"] for action in result["actions"]] == [
        "read_file",
        "read_file",
        "write_file",
        "write_file",
        "delete_file",
    ]


async def test_stopping_the_session_stops_the_queue_too(bench):
    """Otherwise the next job would begin."""
    kit = await bench(runs, answers=[pause(trio.Event())] * 3)
    started = [agent_runs(kit).begin(REVIEW, "Work.") for _ in range(6)]
    for one in started[:3]:
        await kit.wait_for(ModelStarted, lambda event, one=one: event.agent.endswith(one))
    kit.session.stop()
    with kit.guard():
        for one in started:
            assert (await agent_runs(kit).wait(one))["status"] == "stopped"
    assert len(kit.requests) == 3


async def test_a_task_is_not_read_as_a_command(bench):
    """A task addresses no other agent."""
    from hilum import Interpretation

    everything = plugin(
        "commands", interpret_prompt=lambda text: Interpretation("", reply="A command!")
    )
    kit = await bench(everything, runs, answers=["I read it."])
    result = await agent_runs(kit).wait(
        agent_runs(kit).begin(REVIEW, "@review /agents delete review")
    )
    assert result["text"] == "I read it."
    assert (await kit.run("x")).text == "A command!"


async def test_one_is_retried_once(bench):
    """A second retry would repeat the work, so its error names the first."""
    kit = await bench(runs, answers=[RuntimeError("boom"), "Done."])
    identity = agent_runs(kit).begin(REVIEW, "Count.")
    await agent_runs(kit).wait(identity)
    errors = []

    async def retry():
        try:
            await agent_runs(kit).retry(identity)
        except UsageError as error:
            errors.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(retry)
        nursery.start_soon(retry)
    again = agent_runs(kit).list()[1]["agent_id"]
    assert [again in text for text in errors] == [True]
    assert (await agent_runs(kit).wait(again))["status"] == "completed"
    with pytest.raises(UsageError, match="completed"):
        await agent_runs(kit).retry(identity)


async def test_an_agent_cannot_hand_over_to_itself(bench):
    """The answer of an agent calls no agent, either."""
    import hilum_agents

    answers = [use("handover", agent="doc", brief="@doc go on"), "@doc do it all again."]
    kit = await bench(hilum_agents, runs, hilum_files, answers=answers)
    result = await agent_runs(kit).wait(
        agent_runs(kit).begin(Profile("doc"), "@doc write.", keep=True)
    )
    assert (kit.result("handover").code, len(agent_runs(kit).list())) == ("E_BAD_ARGS", 1)
    assert result["turns"] == 2


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
async def test_a_clock_that_jumps_changes_no_duration_and_no_timeout(
    bench, autojump_clock, monkeypatch, jump
):
    """The wall clock is set by a day while agents run."""
    import time

    real, off = time.time, [0.0]
    monkeypatch.setattr("time.time", lambda: real() + off[0])

    def answer(request):
        return (
            pause(10.0) + say("ok") if request.agent.startswith("review") else pause(trio.Event())
        )

    kit = await bench(runs, answers=[answer] * 2)
    fine, late = (
        agent_runs(kit).begin(REVIEW, "Look."),
        agent_runs(kit).begin(Profile("x"), "Wait.", timeout=20),
    )
    await trio.sleep(5)
    off[0] = jump
    began = trio.current_time()
    results = [await agent_runs(kit).wait(one) for one in (fine, late)]
    assert [result["status"] for result in results] == ["completed", "timed_out"]
    assert [result["seconds"] for result in results] == pytest.approx([10, 20], abs=0.5)
    assert trio.current_time() - began == pytest.approx(15, abs=0.5)
    for one in (fine, late):
        shares = [data["progress"] for data in told(kit, "status", one)]
        assert shares == sorted(shares)
        assert len(shares) >= 8


STUBBORN = """trap '' TERM INT HUP
echo $$ >>pids
( setsid bash -c 'trap "" TERM INT HUP; echo $$ >>pids; echo up; while :; do sleep 30; done' & ) &
while :; do sleep 30; done
"""


def alive(pid):
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_stop_ends_the_most_stubborn_processes(bench):
    """No process is left when the result is written.

    The process ignores signals, has its own session, forks twice, and is stopped twice.
    """
    kit = await bench(runs, hilum_shell, answers=[use("run_terminal_cmd", command=STUBBORN)])
    identity = agent_runs(kit).begin(REVIEW, "Work.")
    seen = ""
    with kit.guard():
        async for item in kit.session.events(deltas=True):
            seen += item.text if isinstance(item, Delta) else ""
            if "up" in seen:
                break
        agent_runs(kit).stop(identity)
        await trio.lowlevel.checkpoint()
        agent_runs(kit).stop(identity)
        assert (await agent_runs(kit).wait(identity))["status"] == "stopped"
    pids = (Path(kit.session.workspace.root) / "pids").read_text().split()
    assert [pid for pid in pids if alive(pid)] == []
    assert len(pids) == 2
