"""The fixtures of ``hilum.testing``, for pytest with pytest-trio.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from pytest_trio import trio_fixture  # type: ignore[import-untyped]

from hilum.testing.bench import Bench, open_bench


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make tests fail if a coroutine is never awaited because a plugin lacks an ``await``."""
    item.add_marker(
        pytest.mark.filterwarnings("error:coroutine .* was never awaited:RuntimeWarning")
    )
    item.add_marker(pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"))


@trio_fixture  # type: ignore[untyped-decorator]
async def bench(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Bench]]]:
    """Open benches that last until the test ends: ``b = await bench(plugin, answers=[...])``.

    See ``open_bench``.
    """
    stops: list[tuple[trio.Event, trio.Event]] = []
    errors: list[Exception] = []

    async def hold(
        plugins: Any, options: Any, task_status: trio.TaskStatus[Bench] = trio.TASK_STATUS_IGNORED
    ) -> None:
        # The task that enters a nursery must also leave it, so each bench lives in a separate task.
        stop = trio.Event()
        over = trio.Event()
        try:
            async with AsyncExitStack() as stack:
                opened = await stack.enter_async_context(open_bench(*plugins, **options))
                stops.append((stop, over))
                task_status.started(opened)
                await stop.wait()
        except Exception as error:
            if not stop.is_set():
                raise
            # The error is raised at the end of the test; here, it would cancel the other benches
            # before they are closed.
            errors.append(error)
        finally:
            over.set()

    async with trio.open_nursery() as nursery:

        async def make(*plugins: object, **options: Any) -> Bench:
            options.setdefault("folder", tmp_path / f"bench-{len(stops) + 1}")
            made: Bench = await nursery.start(hold, plugins, options)
            return made

        yield make
        for stop, over in reversed(stops):
            stop.set()
            await over.wait()
    for error in errors:
        raise error
