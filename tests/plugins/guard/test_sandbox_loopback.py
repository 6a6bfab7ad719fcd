"""The loopback of a session: its commands reach each other there, and nobody else.

And nothing is gained by it.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import attrs
import hilum_guard
import hilum_shell
import pytest
import trio
from hilum import Command, ToolError
from hilum.testing import open_bench
from hilum_guard.sandbox import (
    backends,
    bubblewrap,
    landlock,
    loopback,
    sandbox_probe,
    session_sandbox,
)
from hilum_guard.sandbox.loopback import HOLD, Loopback
from hilum_guard.sandbox.sandbox_prompt import describe_sandbox
from hilum_guard.settings import GuardSettings

PYTHON = sys.executable
SHARED = pytest.mark.parametrize("backend", ["bubblewrap", "spare", "landlock"], indirect=True)
SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        with server.accept()[0] as client: client.sendall(b"served")
"""
CLIENT = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 20).recv(9).decode())"


@pytest.fixture
def shared(box):
    """A sandbox whose commands share a loopback; skips the test where they cannot."""
    if not box.enforced.shared:
        pytest.skip("no loopback can be shared here")
    return box


def maker(by: str) -> list[str]:
    """The command that makes a loopback; skips the test where there is none."""
    argv: list[str] = []
    if by == "bubblewrap" and bubblewrap.find_bubblewrap():
        argv = bubblewrap.make_loopback_command()
    if by == "landlock" and sys.platform == "linux" and landlock.read_abi_version():
        argv = backends.make_loopback_command(by)
    if not argv or not loopback.works(argv, lambda _: True):
        pytest.skip(f"no {by}, or no namespaces for it")
    return argv


@SHARED
async def test_a_server_of_one_command_is_reached_by_the_next(shared) -> None:
    """While it runs, commands of the same session reach it.

    Those of another session do not, nor does the machine.
    """
    one, other = shared.processes(), shared.processes()
    with trio.fail_after(60):
        async with one.open([PYTHON, "-c", SERVER]) as server:
            port = (await server.stdout.receive_some()).decode().strip()
            for _ in range(2):
                done = await one.run([PYTHON, "-c", CLIENT, port])
                assert done.stdout == b"served\n", done
            done = await other.run([PYTHON, "-c", CLIENT, port])
            assert b"Connection refused" in done.stderr
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(port)))
        done = await one.run([PYTHON, "-c", CLIENT, port])
        assert b"Connection refused" in done.stderr


@SHARED
async def test_the_machines_own_servers_are_not_reached_from_the_shared_loopback(shared) -> None:
    """A second command, which joins, is kept in like the first."""
    processes = shared.processes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        for _ in range(2):
            done = await processes.run([PYTHON, "-c", CLIENT, str(server.getsockname()[1])])
            assert b"Connection refused" in done.stderr
            with pytest.raises(BlockingIOError):
                server.accept()
    devices = (await processes.run(["cat", "/proc/self/net/dev"])).stdout.decode().splitlines()[2:]
    assert "lo" in [line.split(":")[0].strip() for line in devices]
    assert (await processes.run(["cat", "/proc/self/net/route"])).stdout.count(b"\n") <= 1, (
        "there is no way out"
    )


@pytest.mark.parametrize("backend", ["bubblewrap"], indirect=True)
async def test_a_command_that_only_reads_has_a_network_of_its_own(shared) -> None:
    """It does not wait for the loopback, and reaches no server of the session."""
    processes = shared.processes()
    with trio.fail_after(60):
        async with processes.open([PYTHON, "-c", SERVER]) as server:
            port = (await server.stdout.receive_some()).decode().strip()
            done = await processes.run([PYTHON, "-c", CLIENT, port], purpose="look")
            assert b"Connection refused" in done.stderr
            done = await processes.run([PYTHON, "-c", CLIENT, port])
            assert done.stdout == b"served\n", done


GAIN = """
import ctypes, fcntl, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(what, result):
    if result >= 0: print("could", what)
def attempt(what, act):
    try: act()
    except OSError: return
    print("could", what)
def switch_off():
    with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sH22x", b"lo", 0))
def rights(where):
    attempt(f"switch the loopback off {where}", switch_off)
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    check(f"enter the network again {where}", libc.setns(fd, 0x40000000))
    attempt(f"open the namespace that owns the network {where}", lambda: fcntl.ioctl(fd, 0xB701))
    own = os.open("/proc/self/ns/user", os.O_RDONLY)
    attempt(f"open the shared user namespace {where}", lambda: fcntl.ioctl(own, 0xB702))
    for path in sys.argv[1:]: attempt(f"open {path} {where}", lambda: os.open(path, os.O_RDONLY))
rights("as it is")
if not libc.unshare(0x10000000): rights("in a user namespace of its own")
print(*[line for line in open("/proc/self/status") if line.startswith("CapBnd")])
"""


