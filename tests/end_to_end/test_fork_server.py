"""The fork server, with real processes: what a forked start takes from its caller, and how it ends."""

import ctypes
import fcntl
import json
import os
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from hilum.fork_client import call_with_address, find_socket
from hilum_cli import exits
from hilum_cli.fork_server.callers import CallerRefused, read_caller
from hilum_cli.fork_server.server import MAX_INCOMING
from warm_start import OWN_TERMINAL, python_environment

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="fork server: only Linux"),
    pytest.mark.slow(cases=5, of="file"),
]

PR_SET_NO_NEW_PRIVS = 38
HILUM = [sys.executable, "-m", "hilum"]


class Server:
    """A fork server with a home folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.extra = folder / "extra"
        self.extra.mkdir()
        self.env = python_environment() | {"HOME": str(folder), "PYTHONPATH": str(self.extra)}

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``hilum fork-server``."""
        argv = [*HILUM, "fork-server", *words]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60)

    @property
    def pid(self) -> int:
        """The process of the server; 0 if none runs."""
        found = re.search(r"process (\d+)", self.call("status").stdout)
        return int(found[1]) if found else 0

    def ensure(self) -> int:
        """Start the server if it does not run, or wait until it has started again."""
        done = self.call("start")
        assert done.returncode == 0, done.stderr
        return self.pid

    def _list_children(self) -> dict[int, int]:
        """Return the process group of each child."""
        pid = self.pid
        found = {}
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                found[int(word)] = os.getpgid(int(word))
        return found

    @property
    def children(self) -> list[int]:
        """The forked processes that have taken over a start."""
        return [process for process, group in self._list_children().items() if group == process]

    @property
    def waiting(self) -> list[int]:
        """The standby; empty if there is none."""
        return [process for process, group in self._list_children().items() if group != process]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a worker."""
    found = Server(tmp_path_factory.mktemp("fork-server"))
    yield found
    found.call("stop")


@pytest.fixture
def forks(server: Server, cli) -> Server:
    """A running server, to which ``cli`` hands over."""
    server.ensure()
    for name in ("HILUM_CONFIG", "HILUM_DATA"):
        del cli.env[name]
    cli.env |= server.env
    return server


def run(cli, *words: str, **options) -> subprocess.CompletedProcess[str]:
    options = {"env": cli.env, "cwd": cli.workspace, **options}
    return subprocess.run(
        [*HILUM, *words], capture_output=True, text=True, timeout=60, check=False, **options
    )


async def test_a_run_is_a_fork_with_the_callers_streams_folder_and_environment(cli, forks, asks):
    """What the model's command sees comes from the caller; input, output and exit code are kept."""
    command = 'echo "mask $(umask)"; echo "files $(ulimit -Sn)"; echo "here $(pwd)"'
    seen = []

    async def answer() -> object:
        seen.extend(forks.children)
        return "Done: ä."

    def prepare() -> None:
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (777, 7777))

    async with cli.model(asks("run_terminal_cmd", command=command), answer) as model:
        words = ["run", "--approve", "auto", "--output-format", "json", "Work."]
        done = await trio.to_thread.run_sync(
            lambda: run(cli, *words, preexec_fn=prepare, input="piped")
        )
    assert done.returncode == 0, done.stderr
    assert "not used" not in done.stderr
    assert len(seen) == 1
    result = json.loads(done.stdout)
    assert result["text"] == "Done: ä."
    shown = str(model.requests[-1])
    assert "mask 0027" in shown
    assert "files 777" in shown
    assert f"here {cli.workspace}" in shown
    assert forks.children == []


def test_the_script_is_handed_over_too(cli, forks):
    """Its messages would say if not."""
    script = Path(sys.executable).with_name("hilum")
    done = subprocess.run([script, "--version"], env=cli.env, capture_output=True, check=True)
    assert done.stderr == b""


