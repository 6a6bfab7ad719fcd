"""A search at work: a real folder, a real warden, calls made as the kernel makes them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hilum_search
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


@pytest.fixture
def write(root: Path) -> Callable[..., None]:
    """Write files: ``write({"a/b.txt": "text"})``; bytes are written as they are."""

    def write(files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


@pytest.fixture
def repository(root: Path) -> Path:
    """Make the folder a repository."""
    (root / ".git" / "info").mkdir(parents=True)
    return root


class Started(list[tuple[str, ...]]):
    """The commands that were started."""


@pytest.fixture
def started() -> Started:
    return Started()


@pytest.fixture
def emitted() -> list[str]:
    return []


@pytest.fixture
async def call(root: Path, started: Started, emitted: list[str]) -> AsyncIterator[Run]:
    """Call a tool: ``await call("search_files", pattern="x", settings={"limit": 3})``.

    Fails after 60 seconds.
    """

    async def note(command: Command) -> Command:
        started.append(command.argv)
        return command

    async with Warden() as warden:

        async def call(
            name: str,
            *,
            at: Path = root,
            settings: dict[str, Any] | None = None,
            **arguments: Any,
        ) -> Output:
            processes = Processes(warden, note, str(at))
            overrides = {f"search.{key}": value for key, value in (settings or {}).items()}
            loaded = load(
                [hilum_search.SearchSettings], overrides=overrides, environ={"HOME": str(root)}
            )
            session: Any = SimpleNamespace(settings=loaded.get, plugin=lambda kind: None)
            tool = next(tool for tool in hilum_search.provide_tools(session) if tool.name == name)
            checked = tool.check(msgspec.json.encode(arguments).decode())
            deadline = trio.current_time() + tool.time_limit(checked)
            running = Call(
                "1",
                name,
                checked,
                None,
                session,
                Workspace(at),
                processes,
                deadline,
                emitted.append,
            )
            with trio.fail_after(60):
                return await tool.run(running)

        yield call
