"""Spare sandboxes: which commands get one, when a spare is discarded, and that none is left."""

import errno
import math
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import hilum_guard
import hilum_shell
import pytest
import trio
from hilum import Command
from hilum.processes import Completed, Processes, Spare, Streams
from hilum.testing import open_bench
from hilum_guard.sandbox import bubblewrap, sandbox_probe, spares
from hilum_guard.sandbox.session_sandbox import ExtraAccess, Sandbox
from hilum_guard.sandbox.spares import SparePool
from spare_warden import build_spare

PYTHON = sys.executable


@pytest.fixture
def backend() -> str:
    """The only kind of sandbox with spares."""
    return "bubblewrap"


@attrs.define
class Pool:
    """A sandbox with spares, and the processes in it."""

    sandbox: Sandbox
    processes: Processes
    spares: SparePool
    started: list[Spare]

    async def build(self, *argv: str, cwd: str | None = None) -> Spare:
        """Build a spare for `run`, and return it when it is ready."""
        command = Command(argv or ("true",), cwd or str(self.sandbox.workspace), dict(os.environ))
        wrapped = await self.sandbox.wrap_process(command)
        with trio.fail_after(60):
            await build_spare(wrapped, Streams())
        return self.started[-1]

    async def run(self, line: str, cwd: str | None = None) -> tuple[Completed, bool]:
        """Run a command line; return also whether it ran in a spare."""
        with trio.fail_after(60):
            async with self.processes.open(["sh", "-c", line], cwd=cwd) as process:
                stdout = await read_all(process.stdout)
                stderr = await read_all(process.stderr)
                code = await process.wait()
        used = any(process is spare.process for spare in self.started)
        return Completed(code, stdout, stderr, 0.0, 0), used


async def read_all(stream: trio.lowlevel.FdStream | None) -> bytes:
    """Read a stream to its end."""
    data = b""
    assert stream is not None
    async for chunk in stream:
        data += chunk
    return data


@pytest.fixture
async def pool(box, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    """A sandbox with spares; nothing builds them unless a test does."""
    # Sockets of other programs on this machine come and go.
    monkeypatch.setattr("hilum_guard.sandbox.session_sandbox.find_sockets", lambda _: [])
    pool = make_pool(box)
    yield pool
    await pool.spares.aclose()


def make_pool(box, limit: int = 8, **settings) -> Pool:
    """Return a sandbox with spares, and the processes in it."""
    processes = box.processes(**settings)
    sandbox = box.sandboxes[-1]
    started: list[Spare] = []

    async def start(command: Command, streams: Streams) -> Spare:
        spare = await processes.start_spare(command, streams)
        started.append(spare)
        return spare

    sandbox.spares = SparePool(start, limit)
    return Pool(sandbox, processes, sandbox.spares, started)


@asynccontextmanager
async def managed(pool: Pool) -> AsyncIterator[None]:
    """Build and end spares in the background, as in a session."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.spares.run)
        yield
        nursery.cancel_scope.cancel()


def count_idle(pool: Pool) -> int:
    """Return the number of spares that wait for a command."""
    demands = pool.spares._demands.values()
    return sum(each.spare.is_ready for demand in demands for each in demand.idle)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is true."""
    with trio.fail_after(60):
        # The kernel and other processes do not announce what is waited for.
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)


# --- use ------------------------------------------------------------------------------------------


async def test_a_command_runs_in_a_spare_and_the_next_one_in_another(pool: Pool) -> None:
    """A spare is used once, and is as separate as any sandbox."""
    spaces = "readlink /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/ipc /proc/self/ns/uts"
    seen: list[set[bytes]] = []

    async def run(own: str, other: str) -> None:
        # Linux gives the numbers of a namespace that has ended to the next one: both must live.
        line = f"{spaces}; touch {own}; until [ -e {other} ]; do sleep 0.01; done"
        done, used = await pool.run(line)
        assert used
        seen.append(set(done.stdout.split()))

    await pool.build()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "one", "two")
        await wait_until((pool.sandbox.workspace / "one").exists)
        await pool.build()
        nursery.start_soon(run, "two", "one")
    assert not seen[0] & seen[1]
    # Without a spare, a command starts as usual.
    done, used = await pool.run("echo here; exit 3")
    assert not used
    assert (done.stdout, done.returncode) == (b"here\n", 3)


