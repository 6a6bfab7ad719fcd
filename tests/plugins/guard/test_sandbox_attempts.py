"""What a sandboxed command must not be able to do: each attempt fails, says so, and changes
nothing.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hilum import Command, ToolDenied
from hilum_guard.sandbox import control_groups
from hilum_guard.sandbox.enforcement import Enforcement
from hilum_guard.sandbox.session_sandbox import Sandbox
from hilum_guard.settings import GuardSettings

# A test runs with three kinds of sandbox; with ``--all``, it runs with every kind.
pytestmark = pytest.mark.slow(cases=3)
PYTHON = sys.executable
CONNECT = "import socket,sys; s = socket.socket(*map(int, sys.argv[1:3])); s.settimeout(5); s.connect({address}); s.send(b'x')"


async def fails(box, *argv: str, **options) -> str:
    """Run something that must fail; give its error output."""
    done = await box.run(*argv, **options)
    assert done.returncode not in (0, 125), done
    assert done.stderr
    return done.stderr.decode()


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def start_another() -> subprocess.Popen[bytes]:
    """A process of the same user outside, with a secret in its environment."""
    return subprocess.Popen(["sleep", "60"], env={**os.environ, "SAID_TO_ANOTHER": "in-confidence"})


# --- files ----------------------------------------------------------------------------------------


async def test_writing_outside(box, outside: Path) -> None:
    """Neither a new file nor an old one nor a folder outside can be written."""
    await fails(box, f"echo x > {outside}/new")
    await fails(box, f"echo x >> {outside}/file")
    await fails(box, f"mkdir {outside}/folder")
    await fails(box, f"rm {outside}/file")
    await fails(box, PYTHON, "-c", f"import os; os.truncate('{outside}/file', 0)")
    assert names(outside) == ["file"]
    assert (outside / "file").read_text() == "as it was"


async def test_writing_out_through_a_link(box, outside: Path) -> None:
    """A link in the workspace leads out, but not for writing."""
    await fails(box, f"ln -s {outside} out && echo x > out/new")
    await fails(box, f"ln -s {outside}/file f && echo x > f")
    assert names(outside) == ["file"]
    assert (outside / "file").read_text() == "as it was"


async def test_a_hard_link_to_a_file_outside(box, outside: Path) -> None:
    """A hard link would be a second name inside for a file outside."""
    await fails(box, f"ln {outside}/file inside && echo x > inside")
    await fails(box, f"echo x > mine && ln mine {outside}/second")
    await fails(box, f"mv {outside}/file .")
    assert (outside / "file").stat().st_nlink == 1
    assert not (outside / "second").exists()


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize(
    "path", [".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/hilum/settings.toml"]
)
async def test_reading_secrets(box, home: Path, path: str) -> None:
    """Keys, logins, and hilum's own settings cannot be read, nor can what a link in their place
    leads to.
    """
    assert (home / path).read_text().startswith(("the-", "# the-"))
    done = await box.run(f"cat {home}/{path} $(readlink -f {home}/{path})")
    assert b"the-" not in done.stdout + done.stderr
    assert done.returncode or not done.stdout
    assert (await box.run(f"cat {home}/notes.txt")).stdout == b"notes"


async def test_the_readable_setting_shows_a_hidden_path(box, home: Path) -> None:
    """What the user lists is read, and still not written."""
    settings = {"readable": ["~/.netrc"]}
    assert (await box.run(f"cat {home}/.netrc", settings=settings)).stdout == b"the-netrc"
    await fails(box, f"echo x > {home}/.netrc", settings=settings)


async def test_the_writable_setting_adds_a_folder(box, outside: Path) -> None:
    """What the user lists is written to."""
    done = await box.run(f"echo new > {outside}/file", settings={"writable": [str(outside)]})
    assert done.returncode == 0, done
    assert (outside / "file").read_text() == "new\n"


async def test_devices_and_system_files(box) -> None:
    """Neither disks nor the kernel's switches can be written."""
    await fails(box, "echo 1 > /proc/sys/kernel/panic")
    await fails(box, "mknod disk b 8 0 && head -c 1 disk")


