"""Services and runs: what a stop ends, what goes on, what agents are told, and what a crash leaves
(nothing).
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import hilum_shell
import pytest
import trio
from hilum import Profile, StoreError, ToolDenied, ToolFilter, hookimpl
from hilum.events import Delta, PluginEvent, RoundEnded, RunStarted
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, say, use

SERVE = "echo $$ >>pids; echo up; exec sleep 1000"


def start(command: str = SERVE):
    """Start a service, and be sure that it is up."""
    return [
        use("run_terminal_cmd", command=command, background=True),
        use("read_service", service="s1", wait_for="up"),
    ]


async def ended(b, name: str) -> PluginEvent:
    """Wait for the fact that a service has ended."""
    return await b.wait_for(
        PluginEvent, lambda event: event.name == "shell.service_ended" and event.data["id"] == name
    )


async def rounds(b, count: int) -> None:
    """Wait until so many rounds of calls have ended."""
    seen = []
    await b.wait_for(RoundEnded, lambda event: seen.append(event) or len(seen) == count)


def context(b) -> str:
    """What the last run was given beside the user's text."""
    return "".join(part.text for part in b.of(RunStarted)[-1].message.parts[1:])


def notes(b) -> str:
    """All notes so far."""
    return "\n".join(note for event in b.of(RoundEnded) for note in event.notes)


async def test_a_service_outlives_its_run(bench, left) -> None:
    """The next run is told that it is there, and can read it.

    Without services no context is given.
    """
    b = await bench(
        hilum_shell,
        answers=[*start(), "Started.", use("read_service", service="s1", offset=0), "Done."],
    )
    await b.run("Start the server.")
    assert context(b) == ""
    assert len(left(b.workspace)) == 1
    await b.run("Look at it.")
    assert "<services>\ns1 (echo $$ >>pids; echo up; exec sleep 1000): running for " in context(b)
    assert "\nup" in b.result("read_service").text
    assert [event.name for event in b.of(PluginEvent)] == ["shell.service_started"]


async def test_stopping_a_run_ends_the_services_that_it_started(bench, left) -> None:
    """With its processes, within a fraction of a second; the agent is told at the next run."""
    b = await bench(hilum_shell, answers=[*start(), say("Now I wait") + pause(1000)])
    run = await b.start("Start the server.")
    await rounds(b, 2)
    assert len(left(b.workspace)) == 1
    run.stop()
    await run.wait()
    with trio.fail_after(60):
        event = await ended(b, "s1")
    assert left(b.workspace) == []
    assert (event.data["state"], event.data["reason"]) == (
        "stopped",
        "the run that started it was stopped",
    )
    b.model.next("Yes.")
    await b.run("Is it there?")
    assert "s1 (echo $$ >>pids; echo up; exec sleep 1000): stopped after" in context(b)


async def test_stopping_a_run_spares_the_services_of_earlier_runs(bench, left) -> None:
    """They belong to what was finished, and go on until they are stopped or the session ends."""
    second = "echo $$ >>pids; echo up; exec sleep 1001"
    b = await bench(
        hilum_shell,
        answers=[
            *start(), "Started.",
            use("run_terminal_cmd", command=second, background=True), use("read_service", service="s2", wait_for="up"),
            say("Now I wait") + pause(1000),
        ],
    )  # fmt: skip
    await b.run("Start the server.")
    run = await b.start("Start another.")
    await rounds(b, 4)
    run.stop()
    await run.wait()
    await ended(b, "s2")
    assert len(left(b.workspace)) == 1
    assert [service.id for service in b.session.plugin(hilum_shell.Services).running()] == ["s1"]