async def test_a_command_does_not_reach_the_socket_or_a_waiting_spare(pool: Pool) -> None:
    """Process 1 has closed the socket, and other spares are not in its namespaces."""
    waiting = await pool.build()
    await pool.build()
    # The later spare takes the command: the first one that fits would be `waiting`.
    demand = next(iter(pool.spares._demands.values()))
    demand.idle.reverse()
    line = "ls -l /proc/*/fd; echo r >&8; kill -9 -1; echo here"
    done, used = await pool.run(line)
    assert used
    assert b"socket:" not in done.stdout
    assert b"Bad file descriptor" in done.stderr
    assert not waiting.has_ended()
    assert (await pool.run("echo two"))[1]


TRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PIDFD_GETFD = 0x4206, 438
print(libc.ptrace(PTRACE_SEIZE, 1, None, None), ctypes.get_errno())
print(libc.syscall(PIDFD_GETFD, os.pidfd_open(1), 7, 0), ctypes.get_errno())
for name in ("mem", "environ", "fd/7", "fd/3"):
    try:
        print(os.open(f"/proc/1/{name}", os.O_RDWR if name == "mem" else os.O_RDONLY))
    except OSError as error:
        print(-1, error.errno)
"""


async def test_a_command_cannot_report_its_own_end(pool: Pool) -> None:
    """Process 1 reports it; a command can neither trace it nor open its descriptors."""
    await pool.build()
    done, used = await pool.run(f"{PYTHON} -c '{TRACE}'; ls /proc/self/fd")
    assert used
    results = done.stdout.split(b"\n")
    assert len(results) > 6
    refused = (b"-1 1", b"-1 13")  # EPERM, EACCES
    assert all(line in refused for line in results[:6]), results
    assert results[6:10] == [b"0", b"1", b"2", b"3"]


async def test_much_output_at_the_end(pool: Pool) -> None:
    """What a command wrote last arrives, although its sandbox is ended at once."""
    await pool.build()
    with trio.fail_after(60):
        done = await pool.processes.run(
            ["sh", "-c", "head -c 60000 /dev/zero; echo end; echo error >&2"]
        )
    assert (len(done.stdout), done.stdout[-4:], done.stderr) == (60_004, b"end\n", b"error\n")


async def test_the_end_of_a_sandbox_is_not_waited_for(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command's output is complete when its processes have ended."""
    monkeypatch.setattr("hilum.processes.client._DRAIN", math.inf)
    spare = await pool.build()
    shell = spare.process.pid
    status = await trio.Path(f"/proc/{shell}/stat").read_text()
    keeper = int(status.rpartition(")")[2].split()[1])
    # Neither can end, and the shell keeps the pipes open.
    for pid in (keeper, shell):
        os.kill(pid, signal.SIGSTOP)
    try:
        with trio.fail_after(30):
            done = await pool.processes.run(["sh", "-c", "echo here; echo error >&2; exit 3"])
    finally:
        for pid in (shell, keeper):
            os.kill(pid, signal.SIGCONT)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"here\n", b"error\n")


async def test_input_merged_output_and_remaining_processes(pool: Pool) -> None:
    """A spare is built for the streams of its command."""
    argv = ["sh", "-c", "read line; echo $line; echo error >&2; exec sleep 60 > /dev/null &"]
    command = Command((*argv,), str(pool.sandbox.workspace), dict(os.environ))
    streams = Streams(stdin=True, merge=True, hold=True)
    await build_spare(await pool.sandbox.wrap_process(command), streams)
    with trio.fail_after(60):
        async with pool.processes.open(argv, stdin=True, merge=True, hold=True) as process:
            assert process is pool.started[-1].process
            assert process.stdin is not None
            await process.stdin.send_all(b"typed\n")
            assert await process.wait_exit() == 0
            if process.remains:
                await process.stop(0.05)
            assert process.stderr is None
            assert await process.stdout.receive_some() in (b"typed\n", b"typed\nerror\n")