# --- the workspace's own protected paths ----------------------------------------------------------

PROTECTED = [
    "echo x > .git/hooks/pre-commit",
    "echo x >> .git/config",
    "git config core.pager evil",
    "mv .git/hooks .git/h",
    "mv .git g",
    "rm -rf .git/hooks; mkdir .git/hooks && echo x > .git/hooks/pre-commit",
    "mkdir -p .hilum && echo x > .hilum/settings.toml",
    "rmdir .hilum && mkdir .hilum && echo x > .hilum/settings.toml",
    "mv .hilum x",
    "ln -sfn /tmp .hilum/x",
    "mkdir tmp; mount --bind tmp .hilum",
]


@pytest.mark.slow(cases=6)
@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
@pytest.mark.parametrize("existing", [True, False], ids=["existing", "missing"])
@pytest.mark.parametrize("attempt", PROTECTED)
async def test_protected_paths(box, root: Path, attempt: str, existing: bool) -> None:
    """Hooks, configuration and hilum's folder cannot be written, replaced or renamed, whether they
    exist or not.
    """
    if existing:
        (root / ".hilum").mkdir()
        (root / ".hilum" / "settings.toml").write_text("# mine")
    else:
        for path in (root / ".git" / "hooks").iterdir():
            path.unlink()
        (root / ".git" / "hooks").rmdir()
    config = (root / ".git" / "config").read_text()
    await fails(box, attempt)
    box.close()
    assert (root / ".git" / "config").read_text() == config
    assert not (root / ".git" / "hooks" / "pre-commit").exists()
    if existing:
        assert names(root / ".hilum") == ["settings.toml"]
        assert (root / ".hilum" / "settings.toml").read_text() == "# mine"
    else:
        assert not (root / ".hilum").exists(), "something was left in the workspace"
        assert not (root / ".git" / "hooks").exists()


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_nothing_of_the_users_is_removed_at_the_end(box, root: Path) -> None:
    """A folder that was put there and has been used since stays."""
    await box.run("true")
    (root / ".hilum" / "settings.toml").write_text("# mine")
    box.close()
    assert (root / ".hilum" / "settings.toml").read_text() == "# mine"


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_protected_paths_of_submodules(box, root: Path) -> None:
    """The Git folders of submodules are protected as well, whatever depth their names have."""
    for name in ("a", "group/b"):
        folder = root / ".git" / "modules" / name
        await trio.run_process(["git", "init", "-q", "--bare", str(folder)])
        await fails(box, f"echo x > .git/modules/{name}/hooks/post-checkout")
        await fails(box, f"echo x >> .git/modules/{name}/config")


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_a_file_that_would_lead_git_elsewhere(box, root: Path) -> None:
    """It cannot be held while it is not there, so it is gone when the command is.

    Also when that was killed.
    """
    name = "commondir"
    done = await box.run(f"mkdir evil; echo ../evil > .git/{name}; cat .git/{name}")
    assert done.stdout == b"../evil\n"
    assert not (root / ".git" / name).exists()
    with trio.fail_after(60):
        async with box.processes().open(
            ["bash", "-c", f"trap '' TERM; echo ../evil > .git/{name}; echo up; sleep 60"]
        ) as one:
            await one.stdout.receive_some()
            assert (root / ".git" / name).exists()
    box.close()
    assert not (root / ".git" / name).exists()