async def test_stopping_a_run_ends_what_agents_below_it_started(bench, left) -> None:
    """A service of a sub-agent belongs to the runs of those above it as well."""

    class Delegates:
        @hookimpl
        async def remind(self, agent, results):
            if agent.name == "main" and "below" not in agent.session.agents:
                agent.session.add_agent(Profile(name="below"), parent="main")
                await agent.session.run("Start a server.", agent="below")

    b = await bench(
        hilum_shell, Delegates(),
        answers=[use("list_services"), *start(), "Started.", say("Now I wait") + pause(1000)],
    )  # fmt: skip
    run = await b.start("Delegate.")
    await b.wait_for(RoundEnded, lambda event: event.agent == "main")
    assert len(left(b.workspace)) == 1
    run.stop()
    await run.wait()
    await ended(b, "s1")
    assert left(b.workspace) == []


async def test_a_run_that_runs_out_of_time_ends_its_services(clock, bench, left) -> None:
    """Its end counts as a stop."""
    b = await bench(
        hilum_shell, settings={"timeout": 500}, answers=[*start(), say("Now I wait") + pause(1000)]
    )
    run = await b.start("Start the server.")
    await rounds(b, 2)
    clock.jump(500)
    assert (await run.wait()).state == "timed_out"
    await ended(b, "s1")
    assert left(b.workspace) == []


async def test_stopping_a_foreground_command_ends_it(bench, left) -> None:
    """The run is over when nothing of it is left, also when it has become late in the meantime."""
    b = await bench(hilum_shell, answers=[use("run_terminal_cmd", command=f"{SERVE} & {SERVE}")])
    run = await b.start("Run it.")
    with trio.fail_after(60):
        shown = ""
        async for delta in b.session.events(deltas=True):
            shown += delta.text if isinstance(delta, Delta) and delta.kind == "output" else ""
            if shown.count("up") == 2:
                break
    run.stop()
    await run.wait()
    assert left(b.workspace) == []


async def test_a_service_that_dies_is_told_at_the_end_of_the_round(bench) -> None:
    """Once, to the agent that knows of it, without its output; the prompt's past stays as it is."""
    b = await bench(hilum_shell)

    async def die(_request):
        [service] = b.session.plugin(hilum_shell.Services).running()
        await service.write(b"\n", close=False)
        await service.ended.wait()
        return use("run_terminal_cmd", command="true")

    begin = start("echo up; read x; echo INJECTED; exit 9")
    b.model.next(*begin, die, use("run_terminal_cmd", command="true"), "Done.")
    await b.run("Start it.")
    assert notes(b).count("ended after") == 1
    assert "(exit code 9)" in notes(b)
    assert notes(b).count("INJECTED") == 1  # in the command line, which is the model's own


async def test_a_service_that_was_read_after_its_end_is_not_told_again(bench) -> None:
    """The result says it."""
    b = await bench(
        hilum_shell,
        answers=[
            use("run_terminal_cmd", command="read x; exit 9", background=True),
            use("write_service", service="s1", text="", wait_for="never"),
            "Done.",
        ],
    )  # fmt: skip
    await b.run("Start it.")
    assert b.result("write_service").code == "E_CMD_FAIL"
    assert "has ended" not in notes(b)
    assert "exit 9" not in notes(b)


async def test_services_end_with_a_closed_session_and_a_resume_tells_of_it(
    tmp_path: Path, left
) -> None:
    """Ids are not used again, the lost one can be asked for, and it is told once."""
    store = MemoryStore()
    async with open_bench(
        hilum_shell, store=store, folder=tmp_path, answers=[*start(), "Started."]
    ) as b:
        await b.run("Start the server.")
        session, root = b.session.id, b.workspace
        assert len(left(root)) == 1
    assert left(root) == []
    async with open_bench(hilum_shell, store=store, folder=tmp_path, resume=session) as b:
        b.model.next(
            use("read_service", service="s1"), *start("echo up; sleep 1000"), "Done.", "Nothing."
        )
        await b.run("Go on.")
        assert (
            "s1 (echo $$ >>pids; echo up; exec sleep 1000): gone: it ended with hilum" in context(b)
        )
        lost, found = b.results[-3:-1]
        assert "gone: it ended with hilum" in lost.text
        assert "runs in the background as s2" in found.text
        await b.run("And now?")
        assert "s1" not in context(b)
        assert "s2 (echo up; sleep 1000): running" in context(b)