async def test_commands_with_other_permissions_get_no_spare(pool: Pool, tmp_path: Path) -> None:
    """Neither a wider command nor one outside the sandbox, nor one that reads a secret."""
    await pool.build()
    argv = ("sh", "-c", "echo here")
    for extra in (ExtraAccess(network=True), ExtraAccess(off=True), ExtraAccess(read_only=True)):
        pool.sandbox.extra_access[argv] = extra
        assert not (await pool.run("echo here"))[1]
        del pool.sandbox.extra_access[argv]
    assert (await pool.run("echo here"))[1]


async def test_a_rule_that_changes(pool: Pool, root: Path) -> None:
    """A path that is hidden from now on is hidden from the next command."""
    (root / "file").write_text("text")
    await pool.build()
    hidden = hilum_guard.ProtectedPaths(hidden=(str(root / "file"),))
    pool.sandbox.extra_protected["rules"] = lambda: hidden
    done, used = await pool.run("cat file")
    assert not used
    assert b"text" not in done.stdout


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
async def test_words_that_no_program_can_have(pool: Pool, word: str) -> None:
    """The error is the usual one."""
    await pool.build()
    with pytest.raises(hilum_guard.sandbox.spares.CommandError, match="cannot be started"):
        await pool.processes.run(["sh", "-c", word])


async def test_a_long_command(pool: Pool) -> None:
    """The error for an argument that is too long is the usual one."""
    await pool.build()
    done, used = await pool.run(f"echo {'x' * 90_000} | wc -c")
    assert (done.stdout.strip(), used) == (b"90001", True)
    await pool.build()
    with pytest.raises(
        hilum_guard.sandbox.spares.CommandError,
        match="rgument list too long",
    ):
        await pool.run(f": {'x' * 200_000}")


# --- changes between building and use -------------------------------------------------------------


async def test_a_protected_file_that_another_replaces(pool: Pool, root: Path) -> None:
    """The mount over it is gone from the spare, and the new file is protected, too."""
    config = root / ".git" / "config"
    (root / "new").write_text(config.read_text() + "# new\n")
    await pool.build()
    os.replace(root / "new", config)
    done, used = await pool.run("cat .git/config; echo x >> .git/config")
    assert not used
    assert b"# new" in done.stdout
    assert done.returncode
    assert config.read_text().endswith("# new\n")


async def test_a_hidden_file_that_is_removed_and_created_again(pool: Pool, home: Path) -> None:
    """Even if the new file gets the number of the old one."""
    await pool.build()
    secret = home / ".netrc"
    for _ in range(20):
        before = secret.stat().st_ino
        secret.unlink()
        secret.write_text("the-netrc")
        if secret.stat().st_ino == before:
            break
    done, used = await pool.run(f"cat {secret}")
    assert not used
    assert b"the-netrc" not in done.stdout


