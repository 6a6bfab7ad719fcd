"""A shell at work: a real session with a real warden, in a folder of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import hilum_shell
import msgspec
import pytest
import trio
import trio.testing
from hilum import BackgroundCommands, Call, Output
from hilum.testing import open_bench

Run = Callable[..., Awaitable[Output]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
def left() -> Callable[[Path], list[int]]:
    """Lists the processes that wrote their ids to the file ``pids`` of a folder and are still
    there.
    """

    def alive(pid: int) -> bool:
        """Whether a process is there and no zombie."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):  # it may go between the two
            return False

    def left(root: Path) -> list[int]:
        pids = [int(pid) for pid in (root / "pids").read_text().split()]
        assert pids
        return [pid for pid in pids if alive(pid)]

    return left


class Screen:
    """What faces were shown."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._more = trio.Event()

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self._more.set()
        self._more = trio.Event()

    async def wait_for(self, text: str) -> None:
        """Wait until exactly this is shown, for a minute at most."""
        with trio.fail_after(60):
            while self.text != text:
                await self._more.wait()

    async def then_jump(self, text: str, clock: trio.testing.MockClock, seconds: float) -> None:
        """Wait until exactly this is shown, and let some time pass."""
        await self.wait_for(text)
        clock.jump(seconds)


@pytest.fixture
def clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """The usual clock, which a test may set forward when what it waits for has come: no race
    against a time limit.

    A test has to name this fixture itself.
    """
    mock_clock.rate = 1.0
    return mock_clock


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
async def run(root: Path, screen: Screen) -> AsyncIterator[Run]:
    """Call a tool (run_terminal_cmd by default) as the kernel does; fails after a minute.

    Settings are given as ``settings={"timeout": 1}``; they hold from then on, in a new session.
    """
    sessions: list[Any] = []
    opening = trio.Lock()

    async with trio.open_nursery() as nursery:

        async def serve(
            settings: dict[str, Any], task_status: trio.TaskStatus[tuple[trio.Event, trio.Event]]
        ) -> None:
            close, closed = trio.Event(), trio.Event()
            chosen = {f"shell.{key}": value for key, value in settings.items()}
            async with open_bench(hilum_shell, settings=chosen, workspace=root) as bench:
                sessions.append(bench.session)
                task_status.started((close, closed))
                await close.wait()
            closed.set()

        async def shut() -> None:
            while doors:
                close, closed = doors.pop()
                close.set()
                await closed.wait()

        doors: list[tuple[trio.Event, trio.Event]] = []

        async def run(
            command: str = "",
            tool: str = "run_terminal_cmd",
            settings: dict[str, Any] | None = None,
            **arguments: Any,
        ) -> Output:
            async with opening:
                if not sessions or settings is not None:
                    await shut()
                    doors.append(await nursery.start(serve, settings or {}))
            session = sessions[-1]
            found = session.tools[tool]
            given = {"command": command, **arguments} if tool == "run_terminal_cmd" else arguments
            checked = found.check(msgspec.json.encode(given).decode())
            deadline = trio.current_time() + found.time_limit(checked)
            agent, place = session.agents["main"], session.workspace
            call = Call(
                "1", tool, checked, agent, session, place, session.processes, deadline, screen.add
            )
            with trio.fail_after(60):
                output = await found.run(call)
            assert isinstance(output, Output)
            return output

        # For the fixture `services`.
        run.sessions = sessions  # type: ignore[attr-defined]
        yield run
        await shut()


@pytest.fixture
def services(run: Any) -> Callable[[], BackgroundCommands]:
    """Return the commands in the background of the session that is open."""

    def find() -> BackgroundCommands:
        found = run.sessions[-1].plugin(BackgroundCommands)
        assert found is not None
        return found

    return find