@pytest.mark.parametrize("backend", ["landlock"], indirect=True)
async def test_landlock_says_that_it_does_not_protect(box) -> None:
    """It cannot make a read-only place in a writable folder, and does not claim to."""
    assert not box.enforced.protected
    assert not box.enforced.whole
    assert any(".git/hooks" in reason for reason in box.enforced.reasons)


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_a_home_folder_as_workspace(box, home: Path) -> None:
    """Then its secrets stay hidden, and what shells start with stays read-only."""
    (home / ".bashrc").write_text("# mine")
    box.root = home
    await fails(box, f"echo x >> {home}/.bashrc")
    await fails(box, f"cat {home}/.ssh/id_ed25519")
    assert (await box.run(f"echo x > {home}/notes.txt")).returncode == 0
    assert (home / ".bashrc").read_text() == "# mine"


@pytest.mark.parametrize("backend", ["landlock"], indirect=True)
async def test_a_home_folder_as_workspace_under_landlock(box, home: Path) -> None:
    """Its secrets stay hidden at the price that nothing new can be made beside them."""
    box.root = home
    await fails(box, f"cat {home}/.ssh/id_ed25519")
    await fails(box, f"cat {home}/.aws/credentials")
    await fails(box, f"mv {home}/.ssh {home}/shown")
    assert (await box.run(f"echo x > {home}/notes.txt")).returncode == 0