async def test_a_mount_that_vanished_from_the_spare(
    pool: Pool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 notices it, even if nothing outside looks different."""
    await pool.build()
    secret = home / ".netrc"
    state = spares.read_state(pool.spares._demands[next(iter(pool.spares._demands))].template)
    secret.unlink()
    secret.write_text("the-netrc")
    monkeypatch.setattr(spares, "read_state", lambda template: state)
    done, used = await pool.run(f"cat {secret}")
    assert not used
    assert b"the-netrc" not in done.stdout


async def test_a_mount_that_vanished_while_the_spare_was_built(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 knows which mounts it must have."""
    find = bubblewrap._find_mount_points
    monkeypatch.setattr(bubblewrap, "_find_mount_points", lambda argv: [*find(argv), b"/missing"])
    await pool.build()
    done, used = await pool.run("echo here")
    assert not used
    assert done.stdout == b"here\n"


async def test_a_workspace_in_the_place_of_another(pool: Pool, root: Path) -> None:
    """The command works in the folder that has the name now."""
    await pool.build()
    os.rename(root, f"{root}-old")
    shutil.copytree(f"{root}-old", root)
    (root / "file").write_text("new")
    done, used = await pool.run("cat file; echo more > other")
    assert not used
    assert done.stdout == b"new"
    assert (root / "other").exists()


async def test_a_working_directory_that_becomes_a_link(
    pool: Pool, root: Path, outside: Path
) -> None:
    """The command is where a new one would be."""
    (root / "sub").mkdir()
    (root / "other").mkdir()
    await pool.build(cwd=str(root / "sub"))
    (root / "sub").rename(root / "moved")
    (root / "sub").symlink_to(root / "other")
    done, used = await pool.run("pwd -P", cwd="sub")
    assert not used
    assert done.stdout.decode().strip() == str(root / "other")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
async def test_a_mount_that_is_made_outside(pool: Pool, root: Path) -> None:
    """A new sandbox shows it as the machine does."""
    (root / "point").mkdir()
    await pool.build()
    mount = ["mount", "-t", "tmpfs", "none", str(root / "point")]
    mounted = await trio.run_process(mount, capture_stderr=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (root / "point" / "file").write_text("mounted")
        done, used = await pool.run("cat point/file")
    finally:
        await trio.run_process(["umount", str(root / "point")])
    assert not used
    assert done.stdout == b"mounted"


async def test_bubblewrap_that_is_upgraded_or_removed(
    pool: Pool, temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spare of the old program is not used; without the program, the error is the usual one."""
    program = shutil.copy(bubblewrap.find_bubblewrap(), temp / "bwrap")
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(program))
    await pool.build()
    assert (await pool.run("echo here"))[1]
    await pool.build()
    shutil.copy(program, temp / "new")
    os.replace(temp / "new", program)
    done, used = await pool.run("echo here")
    assert (done.stdout, used) == (b"here\n", False)
    await pool.build()
    os.unlink(program)
    done, used = await pool.run("echo here")
    assert (done.returncode, used) == (125, False)
    assert b"hilum: the sandbox ended" in done.stderr


# --- spares that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [True, False], ids=["before", "while_it_is_taken"])
async def test_a_spare_that_dies_while_it_waits(
    pool: Pool, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shown: the command starts as usual."""
    spare = await pool.build()
    os.killpg(spare.process.pid, signal.SIGKILL)
    if seen:
        await wait_until(spare.has_ended)
    else:
        monkeypatch.setattr(Spare, "has_ended", lambda self: False)
    done, used = await pool.run("echo here")
    assert (done, used) == (Completed(0, b"here\n", b"", 0.0, 0), False)


async def test_a_spare_that_is_stopped_while_it_waits(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended after some time, and the command starts as usual, once."""
    monkeypatch.setattr("hilum.processes.client.ANSWER_SECONDS", 0.05)
    spare = await pool.build()
    os.killpg(spare.process.pid, signal.SIGSTOP)
    done, used = await pool.run("echo here >> here; cat here")
    assert (done, used) == (Completed(0, b"here\n", b"", 0.0, 0), False)
    assert spare.has_ended()
    with pytest.raises(ProcessLookupError):
        os.killpg(spare.process.pid, signal.SIGCONT)


async def test_dead_spares_are_replaced(pool: Pool) -> None:
    """The next time that spares are built."""
    async with managed(pool):
        for _ in range(2):
            await pool.run("true")
        await wait_until(lambda: count_idle(pool) == 1)
        dead = pool.started[-1]
        os.killpg(dead.process.pid, signal.SIGKILL)
        await wait_until(dead.has_ended)
        pool.spares.note_model_request("run")
        await wait_until(lambda: count_idle(pool) == 1 and pool.started[-1] is not dead)


async def test_a_system_that_refuses_to_build_ahead(
    pool: Pool, temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands run as usual, and hilum does not try again each time."""
    script = temp / "bwrap"
    real = bubblewrap.find_bubblewrap()
    script.write_text(f'#!/bin/sh\n{{ true >&8; }} 2>/dev/null && exit 1\nexec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(script))
    monkeypatch.setattr(spares, "PAUSE_SECONDS", 60.0)
    async with managed(pool):
        for _ in range(2):
            done, used = await pool.run("echo here")
            assert (done, used) == (Completed(0, b"here\n", b"", 0.0, 0), False)
            pool.spares.note_model_request("run")
        await wait_until(lambda: bool(pool.spares._failures))
        # The second build may have begun before the first one failed.
        tried = len(pool.started)
        for _ in range(3):
            await pool.run("echo here")
            pool.spares.note_model_request("run")
    assert len(pool.started) == tried
    assert tried <= 2
    assert pool.spares._paused_until < math.inf


async def test_too_many_open_files(pool: Pool) -> None:
    """A spare that cannot be started for lack of descriptors ends neither hilum nor a command."""

    async def start(command: Command, streams: Streams) -> Spare:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    pool.spares._start = start
    async with managed(pool):
        for _ in range(3):
            assert (await pool.run("echo here"))[0].stdout == b"here\n"
        await wait_until(lambda: bool(pool.spares._failures))


async def test_a_spare_that_takes_too_long_to_build(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command waits for it, and it ends."""

    async def never(self: Spare) -> bool:
        return await trio.sleep_forever()

    with monkeypatch.context() as patch:
        patch.setattr(Spare, "wait_ready", never)
        patch.setattr(spares, "_MAX_BUILD_SECONDS", 0.0)
        async with managed(pool):
            for _ in range(2):
                await pool.run("true")
            await wait_until(lambda: bool(pool.started))
            done, used = await pool.run("echo here")
            assert (done.stdout, used) == (b"here\n", False)
            await wait_until(pool.started[0].has_ended)


# --- how many -------------------------------------------------------------------------------------


async def run_batch(pool: Pool, size: int) -> int:
    """Run commands at once; return how many ran in a spare."""
    used = []

    async def run() -> None:
        used.append((await pool.run("true"))[1])

    async with trio.open_nursery() as nursery:
        for _ in range(size):
            nursery.start_soon(run)
    pool.spares.note_model_request("run")
    return sum(used)


async def test_the_pool_follows_the_size_of_batches(box, pool: Pool) -> None:
    """It grows at once and shrinks slowly, up to its limit."""
    pool = make_pool(box, limit=3)
    async with managed(pool):
        assert await run_batch(pool, 2) == 0
        await wait_until(lambda: count_idle(pool) == 2)
        # While these commands run, hilum already builds the next spares.
        assert await run_batch(pool, 5) >= 2
        await wait_until(lambda: count_idle(pool) == 3)
        assert await run_batch(pool, 1) == 1
        demand = next(iter(pool.spares._demands.values()))
        assert demand.batch == 4


async def test_programs_that_run_once_get_no_spare(pool: Pool) -> None:
    """A program of hilum's is expected again only after it ran twice."""
    async with managed(pool):
        await pool.run("true")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not pool.started
        await pool.run("true")
        await wait_until(lambda: count_idle(pool) == 1)


async def test_unused_spares_end(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time, and they come back with the next run."""
    async with managed(pool):
        for _ in range(2):
            await pool.run("true")
        await wait_until(lambda: count_idle(pool) == 1)
        monkeypatch.setattr(spares, "IDLE_SECONDS", 0.0)
        pool.spares.note_model_request("")
        await wait_until(lambda: count_idle(pool) == 0)
        monkeypatch.undo()
        pool.spares.note_model_request("the next run")
        await wait_until(lambda: count_idle(pool) == 1)


@pytest.mark.slow(cases=0)
async def test_two_hundred_commands_at_once(pool: Pool) -> None:
    """All run, and there are never more spares than allowed."""
    async with managed(pool):
        await run_batch(pool, 3)
        await wait_until(lambda: count_idle(pool) == 3)
        assert await run_batch(pool, 200) >= 3
        await wait_until(lambda: count_idle(pool) == 8)


def test_the_limit_follows_the_number_of_processes() -> None:
    """Spares count towards ``guard.processes``, and may take a small part of it."""
    assert spares.find_limit(8, 1024) == 8
    assert spares.find_limit(8, 64) == 2
    assert spares.find_limit(8, 16) == 0
    assert spares.find_limit(0, 1024) == 0


# --- the end --------------------------------------------------------------------------------------


async def test_an_unused_spare_removes_nothing(pool: Pool, root: Path) -> None:
    """A file that a command must not leave may be the user's if no command ran."""
    common = root / ".git" / "commondir"
    await pool.build()
    common.write_text("../of-the-user\n")
    async with managed(pool):
        pass
    assert common.exists()
    common.unlink()
    # A command in a spare is held to it as usual.
    await pool.build()
    assert (await pool.run("echo .. > .git/commondir"))[1]
    assert not common.exists()


async def test_nothing_is_left_when_the_pool_ends(
    pool: Pool, marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All spares have ended when the session closes."""
    monkeypatch.setenv("OF_A_SPARE", "yes")
    async with managed(pool):
        for _ in range(2):
            await pool.processes.run(["true"], env={"MARK": "left-by-a-pool"})
        await wait_until(lambda: count_idle(pool) == 1)
        assert marked("left-by-a-pool")
    assert not marked("left-by-a-pool")


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_command(
    pool: Pool, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is left, whether the command has begun or not."""
    spare = await pool.build()
    taken = trio.Event()

    async def begin(self: Spare) -> bool:
        taken.set()
        return not begun and await trio.sleep_forever()

    if not begun:
        monkeypatch.setattr(Spare, "begin", begin)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, "touch begun; exec sleep 60")
        if begun:
            await wait_until((pool.sandbox.workspace / "begun").exists)
        else:
            await taken.wait()
        nursery.cancel_scope.cancel()
    # The sandbox itself may need a moment after the command's end.
    await wait_until(lambda: not os.path.exists(f"/proc/{spare.process.pid}"))


async def test_nothing_is_left_of_spares_that_are_cancelled_while_they_are_built(
    pool: Pool, open_files: Callable[[], set[str]]
) -> None:
    """Their sockets and pipes are closed at once, and not when the collector finds them."""
    assert (await pool.run("true"))[0].returncode == 0
    before = open_files()
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        # A spare takes 10 to 40 ms, of which each part is cancelled in some rounds.
        for number in range(40):
            with trio.move_on_after(number / 1000):
                async with managed(pool), trio.open_nursery() as nursery:
                    for _ in range(2):
                        nursery.start_soon(pool.run, "true")
                    pool.spares._build_at = -math.inf
                    await trio.sleep_forever()
            assert not pool.spares._discarded
        left = open_files() - before
    assert not [str(each.message) for each in unclosed]
    assert not left


KILLED = """
import os, sys, trio
from pathlib import Path
from hilum.processes import Processes, Streams, Warden
from hilum_guard.sandbox import backends
from hilum_guard.sandbox.session_sandbox import Sandbox
from hilum_guard.sandbox.spares import SparePool
from hilum_guard.settings import GuardSettings

async def main():
    root, temp = map(Path, sys.argv[1:])
    sandbox = Sandbox(root, GuardSettings(), str(temp), enforced=backends.check_bubblewrap())
    async with Warden() as warden:
        processes = Processes(warden, sandbox.wrap_process, str(root))
        sandbox.spares = SparePool(processes.start_spare, 2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandbox.spares.run)
            for _ in range(2):
                await processes.run(["true"], env={"MARK": "of-a-killed-hilum"})
            demand = next(iter(sandbox.spares._demands.values()))
            while not (demand.idle and demand.idle[0].spare.is_ready):
                await trio.sleep(0.01)
            print("up", flush=True)
            await trio.sleep_forever()

trio.run(main)
"""


async def test_a_killed_hilum_leaves_no_spare(pool: Pool, root: Path, temp: Path, marked) -> None:
    """The warden ends waiting spares, as it ends commands."""
    argv = [PYTHON, "-c", KILLED, str(root), str(temp / "killed")]
    hilum = await trio.lowlevel.open_process(argv, stdout=subprocess.PIPE)
    try:
        assert hilum.stdout is not None
        assert (await hilum.stdout.receive_some()).startswith(b"up")
        assert marked("of-a-killed-hilum")
    finally:
        hilum.kill()
        await hilum.wait()
    await wait_until(lambda: not marked("of-a-killed-hilum"))


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [8, 0])
async def test_the_setting(backend: str, tmp_path: Path, number: int) -> None:
    """The model's second command runs in a spare, unless the setting is 0."""
    async with open_bench(
        hilum_guard,
        hilum_shell,
        folder=tmp_path,
        approve="auto",
        settings={"guard": {"spare_sandboxes": number}},
    ) as b:
        if sandbox_probe.probe().by != "bubblewrap":
            pytest.skip("bubblewrap does not work here")
        guard = b.session.plugin(hilum_guard.Guard)
        spares: list[Spare] = []
        for text in ("one", "two"):
            result = await b.call("run_terminal_cmd", command=f"echo {text}")
            assert text in result.text
            pool = guard.sandbox.spares
            if number:
                assert pool is not None
                demand = next(iter(pool._demands.values()))
                await wait_until(
                    lambda demand=demand: any(each.spare.is_ready for each in demand.idle)
                )
                spares += [each.spare for each in demand.idle]
        if number:
            assert any(each.request for each in spares)
        else:
            assert pool is None
