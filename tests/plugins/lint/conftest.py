"""Projects with real checkers, installed as a project's own: links to those of this environment."""

import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from operator import add
from pathlib import Path
from typing import Any

import hilum_lint
import pytest
import trio
import trio.testing
from hilum.testing import Bench, open_bench, use
from hilum_lint import lint_runner

BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def mypy_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let all runs of mypy share one cache, so that only the first one checks the standard library.

    The processes of a parallel run share it, too: their folders have the same parent.
    """
    cache = tmp_path_factory.getbasetemp().parent / "mypy-cache"
    monkeypatch.setenv("MYPY_CACHE_DIR", str(cache))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
def put(root: Path) -> Callable[..., None]:
    """Write files into the project."""

    def put(files: dict[str, str]) -> None:
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    return put


@pytest.fixture
def install(root: Path) -> Callable[..., None]:
    """Put programs of this environment into the project's own."""

    def install(*names: str, into: str = ".venv/bin") -> None:
        (root / into).mkdir(parents=True, exist_ok=True)
        for name in names:
            (root / into / name).symlink_to(BIN / name)

    return install


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Make a checker of the user's own of a shell script; gives the settings for it."""

    def fake(script: str, name: str = "fake", **more: Any) -> dict[str, Any]:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        pattern = r"(?P<path>[^:]+):(?P<line>\d+): (?P<severity>\w+) (?P<code>\w+) (?P<message>.*)"
        own = {"command": [str(program), "{files}"], "pattern": pattern, "files": [".txt"], **more}
        return {f"lint.checkers.{name}.{key}": value for key, value in own.items()}

    return fake


@pytest.fixture
def opened(root: Path) -> Callable[..., AbstractAsyncContextManager[Bench]]:
    """Open a bench in the project; trusted unless said otherwise.

    With answers, all files have been read: only then they may be edited."""

    def readable() -> list[str]:
        return [path.name for path in root.iterdir() if path.suffix in (".py", ".txt")]

    @asynccontextmanager
    async def opened(
        *, trusted: bool = True, answers: Any = (), **settings: Any
    ) -> AsyncIterator[Bench]:
        chosen = {"lint.trusted": [str(root)] if trusted else [], **settings}
        async with open_bench(
            hilum_lint, "files", answers=answers, settings=chosen, workspace=root
        ) as bench:
            names = readable() if answers else []
            if names:
                bench.model.next(
                    functools.reduce(add, (use("read_file", path=name) for name in names)), "Read."
                )
                await bench.run("Read all.")
            yield bench

    return opened


@pytest.fixture
def clock(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> trio.testing.MockClock:
    """A clock ten times slower than the machine, however busy that is: a time limit passes when a
    test says so.

    A test has to name this fixture itself.
    """
    mock_clock.rate = 0.1
    monkeypatch.setattr("hilum_lint.background.PAUSE_SECONDS", 0.01)
    return mock_clock


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], trio.Event]:
    """Give an event that is set when a checker of this name has been run."""
    events: dict[str, trio.Event] = {}

    async def noted(session: Any, use: Any, *arguments: Any, **options: Any) -> Any:
        outcome = await check(session, use, *arguments, **options)
        if use.checker.name in events:
            events[use.checker.name].set()
        return outcome

    check = lint_runner.check_files
    monkeypatch.setattr(lint_runner, "check_files", noted)
    return lambda name: events.setdefault(name, trio.Event())


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait until something is so, for a minute at most: for what processes do to files, which
    nobody announces.
    """

    async def until(condition: Callable[[], object]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110
                await trio.sleep(0.002)

    return until
