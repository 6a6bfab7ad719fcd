"""A shell at work: a real folder, a real warden, calls made as the kernel makes them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hilum_shell
import msgspec
import pytest
import trio
from hilum import Call, Command, Output, Workspace
from hilum.processes import Processes, Warden
from hilum.settings import load

Run = Callable[..., Awaitable[Output]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


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
        """Wait until exactly this is shown, for ten seconds at most."""
        with trio.fail_after(10):
            while self.text != text:
                await self._more.wait()


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
async def run(root: Path, screen: Screen) -> AsyncIterator[Run]:
    """Run a command line through the tool; settings are given as ``settings={"timeout": 1}``. Fails after 30 seconds."""

    async def unchanged(command: Command) -> Command:
        return command

    async with Warden() as warden:
        processes = Processes(warden, unchanged, str(root))

        async def run(command: str, *, settings: dict[str, Any] | None = None, **arguments: Any) -> Output:
            overrides = {f"shell.{key}": value for key, value in (settings or {}).items()}
            loaded = load([hilum_shell.ShellSettings], overrides=overrides, environ={"HOME": str(root)})
            session: Any = SimpleNamespace(settings=loaded.get)
            [tool] = hilum_shell.provide_tools(session)
            checked = tool.check(msgspec.json.encode({"command": command, **arguments}).decode())
            deadline = trio.current_time() + tool.time_limit(checked)
            call = Call("1", tool.name, checked, None, session, Workspace(root), processes, deadline, screen.add)
            with trio.fail_after(30):
                return await tool.run(call)

        yield run