# --- the network ----------------------------------------------------------------------------------


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    ("kind", "name"), [(socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")]
)
async def test_no_network(box, kind: int, name: str) -> None:
    """Nothing reaches a socket of the machine, by TCP or UDP."""
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        if name == "tcp":
            server.listen()
        await fails_or_is_alone(
            box, server, CONNECT.format(address=server.getsockname()), socket.AF_INET, kind
        )


async def fails_or_is_alone(box, server: socket.socket, code: str, family: int, kind: int) -> None:
    """Try to reach a server. (A datagram to the loopback of one's own namespace is sent, and
    reaches nobody.)
    """
    done = await box.run(PYTHON, "-c", code, str(int(family)), str(int(kind)))
    assert done.returncode or kind == socket.SOCK_DGRAM
    with pytest.raises(BlockingIOError):
        server.accept() if kind == socket.SOCK_STREAM else server.recv(10)


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("abstract", [True, False], ids=["abstract", "file"])
async def test_no_unix_sockets_of_others(box, abstract: bool, temp: Path) -> None:
    """Services of the machine that listen on Unix sockets are out of reach."""
    address = f"\0{temp}/socket" if abstract else f"{temp}/socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        server.setblocking(False)
        await fails_or_is_alone(
            box, server, CONNECT.format(address=repr(address)), socket.AF_UNIX, socket.SOCK_STREAM
        )


async def test_the_network_by_setting(box) -> None:
    """With the whole network, the machine's own sockets are reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = CONNECT.format(address=server.getsockname())
        done = await box.run(PYTHON, "-c", code, "2", "1", settings={"network": "full"})
        assert done.returncode == 0, done.stderr
        server.settimeout(10)
        server.accept()[0].close()


@pytest.mark.parametrize("backend", ["filter"], indirect=True)
async def test_the_filter_refuses_every_socket(box) -> None:
    """Without a namespace no socket is made at all, nor a ring that would make one.

    A pair of them is.
    """
    await fails(box, PYTHON, "-c", "import socket; socket.socket()")
    await fails(box, PYTHON, "-c", "import socket; socket.socket(socket.AF_UNIX)")
    await fails(box, PYTHON, "-c", "import socket; socket.socket(16, 3)")
    ring = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = c.syscall(425, 1, ctypes.create_string_buffer(200))"
    error = await fails(
        box, PYTHON, "-c", f"{ring}; raise SystemExit(os.strerror(ctypes.get_errno()))"
    )
    assert "Permission denied" in error
    assert (await box.run(PYTHON, "-c", "import socket; socket.socketpair()")).returncode == 0


# --- other processes ------------------------------------------------------------------------------

TRACE = "import ctypes, os, sys; c = ctypes.CDLL(None, use_errno=True); sys.exit(c.ptrace(16, int(sys.argv[1]), 0, 0) and 'no')"


async def test_other_processes(box) -> None:
    """Another process of the same user can neither be signalled nor traced, and its environment
    cannot be read.
    """
    with start_another() as other:
        await fails(box, f"kill -9 {other.pid}")
        await fails(box, PYTHON, "-c", TRACE, str(other.pid))
        await fails(box, f"cat /proc/{other.pid}/environ")
        done = await box.run("cat /proc/[0-9]*/environ; true")
        assert b"in-confidence" not in done.stdout
        assert other.poll() is None
        other.kill()


ESCAPE = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
if os.fork(): sys.exit() if sys.argv[1] == "leave" else time.sleep(60)
os.setsid()
if os.fork(): os._exit(0)
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("backend", ["spare", "bubblewrap", "landlock"], indirect=True)
async def test_outliving_the_command(box, marked) -> None:
    """A process that left its session and parent behind is ended with the command."""
    done = await box.run(PYTHON, "-c", ESCAPE, "leave", env={"MARK_OF_TEST": f"left-{os.getpid()}"})
    assert done.returncode == 0, done
    assert not marked(f"MARK_OF_TEST=left-{os.getpid()}")


@pytest.mark.parametrize("backend", ["spare", "bubblewrap", "landlock"], indirect=True)
async def test_outliving_a_cancelled_command(box, marked) -> None:
    """The same when the command is cancelled, and this is not slow."""
    env, up = {"MARK_OF_TEST": f"stay-{os.getpid()}"}, trio.Event()
    processes = box.processes()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await processes.run(
                    [PYTHON, "-c", ESCAPE, "stay"], env=env, on_output=lambda *_: up.set()
                )

            nursery.start_soon(run)
            await up.wait()
            assert marked(f"MARK_OF_TEST=stay-{os.getpid()}")
            nursery.cancel_scope.cancel()
    assert not marked(f"MARK_OF_TEST=stay-{os.getpid()}")


# --- secrets, limits, and no sandbox --------------------------------------------------------------


async def test_no_secret_in_the_environment(box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys by name and by value do not reach a command, unless the user passes them."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-mine")
    monkeypatch.setenv("INNOCENT", "sk-abcdefghijklmnopqrstuvwxyz")
    monkeypatch.setenv("COPIED", "x=a-key-of-mine;")
    monkeypatch.setenv("PLAIN", "plain")
    done = await box.run("env")
    assert b"PLAIN=plain" in done.stdout
    assert b"a-key-of-mine" not in done.stdout
    assert b"sk-abc" not in done.stdout
    done = await box.run("env", settings={"pass_environment": ["ANTHROPIC_*"]})
    assert b"ANTHROPIC_API_KEY=a-key-of-mine" in done.stdout
    assert b"sk-abc" not in done.stdout


@pytest.mark.parametrize("backend", ["spare", "bubblewrap", "landlock"], indirect=True)
async def test_the_size_of_a_file(box, root: Path) -> None:
    """A file cannot grow beyond the limit."""
    done = await box.run("head -c 3000000 /dev/zero > big", settings={"file_size": 1})
    assert done.returncode
    assert (root / "big").stat().st_size == 1_000_000


@pytest.mark.parametrize("backend", ["spare", "bubblewrap", "landlock"], indirect=True)
async def test_a_fork_bomb(box) -> None:
    """It is stopped by the limit; the command ends by itself, and the machine has not noticed."""
    if not box.enforced.limits:
        pytest.skip("the number of processes is not limited here")
    code = (
        "import os, time\nfor n in range(500):\n    if not os.fork(): time.sleep(30); os._exit(0)"
    )
    error = await fails(box, PYTHON, "-c", code, settings={"processes": 50})
    assert "BlockingIOError" in error


async def test_what_starts_roots_commands_is_in_their_group(box) -> None:
    """The first command moves its keeper and the warden there: moving each command would take
    longer than the command.
    """
    name = os.path.basename(control_groups.create_group(GuardSettings().processes)).encode()
    if not name:
        pytest.skip("not root, or no control groups")
    processes = box.processes()
    for _ in range(3):
        assert name in (await processes.run(["cat", "/proc/self/cgroup"])).stdout
    for pid, inside in ((box.warden._process.pid, True), (os.getpid(), False)):
        assert (name in await trio.Path(f"/proc/{pid}/cgroup").read_bytes()) is inside


async def test_a_sandbox_that_is_required_and_missing(home: Path, root: Path, temp: Path) -> None:
    """Then nothing runs, and the reason is told."""
    enforced = Enforcement(reasons=("No such kernel.",))
    sandbox = Sandbox(root, GuardSettings(sandbox="required"), str(temp), enforced=enforced)
    with pytest.raises(ToolDenied, match="No such kernel"):
        await sandbox.wrap_process(Command(("true",), str(root), {}))


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_sockets_to_the_host_of_a_virtual_machine(box) -> None:
    """A network namespace does not keep them in; the filter does."""
    error = await fails(box, PYTHON, "-c", "import socket; socket.socket(socket.AF_VSOCK)")
    assert "Permission denied" in error


async def test_programs_in_the_way_of_the_sandboxs_own(box, root: Path, outside: Path) -> None:
    """What a command puts where the PATH leads, or libraries are looked for, does not run outside
    the sandbox.
    """
    (root / "bin").mkdir()
    for name in ("rm", "sh", "bwrap", "python3", "echo", "kill"):
        (root / "bin" / name).write_text(f"#!/bin/bash\necho x > {outside}/escaped\n")
        (root / "bin" / name).chmod(0o755)
    (root / "bin" / "libc.so.6").write_text("broken")
    env = {"PATH": f"{root}/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(root / "bin")}
    done = await box.run("/bin/kill", "-9", "0", env=env)
    assert b"libc" in done.stderr, (
        "it is the command itself, inside, that does not find its library"
    )
    assert done.returncode == 127
    done = await box.run(
        PYTHON, "-S", "-c", "import os; print(os.environ['PATH'])", env={"PATH": env["PATH"]}
    )
    assert done.stdout.decode().strip() == env["PATH"]
    wrapped = await box.sandboxes[-1].wrap_process(
        Command(("true",), str(root), env | {"BASH_ENV": "x", "LD_PRELOAD": "y"})
    )
    assert not {"LD_LIBRARY_PATH", "LD_PRELOAD", "BASH_ENV"} & wrapped.env.keys()
    assert names(outside) == ["file"]


async def test_a_process_that_only_looks_cannot_write_to_the_workspace(box, root: Path) -> None:
    """hilum lets the editor write files while such a process runs."""
    processes = box.processes()
    line = "echo x > file; ln -s /etc link; echo y > $TMPDIR/file && cat $TMPDIR/file .git/HEAD"
    done = await processes.run(["bash", "-c", line], purpose="look")
    assert done.stdout.startswith(b"y\nref:")
    assert not (root / "file").exists()
    assert not (root / "link").is_symlink()
    # What commands may write is explained by the last command, which this process was not.
    assert box.sandboxes[-1].protected == ()
    # Only bubblewrap keeps it from writing, so that the workspace need not be scanned for it.
    assert box.sandboxes[-1].watch.dirty == (box.enforced.by != "bubblewrap")


async def test_what_appears_after_a_process_that_only_looked_is_undone(box, root: Path) -> None:
    """The workspace is scanned before the first command that can write to it."""
    processes = box.processes()
    await processes.run(["true"], purpose="look")
    (root / ".envrc").write_text("of the user")
    await processes.run(["bash", "-c", "mkdir sub && echo x > sub/.envrc"])
    assert box.sandboxes[-1].watch.check()
    # In other sandboxes, the process that looked could have written the first file.
    assert (root / ".envrc").exists() == (box.enforced.by == "bubblewrap")
    assert not (root / "sub" / ".envrc").exists()
