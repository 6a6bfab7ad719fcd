"""What runs in the background at the end of ``hilum run``: named, ended, or kept where that was
asked for.
"""

import json
import signal

import trio

SERVER = """
import os, socket
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
open("pid", "w").write(str(os.getpid()))
while True:
    listener.accept()[0].sendall(b"here")
"""
LEAVE = "python3 server.py & until test -s pid; do sleep 0.01; done; echo started"


def running(cli):
    """The pids of the server, as the system numbers them."""
    from pathlib import Path

    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                b"server.py" in (folder / "cmdline").read_bytes()
                and (folder / "cwd").readlink() == cli.workspace
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


async def test_services_that_end_with_the_run_are_named(cli, asks):
    """To people and to programs; and the model was told so before it answered."""
    (cli.workspace / "server.py").write_text(SERVER)
    async with cli.model(
        asks("run_terminal_cmd", command=LEAVE),
        "It runs.",
        asks("run_terminal_cmd", command=LEAVE),
        "It runs.",
    ) as server:
        done = await cli("run", "serve", "--approve", "auto")
        (cli.workspace / "pid").unlink()
        other = await cli("run", "serve", "--approve", "auto", "--output-format", "json")
    assert (done.code, done.out) == (0, "It runs.\n")
    assert "Ended with the run: s1 (python3 server.py" in done.err
    assert "--keep-services" in done.err
    assert [service["state"] for service in other.result["services"]] == ["ended"]
    assert b"It ends with this session" in server.bodies[1]
    assert not running(cli)


async def test_services_can_be_kept_until_the_user_ends_them(cli, asks, wait_until):
    """The answer comes when the run is done.

    The service goes on until Ctrl-C, and then nothing is left.
    """
    (cli.workspace / "server.py").write_text(SERVER)
    async with (
        cli.model(asks("run_terminal_cmd", command=LEAVE), "It runs.") as server,
        cli.started(
            "run", "serve", "--approve", "auto", "--keep-services", "--output-format", "json"
        ) as process,
    ):
        out = b""
        while not out.endswith(b"\n"):
            out += await process.stdout.receive_some()
        result = json.loads(out)
        assert running(cli)
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    assert (result["text"], result["exit_code"]) == ("It runs.", 0)
    assert [service["state"] for service in result["services"]] == ["running"]
    assert b"It continues when your work is done" in server.bodies[1]
    assert not running(cli)


async def test_a_kept_service_that_ends_by_itself_ends_the_wait(cli, asks):
    """There is nothing left to keep."""
    async with cli.model(asks("run_terminal_cmd", command="sleep 1 & echo started"), "It runs."):
        with trio.fail_after(60):
            done = await cli("run", "serve", "--approve", "auto", "--keep-services")
    assert done.code == 0
    assert "Still running: s1" in done.err
