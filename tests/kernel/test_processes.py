"""The processes of a session: what they add to the warden's, which has tests of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing
from hilum import Command, ToolDenied, ToolError
from hilum.processes import Processes, Spare, Warden
from hilum.processes.client import ANSWER_SECONDS


async def as_it_is(command: Command) -> Command:
    return command


@pytest.fixture
async def warden():
    async with Warden() as warden:
        yield warden


@pytest.fixture
def processes(warden: Warden, tmp_path: Path) -> Processes:
    return Processes(warden, as_it_is, str(tmp_path))


class Silent:
    """A spare process that answers nothing until it is ended."""

    def __init__(self, last_words: bytes) -> None:
        self.theirs, ours = trio.socket.socketpair()
        self.control = trio.SocketStream(ours)
        self.last_words = last_words
        self.stopped_at = 0.0

    async def stop(self, grace: float) -> int:
        self.stopped_at = trio.current_time()
        await self.theirs.send(self.last_words)
        self.theirs.close()
        return -9


@pytest.mark.parametrize(("last_words", "has_begun"), [(b"r", False), (b"rb", True)])
def test_a_spare_that_does_not_answer_is_ended(last_words: bytes, has_begun: bool) -> None:
    """Its command is run by another process only if it did not begin it at the last moment."""

    async def begin() -> None:
        process = Silent(last_words)
        began = trio.current_time()
        spare = Spare(process, process.control, b"request")  # type: ignore[arg-type]
        assert await spare.begin() is has_begun
        assert process.stopped_at == began + ANSWER_SECONDS
        await process.control.aclose()

    trio.run(begin, clock=trio.testing.MockClock(autojump_threshold=0.01))


async def test_folder_and_environment_are_the_sessions(processes, tmp_path, monkeypatch):
    """A relative folder is relative to the session's, variables are added to hilum's own, and
    `open` agrees with `run`.
    """
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("FROM_HILUM", "1")
    argv = ["bash", "-c", 'pwd; echo $FROM_HILUM "$ADDED"']
    expected = f"{tmp_path}/sub\n1 2\n".encode()
    assert (await processes.run(argv, cwd="sub", env={"ADDED": "2"})).stdout == expected
    async with processes.open(argv, cwd=Path("sub"), env={"ADDED": "2"}) as process:
        assert await process.wait() == 0
        assert await process.stdout.receive_some() == expected
    assert (await processes.run(["pwd"])).stdout.strip() == os.fsencode(tmp_path)
    assert (await processes.run(["pwd"], cwd="/usr")).stdout == b"/usr\n"


async def test_options_reach_the_warden(processes):
    """Input, limit and callback of `run`, pipe and merged streams of `open` do what they say."""
    seen = []
    done = await processes.run(
        ["cat"], input=b"0123456789", limit=4, on_output=lambda *chunk: seen.append(chunk)
    )
    assert (done.stdout, done.dropped) == (b"01\n[... 6 bytes left out ...]\n89", 6)
    assert seen == [("stdout", b"0123456789")]
    async with processes.open(
        ["bash", "-c", "read x; echo $x >&2"], stdin=True, merge=True
    ) as process:
        await process.stdin.send_all(b"hi\n")
        assert await process.wait() == 0
        assert await process.stdout.receive_some() == b"hi\n"
        assert process.stderr is None


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["no-such-program-here"], None, "no program 'no-such-program-here'"),
        (["true"], "/no/such/folder", "/no/such/folder"),
        ([], None, "no command"),
    ],
)
async def test_what_cannot_start_is_an_error_for_the_model(processes, argv, cwd, words):
    """It has the code of failed commands, and a hint, with `run` and `open` alike."""
    with pytest.raises(ToolError, match=words) as caught:
        await processes.run(argv, cwd=cwd)
    assert caught.value.code == "E_CMD_FAIL"
    assert caught.value.hint
    with pytest.raises(ToolError, match=words):
        async with processes.open(argv, cwd=cwd):
            pass


async def test_lost_command_is_an_error_for_the_model(processes):
    """When the keeper of a command is killed, waiting for it tells so, inside the block already."""
    async with processes.open(["bash", "-c", "echo $PPID; sleep 60"]) as process:
        os.kill(int(await process.stdout.receive_some()), signal.SIGKILL)
        with pytest.raises(ToolError, match="was killed") as caught, trio.fail_after(60):
            await process.wait()
    assert caught.value.code == "E_CMD_FAIL"


async def test_wrap_changes_and_refuses(warden, tmp_path):
    """Every command passes the wrapper, which may change it or refuse it."""

    async def wrap(command: Command) -> Command:
        if "rm" in command.argv:
            raise ToolDenied("No.")
        return Command(("env", "WRAPPED=1", *command.argv), command.cwd, command.env)

    processes = Processes(warden, wrap, str(tmp_path))
    assert (await processes.run(["bash", "-c", "echo $WRAPPED"])).stdout == b"1\n"
    with pytest.raises(ToolDenied):
        await processes.run(["rm", "x"])
    with pytest.raises(ToolDenied):
        async with processes.open(["rm", "x"]):
            pass


async def test_processes_are_counted_by_purpose_and_readers_are_marked(warden, tmp_path):
    commands = []

    async def wrap(command: Command) -> Command:
        commands.append(command)
        return command

    processes = Processes(warden, wrap, str(tmp_path))
    async with (
        processes.open(["sleep", "60"], purpose="look"),
        processes.open(["sleep", "60"], purpose="service"),
        processes.open(["sleep", "60"], purpose="server"),
    ):
        assert processes.alive == 3
        assert processes.count("service") == processes.count("look", "command") == 1
        async with processes.quiet(0) as is_quiet:
            assert not is_quiet
    assert [command.read_only for command in commands] == [True, False, True]
    assert processes.alive == 0
    async with (
        processes.open(["sleep", "60"], purpose="server"),
        processes.quiet(0) as is_quiet,
    ):
        assert is_quiet
        # Only what cannot change a file may start.
        await processes.run(["true"], purpose="look")
        async with processes.open(["sleep", "60"], purpose="server"):
            assert processes.count("server") == 2


KERNEL = """
import sys, trio
from hilum import open_kernel

async def main():
    async with open_kernel([]) as kernel, kernel.open_session(sys.argv[1]) as session:
        await session.processes.run(["sh", "-c", sys.argv[2]], on_output=lambda _, chunk: print(chunk.decode(), flush=True))

trio.run(main)
"""


async def test_killed_kernel_leaves_no_process(tmp_path):
    """The warden of a real kernel ends a detached child when hilum is killed."""
    argv = [sys.executable, "-c", KERNEL, str(tmp_path), "setsid sleep 60 & echo $!; wait"]
    hilum = await trio.lowlevel.open_process(argv, stdout=subprocess.PIPE)
    async with hilum.stdout:
        with trio.fail_after(60):
            child = int(await hilum.stdout.receive_some())
        hilum.kill()
        await hilum.wait()
        with trio.fail_after(60):
            while os.path.exists(f"/proc/{child}"):  # noqa: ASYNC110, ASYNC240
                await trio.sleep(0.005)
