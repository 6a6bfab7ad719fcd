"""Signals at random instants, terminals that are closed, readers that go away: nothing hangs,
nothing is left.
"""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hilum_replay import Fault

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "signals.py"
NOTHING = ("hang", "traceback", "exit code", "no result line", "unsettled session", "process left")


async def test_signals_at_random_instants_leave_nothing(trials):
    """A sample of the benchmark, which has the numbers of many more."""
    count = trials(6, 40)
    done = await trio.run_process(
        [sys.executable, BENCHMARK, str(count), "--seed", "7"],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    said = done.stdout.decode()
    assert f"{count} runs; " in said, done.stderr.decode()
    for what in NOTHING:
        assert f"{what}: 0" in said, said


async def session_states(cli):
    """The states of all sessions."""
    return [info["state"] for info in json.loads((await cli("sessions", "list", "--json")).out)]


@pytest.mark.parametrize("controlling", [True, False])
async def test_a_closed_terminal_stops_the_run(cli, asks, wait_until, controlling):
    """With the signal that the system sends, and without it: the next write fails."""
    ours, theirs = pty.openpty()
    slow = asks(
        "run_terminal_cmd", command="touch begun; until test -e go; do sleep 0.01; done; echo x"
    )
    start = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    argv = cli.argv("run", "go", "--approve", "auto")
    async with cli.model(slow, "never"):
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", start, *argv] if controlling else argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            cwd=cli.workspace,
            env=cli.env | {"TERM": "xterm-256color"},
        )
        os.close(theirs)
        async with trio.open_nursery() as nursery:

            async def read():
                while True:
                    await trio.lowlevel.wait_readable(ours)
                    os.read(ours, 65536)

            nursery.start_soon(read)
            await wait_until((cli.workspace / "begun").exists)
            nursery.cancel_scope.cancel()
        os.close(ours)
        (cli.workspace / "go").touch()
        with trio.fail_after(60):
            assert await process.wait() == 129
    assert await session_states(cli) == ["stopped"] if controlling else ["completed", "stopped"]


async def test_a_reader_that_goes_away_ends_a_run_that_says_nothing(cli, asks, wait_until):
    """``hilum run … | head``: the text comes at the end, and so nothing would ever be written into
    the closed pipe.
    """
    slow = asks("run_terminal_cmd", command="touch begun; sleep 1000")
    async with cli.model(slow, "never"), cli.started("run", "go", "--approve", "auto") as process:
        await wait_until((cli.workspace / "begun").exists)
        await process.stdout.aclose()
        assert await process.wait() == 141
    assert await session_states(cli) == ["stopped"]


async def test_signals_that_the_caller_ignores_are_ignored(cli, wait_until):
    """As ``nohup`` has it: a closed terminal does not end the run."""
    async with cli.model("Done.", faults=[Fault(delay=2)]) as server:
        process = await trio.lowlevel.open_process(
            ["nohup", *cli.argv("run", "hi", "-q")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cli.workspace,
            env=cli.env,
        )
        await wait_until(lambda: server.count)
        process.send_signal(signal.SIGHUP)
        out = b"".join([piece async for piece in process.stdout])
        assert await process.wait() == 0
        await process.stderr.aclose()
    assert out == b"Done.\n"


HANGING = """
import re
from hilum import Call, hookimpl, tool

@tool(risk="read")
async def match(call: Call) -> str:
    "Search for ever, while a command runs."
    async with call.processes.open(["sleep", "1000"]) as process:
        with open("hangs", "w") as file:
            file.write(str(process.pid))
        re.match(r"(a+)+$", "a" * 60 + "b")

@hookimpl
def provide_tools():
    return [match]
"""


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([signal.SIGTERM, signal.SIGINT], {130, 143}),
        ([signal.SIGTERM], {1}),
        ([signal.SIGQUIT], {-signal.SIGQUIT}),
    ],
)
async def test_c_code_that_holds_the_interpreter_does_not_hold_the_process(
    cli, asks, wait_until, gone, numbers, codes
):
    """A second signal ends it at once; a single one after some seconds; SIGQUIT needs no handler.

    What the process had started ends with it.
    """
    plugin = cli.folder / "hanging.py"
    plugin.write_text(HANGING)
    async with (
        cli.model(asks("match")),
        cli.started("run", "go", "--approve", "auto", "--plugin", str(plugin)) as process,
    ):
        mark = cli.workspace / "hangs"
        await wait_until(lambda: mark.exists() and mark.read_text())
        for number in numbers:
            process.send_signal(number)
        assert await process.wait() in codes
        await wait_until(lambda: gone(int(mark.read_text())))


async def test_a_plugin_that_cannot_be_stopped_does_not_hold_the_process(cli, wait_until):
    """It is ended after some seconds; the result line comes all the same."""
    folder = cli.folder / "plugins"
    folder.mkdir()
    (folder / "hilum_deaf.py").write_text(
        "import time\nfrom hilum import tool, hookimpl\n"
        "@tool(risk='read')\nasync def block() -> str:\n    '''Blocks everything.'''\n"
        "    open('stuck', 'w').close()\n    time.sleep(1000)\n"
        "@hookimpl\ndef provide_tools():\n    return [block]\n"
    )
    info = folder / "hilum_deaf-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-deaf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hilum]\ndeaf = hilum_deaf\n")
    from hilum.messages import AssistantMessage, ToolCall

    answer = AssistantMessage((ToolCall("a", "block", "{}"),), stop="calls")
    async with (
        cli.model(answer),
        cli.started(
            "run", "go", "--approve", "auto", "--output-format", "json", PYTHONPATH=str(folder)
        ) as process,
    ):
        await wait_until((cli.workspace / "stuck").exists)
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(40):
            out = b"".join([piece async for piece in process.stdout])
            assert await process.wait() == 143
    assert json.loads(out)["exit_code"] == 143


UNCANCELLED = """
import trio
from hilum import hookimpl

@hookimpl
async def interpret_prompt(session, text):
    "Return only when the other tasks of the session have been cancelled."
    session._nursery.start_soon(trio.sleep_forever)  # stands for an agent
    task = trio.lowlevel.current_task()
    token = trio.lowlevel.current_trio_token()

    def wait_for_others(left):
        if left:
            token.run_sync_soon(wait_for_others, left - 1)
        else:
            trio.lowlevel.reschedule(task)

    def refuse(raise_cancel):
        wait_for_others(50)
        return trio.lowlevel.Abort.FAILED

    open("interprets", "w").close()
    await trio.lowlevel.wait_task_rescheduled(refuse)
"""


async def test_a_signal_just_before_the_run_begins_is_reported_as_a_stop(cli, wait_until):
    """The session is being closed when the prompt would be queued: that is no error of the user."""
    plugin = cli.folder / "uncancelled.py"
    plugin.write_text(UNCANCELLED)
    arguments = ("run", "go", "--output-format", "json", "--plugin", str(plugin))
    async with cli.model("never"), cli.started(*arguments) as process:
        await wait_until((cli.workspace / "interprets").exists)
        process.send_signal(signal.SIGINT)
        out = b"".join([piece async for piece in process.stdout])
        assert await process.wait() == 130
    result = json.loads(out)
    assert (result["state"], result["code"]) == ("stopped", "E_STOPPED")