@SHARED
async def test_a_command_gains_nothing_in_the_shared_namespaces(shared) -> None:
    """It has no rights over the network it is in, cannot get at the user namespace behind it, and
    has no capability.
    """
    processes = shared.processes()
    await processes.run(["true"])
    paths = shared.sandboxes[-1]._loopback.paths(())
    done = await processes.run([PYTHON, "-c", GAIN, *paths])
    assert done.returncode == 0, done
    assert b"could" not in done.stdout, done.stdout.decode()
    done = await processes.run(["grep", "-E", "Cap(Eff|Prm|Inh|Bnd)", "/proc/self/status"])
    assert {int(line.split()[1], 16) for line in done.stdout.decode().splitlines()} == {0}


@SHARED
async def test_commands_have_other_namespaces_of_their_own(shared) -> None:
    """The network is all that they share: not the user namespace, nor what comes with it."""
    processes = shared.processes()
    line = "for n in user net ipc; do readlink /proc/self/ns/$n; done"
    (user, net, ipc), again = [
        (await processes.run(["sh", "-c", line])).stdout.split() for _ in range(2)
    ]
    assert net == again[1]
    owner = os.readlink(shared.sandboxes[-1]._loopback.paths(())[0]).encode()
    assert owner not in (user, again[0])
    assert os.readlink("/proc/self/ns/ipc").encode() not in (ipc, again[2])


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"], indirect=True)
async def test_a_command_whose_loopback_is_gone_does_not_run(shared, root: Path) -> None:
    """It does not run with another network instead."""
    processes = shared.processes()
    one = shared.sandboxes[-1]
    wrapped = await one.wrap_process(Command(("touch", "ran"), str(root), dict(os.environ)))
    one._loopback.close()
    done = await shared.warden.run(wrapped)
    assert done.returncode == 125, done
    assert b"hilum: the sandbox" in done.stderr
    assert not (root / "ran").exists()
    assert (await processes.run(["touch", "ran"])).returncode == 0, (
        "the next command gets a new one"
    )


