"""``hilum acp`` with clients of others: the Python SDK of the protocol, and acpx."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

SUPPORT = Path(__file__).parents[1] / "support"
NPM = Path(os.environ.get("NPM_SERVERS", "/nonexistent")) / "node_modules"
ACPX = NPM / "acpx" / "dist" / "cli.js"
NODE = NPM / "node" / "bin" / "node"


async def run(argv, **options):
    with trio.fail_after(120):
        return await trio.run_process(
            argv, capture_stdout=True, capture_stderr=True, check=False, **options
        )


async def test_the_python_sdk_drives_a_whole_session(cli, asks):
    path = cli.workspace / "a.txt"
    path.write_text("saved\n")
    answers = [
        asks("read_file", path="a.txt"),
        asks("edit_file", path="a.txt", old_string="typed", new_string="edited", id="c2"),
        asks("run_terminal_cmd", command="cat a.txt", id="c3"),
        "Edited.",
        asks("write_file", path="b.txt", content="never", id="c4"),
        "Once more.",
    ]
    async with cli.model(*answers):
        argv = [sys.executable, str(SUPPORT / "acp_sdk_client.py"), str(cli.workspace)]
        # The SDK's own warnings are not hilum's.
        env = {**cli.env, "PYTHONWARNINGS": "default"}
        done = await run(argv, env=env)
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    assert (seen["stop"], seen["cancelled"], seen["again"]) == ("end_turn", "cancelled", "end_turn")
    assert path.read_text() == "saved\nedited\n"
    assert seen["written"] == [str(path)]
    assert not (cli.workspace / "b.txt").exists()
    kinds = [(call["kind"], call["status"]) for call in seen["calls"]]
    assert kinds[:3] == [("read", "completed"), ("edit", "completed"), ("execute", "completed")]
    assert seen["texts"] == "Edited."
    assert seen["asked"][0][0] == "Allow once"
    assert seen["listed"]
    assert seen["users"] == ["Edit it", "Write more"]
    assert seen["reloaded"] == seen["calls"]


@pytest.fixture
async def acpx(cli):
    """Return a function that runs acpx with ``hilum acp``."""
    if not ACPX.exists() or not NODE.exists():
        pytest.skip("needs acpx and node@22 from npm (NPM_SERVERS)")
    command = f"{sys.executable} -m hilum acp"

    async def acpx(*arguments):
        options = ["--agent", command, "--cwd", str(cli.workspace), "--ttl", "60"]
        argv = [str(NODE), str(ACPX), *options, *arguments]
        env = {**cli.env, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
        return await run(argv, env=env, cwd=cli.workspace, stdin=subprocess.DEVNULL)

    yield acpx
    with trio.CancelScope(shield=True):
        await acpx("sessions", "close")


def messages(done):
    """The messages of the protocol that acpx printed."""
    found = []
    for line in done.stdout.decode().splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


async def test_acpx_drives_a_whole_session(cli, acpx, asks):
    path = cli.workspace / "a.txt"
    path.write_text("one\n")
    answers = [
        asks("read_file", path="a.txt"),
        asks("edit_file", path="a.txt", old_string="one", new_string="two", id="c2"),
        asks("run_terminal_cmd", command="cat a.txt", id="c3"),
        "Edited.",
        "Again.",
    ]
    async with cli.model(*answers):
        created = await acpx("sessions", "new")
        assert created.returncode == 0, created.stderr.decode()
        first = await acpx("--approve-all", "--format", "json", "prompt", "Edit it")
        assert first.returncode == 0, first.stdout.decode() + first.stderr.decode()
        assert path.read_text() == "two\n"
        text = first.stdout.decode()
        assert "Edited." in text
        assert '"stopReason":"end_turn"' in text.replace(" ", "")
        status = json.loads((await acpx("--format", "json", "status")).stdout)
        # The session that `sessions new` created in another process.
        assert status["acpxSessionId"] == status["acpxRecordId"], status
        os.kill(status["pid"], signal.SIGKILL)
        again = await acpx("--approve-all", "--format", "json", "prompt", "More")
        assert again.returncode == 0, again.stdout.decode()[-3000:]
        assert "Again." in again.stdout.decode()
        status = json.loads((await acpx("--format", "json", "status")).stdout)
        assert status["acpxSessionId"] == status["acpxRecordId"], status


async def test_acpx_denies_a_call(cli, acpx, asks):
    async with cli.model(asks("write_file", path="b.txt", content="x"), "I may not."):
        done = await acpx("--deny-all", "--format", "json", "exec", "Write b.txt")
        assert "I may not." in done.stdout.decode(), done.stderr.decode()
        assert not (cli.workspace / "b.txt").exists()