def test_help_and_wrong_options_give_the_same_as_without_the_server(cli, forks):
    for words in (["--help"], ["run", "--help"], ["--version"], ["run", "--no-such-option", "x"]):
        forked = run(cli, *words)
        plain = run(cli, *words, env=cli.env | {"HOME": str(cli.folder)})
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            plain.returncode,
            plain.stdout,
            plain.stderr,
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_end_the_fork_and_its_exit_code_is_kept(cli, forks, wait_until, number):
    began = trio.Event()

    async def think() -> object:
        began.set()
        await trio.sleep_forever()

    async with cli.model(think, "Never."):
        process = await trio.lowlevel.open_process(
            [*HILUM, "run", "Work."],
            env=cli.env,
            cwd=cli.workspace,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with trio.fail_after(60):
            await began.wait()
            assert len(forks.children) == 1
            process.send_signal(number)
            assert await process.wait() == 128 + number
    await wait_until(lambda: not forks.children)


async def test_a_killed_client_takes_its_fork_with_it(cli, forks, wait_until, gone):
    began = trio.Event()

    async def think() -> object:
        began.set()
        await trio.sleep_forever()

    async with cli.model(think, "Never."):
        process = await trio.lowlevel.open_process(
            [*HILUM, "run", "Work."],
            env=cli.env,
            cwd=cli.workspace,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with trio.fail_after(60):
            await began.wait()
            (fork,) = forks.children
            process.kill()
            await process.wait()
    await wait_until(lambda: gone(fork))
    assert forks.pid


async def test_a_killed_server_takes_its_forks_with_it(cli, forks, wait_until, gone):
    began = trio.Event()

    async def think() -> object:
        began.set()
        await trio.sleep_forever()

    async with cli.model(think, "Never."):
        process = await trio.lowlevel.open_process(
            [*HILUM, "run", "Work."],
            env=cli.env,
            cwd=cli.workspace,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with trio.fail_after(60):
            await began.wait()
            (fork,) = forks.children
            await wait_until(lambda: forks.waiting)
            (waiting,) = forks.waiting
            os.kill(forks.pid, signal.SIGKILL)
            assert await process.wait() == 128 + signal.SIGTERM
            await process.stderr.aclose()
    await wait_until(lambda: gone(fork) and gone(waiting))
    # What the killed server left does not prevent a start.
    assert run(cli, "--version").stderr == ""


async def test_a_start_is_taken_over_by_the_process_that_was_forked_ahead(cli, forks, wait_until):
    await wait_until(lambda: forks.waiting)
    waiting = forks.waiting
    seen = []

    async def answer(_request: object) -> object:
        seen.extend(forks.children)
        return "Done."

    async with cli.model(answer):
        done = await trio.to_thread.run_sync(lambda: run(cli, "run", "Work."))
    assert done.returncode == 0, done.stderr
    assert "not used" not in done.stderr
    assert seen == waiting
    # Another one is forked for the next start.
    await wait_until(lambda: forks.waiting)
    assert forks.waiting != waiting


async def test_a_killed_process_that_was_forked_ahead_is_no_obstacle(cli, forks, wait_until):
    await wait_until(lambda: forks.waiting)
    os.kill(forks.waiting[0], signal.SIGKILL)
    done = run(cli, "--version")
    assert (done.returncode, done.stderr) == (0, "")


def test_changed_packages_end_the_server_which_starts_again(cli, forks):
    before = forks.pid
    (forks.extra / "new_module.py").write_text("")
    done = run(cli, "--version")
    assert done.returncode == 0
    assert re.fullmatch(
        rf"hilum: the fork server is not used: {re.escape(str(forks.extra))} has changed,"
        r" so the server starts again\.\n",
        done.stderr,
    )
    # It replaces itself, in the same process, and `status` waits for it.
    end = time.monotonic() + 60
    assert forks.pid == before
    while run(cli, "--version").stderr and time.monotonic() < end:
        assert forks.pid == before
    # No start is silent because there is no server: its process still listens.
    assert run(cli, "--version").stderr == ""
    assert forks.pid == before


def test_a_server_that_starts_again_can_be_stopped(cli, forks):
    (forks.extra / "newer_module.py").write_text("")
    assert "has changed" in run(cli, "--version").stderr
    assert forks.call("stop").stdout == "The fork server has ended.\n"
    status = forks.call("status")
    assert (status.returncode, status.stdout) == (1, "No fork server runs.\n")


def test_a_start_with_another_interpreter_environment_is_a_usual_one(cli, forks):
    done = run(cli, "--version", env=cli.env | {"PYTHONHASHSEED": "1"})
    assert done.returncode == 0
    assert done.stdout.startswith("hilum ")
    assert done.stderr == (
        "hilum: the fork server is not used: PYTHONHASHSEED had another value when the server was"
        " started. To use the present value, run `hilum fork-server stop` and"
        " `hilum fork-server start`.\n"
    )


def test_many_other_variables_are_counted(cli, forks):
    names = {f"LC_{number}": "x" for number in range(5)}
    done = run(cli, "--version", env=cli.env | names)
    assert "not used: LC_0, LC_1, LC_2 and 2 more had another value" in done.stderr


def test_another_search_path_is_a_usual_start(cli, forks):
    argv = [sys.executable, "-X", "utf8", "-m", "hilum", "--version"]
    done = subprocess.run(argv, env=cli.env, capture_output=True, text=True, check=True)
    assert "not used: Python would run with other options or another search path." in done.stderr


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_other_users_may_write_to_is_not_trusted(cli, forks, mode):
    """Another user could put a server there that reads the environment of the next start."""
    folder = Path(find_socket(cli.env)).parent
    folder.chmod(mode)
    try:
        done = run(cli, "--version")
    finally:
        folder.chmod(0o700)
    assert done.returncode == 0
    assert f"not used: other users may write to its folder {folder}." in done.stderr


def test_a_process_without_new_privileges_is_refused(cli, forks):
    """Every sandbox sets this flag, so no command of an agent gets out through the server."""

    def confine() -> None:
        assert ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0

    done = run(cli, "--version", preexec_fn=confine)
    assert done.returncode == 0
    assert "not used: it was asked by a process in a sandbox." in done.stderr


async def test_a_command_in_the_sandbox_does_not_see_the_socket(cli, forks, asks):
    folder = Path(forks.env["HOME"], ".local/share/hilum/fork-server")
    assert [name.rpartition(".")[2] for name in sorted(os.listdir(folder))] == ["sock", "lock"]
    # The server was the first program that needed the folder of hilum's data.
    for each in (folder, folder.parent):
        assert os.stat(each).st_mode & 0o777 == 0o700
    command = f"ls {folder} >/dev/null 2>&1 && echo VISIBLE || echo HIDDEN"
    async with cli.model(asks("run_terminal_cmd", command=command), "Done.") as model:
        done = await trio.to_thread.run_sync(lambda: run(cli, "run", "--approve", "auto", "Work."))
    assert done.returncode == 0, done.stderr
    assert "HIDDEN" in str(model.requests[-1])


async def test_files_from_before_a_start_are_not_the_work_of_its_agent(
    cli, forks, wait_until, asks
):
    """The process was forked ahead, and before the user wrote the files."""
    await wait_until(lambda: forks.waiting)
    (cli.workspace / "AGENTS.md").write_text("- Never run `git push`.\n")
    (cli.workspace / "given.py").write_text("import sys\nexec(sys.argv[1])\n")
    command = f"{sys.executable} given.py 'print(6 * 7)'"
    async with cli.model(asks("run_terminal_cmd", command=command), "Done.") as model:
        words = ["run", "--approve", "auto", "Work."]
        done = await trio.to_thread.run_sync(lambda: run(cli, *words))
    assert done.returncode == 0, done.stderr
    assert "not used" not in done.stderr
    assert "42" in str(model.requests[-1])


# A shell that runs one program in the foreground of its terminal, and continues it once it stops.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
program = os.fork()
if not program:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
_, status = os.waitpid(program, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
print("STOPPED" if os.WIFSTOPPED(status) else "ENDED", flush=True)
os.tcsetpgrp(0, program)
os.killpg(program, signal.SIGCONT)
_, status = os.waitpid(program, 0)
os.tcsetpgrp(0, os.getpgrp())
print(f"CODE {os.waitstatus_to_exitcode(status)}", flush=True)
"""


async def test_a_conversation_in_a_terminal_stops_continues_and_ends(cli, forks):
    """After Ctrl-Z, the shell sees its program stop, and continues it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    text = ""

    async def see(wanted: str) -> None:
        nonlocal text
        while wanted not in text:
            await trio.lowlevel.wait_readable(ours)
            text += os.read(ours, 65536).decode(errors="replace")
        text = text.partition(wanted)[2]

    async with cli.model("Hello from the model."):
        shell = [sys.executable, "-c", SHELL]
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", OWN_TERMINAL, *shell, *HILUM],
            env=cli.env | {"TERM": "xterm-256color"},
            cwd=cli.workspace,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        try:
            with trio.fail_after(60):
                await see("\u276f")
                assert len(forks.children) == 1
                os.write(ours, b"Hi\r")
                await see("Hello from the model.")
                os.write(ours, b"\x1a")
                await see("STOPPED")
                await see("\u276f")
                # The new size comes with a signal, which the client passes on.
                fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
                await see("\u276f")
                os.write(ours, b"/exit\r")
                await see("CODE 0")
        finally:
            process.kill()
            await process.wait()
            os.close(ours)
            os.close(theirs)


def test_a_folder_for_bytecode_that_appears_during_the_start_is_no_change(tmp_path):
    """The first import of a module creates it, and the server starts again by itself."""
    server = Server(tmp_path)
    (server.extra / "sqlite3.py").write_text("raise ImportError\n")
    started = server.call("start")
    assert started.returncode == 0, started.stderr
    assert (server.extra / "__pycache__").is_dir()
    server.call("stop")


def test_several_starts_at_once_give_one_server(tmp_path):
    """Those that come second wait for the first one's server."""
    server = Server(tmp_path)
    argv = [*HILUM, "fork-server", "start"]
    starts = [
        subprocess.Popen(
            argv, env=server.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    results = [(*each.communicate(timeout=60), each.returncode) for each in starts]
    assert {code for _, _, code in results} == {0}, results
    assert len({output for output, _, _ in results}) == 1, results
    assert server.call("stop").returncode == 0
    # The next one starts although the lock of the ended one may still be held.
    assert server.call("start").returncode == 0
    assert server.call("stop").returncode == 0


async def test_a_process_that_the_server_started_is_refused():
    """A command of an agent without a sandbox descends from the server, as its run does."""
    child = await trio.lowlevel.open_process(["sleep", "60"])
    try:
        with pytest.raises(CallerRefused, match="asked by a process that this session started"):
            read_caller(child.pid, os.getuid())
        with pytest.raises(CallerRefused, match="asked by another user"):
            read_caller(child.pid, os.getuid() + 1)
    finally:
        child.kill()
        await child.wait()


# --- clients that do not behave ---------------------------------------------------------------


def connect(server: Server) -> socket.socket:
    """Return a connection to a server, on which nothing is sent."""
    (path,) = Path(server.env["HOME"], ".local/share/hilum/fork-server").glob("*.sock")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(30)
    call_with_address(connection.connect, str(path))
    return connection


def count_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


# A client that never says that it has read the answer, which is the signal to begin.
WAITING_CLIENT = """
import sys
from hilum.fork_client import _Handover, call_with_address, find_socket
handover = _Handover(find_socket(), ["--version"])
request = handover._make_request()
call_with_address(handover._socket.connect, find_socket())
handover._send(request)
print(handover._read_line().decode(), flush=True)
sys.stdin.read()
"""


def test_connections_without_a_request_delay_nobody(cli, forks):
    """Together, they would delay the next start by more than it waits."""
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(forks))
        begun = stack.enter_context(connect(forks))
        begun.sendall((1000).to_bytes(4, "big") + b"half of a request")
        assert run(cli, "--version").stderr == ""


async def test_clients_that_do_not_begin_delay_nobody(cli, forks, wait_until):
    argv = [sys.executable, "-c", WAITING_CLIENT]
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            start = partial(
                trio.run_process,
                argv,
                env=cli.env,
                stdin=subprocess.PIPE,
                capture_stdout=True,
                check=False,
            )
            await nursery.start(start)
        await wait_until(lambda: len(forks.children) == 3)
        assert run(cli, "--version").stderr == ""
        nursery.cancel_scope.cancel()
    await wait_until(lambda: not forks.children)


def test_only_the_oldest_of_many_silent_connections_is_closed(cli, forks):
    with ExitStack() as stack:
        oldest = stack.enter_context(connect(forks))
        others = [stack.enter_context(connect(forks)) for _ in range(MAX_INCOMING)]
        assert oldest.recv(1) == b""
        assert run(cli, "--version").stderr == ""
        # Its own connection has taken the place of the second one.
        assert others[0].recv(1) == b""
        others[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            others[-1].recv(1)


async def test_descriptors_of_refused_and_broken_requests_are_closed(forks, wait_until):
    pid = forks.pid
    await wait_until(lambda: forks.waiting)
    before = count_descriptors(pid)
    for _ in range(20):
        with connect(forks) as connection:
            socket.send_fds(connection, [(1 << 31).to_bytes(4, "big") + b"x"], [0, 1, 2, 0])
            assert connection.recv(100) == b"the request is too large\n"
        with connect(forks) as connection:
            socket.send_fds(connection, [(1000).to_bytes(4, "big") + b"x"], [0, 1, 2, 0])
    await wait_until(lambda: count_descriptors(pid) <= before)


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        (b"[" * 200_000, b"the request is not valid\n"),
        (b"", b"the request is not valid\n"),
        (b"x\0" + b"9" * 100_000, b"the request is not valid\n"),
        (b"x\x00-5\0a", b"the request is not valid\n"),
        (b"x\0001\0a\0b\0no variable", b"the request is not valid\n"),
        (b"x\0001\0a\0b", b"the request has no standard streams\n"),
    ],
)
def test_a_malformed_request_is_refused(forks, request_text, answer):
    pid = forks.pid
    with connect(forks) as connection:
        connection.sendall(len(request_text).to_bytes(4, "big") + request_text)
        assert connection.recv(100) == answer
    assert forks.pid == pid


# --- the command ------------------------------------------------------------------------------


async def test_stop_waits_for_the_processes_of_the_server(cli, forks, wait_until, gone):
    """Starts in the meantime do not wait for the server's end."""
    began = trio.Event()

    async def think() -> object:
        began.set()
        await trio.sleep_forever()

    server = forks.pid
    async with cli.model(think, "Never."):
        process = await trio.lowlevel.open_process(
            [*HILUM, "run", "Work."],
            env=cli.env,
            cwd=cli.workspace,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with trio.fail_after(60):
            await began.wait()
            (fork,) = forks.children
            os.kill(fork, signal.SIGSTOP)
            stop = await trio.lowlevel.open_process(
                [*HILUM, "fork-server", "stop"], env=forks.env, stdout=subprocess.PIPE
            )
            await wait_until(lambda: is_pending(fork, signal.SIGTERM))
            # Nothing that happens in two seconds makes `stop` return.
            end = trio.current_time() + 2
            while trio.current_time() < end:
                meanwhile = await trio.to_thread.run_sync(lambda: run(cli, "--version"))
                assert meanwhile.stderr == "hilum: the fork server is not used: it is ending.\n"
            assert stop.poll() is None
            os.kill(fork, signal.SIGCONT)
            assert await stop.stdout.receive_some() == b"The fork server has ended.\n"
            assert await stop.wait() == 0
            await stop.stdout.aclose()
            assert gone(server)
            assert gone(fork)
            # It stopped with its fork, as a shell would expect.
            process.send_signal(signal.SIGCONT)
            await process.wait()


def is_pending(process: int, number: signal.Signals) -> bool:
    """Return whether a process has not received a signal that was sent to it."""
    found = re.search(r"^ShdPnd:\s*(\w+)", Path(f"/proc/{process}/status").read_text(), re.M)
    assert found
    return bool(int(found[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("minutes", ["nan", "inf", "1e12", "0", "-5", "0.001", "soon"])
def test_an_impossible_idle_time_is_rejected(tmp_path, minutes):
    done = Server(tmp_path).call("start", f"--idle-minutes={minutes}")
    assert done.returncode == exits.USAGE
    assert f"E_BAD_ARGS: Argument --idle-minutes: '{minutes}' is not a number of" in done.stderr
    assert not Path(tmp_path, ".local").exists()


def test_an_option_that_cannot_be_applied_is_not_ignored_silently(forks):
    pid = forks.pid
    done = forks.call("start", "--idle-minutes", "500")
    assert done.returncode == 0
    assert done.stdout == (
        f"The fork server runs as process {pid}. --idle-minutes does not change it: to apply the"
        " option, run hilum fork-server stop first.\n"
    )


def test_help_and_errors_list_only_the_actions_of_users(tmp_path):
    server = Server(tmp_path)
    shown = server.call("--help").stdout
    assert "start, stop or status" in shown
    error = server.call("restart").stderr
    assert "(choose from" in error
    assert "serve'" not in error