@SHARED
async def test_a_loopback_that_cannot_be_made_stops_the_command(
    shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command does not run, the error says why, and the next attempt is a new one."""
    processes = shared.processes()
    with monkeypatch.context() as patch:
        patch.setattr(backends, "make_loopback_command", lambda _: ["false"])
        with pytest.raises(ToolError, match="sandbox's network could not be created") as caught:
            await processes.run(["true"])
    assert caught.value.code == "E_CMD_FAIL"
    assert (await processes.run(["true"])).returncode == 0


@pytest.mark.parametrize("by", ["bubblewrap", "landlock"])
def test_nothing_runs_to_keep_a_loopback(by: str) -> None:
    """It is held by descriptors that no child gets: no process is left in it, and closing lets go
    of it.
    """
    made = Loopback()
    paths = made.paths(maker(by))
    assert made.paths(()) == paths, "it is made once"
    names = {os.readlink(path) for path in paths}
    assert len(names) == 2
    fds = [int(path.rpartition("/")[2]) for path in paths]
    assert not any(os.get_inheritable(fd) for fd in fds)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            assert os.readlink(f"/proc/{pid}/ns/net") not in names
    made.close()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@pytest.mark.parametrize("by", ["bubblewrap", "landlock"])
def test_a_maker_ends_with_whom_it_serves(by: str) -> None:
    """When hilum is killed while it waits for the maker, the maker ends by itself."""
    with subprocess.Popen(maker(by), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        pid = int(process.stdout.readline())
        assert os.path.exists(f"/proc/{pid}")
        process.stdin.close()
        process.wait(60)
        assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["sh", "-c", HOLD], "no user namespace of its own"),
        (["sh", "-c", "echo 1000000000"], "No such file"),
        (["sh", "-c", "echo nonsense"], "invalid literal"),
        (["false"], "/proc/0/"),
        (["/nowhere/bwrap"], "No such file"),
        (["unshare", "-Urn", "sh", "-c", "echo $$; read -r _; kill -9 $$"], "has ended"),
    ],
)
def test_a_maker_that_does_not_what_it_should(argv: list[str], why: str, open_files) -> None:
    """Nothing is joined by mistake, not even when it was killed and its process id means another by
    now.
    """
    if argv[0] == "unshare" and (
        not shutil.which("unshare") or subprocess.run(["unshare", "-Urn", "true"]).returncode
    ):
        pytest.skip("no namespaces, or no unshare")
    before = open_files()
    with pytest.raises(OSError, match=why):
        Loopback().paths(argv)
    assert not open_files() - before
    assert not loopback.works(argv, lambda _: True)


def test_bubblewrap_without_nsenter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command has a loopback of its own, and this is said to the user and to the model."""
    if bubblewrap.try_bubblewrap():
        pytest.skip("no bubblewrap")
    monkeypatch.setattr(bubblewrap, "find_nsenter", lambda: "")
    found = backends.check_bubblewrap()
    assert not isinstance(found, str)
    assert (found.shared, found.network, found.whole) == (False, "namespace", True)
    assert "nsenter (util-linux) is not installed" in found.reasons[-1]
    assert "must be started by one command" in describe_sandbox(found, GuardSettings())


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_commands_without_a_shared_loopback(box) -> None:
    """They have one each."""
    box.enforced = attrs.evolve(box.enforced, shared=False)
    processes = box.processes()
    with trio.fail_after(60):
        async with processes.open([PYTHON, "-c", SERVER]) as server:
            port = (await server.stdout.receive_some()).decode().strip()
            assert (
                b"Connection refused" in (await processes.run([PYTHON, "-c", CLIENT, port])).stderr
            )


async def test_a_background_server_and_a_client_through_the_tools(tmp_path: Path) -> None:
    """The model starts a server in the background and reaches it with its next command.

    It is told that it can.
    """
    if not sandbox_probe.probe().shared:
        pytest.skip("no loopback can be shared here")
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, answers=["done"], approve="auto"
    ) as b:
        (b.workspace / "server.py").write_text(SERVER.replace("0)", "8765)"))
        (b.workspace / "client.py").write_text(CLIENT)
        started = await b.call("run_terminal_cmd", command=f"{PYTHON} server.py", background=True)
        wait = f"for n in $(seq 100); do {PYTHON} client.py 8765 2>/dev/null && exit; sleep 0.1; done; exit 1"
        result = await b.call("run_terminal_cmd", command=wait)
        assert "served" in result.text, (started.text, result.text)
        await b.run("hello")
        assert "reached by later commands at 127.0.0.1" in b.requests[-1].body.decode()


async def test_a_socket_that_vanishes_before_it_is_covered(
    box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in a folder that the sandbox mounts read-only, where bubblewrap cannot create what it mounts over.

    The command's errors do not contain bubblewrap's: it ran.
    """
    if box.backend != "bubblewrap":
        pytest.skip("only bubblewrap mounts over sockets, and no spare is used then")
    gone = str(Path.home() / "gone" / "agent.sock")
    monkeypatch.setattr(session_sandbox, "find_sockets", lambda _: [gone])
    done = await box.run("echo here; echo there >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == (b"here\n", b"there\n", 3)


async def test_a_sandbox_that_cannot_be_created_says_why(
    box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second attempt fails as well, and its errors are shown once."""
    if box.backend != "bubblewrap":
        pytest.skip("only bubblewrap mounts over sockets, and no spare is used then")
    # bubblewrap cannot mount over a path below a file. The path "exists" for the script, so that it
    # is not left out.
    monkeypatch.setattr(bubblewrap, "_BASE", (*bubblewrap._BASE, "--ro-bind", "/gone", "/dev/null"))
    done = await box.run("echo here")
    assert done.stdout == b""
    assert done.returncode == 125
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 2, lines
    assert lines[0].startswith("bwrap: ")
    assert lines[1].startswith(bubblewrap.ENDED_EARLY)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may enter the folders of other users")
async def test_a_socket_in_a_private_folder_of_another_user(box) -> None:
    """Root in the sandbox cannot reach it, and bubblewrap cannot mount anything over it."""
    nobody = 65534
    with tempfile.TemporaryDirectory(dir="/var/lib") as folder, socket.socket(socket.AF_UNIX) as s:
        path = os.path.join(folder, "service.sock")
        s.bind(path)
        s.listen()
        os.chown(folder, nobody, nobody)
        os.chmod(folder, 0o711)
        assert path in session_sandbox.find_sockets()
        os.chmod(folder, 0o700)
        done = await box.run(f"echo here; ls {path}")
        os.chown(folder, 0, 0)
    assert done.stdout == b"here\n"
    assert done.returncode != 0