async def test_a_refused_process_does_not_start(bench) -> None:
    """The hook wrap_process guards commands in the background as well; the half goes on."""

    class Refuses:
        @hookimpl
        def wrap_process(self, command):
            if "forbidden" in command.argv[-1]:
                raise ToolDenied("Not this one.")

    b = await bench(hilum_shell, Refuses())
    for more in ({}, {"background": True}):
        result = await b.call("run_terminal_cmd", command="echo forbidden", **more)
        assert result.code == "E_DENIED"
        assert "Not this one." in result.text
    assert (await b.call("list_services")).text == "There are no services."
    assert (await b.call("run_terminal_cmd", command="echo fine")).text.endswith("fine")


async def test_readers_may_read_and_not_start(bench) -> None:
    """Where only reading is allowed, services are listed and read, and neither started, written to
    nor stopped.
    """
    b = await bench(hilum_shell, approve="readonly")
    assert (await b.call("list_services")).code == ""
    for tool, arguments in (
        ("run_terminal_cmd", {"command": "true", "background": True}),
        ("write_service", {"service": "s1", "text": "x"}),
        ("stop_service", {"service": "s1"}),
    ):
        assert (await b.call(tool, **arguments)).code == "E_DENIED"
    assert ToolFilter(allow=("read",)).admits("read_service", b.session.tools["read_service"].risk)


async def test_each_agent_reads_for_itself(bench) -> None:
    """What one agent has read is new to another."""
    b = await bench(
        hilum_shell, answers=[*start(), "Started.", use("read_service", service="s1"), "Done."]
    )
    await b.run("Start the server.")
    b.session.add_agent(Profile(name="other"))
    await b.run("Look.", agent="other")
    assert b.result("read_service").text.endswith("\nup")


async def test_a_service_that_cannot_be_written_down_does_not_run_on(bench, left) -> None:
    """When the log takes no more, the command ends with its call, as nobody could be told of it."""
    b = await bench(
        hilum_shell, answers=[use("run_terminal_cmd", command=SERVE, background=True)], faults=True
    )
    half = b.session.plugin(hilum_shell.Shell)
    append = b.session.journal._log.append

    def full(events):
        if any(isinstance(event, PluginEvent) for event in events):
            raise StoreError("The disk is full.")
        append(events)

    b.session.journal._log.append = full
    with pytest.raises(StoreError):
        await b.run("Start the server.")
    assert [*half.all()] == []
    pids = b.workspace / "pids"
    assert not pids.exists() or not pids.read_text() or left(b.workspace) == []


OWNER = """
import sys, trio, hilum_shell
from hilum.store import MemoryStore
from hilum.testing import open_bench, use

async def main():
    answers = [use("run_terminal_cmd", command=sys.argv[2], background=True), use("read_service", service="s1", wait_for="up")]
    async with open_bench(hilum_shell, workspace=sys.argv[1], answers=[*answers, "Started."]) as b:
        await b.run("Start the server.")
        print("started", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_death_of_hilum_leaves_no_service(tmp_path: Path, left) -> None:
    """Not even SIGKILL: the warden ends the most stubborn one."""
    stubborn = "trap '' TERM INT HUP; echo $$ >>pids; (setsid sh -c 'echo $$ >>pids; echo up; sleep 1000' &); sleep 1000"
    argv = [sys.executable, "-c", OWNER, str(tmp_path), stubborn]
    owner = await trio.lowlevel.open_process(argv, stdout=subprocess.PIPE)
    with trio.fail_after(60):
        assert b"started" in await owner.stdout.receive_some()
        service = left(tmp_path)
        assert len(service) == 2
        ends = [os.pidfd_open(pid) for pid in service]
        owner.send_signal(signal.SIGKILL)
        await owner.wait()
        for end in ends:
            await trio.lowlevel.wait_readable(end)
            os.close(end)
    owner.stdout.close()
    assert left(tmp_path) == []
