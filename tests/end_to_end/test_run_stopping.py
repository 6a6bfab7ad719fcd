"""Stopping ``hilum run``: signals once and twice, stubborn children, and going on afterwards."""

import json
import os
import signal
from pathlib import Path

import pytest
import trio
from hilum.messages import AssistantMessage, ToolCall
from hilum_replay import Fault

# Ignores what it can, and leaves a child in a session of its own behind.
STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
open(f"started-{os.getpid()}", "w").close()
time.sleep(1000)
"""


def started(cli):
    """Whether both processes of the stubborn command run."""
    return len(list(cli.workspace.glob("started-*"))) == 2


def pids(cli):
    """The processes of the stubborn command, and of the sandbox round it, as the system numbers
    them.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            if b"stubborn.py" in words and os.readlink(folder / "cwd") == str(cli.workspace):
                found.append(int(folder.name))
        except OSError:
            continue
    assert len(found) >= 2
    return found


async def read_all(stream):
    """Everything a stream gives until its end."""
    data = b""
    async for piece in stream:
        data += piece
    return data.decode()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_stops_the_run_and_everything_it_started(
    cli, asks, wait_until, gone, number, code
):
    """A final stopped event, no process left, and how to go on."""
    (cli.workspace / "stubborn.py").write_text(STUBBORN)
    async with (
        cli.model(asks("run_terminal_cmd", command="python3 stubborn.py")),
        cli.started("run", "go", "--approve", "auto") as process,
    ):
        await wait_until(lambda: started(cli))
        running = pids(cli)
        process.send_signal(number)
        said = await read_all(process.stderr)
        assert await process.wait() == code
    assert all(gone(pid) for pid in running)
    assert "stopped" in said
    (info,) = json.loads((await cli("sessions", "list", "--json")).out)
    assert f"hilum run --resume {info['id']}" in said
    assert info["state"] == "stopped"
    shown = (await cli("sessions", "show", info["id"], "--events")).out
    assert '"type":"run_ended","state":"stopped"' in shown


async def test_a_second_signal_leaves_at_once_and_nothing_behind(cli, asks, wait_until, gone):
    """Even with a plugin that does not let itself be cancelled."""
    (cli.workspace / "stubborn.py").write_text(STUBBORN)
    plugin = cli.folder / "plugins"
    plugin.mkdir()
    (plugin / "hilum_sticky.py").write_text(
        "import trio\nfrom hilum import tool, hookimpl\n"
        "@tool(risk='read')\nasync def stick() -> str:\n    '''Never ends.'''\n"
        "    open('stuck', 'w').close()\n"
        "    with trio.CancelScope(shield=True):\n        await trio.sleep_forever()\n"
        "@hookimpl\ndef provide_tools():\n    return [stick]\n"
    )
    info = plugin / "hilum_sticky-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-sticky\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hilum]\nsticky = hilum_sticky\n")
    calls = (
        ToolCall("a", "stick", "{}"),
        ToolCall("b", "run_terminal_cmd", '{"command": "python3 stubborn.py"}'),
    )
    async with (
        cli.model(AssistantMessage(calls, stop="calls")),
        cli.started("run", "go", "--approve", "auto", PYTHONPATH=str(plugin)) as process,
    ):
        await wait_until(lambda: started(cli) and (cli.workspace / "stuck").exists())
        running = pids(cli)
        process.send_signal(signal.SIGINT)
        await wait_until(lambda: all(gone(pid) for pid in running))  # the first signal has come
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        with trio.fail_after(60):
            assert await process.wait() == 130


STUCK = """
import trio
from hilum import tool, hookimpl

@tool(risk='read', timeout=1)
async def stick() -> str:
    'Never ends.'
    open('stuck', 'w').close()
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()

@hookimpl
def provide_tools():
    return [stick]
"""


def install_stuck(cli):
    """Install a plugin with a tool that heeds neither its time limit nor a stop.

    Returns the folder for PYTHONPATH.
    """
    plugin = cli.folder / "plugins"
    info = plugin / "hilum_sticky-1.0.dist-info"
    info.mkdir(parents=True)
    (plugin / "hilum_sticky.py").write_text(STUCK)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hilum-sticky\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hilum]\nsticky = hilum_sticky\n")
    return str(plugin)


async def test_a_tool_that_ignores_its_limit_keeps_nothing_running(cli):
    """The run goes on after the limit, completes, and the process ends though the tool does not."""
    call = AssistantMessage((ToolCall("a", "stick", "{}"),), stop="calls")
    path = install_stuck(cli)
    async with (
        cli.model(call, "Done."),
        cli.started("run", "go", "--output-format", "json", PYTHONPATH=path) as process,
    ):
        with trio.fail_after(60):
            result = json.loads(await read_all(process.stdout))
            assert await process.wait() == 0
    assert result["state"] == "completed"
    (shown,) = result["calls"]
    assert shown["code"] == "E_TIMEOUT"


async def test_one_signal_ends_a_run_whose_tool_does_not_end(cli, wait_until):
    """The stop is bounded: the log is written, and the process is gone."""
    call = AssistantMessage((ToolCall("a", "stick", "{}"),), stop="calls")
    path = install_stuck(cli)
    async with cli.model(call), cli.started("run", "go", PYTHONPATH=path) as process:
        await wait_until(lambda: (cli.workspace / "stuck").exists())
        process.send_signal(signal.SIGINT)
        with trio.fail_after(60):
            assert await process.wait() == 130
    (info,) = json.loads((await cli("sessions", "list", "--json")).out)
    assert info["state"] == "stopped"


async def test_a_stop_before_the_answer_is_clean(cli, wait_until):
    """While the model is silent."""
    async with (
        cli.model("never", faults=[Fault(delay=1000)]) as server,
        cli.started("run", "go", "--output-format", "json") as process,
    ):
        await wait_until(lambda: server.count)
        process.send_signal(signal.SIGINT)
        result = json.loads(await read_all(process.stdout))
        assert await process.wait() == 130
    assert (result["state"], result["code"]) == ("stopped", "E_STOPPED")
    assert result["hint"] == f"To continue: hilum run --resume {result['session']}"


async def test_a_stop_while_it_waits_for_standard_input(cli):
    """Nothing runs yet, and nothing needs to be unwound."""
    reading, writing = os.pipe()
    try:
        process = await trio.lowlevel.open_process(
            cli.argv("run", "go"),
            stdin=reading,
            stderr=-1,
            stdout=-1,
            cwd=cli.workspace,
            env=cli.env,
        )
        assert "reading standard input" in (await process.stderr.receive_some()).decode()
        process.send_signal(signal.SIGINT)
        with trio.fail_after(60):
            assert await process.wait() == 130
        assert b"Traceback" not in await process.stderr.receive_some()
        await process.stdout.aclose()
        await process.stderr.aclose()
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_killed_run_goes_on_where_it_was(cli, asks, wait_until):
    """--resume without a prompt; the finished call is not run again."""
    log = cli.workspace / "log.txt"
    first = asks("run_terminal_cmd", command="echo once >> log.txt")
    second = asks("run_terminal_cmd", command="touch begun; sleep 1000", id="c2")
    async with cli.model(first, second, "All done."):
        async with cli.started("run", "go", "--approve", "auto") as process:
            await wait_until((cli.workspace / "begun").exists)
            process.kill()
            await process.wait()
        done = await cli("run", "--resume", "--approve", "auto")
    assert (done.code, done.out) == (0, "All done.\n"), done.err
    assert log.read_text() == "once\n"
    assert "This was cut off when hilum ended and may or may not have had its" in done.err
