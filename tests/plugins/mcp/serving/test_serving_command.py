"""``hilum mcp serve`` as a program: its transport, its end, and what remains."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trio
from hilum import UsageError
from hilum_mcp import serve_command
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

pytestmark = pytest.mark.slow(cases=4, of="file")

PROGRAM = [
    sys.executable,
    "-c",
    "from hilum.__main__ import main; raise SystemExit(main())",
    "mcp",
    "serve",
]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def make_place(folder):
    """Create a folder to work in; return it and an empty environment."""
    (folder / "work").mkdir()
    (folder / "work" / "a.txt").write_text("one\n")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HILUM_", "XDG_"))
    }
    kept |= {
        "HILUM_CONFIG": str(folder / "config"),
        "HILUM_DATA": str(folder / "data"),
        "HOME": str(folder),
    }
    return folder / "work", kept


@pytest.fixture
def place(tmp_path):
    """Return a folder to work in and an empty environment."""
    return make_place(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return a program for several tests, after the handshake, and the folder that it works in."""
    place = make_place(tmp_path_factory.mktemp("shared"))
    with program(place) as process:
        send(process, HELLO, READY)
        assert receive(process, 1)["result"]
        yield process, place[0]


@contextmanager
def program(place, *options, **more):
    """Start the program, and end it after the test in any case."""
    folder, environ = place
    command = [*PROGRAM, "-C", str(folder), *options]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=environ, **pipes | more)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def send(process, *messages):
    """Send messages, one per line."""
    for message in messages:
        process.stdin.write(
            message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        )
    process.stdin.flush()


def receive(process, identity):
    """Read messages until the answer to a request."""
    while line := process.stdout.readline():
        message = json.loads(line)  # nothing but messages is on the wire
        if message.get("id", "") == identity:
            return message
    raise AssertionError(process.stderr.read().decode())


def call(identity, name, **arguments):
    """Return a call of a tool."""
    return {
        "jsonrpc": "2.0",
        "id": identity,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }


