"""The warden and its client, with real processes: nothing may be left, whoever dies and however."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trio
from hilum.processes import GRACE, Command, CommandError, Processes, Streams, Warden, client
from hilum.processes import warden as warden_module

# Ignores what can be ignored, and has a double-forked child in a session of its own that does the
# same.
STUBBORN = """
trap '' TERM INT HUP
( setsid bash -c 'trap "" TERM INT HUP; echo up; while :; do sleep 30; done' & ) &
while :; do sleep 30; done
"""

OWNER = """
import sys, trio
from hilum.processes import Command, Warden

async def main():
    async with Warden() as warden, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(lambda: warden.run(
                Command(("bash", "-c", sys.argv[1])), on_output=lambda _, chunk: print(chunk.decode(), flush=True)))

trio.run(main)
"""


def command(*argv: str, env: Mapping[str, str] | None = None, cwd: object = "/") -> Command:
    """Give a command with variables added to one's own."""
    return Command(argv, str(cwd), {**os.environ, **(env or {})})


@pytest.fixture
async def warden() -> AsyncIterator[Warden]:
    async with Warden() as warden:
        yield warden


@pytest.fixture
def mark() -> dict[str, str]:
    """Give an environment variable that every process of a tree carries."""
    return {"WARDEN_TEST_MARK": uuid4().hex}


def marked(mark: dict[str, str]) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark["WARDEN_TEST_MARK"].encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(of: int) -> set[int]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if parent(int(name)) == of:
                found.add(int(name))
        except OSError:
            continue
    return found


async def until(true: Callable[[], object]) -> None:
    """Wait for something that happens in other processes, and so without an event."""
    with trio.fail_after(60):
        while not true():  # noqa: ASYNC110
            await trio.sleep(0.005)


async def read_until(stream: trio.abc.ReceiveStream, text: bytes) -> bytes:
    seen = b""
    with trio.fail_after(60):
        while text not in seen:
            chunk = await stream.receive_some()
            assert chunk, seen
            seen += chunk
    return seen


async def test_exit_code_and_both_streams(warden: Warden) -> None:
    """A command's exit code, standard output and standard error come back, each in its place."""
    done = await warden.run(command("bash", "-c", "echo out; echo err >&2; exit 3"))
    assert (done.returncode, done.stdout, done.stderr, done.dropped) == (3, b"out\n", b"err\n", 0)
    assert 0 < done.seconds < 60


async def test_death_by_signal_is_a_negative_code(warden: Warden) -> None:
    """A command killed by a signal reports the signal's number below zero."""
    assert (await warden.run(command("bash", "-c", "kill -USR1 $$"))).returncode == -signal.SIGUSR1


async def test_input_and_its_absence(warden: Warden) -> None:
    """Input is fed whole, a command that does not read it is no error, and without input there is
    end of file at once.
    """
    blob = os.urandom(1_000_000)
    assert (await warden.run(command("cat"), input=blob, limit=2_000_000)).stdout == blob
    assert (await warden.run(command("true"), input=blob)).returncode == 0
    assert (await warden.run(command("cat"))).stdout == b""


