"""``hilum acp`` with clients of others: the Python SDK of the protocol, and acpx."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from editor_terminals import list_viewers

pytestmark = pytest.mark.slow(cases=3, of="file")

SUPPORT = Path(__file__).parents[1] / "support"
NPM = Path(os.environ.get("NPM_SERVERS", "/nonexistent")) / "node_modules"
ACPX = NPM / "acpx" / "dist" / "cli.js"
# The package `node` from npm, or the machine's own.
NODE = NPM / "node" / "bin" / "node"
if not NODE.exists():
    NODE = Path(shutil.which("node") or "/nonexistent")


# A command that ends once a client has seen its output.
WAITING = "cat a.txt; echo waits; while [ ! -e seen ]; do sleep 0.02; done; echo ended"


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
        asks("run_terminal_cmd", command=WAITING, id="c3"),
        asks("run_terminal_cmd", command="echo endless; sleep 1000", id="c5"),
        "Edited.",
        asks("write_file", path="b.txt", content="never", id="c4"),
        "Once more.",
    ]
    async with cli.model(*answers) as model:
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
    assert kinds[:4] == [
        ("read", "completed"),
        ("edit", "completed"),
        ("execute", "completed"),
        ("execute", "failed"),
    ]
    # The client saw the output while the command ran; otherwise, the command would not have ended.
    [waited, killed] = seen["terminals"]
    output = "saved\nedited\nwaits\nended\n"
    assert waited == {"output": output, "exit": 0, "released": True}
    # The user ended the other one in its terminal.
    assert killed == {"output": "endless\n", "exit": -signal.SIGTERM, "released": True}
    assert "stopped by the user" in str(model.requests[4].body)
    assert seen["texts"] == "Edited."
    assert seen["asked"][0][0] == "Allow once"
    assert seen["listed"]
    assert seen["users"] == ["Edit it", "Write more"]
    assert seen["reloaded"] == seen["calls"]


class Acpx:
    """Runs acpx with ``hilum acp``.

    Attributes:
        options: Further options of acpx for each invocation.
    """

    def __init__(self, cli):
        self.cli = cli
        self.options = []

    async def __call__(self, *arguments):
        """Run acpx, and return the completed process."""
        return await run(self._make_argv(arguments), **self._options)

    @asynccontextmanager
    async def prompt(self, text):
        """Start a prompt, and yield a function that waits until acpx has printed a text."""
        argv = self._make_argv(["--approve-all", "--format", "json", "prompt", text])
        printed = b""

        async def wait_for(expected):
            nonlocal printed
            with trio.fail_after(60):
                while expected.encode() not in printed:
                    chunk = await process.stdout.receive_some()
                    assert chunk, printed
                    printed += chunk

        process = await trio.lowlevel.open_process(argv, stdout=subprocess.PIPE, **self._options)
        try:
            yield wait_for
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()
                await process.stdout.aclose()

    def _make_argv(self, arguments):
        command = f"{sys.executable} -m hilum acp"
        options = [
            "--agent",
            command,
            "--cwd",
            str(self.cli.workspace),
            "--ttl",
            "60",
            *self.options,
        ]
        return [str(NODE), str(ACPX), *options, *arguments]

    @property
    def _options(self):
        env = {**self.cli.env, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
        return {"env": env, "cwd": self.cli.workspace, "stdin": subprocess.DEVNULL}


@pytest.fixture
async def acpx(cli):
    if not ACPX.exists() or not NODE.exists():
        pytest.skip("needs acpx from npm (NPM_SERVERS) and Node.js")
    acpx = Acpx(cli)
    yield acpx
    with trio.CancelScope(shield=True):
        await acpx("sessions", "close")


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


async def test_acpx_shows_the_output_of_a_running_command_and_cancels(cli, acpx, asks):
    (cli.workspace / "a.txt").write_text("one\n")
    answers = [
        asks("run_terminal_cmd", command=WAITING),
        "Seen.",
        asks("run_terminal_cmd", command="echo begun; sleep 1000", id="c2"),
        "Never.",
    ]
    acpx.options = ["--no-terminal"]
    async with cli.model(*answers):
        created = await acpx("sessions", "new")
        assert created.returncode == 0, created.stderr.decode()
        # Without terminals, the output is shown as text.
        async with acpx.prompt("Wait") as wait_for:
            await wait_for("one\\nwaits")
            # The command still runs, and ends only now.
            (cli.workspace / "seen").touch()
            await wait_for("waits\\nended")
            await wait_for('"stopReason":"end_turn"')
        async with acpx.prompt("Wait for ever") as wait_for:
            await wait_for("```text\\nbegun")
            cancelled = await acpx("cancel")
            assert cancelled.returncode == 0, cancelled.stderr.decode()
            await wait_for('"stopReason":"cancelled"')


async def test_acpx_runs_a_viewer_in_its_terminal_and_who_ends_it_stops_the_call(cli, acpx, asks):
    (cli.workspace / "a.txt").write_text("one\n")
    answers = [
        asks("run_terminal_cmd", command=WAITING),
        "Seen.",
        asks("run_terminal_cmd", command="echo begun; sleep 1000", id="c2"),
        "I see.",
    ]
    async with cli.model(*answers) as model:
        created = await acpx("sessions", "new")
        assert created.returncode == 0, created.stderr.decode()
        async with acpx.prompt("Wait") as wait_for:
            await wait_for('"type":"terminal"')
            assert len(list_viewers(cli.folder)) == 1
            (cli.workspace / "seen").touch()
            await wait_for('"rawOutput":"Exit code 0')
            await wait_for("one\\nwaits\\nended")
            await wait_for('"stopReason":"end_turn"')
        async with acpx.prompt("Wait for ever") as wait_for:
            await wait_for('"type":"terminal"')
            [viewer] = list_viewers(cli.folder)
            os.kill(viewer, signal.SIGTERM)
            await wait_for("stopped by the user")
            await wait_for("I see.")
            await wait_for('"stopReason":"end_turn"')
        assert "stopped by the user" in str(model.requests[-1].body)


async def test_acpx_denies_a_call(cli, acpx, asks):
    async with cli.model(asks("write_file", path="b.txt", content="x"), "I may not."):
        done = await acpx("--deny-all", "--format", "json", "exec", "Write b.txt")
        assert "I may not." in done.stdout.decode(), done.stderr.decode()
        assert not (cli.workspace / "b.txt").exists()