def running(mark):
    """Return the processes with a mark in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def gone(mark):
    """Return whether no process has the mark, at the latest after some seconds."""
    for _ in range(500):
        if not running(mark):
            return True
        time.sleep(0.01)
    return False


def events(place):
    """Return the log of the only session."""

    def sessions(*words):
        command = [*PROGRAM[:3], "sessions", *words]
        return subprocess.run(
            command, cwd=place[0], env=place[1], capture_output=True, text=True, check=True
        ).stdout

    return sessions("show", re.search(r"^\d[\w-]+", sessions("list"), re.MULTILINE)[0], "--events")


@contextmanager
def sleeping(place, *options):
    """Start the program with a running command.

    Returns the program and the mark of the command's processes.
    """
    with program(place, "--approve", "auto", *options) as process:
        fifo, seconds = place[0] / "fifo", f"1{os.getpid()}.{time.monotonic_ns()}"
        os.mkfifo(fifo)
        send(
            process,
            HELLO,
            READY,
            call(2, "run_terminal_cmd", command=f"sleep {seconds} & echo > fifo; sleep {seconds}"),
        )
        fifo.read_bytes()
        assert running(seconds.encode())
        yield process, seconds.encode()


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_change_of_a_client_can_be_undone(place, mode):
    """A client of the SDK starts the server, reads and changes.

    ``hilum undo`` reverts the change.
    """
    folder, environ = place
    command = [*PROGRAM[1:], "-C", str(folder), "--approve", "auto"]
    params = StdioServerParameters(command=sys.executable, args=command, env=environ)
    with open(folder.parent / "errors", "w") as errors, trio.fail_after(60):  # noqa: ASYNC230
        async with Client(stdio_client(params, errlog=errors), mode=mode) as client:
            assert not (await client.call_tool("read_file", {"path": "a.txt"})).is_error
            change = {"path": "a.txt", "old_string": "one", "new_string": "two"}
            assert not (await client.call_tool("edit_file", change)).is_error
    assert (folder / "a.txt").read_text() == "two\n"
    undo = [*PROGRAM[:3], "undo"]
    await trio.run_process(undo, cwd=folder, env=environ, capture_stdout=True, capture_stderr=True)
    assert (folder / "a.txt").read_text() == "one\n"
    assert (folder.parent / "errors").read_text() == ""


def test_only_the_protocol_is_on_standard_output(place):
    """Invalid lines are survived, and output of plugins and commands does not reach the client."""
    folder, environ = place
    packages = folder.parent / "packages"
    (packages / "loud-1.dist-info").mkdir(parents=True)
    (packages / "loud-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: loud\nVersion: 1\n"
    )
    (packages / "loud-1.dist-info" / "entry_points.txt").write_text("[hilum]\nloud = loud\n")
    (packages / "loud.py").write_text(
        "import os\nprint('LOUD')\nos.write(1, b'LOUDER\\n')\nassert os.read(0, 9) == b''\n"
    )
    with program((folder, environ | {"PYTHONPATH": str(packages)})) as process:
        send(
            process,
            b"\n",
            b"no json\n",
            b'{"json": "but no message"}\n',
            b"\xff\xfe\n",
            HELLO,
            READY,
        )
        assert receive(process, 1)["result"]["serverInfo"]["name"] == "hilum"
        send(process, call(2, "read_file", path="a.txt"))
        assert "one" in receive(process, 2)["result"]["content"][0]["text"]
        process.stdin.close()
        # The server may still announce that its list of tools has changed.
        for line in process.stdout.read().splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert process.wait(20) == 0
        said = process.stderr.read()
    assert b"LOUD\n" in said
    assert b"LOUDER\n" in said


def test_an_invalid_message_is_answered(shared):
    """The answer has its id if there is one, and the next message is served."""
    process, _ = shared
    wrong = json.dumps(call(2, "read_file", path="\ud800")).encode()
    others = (
        (b"{no json", -32700),
        (b"[" * 100_000, -32700),
        (b'{"id": []}', -32600),
        (b"7", -32600),
    )
    send(process, wrong + b"\n")
    assert receive(process, 2)["error"]["code"] == -32600
    for line, code in others:
        send(process, line + b"\n")
        assert receive(process, None)["error"]["code"] == code
    send(process, {"jsonrpc": "2.0", "id": 3, "method": "ping"})
    assert receive(process, 3)["result"] == {}


def test_the_end_of_input_ends_the_server(place):
    """A client that called nothing leaves no session behind."""
    folder, environ = place
    with program(place) as process:
        send(process, HELLO, READY, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        names = {tool["name"] for tool in receive(process, 2)["result"]["tools"]}
        assert {"read_file", "run_terminal_cmd", "agent_explore"} <= names
        assert not names & {"task", "ask_question", "todo_write"}
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""
    shown = subprocess.run(
        [*PROGRAM[:3], "sessions", "list"], cwd=folder, env=environ, capture_output=True, text=True
    )
    assert "There are no sessions" in shown.stdout


def test_nothing_is_changed_without_approval(shared):
    """A client that cannot ask may read; calls that change something are refused."""
    process, folder = shared
    send(process, call(4, "write_file", path="b.txt", content="x"))
    result = receive(process, 4)["result"]
    assert result["isError"]
    assert "Nobody could approve the call" in result["content"][0]["text"]
    assert not (folder / "b.txt").exists()


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_all_processes(place, number):
    """This holds for a polite signal and for SIGKILL."""
    with sleeping(place) as (process, command):
        process.send_signal(number)
        code = process.wait(20)
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        assert gone(command)
        if number != signal.SIGKILL:
            assert '"run_ended"' in events(place)
            assert '"state":"stopped"' in events(place)


def test_all_processes_end_when_the_client_is_gone(place):
    """The pipe closes during a call."""
    with sleeping(place) as (process, command):
        process.stdin.close()
        process.stdout.close()
        assert process.wait(20) == 0
        assert gone(command)


def test_over_http_it_prints_address_and_token_once(place):
    """The output has what a client needs; a signal ends the server."""
    with program(place, "--http") as process:
        address, token = process.stdout.readline().decode(), process.stdout.readline().decode()
        url = re.search(r"http://127\.0\.0\.1:\d+/mcp", address)[0]
        given = {
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {token.split()[1]}",
        }
        deadline = time.monotonic() + 20
        while True:
            try:
                answer = httpx.post(url, json=HELLO, headers=given)
                break
            except httpx.ConnectError:
                assert time.monotonic() < deadline
        assert answer.status_code == 200
        assert "hilum" in answer.text
        assert httpx.post(url, json=HELLO).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        assert process.stdout.read() == b""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http", "99999"], "is not a port"),
        (["--approve", "never"], "invalid choice"),
        (["--token-file", "/", "--http"], "token"),
        (["-C", "/nowhere"], "The folder /nowhere does not exist"),
        (["--tool", "x"], "--tools"),
    ],
)
def test_a_wrong_option_is_rejected(capfd, options, said):
    """Nothing is opened, and nothing is printed."""
    with pytest.raises(UsageError) as failure:
        serve_command.run(options)
    assert said in str(failure.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "none/x"], "none"),
        (["--mode", "none"], "mode"),
        (["--tool", "x"], "--tools"),
    ],
)
def test_a_mistake_is_reported_with_a_hint(place, options, said):
    """Standard error has one line about it, and standard output is empty."""
    with program(place, *options) as process:
        out, err = process.communicate(timeout=30)
    assert process.returncode not in (0, 1)
    assert out == b""
    assert said in err.decode()
    assert "Traceback" not in err.decode()