@pytest.mark.parametrize(
    ("limit", "size"), [(10, 10), (10, 11), (1000, 1_000_000), (100_000, 700_000)]
)
async def test_limit_keeps_head_and_tail(warden: Warden, limit: int, size: int) -> None:
    """Within the limit nothing is cut.

    Beyond it head and tail stay, and the number of bytes cut out is told.
    """
    script = (
        f"import sys; sys.stdout.write(''.join(chr(97 + i * 26 // {size}) for i in range({size})))"
    )
    done = await warden.run(command(sys.executable, "-c", script), limit=limit)
    whole = "".join(chr(97 + i * 26 // size) for i in range(size)).encode()
    assert done.dropped == max(size - limit, 0)
    if done.dropped:
        half = limit // 2
        note = b"\n[... %d bytes left out ...]\n" % done.dropped
        assert done.stdout == whole[:half] + note + whole[-half:]
    else:
        assert done.stdout == whole


async def test_output_streams_as_it_comes_and_in_order(warden: Warden, tmp_path: Path) -> None:
    """Chunks reach the callback while the command still runs, each stream in order."""
    seen: list[tuple[str, bytes]] = []
    first = trio.Event()

    def on_output(name: str, chunk: bytes) -> None:
        seen.append((name, chunk))
        first.set()

    async with trio.open_nursery() as nursery:
        numbers = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo e$i >&2; done"
        script = f"{numbers}; while [ ! -e go ]; do sleep 0.01; done; echo end"
        nursery.start_soon(
            lambda: warden.run(command("bash", "-c", script, cwd=tmp_path), on_output=on_output)
        )
        with trio.fail_after(60):
            await first.wait()
        (tmp_path / "go").touch()  # the command does not end before the first chunk was seen
    texts = {
        name: b"".join(chunk for n, chunk in seen if n == name) for name in ("stdout", "stderr")
    }
    assert texts["stdout"].split() == [*b"1 2 3 4 5 6 7 8 9".split(), b"end"]
    assert texts["stderr"].split() == b"e1 e2 e3 e4 e5 e6 e7 e8 e9".split()


async def test_folder_and_environment(
    warden: Warden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command gets the folder and the environment it names, large ones too, and one's own where
    it names none.
    """
    monkeypatch.setenv("OWN", "1")
    monkeypatch.chdir(tmp_path)
    env = {"ADDED": "ä\udc80", "LONG": "x" * 120_000, "LONGER": "y" * 120_000}
    script = 'pwd; echo $OWN "$ADDED" ${#LONG} ${#LONGER}'
    done = await warden.run(command("bash", "-c", script, env=env, cwd="/usr"))
    assert done.stdout == "/usr\n1 ä".encode() + b"\x80 120000 120000\n"
    done = await warden.run(Command(("bash", "-c", script)))
    assert done.stdout == f"{tmp_path}\n1  0 0\n".encode()


async def test_program_is_found_on_the_path_of_the_command(warden: Warden, tmp_path: Path) -> None:
    """The PATH that counts is the one the command is given, and a relative program is relative to
    its folder.
    """
    tool = tmp_path / "tool-of-the-test"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    assert (
        await warden.run(command("tool-of-the-test", env={"PATH": str(tmp_path)}))
    ).stdout == b"found\n"
    assert (await warden.run(command("./tool-of-the-test", cwd=tmp_path))).stdout == b"found\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["no-such-program-here"], None, "no program 'no-such-program-here'"),
        (["./missing"], None, "no such file"),
        (["/"], None, "permission denied"),
        (["true"], "/no/such/folder", "/no/such/folder"),
        (["true", "a\0b"], None, "invalid argument"),
        (["true", "\ud800"], None, "invalid argument"),
        (["true", "x" * 200_000], None, "argument list too long"),
        ([], None, "no command"),
    ],
)
async def test_what_cannot_start_is_said_clearly(
    warden: Warden, tmp_path: Path, argv: list[str], cwd: str | None, words: str
) -> None:
    """A program that is missing or may not run, and a folder that is missing, give an error that
    names it, and a hint.
    """
    with pytest.raises(CommandError, match=words) as caught:
        await warden.run(command(*argv, cwd=cwd or tmp_path))
    assert caught.value.hint


async def test_commands_have_default_signals_and_no_stray_descriptors(warden: Warden) -> None:
    """A command is a session leader without a terminal, ignores no signal, blocks none, and has
    three descriptors.
    """
    status = (await warden.run(command("cat", "/proc/self/status"))).stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    known = sum(
        1 << number - 1 for number in signal.valid_signals()
    )  # the C library keeps two to itself
    assert int(fields["SigIgn"], 16) & known == int(fields["SigBlk"], 16) & known == 0
    listing = await warden.run(
        command("bash", "-c", "ps -o sid= -p $$; echo $$; ls /proc/$$/fd; exit")
    )
    sid, pid, *fds = listing.stdout.decode().split()
    assert fds[:3] == ["0", "1", "2"]
    assert set(fds[3:]) <= {"255"}  # bash's own
    assert sid == pid


async def test_fault_of_the_callback_reaches_the_caller_as_it_is(
    warden: Warden, mark: dict[str, str]
) -> None:
    """An exception of ``on_output`` ends the command and is raised bare, not in a group."""

    def on_output(name: str, chunk: bytes) -> None:
        raise KeyError("Enough.")

    with pytest.raises(KeyError, match="Enough"), trio.fail_after(60):
        await warden.run(command("bash", "-c", STUBBORN, env=mark), on_output=on_output, grace=0)
    assert marked(mark) == []


async def test_conversation(warden: Warden) -> None:
    """An open command can be written to and read from, merges its streams if asked, and tells its
    code.
    """
    async with warden.open(
        command("bash", "-c", "while read x; do echo got $x >&2; done; exit 7"),
        stdin=True,
        merge=True,
    ) as p:
        assert p.stdin is not None
        assert p.stderr is None
        for word in (b"a", b"b"):
            await p.stdin.send_all(word + b"\n")
            assert await read_until(p.stdout, b"\n") == b"got " + word + b"\n"
        await p.stdin.aclose()
        assert await p.wait() == 7
        assert await p.wait() == 7
        assert await p.stop() == 7


async def test_stop_gives_time_to_clean_up(warden: Warden, tmp_path: Path) -> None:
    """A command that minds SIGTERM ends by itself within its grace, however long it ran before."""
    script = (
        "trap 'sleep 0.1; echo clean > done; exit 5' TERM; echo up; while :; do sleep 0.01; done"
    )
    async with warden.open(command("bash", "-c", script, cwd=tmp_path)) as process:
        await read_until(process.stdout, b"up")
        await trio.sleep(3.1)  # longer than the grace: it counts from the stop on
        assert await process.stop(grace=3) == 5
    assert (tmp_path / "done").read_text() == "clean\n"


async def test_leaving_the_block_ends_the_tree(warden: Warden, mark: dict[str, str]) -> None:
    """After the block nothing is left, whether it ends well or with an error."""

    async def fail() -> None:
        async with warden.open(command("bash", "-c", STUBBORN, env=mark), grace=0.05) as process:
            await read_until(process.stdout, b"up")
            await until(lambda: len(marked(mark)) >= 3)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert marked(mark) == []


async def test_cancelling_ends_a_stubborn_tree(warden: Warden, mark: dict[str, str]) -> None:
    """When a cancelled run returns, the whole tree is gone, double-forked and deaf to signals as it
    may be.
    """
    up = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: warden.run(
                command("bash", "-c", STUBBORN, env=mark), on_output=lambda *_: up.set(), grace=0.1
            )
        )
        with trio.fail_after(60):
            await up.wait()
        await until(lambda: len(marked(mark)) >= 3)
        nursery.cancel_scope.cancel()
    assert marked(mark) == []


async def test_stop_of_a_stubborn_tree_gives_its_grace_by_default(
    warden: Warden, mark: dict[str, str]
) -> None:
    """Without a grace of its own, stopping what is deaf to every signal waits for the usual one and
    no longer.
    """
    async with warden.open(command("bash", "-c", STUBBORN, env=mark)) as process:
        await read_until(process.stdout, b"up")
        begun = trio.current_time()
        assert await process.stop() == -signal.SIGKILL
        assert trio.current_time() - begun >= GRACE
        assert marked(mark) == []


@pytest.mark.parametrize("delay", [0, 0.0005, 0.001, 0.002, 0.004])
async def test_cancelling_during_the_start(
    warden: Warden, mark: dict[str, str], delay: float
) -> None:
    """Wherever in the start the cancellation falls, nothing is left."""
    for _ in range(10):
        with trio.move_on_after(delay):
            await warden.run(command("sleep", "1000", env=mark), grace=0)
        assert marked(mark) == []
    assert (await warden.run(command("echo", "fine"))).stdout == b"fine\n"


async def test_background_child_ends_with_its_command(warden: Warden, mark: dict[str, str]) -> None:
    """A command that leaves a child which holds its output open returns promptly, and the child is
    ended.
    """
    with trio.fail_after(60):
        done = await warden.run(
            command("bash", "-c", "echo started; sleep 1000 & setsid sleep 1000 & exit 4", env=mark)
        )
    assert (done.returncode, done.stdout) == (4, b"started\n")
    assert marked(mark) == []


async def test_helper_of_an_exited_command_may_finish_writing(
    warden: Warden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process substitution still has to write after its shell has exited is not lost."""
    patient = client._START.replace(
        "import warden;", "import warden; warden.LINGER = 60;"
    )  # the machine may be busy
    monkeypatch.setattr(client, "_START", patient)
    done = await warden.run(
        command(
            "bash", "-c", "exec > >(while read x; do sleep 0.01; echo got $x; done); echo a; echo b"
        )
    )
    assert done.stdout == b"got a\ngot b\n"


async def test_multiplying_tree_is_ended(warden: Warden, mark: dict[str, str]) -> None:
    """A tree that grows in groups, sessions and generations faster than it is looked at is ended as
    a whole.
    """
    script = """
import os, time
print("up", flush=True)
depth = 0
for _ in range(4):                      # 3 ** 5 processes at most, in sessions of their own
    for _ in range(2):
        if os.fork() == 0:
            os.setsid()
            break
    time.sleep(0.02)
if os.fork() == 0:
    for _ in range(3000):               # a chain: each lives no longer than it takes to fork the next
        if os.fork():
            os._exit(0)
time.sleep(1000)
"""
    async with warden.open(command(sys.executable, "-c", script, env=mark)) as process:
        await read_until(process.stdout, b"up")
        await until(lambda: len(marked(mark)) > 10)
        with trio.fail_after(60):
            await process.stop(grace=0)
    assert marked(mark) == []


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGKILL, False),
        (signal.SIGTERM, False),
        (signal.SIGHUP, False),
        (signal.SIGINT, True),
        (signal.SIGKILL, True),
    ],
)
async def test_death_of_the_owner_leaves_nothing(
    mark: dict[str, str], number: signal.Signals, group: bool
) -> None:
    """However the owner dies, and if its whole group does, no process of its commands is left, nor
    its warden.
    """
    argv = [sys.executable, "-c", OWNER, STUBBORN]
    env = {**os.environ, **mark}
    owner = await trio.lowlevel.open_process(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert owner.stdout is not None
    async with owner.stdout:
        await read_until(owner.stdout, b"up\n\nup")
        await until(lambda: len(marked(mark)) >= 2 + 2 * 4)
        (os.killpg if group else os.kill)(owner.pid, number)
        await owner.wait()
        await until(lambda: not marked(mark))


async def test_death_of_the_warden(warden: Warden, mark: dict[str, str]) -> None:
    """If the warden is killed its trees end, pending commands fail with a clear error, and the next
    command works.
    """
    async with warden.open(command("bash", "-c", STUBBORN, env=mark)) as process:
        await read_until(process.stdout, b"up")
        os.kill(parent(parent(process.pid)), signal.SIGKILL)
        with pytest.raises(CommandError, match="was killed"), trio.fail_after(60):
            await process.wait()
        assert marked(mark) == []
    assert (await warden.run(command("echo", "again"))).stdout == b"again\n"


async def test_death_of_a_keeper(warden: Warden, mark: dict[str, str]) -> None:
    """If a keeper is killed, the warden ends its tree.

    The command fails with a clear error; others go on.
    """
    async with warden.open(command("cat"), stdin=True) as other:
        assert other.stdin is not None
        async with warden.open(command("bash", "-c", STUBBORN, env=mark)) as process:
            await read_until(process.stdout, b"up")
            os.kill(parent(process.pid), signal.SIGKILL)
            with pytest.raises(CommandError, match="was killed"), trio.fail_after(60):
                await process.wait()
        await until(lambda: not marked(mark))
        await other.stdin.send_all(b"still here")
        assert await read_until(other.stdout, b"here") == b"still here"
    assert (await warden.run(command("echo", "again"))).stdout == b"again\n"


async def test_death_of_idle_keepers(warden: Warden) -> None:
    """If the keepers that wait for the next command are killed, others take their place."""
    async with warden.open(command("sleep", "1000"), grace=0) as process:
        keeper = parent(process.pid)
        for _ in range(2 * warden_module.SEATS):
            await until(lambda: len(children(parent(keeper))) > 1)
            for pid in children(parent(keeper)) - {keeper}:
                with suppress(ProcessLookupError):  # one too many may have left by itself
                    os.kill(pid, signal.SIGKILL)
            with trio.fail_after(60):
                assert (await warden.run(command("echo", "on"))).stdout == b"on\n"


async def test_closing_the_warden_ends_everything(mark: dict[str, str]) -> None:
    """When the warden is closed, every tree is gone before that returns, and another one goes
    on.
    """
    async with Warden() as other, Warden() as warden, other.open(command("cat"), stdin=True) as cat:
        assert cat.stdin is not None
        async with warden.open(command("bash", "-c", STUBBORN, env=mark)) as process:
            await read_until(process.stdout, b"up")
            with trio.fail_after(60):
                await warden.aclose()
            assert marked(mark) == []
        await cat.stdin.send_all(b"on")
        assert await read_until(cat.stdout, b"on") == b"on"


async def test_many_commands_leak_nothing(
    warden: Warden, trials: Callable[[int, int], int]
) -> None:
    """A hundred commands and more, some cancelled and some that fail, leave no descriptor and no
    process.
    """

    def holdings() -> tuple[int, int, int]:
        below = [0]
        for pid in children(root):
            with suppress(OSError):  # a keeper too many may just have left
                below.append(len(os.listdir(f"/proc/{pid}/fd")))
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{root}/fd")), max(below)

    async def use(times: int) -> None:
        for number in range(times):
            if number % 10 == 0:
                with trio.move_on_after(0.002):
                    await warden.run(command("sleep", "1000"), grace=0)
            elif number % 10 == 1:
                with pytest.raises(CommandError):
                    await warden.run(command("no-such-program-here"))
            else:
                await warden.run(command("true"), input=b"x" * (number % 3))
        await until(lambda: len(children(root)) <= 1 + warden_module.SEATS)  # idle keepers

    async with warden.open(command("cat"), stdin=True) as process:
        root = parent(parent(process.pid))
    await use(30)
    before = holdings()
    await use(trials(100, 300))
    # How many keepers are idle differs from moment to moment, and each is a descriptor or two;
    # nothing else may differ.
    await until(lambda: all(now <= then + 2 for now, then in zip(holdings(), before, strict=True)))


@pytest.mark.parametrize("allowed", range(6))
async def test_too_few_descriptors_leak_none(
    warden: Warden,
    allowed: int,
    monkeypatch: pytest.MonkeyPatch,
    open_files: Callable[[], set[str]],
) -> None:
    """What was opened before the limit was reached is closed, and a later command runs."""
    await warden.run(command("true"))
    before = open_files()
    left = allowed

    def limit(create: Callable[..., Any]) -> Callable[..., Any]:
        def created(*arguments: int) -> Any:
            nonlocal left
            if not left:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            left -= 1
            return create(*arguments)

        return created

    with monkeypatch.context() as patch:
        patch.setattr("socket.socketpair", limit(socket.socketpair))
        for name in ("pipe", "dup"):
            patch.setattr(os, name, limit(getattr(os, name)))
        # A spare needs five of them: two pairs of sockets, and three pipes or two and a copy.
        for streams in (Streams(stdin=True), Streams(stdin=True, merge=True)):
            left = allowed
            with suppress(OSError):
                spare = await warden.start_spare(command("sleep", "60"), streams)
                await spare.aclose()
                assert allowed >= 5
    assert not open_files() - before
    assert (await warden.run(command("true"))).returncode == 0


async def test_a_warden_that_is_cancelled_while_it_starts(
    open_files: Callable[[], set[str]],
) -> None:
    before = open_files()
    async with Warden() as warden:
        with trio.CancelScope() as scope:
            scope.cancel()
            await warden.start()
        assert not open_files() - before
        await warden.start()
        assert (await warden.run(command("true"))).returncode == 0


async def test_commands_run_in_parallel(warden: Warden, tmp_path: Path) -> None:
    """Twenty commands run at the same time, the first ones of a warden included, and each gets its
    own answer.
    """
    codes: dict[int, int] = {}

    async def one(number: int) -> None:  # none ends before all of them run
        script = (
            f"touch {number}; while set -- *; [ $# -lt 20 ]; do sleep 0.02; done; exit {number}"
        )
        codes[number] = (await warden.run(command("bash", "-c", script, cwd=tmp_path))).returncode

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)
    assert codes == {number: number for number in range(20)}


def test_children_are_found() -> None:
    """The list of a process's children names what runs and what has exited, and they can be killed
    by it.
    """
    script = """
import os, sys, time
sys.path.append(sys.argv[1])
import warden
pids = {os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000"), os.spawnlp(os.P_NOWAIT, "true", "true")}
print(set(warden.children()) == pids, warden.kill_children(), warden.contained())
while pids:
    pids -= warden.reap()[0].keys()
print(warden.reap(), warden.children(), warden.kill_children())
"""
    argv = [sys.executable, "-S", "-c", script, str(Path(warden_module.__file__).parent)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stdout == "True True True\n({}, False) [] False\n", done.stderr


WARDEN = [
    sys.executable,
    "-c",
    "import sys, hilum.processes.warden as w; w.FAREWELL = 60; sys.exit(w.main())",
]


def test_hilum_warden_passes_stdio_and_code_on() -> None:
    """``hilum-warden`` runs a command with its own standard streams and exits as the command
    does.
    """
    run = [*WARDEN, "--", "bash", "-c", "cat; echo err >&2; exit 9"]
    done = subprocess.run(run, input=b"in", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (9, b"in", b"err\n")
    assert (
        subprocess.run([*WARDEN, "--", "bash", "-c", "kill -9 $$"], timeout=60).returncode
        == 128 + 9
    )
    missing = subprocess.run(
        [*WARDEN, "--", "no-such-program-here"], capture_output=True, timeout=60
    )
    assert missing.returncode == 127
    assert b"could not be started" in missing.stderr
    assert b"Traceback" not in missing.stderr
    usage = subprocess.run(WARDEN, capture_output=True, timeout=60)
    assert usage.returncode == 2
    assert usage.stderr.startswith(b"usage:")


def test_hilum_warden_passes_a_stop_on() -> None:
    """SIGTERM asks the command to go, and its code is passed on."""
    script = "trap 'exit 6' TERM; echo up; while :; do sleep 0.01; done"
    with subprocess.Popen([*WARDEN, "--", "bash", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.terminate()
        assert process.wait(60) == 6


@pytest.mark.parametrize("victim", ["itself", "its group", "its parent", "its keeper"])
async def test_hilum_warden_leaves_nothing(mark: dict[str, str], victim: str) -> None:
    """Whether ``hilum-warden``, its group, its parent or its keeper is killed: the command's tree
    is ended.
    """
    keep_alive = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    argv = [sys.executable, "-c", keep_alive, *WARDEN, "--", "bash", "-c", "echo $PPID;" + STUBBORN]
    process = await trio.lowlevel.open_process(
        argv,
        env={**os.environ, **mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    async with process.stdout:
        keeper = int((await read_until(process.stdout, b"up")).split()[0])
        front = parent(keeper)
        assert parent(front) == process.pid
        match victim:
            case "itself":
                os.kill(front, signal.SIGKILL)
            case "its group":
                os.killpg(process.pid, signal.SIGKILL)
            case "its parent":
                os.kill(process.pid, signal.SIGKILL)
            case _:
                os.kill(keeper, signal.SIGKILL)
        await until(lambda: not marked(mark))
        await process.wait()


async def test_process_groups_where_trees_cannot_be_held(mark: dict[str, str]) -> None:
    """On a system without subreapers a command works all the same, and what stays in its group ends
    with it.
    """
    script = (
        "import sys, hilum.processes.warden as w; w.contained = lambda: False; sys.exit(w.main())"
    )
    argv = [sys.executable, "-c", script, "--", "bash", "-c"]
    env = {**os.environ, **mark}
    done = await trio.run_process(
        [*argv, "sleep 1000 & echo out; exit 3"], env=env, capture_stdout=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, b"out\n")
    await until(lambda: not marked(mark))
    process = await trio.lowlevel.open_process(
        [*argv, "sleep 1000 & echo up; sleep 1000"], env=env, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    async with process.stdout:
        assert await read_until(process.stdout, b"\n") == b"up\n"
        process.terminate()
        assert await process.wait() == 128 + signal.SIGTERM
    # Nobody waits for what is no child: a killed one may take a moment to go.
    await until(lambda: not marked(mark))


async def test_processes_of_a_place_start_there_and_only_as_they_are_let(
    warden: Warden, tmp_path: Path
) -> None:
    """Each command passes a function first: it may change it or refuse it.

    What has no program is an error.
    """

    async def only_pwd(command: Command) -> Command:
        if command.argv[0] != "pwd":
            raise PermissionError("not here")
        return Command(("pwd", "-P"), command.cwd, command.env)

    (tmp_path / "inside").mkdir()
    processes = Processes(warden, only_pwd, str(tmp_path))
    assert (await processes.run(["pwd"])).stdout.strip() == os.fsencode(tmp_path)
    assert (await processes.run(["pwd"], cwd="inside")).stdout.strip() == os.fsencode(
        tmp_path / "inside"
    )
    with pytest.raises(PermissionError):
        await processes.run(["true"])
    with pytest.raises(PermissionError):
        async with processes.open(["true"]):
            pass
    with pytest.raises(CommandError, match="There is no command to run"):
        await processes.run([])
